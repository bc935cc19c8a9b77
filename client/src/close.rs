//! Leaving: the session that a node keeps for this client ends with it, not with its idle time.

use std::time::Duration;

use crate::{Client, wire};

/// How long leaving may take: it is a courtesy to the node.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

impl Client {
    /// Ends the session that the server keeps, if there is one, and rolls its open transaction back. The next call opens
    /// another with the same namespace, database and settings.
    ///
    /// A node that cannot be reached ends the session by itself after its idle time.
    pub async fn close(&self) {
        let Some(session) = &self.inner.session else { return };
        let mut session = session.lock().await;
        if let Some(id) = session.id.clone() {
            let url = format!("http://{}/session", self.inner.home().address);
            let request = self
                .inner
                .http
                .delete(url)
                .header(wire::SESSION, id)
                .timeout(CLOSE_TIME_MAX);
            // Whatever came of it: the session is not used again.
            let _ = request.send().await;
        }
        session.lost();
    }
}
