//! Asking how far a COPY has got while its call waits.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName};
use serde::Deserialize;

use crate::{Client, ClientError, Config, wire};

/// Names a request, so that another one can ask about it.
const REQUEST_ID: HeaderName = HeaderName::from_static("candor-request-id");

/// How long one question may take: the answer is for somebody who watches.
const ASK_TIME_MAX: Duration = Duration::from_secs(2);

/// How far a COPY has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct CopyProgress {
    /// Rows read or written.
    pub rows: u64,
    /// Bytes read; 0 where they are not counted.
    pub bytes: u64,
    /// Bytes in all, where that is known.
    pub bytes_total: Option<u64>,
}

/// The headers that stand on every request of a client.
pub(crate) fn standing_headers(config: &Config) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    if let Some(id) = &config.request_id {
        headers.insert(REQUEST_ID, wire::value("the request id", id)?);
    }
    Ok(headers)
}

impl Client {
    /// How far the COPY has got that another call of this client waits for, as the node at `url` knows it; `None` if it
    /// runs none, or no [`Config::request_id`] was given. A COPY that was redirected runs at another node than the one
    /// the call began at, so a caller may have to ask several.
    pub async fn copy_progress(&self, url: &str) -> Option<CopyProgress> {
        let id = self.inner.config.request_id.as_ref()?;
        let url = format!("{}/progress/{id}", url.trim_end_matches('/'));
        let response = self.inner.http.get(url).timeout(ASK_TIME_MAX).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        response.json().await.ok()
    }
}
