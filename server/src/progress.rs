//! How far running COPY statements have got, for callers that named their request and ask from another connection.

use std::collections::HashMap;
use std::sync::Arc;

use candor_engine::{CopyProgress, Progress};
use parking_lot::Mutex;

/// Requests whose progress is kept; beyond that it is not, and the COPY runs all the same.
const REQUESTS_MAX: usize = 1024;

/// Progress by the request's own name.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<HashMap<String, CopyProgress>>>);

impl Running {
    /// Keeps the progress of the request `id` until the guard is dropped.
    pub(crate) fn start(&self, id: Option<&str>) -> Watched {
        let mut requests = self.0.lock();
        let id = id
            .filter(|id| requests.len() < REQUESTS_MAX && !requests.contains_key(*id))
            .map(str::to_owned);
        if let Some(id) = &id {
            requests.insert(id.clone(), CopyProgress::default());
        }
        Watched {
            running: self.clone(),
            id,
        }
    }

    /// How far request `id` has got, while it runs.
    pub(crate) fn of(&self, id: &str) -> Option<CopyProgress> {
        self.0.lock().get(id).copied()
    }
}

/// A request that may be asked about.
pub(crate) struct Watched {
    running: Running,
    id: Option<String>,
}

impl Watched {
    /// What the engine calls now and then.
    pub(crate) fn progress(&self) -> Progress {
        let Some(id) = self.id.clone() else {
            return Arc::new(|_| {});
        };
        let running = self.running.clone();
        Arc::new(move |progress| {
            if let Some(kept) = running.0.lock().get_mut(&id) {
                *kept = progress;
            }
        })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.running.0.lock().remove(id);
        }
    }
}
