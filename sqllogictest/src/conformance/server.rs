//! The server under test: started, watched, and started anew when it ends.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use candor_proto::limits::AWARENESS_INTERVAL;
use tokio::sync::Mutex;

use crate::nodes::{Node, NodeOptions};

/// How long a process that closed its connections may take to be gone.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// Between two looks at a process that may be ending.
const END_PAUSE: Duration = Duration::from_millis(50);

/// One server at a time. Each start has empty data.
pub(crate) struct Server {
    options: NodeOptions,
    running: Mutex<Running>,
}

struct Running {
    node: Node,
    /// Counts the starts.
    start: u64,
    _data: tempfile::TempDir,
}

/// A server as a script found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) start: u64,
}

impl Server {
    /// Starts the program `binary` with relative paths below `working_folder`.
    pub(crate) fn start(binary: PathBuf, working_folder: PathBuf, statement_deadline: Duration) -> Result<Self> {
        let options = NodeOptions {
            binary,
            working_folder,
            awareness: AWARENESS_INTERVAL,
            arguments: vec![
                "--statement-deadline".to_owned(),
                format!("{}s", statement_deadline.as_secs()),
            ],
        };
        let running = Mutex::new(start(&options, 0)?);
        Ok(Self { options, running })
    }

    pub(crate) async fn address(&self) -> Address {
        let running = self.running.lock().await;
        Address {
            url: running.node.url().to_owned(),
            start: running.start,
        }
    }

    /// Whether the server at `address` has ended. If so another one runs when this returns.
    pub(crate) async fn has_ended(&self, address: &Address) -> Result<bool> {
        let mut running = self.running.lock().await;
        if running.start != address.start {
            return Ok(true);
        }
        let mut waited = Duration::ZERO;
        loop {
            if let Some(status) = running.node.ended()? {
                eprintln!("THE SERVER ENDED ({status}); it is started anew");
                *running = start(&self.options, address.start + 1)?;
                return Ok(true);
            }
            if waited >= END_TIME_MAX {
                return Ok(false);
            }
            tokio::time::sleep(END_PAUSE).await;
            waited += END_PAUSE;
        }
    }

    /// How often the server ended and was started anew.
    pub(crate) async fn deaths(&self) -> u64 {
        self.running.lock().await.start
    }
}

fn start(options: &NodeOptions, start: u64) -> Result<Running> {
    let data = tempfile::tempdir()?;
    let node = Node::start(options, "n1", &data.path().join("n1"), None)?;
    Ok(Running {
        node,
        start,
        _data: data,
    })
}
