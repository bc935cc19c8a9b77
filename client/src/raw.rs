//! Answers that are not held in memory: bytes of a chosen format, and rows one at a time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use candor_proto::{ErrorBody, NodeName, Receipt};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::{ClientError, Column, Hop};

/// The longest line of a streamed answer, bytes: one row.
const LINE_BYTES_MAX: usize = 256 << 20;

/// The form of a raw answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The JSON that `execute` reads.
    Json,
    /// One JSON array per row, with a first line that describes and a last line that ends the result.
    Ndjson,
    /// A header and rows.
    Csv,
    /// An Arrow IPC stream; the receipt stands in the schema's metadata.
    Arrow,
}

impl Format {
    /// The media type that is asked for.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// A successful answer whose body is still on its way.
#[derive(Debug)]
pub struct RawAnswer {
    /// What the body is.
    pub format: Format,
    /// Which node answers.
    pub node: Option<NodeName>,
    /// The redirects that were followed, in order.
    pub hops: Vec<Hop>,
    pub(crate) body: Body,
}

impl RawAnswer {
    /// The next piece of the body; `None` at its proper end.
    ///
    /// # Errors
    /// If the connection breaks before the end (that is how the server says that a CSV or Arrow answer failed on the
    /// way), or the deadline passes.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        self.body.chunk().await
    }

    /// The whole body.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub async fn bytes(mut self) -> Result<Bytes, ClientError> {
        self.body.all(usize::MAX).await
    }
}

/// A response body under the deadline of its call.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) response: reqwest::Response,
    pub(crate) address: String,
    pub(crate) deadline: Instant,
    pub(crate) limit: Duration,
    /// A break means that the outcome of a write is not known.
    pub(crate) writes: bool,
}

impl Body {
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        let (address, limit) = (self.address.clone(), self.limit);
        match tokio::time::timeout_at(self.deadline, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(_)) | Err(_) if self.writes => Err(ClientError::OutcomeUnknown { address }),
            Ok(Err(error)) => Err(ClientError::Connect {
                address,
                reason: "the connection broke inside an answer".to_owned(),
                source: Some(Box::new(error)),
            }),
            Err(_) => Err(ClientError::Deadline { limit }),
        }
    }

    pub(crate) async fn all(&mut self, size_max: usize) -> Result<Bytes, ClientError> {
        let Some(first) = self.chunk().await? else {
            return Ok(Bytes::new());
        };
        let mut whole = BytesMut::from(first);
        while let Some(chunk) = self.chunk().await? {
            whole.extend_from_slice(&chunk);
            if whole.len() > size_max {
                return Err(ClientError::protocol(
                    &self.address,
                    format!("more than {size_max} bytes"),
                ));
            }
        }
        Ok(whole.freeze())
    }
}

/// One statement's rows, as they arrive.
#[derive(Debug)]
pub struct RowStream {
    /// The columns.
    pub columns: Vec<Column>,
    /// Who answers, at which version, from how old a copy.
    pub receipt: Option<Receipt>,
    /// The redirects that were followed, in order.
    pub hops: Vec<Hop>,
    lines: Lines,
    ended: bool,
}

#[derive(Deserialize)]
struct Head {
    columns: Vec<Column>,
    #[serde(default)]
    receipt: Option<Receipt>,
}

impl RowStream {
    pub(crate) async fn open(raw: RawAnswer) -> Result<Self, ClientError> {
        let mut stream = Self {
            columns: Vec::new(),
            receipt: None,
            hops: raw.hops,
            lines: Lines {
                body: raw.body,
                buffer: BytesMut::new(),
                scanned: 0,
            },
            // Before the first result as after each one.
            ended: true,
        };
        if !stream.next_result().await? {
            return Err(stream.lines.broken("an answer without a line"));
        }
        Ok(stream)
    }

    /// The next row; `None` after the last.
    ///
    /// # Errors
    /// The server's error if the statement fails on the way; an answer that ends without its last line is never taken for
    /// a whole one.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, ClientError> {
        if self.ended {
            return Ok(None);
        }
        let Some(line) = self.lines.next().await? else {
            self.ended = true;
            return Err(self.lines.broken("the answer ends before its last line"));
        };
        if line.first() == Some(&b'[') {
            return serde_json::from_slice(&line)
                .map(Some)
                .map_err(|error| self.lines.broken(&error.to_string()));
        }
        self.ended = true;
        let last: Value = serde_json::from_slice(&line).map_err(|error| self.lines.broken(&error.to_string()))?;
        if last.get("end") == Some(&Value::Bool(true)) {
            return Ok(None);
        }
        Err(self.lines.failure(&last))
    }

    /// Goes on to the next statement's rows, if the script had more; the rest of the current ones is skipped.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_result(&mut self) -> Result<bool, ClientError> {
        while self.next().await?.is_some() {}
        let Some(line) = self.lines.next().await? else {
            return Ok(false);
        };
        let head: Value = serde_json::from_slice(&line).map_err(|error| self.lines.broken(&error.to_string()))?;
        if head.get("error").is_some() {
            self.ended = true;
            return Err(self.lines.failure(&head));
        }
        let head: Head = serde_json::from_value(head).map_err(|error| self.lines.broken(&error.to_string()))?;
        (self.columns, self.receipt, self.ended) = (head.columns, head.receipt, false);
        Ok(true)
    }
}

/// A body cut into lines.
#[derive(Debug)]
struct Lines {
    body: Body,
    buffer: BytesMut,
    /// How much of `buffer` holds no line end.
    scanned: usize,
}

impl Lines {
    async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(end) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.scanned + end + 1).freeze();
                self.scanned = 0;
                let line = line.slice(..line.len() - 1);
                if !line.is_empty() {
                    return Ok(Some(line));
                }
                continue;
            }
            self.scanned = self.buffer.len();
            if self.scanned > LINE_BYTES_MAX {
                return Err(self.broken("a row is too long"));
            }
            match self.body.chunk().await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    self.scanned = 0;
                    return Ok(Some(self.buffer.split().freeze()));
                }
            }
        }
    }

    fn broken(&self, why: &str) -> ClientError {
        ClientError::protocol(&self.body.address, why)
    }

    /// The error in a last line: the error object itself, or under `error`.
    fn failure(&self, line: &Value) -> ClientError {
        let body = match line.get("error") {
            Some(inner @ Value::Object(_)) => ErrorBody::deserialize(inner),
            _ => ErrorBody::deserialize(line),
        };
        match body {
            Ok(body) => ClientError::Server(Box::new(body)),
            Err(_) => self.broken(&format!("a last line that is neither an end nor an error: {line}")),
        }
    }
}
