//! The client: calls in, answers out.

use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use candor_planner::follow::{Memory, Place};
use candor_proto::{LogIndex, RangeName};
use serde_json::Value;

use crate::call::Run;
use crate::progress::standing_headers;
use crate::raw::{Format, RawAnswer, RowStream};
use crate::session::{Session, initial};
use crate::wire::{self, Script, SessionRef};
use crate::{Answer, ClientError, Config};

/// How long making a connection may take: a node that is gone must not use up the whole deadline.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// A connection to a cluster through one of its nodes. Cheap to clone; clones share the connection and the session.
///
/// Dropping the future of a call closes its connection, and the server stops the statement.
///
/// ```no_run
/// # async fn example() -> Result<(), candor_client::ClientError> {
/// use candor_client::{Client, Config};
/// let client = Client::connect("http://127.0.0.1:7402", Config { namespace: Some("main".into()), ..Config::default() })?;
/// let answer = client.execute("SELECT count(*) AS n FROM orders WHERE at > $1 STALENESS 30s", &[0.into()]).await?;
/// println!("{:?} rows, answered by {:?}", answer.results[0].int(0, "n"), answer.node);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) http: reqwest::Client,
    pub(crate) config: Config,
    /// The address that was given: where a client returns to when the node it moved to is gone.
    given: Place,
    home: Mutex<Place>,
    memory: Mutex<Memory>,
    /// `None` if every call stands alone.
    pub(crate) session: Option<tokio::sync::Mutex<Session>>,
}

impl Client {
    /// A client of the node at `url`, for example `http://127.0.0.1:7401`. Connects with the first call.
    ///
    /// # Errors
    /// If the address is not one that can be dialled, or a setting does not fit into a header.
    pub fn connect(url: &str, config: Config) -> Result<Self, ClientError> {
        let given = Place {
            node: None,
            address: address_of(url)?,
        };
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            // Nodes are dialled where the cluster says they are.
            .no_proxy()
            .default_headers(standing_headers(&config)?)
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIME_MAX.min(config.deadline))
            .build()
            .map_err(|error| ClientError::BadUrl {
                url: url.to_owned(),
                why: error.to_string(),
            })?;
        wire::headers(&SessionRef::Stateless(initial(&config)), None, config.deadline)?;
        let session = config.session.then(|| tokio::sync::Mutex::new(Session::new(&config)));
        let home = Mutex::new(given.clone());
        let memory = Mutex::new(Memory::default());
        Ok(Self {
            inner: Arc::new(Inner {
                http,
                config,
                given,
                home,
                memory,
                session,
            }),
        })
    }

    /// Runs a script and gives one result per statement. `$1` … are taken from `params`.
    ///
    /// # Errors
    /// [`ClientError::Server`] for what the node refuses; everything else says how the call was lost. Nothing is retried.
    pub async fn execute(&self, script: &str, params: &[Value]) -> Result<Answer, ClientError> {
        let script = Script::new(script, params);
        let Some(session) = &self.inner.session else {
            return Run::new(&self.inner, script, Format::Json, None).answer().await;
        };
        let mut session = session.lock().await;
        session.enter();
        let answer = Run::new(&self.inner, script, Format::Json, Some(&mut session))
            .answer()
            .await;
        session.leave(answer.as_ref().err());
        answer
    }

    /// Runs a script and gives the body as it comes, in the format asked for.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn execute_raw(&self, script: &str, params: &[Value], format: Format) -> Result<RawAnswer, ClientError> {
        let script = Script::new(script, params);
        let Some(session) = &self.inner.session else {
            return Run::new(&self.inner, script, format, None).raw().await;
        };
        let mut session = session.lock().await;
        session.enter();
        let answer = Run::new(&self.inner, script, format, Some(&mut session)).raw().await;
        session.leave(answer.as_ref().err());
        answer
    }

    /// Runs a script and gives its rows one at a time: for results that are larger than memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn stream(&self, script: &str, params: &[Value]) -> Result<RowStream, ClientError> {
        RowStream::open(self.execute_raw(script, params, Format::Ndjson).await?).await
    }

    /// Where the next call goes: the address that was given, or the node to which a settled redirect moved.
    pub fn url(&self) -> String {
        format!("http://{}", self.inner.home().address)
    }

    /// The newest version of a range that this client has read or written: what `AT LEAST VERSION` needs in order to read
    /// one's own writes on any node.
    pub fn newest_version(&self, range: &RangeName) -> LogIndex {
        self.inner.memory().version(range)
    }

    /// What the client was told.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }
}

impl Inner {
    pub(crate) fn home(&self) -> Place {
        lock(&self.home).clone()
    }

    pub(crate) fn settle(&self, home: Place) {
        *lock(&self.home) = home;
    }

    /// The node at `address` is gone: if the connection was there, the next call starts from the address that was given.
    /// Says whether that moved the connection.
    pub(crate) fn forsake(&self, address: &str) -> bool {
        let mut home = lock(&self.home);
        let moves = home.address == address && home.address != self.given.address;
        if moves {
            home.clone_from(&self.given);
        }
        moves
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }
}

/// Both values are whole after every statement, so a panic elsewhere cannot have left them broken.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address as errors repeat it: what stands before `@` may be a password.
fn without_user(url: &str) -> String {
    url.rsplit_once('@')
        .map_or_else(|| url.to_owned(), |(_, host)| format!("…@{host}"))
}

fn address_of(url: &str) -> Result<String, ClientError> {
    let bad = |why: &str| ClientError::BadUrl {
        url: without_user(url),
        why: why.to_owned(),
    };
    let with_scheme = if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    };
    let parsed = reqwest::Url::parse(&with_scheme).map_err(|error| bad(&error.to_string()))?;
    if parsed.scheme() != "http" {
        return Err(bad("this client speaks http"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(bad("a user name does not belong into an address"));
    }
    let host = parsed
        .host_str()
        .filter(|host| !host.is_empty())
        .ok_or_else(|| bad("it names no host"))?;
    let port = parsed.port_or_known_default().ok_or_else(|| bad("it names no port"))?;
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url_or_host_and_port() {
        let ok = |url: &str| address_of(url).expect(url);
        assert_eq!(ok("http://127.0.0.1:7401"), "127.0.0.1:7401");
        assert_eq!(ok("127.0.0.1:7401"), "127.0.0.1:7401");
        assert_eq!(ok("localhost:7401"), "localhost:7401");
        assert_eq!(ok("http://n1/"), "n1:80");
        assert_eq!(ok("http://[::1]:7401"), "[::1]:7401");
        for bad in ["https://n1:7401", "http://u:p@n1:7401", "http://", "ftp://n1", ""] {
            assert!(address_of(bad).is_err(), "{bad}");
        }
        for bad in ["http://u:secret@n1:7401", "https://u:secret@n1"] {
            let error = address_of(bad).expect_err("refused").to_string();
            assert!(!error.contains("secret") && error.contains("n1"), "{error}");
        }
    }

    #[test]
    fn a_setting_that_does_not_fit_is_refused_at_once() {
        let config = Config {
            settings: vec![("a".into(), "b;c".into())],
            ..Config::default()
        };
        assert!(matches!(
            Client::connect("n1:1", config),
            Err(ClientError::BadRequest { .. })
        ));
        let config = Config {
            namespace: Some("a\nb".into()),
            ..Config::default()
        };
        assert!(matches!(
            Client::connect("n1:1", config),
            Err(ClientError::BadRequest { .. })
        ));
    }
}
