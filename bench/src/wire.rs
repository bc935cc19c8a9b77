//! The lightest HTTP client that measures honestly: one kept connection, no work that is not the protocol's.
//!
//! pgbench is a small C program that serves all its connections from one thread; a full client on this side, or a thread
//! for each connection, would be measured instead of the node.

use std::io::Write as _;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// One kept connection to a node.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    answer: Vec<u8>,
    head: String,
}

impl Connection {
    /// Connects to `address` and selects a namespace and a database for every request.
    pub(crate) async fn open(address: &str, namespace: &str, database: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST /sql HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Candor-Namespace: {namespace}\r\nCandor-Database: {database}\r\nContent-Length: "
        );
        Ok(Self {
            stream: BufReader::new(stream),
            request: Vec::new(),
            answer: Vec::new(),
            head,
        })
    }

    /// Sends a body of JSON and returns the answer's body.
    ///
    /// # Errors
    /// When the connection breaks or the status is not 200.
    pub(crate) async fn post(&mut self, body: &str) -> Result<&[u8]> {
        self.request.clear();
        self.request.extend_from_slice(self.head.as_bytes());
        write!(self.request, "{}\r\n\r\n{body}", body.len())?;
        self.stream.get_mut().write_all(&self.request).await?;
        let status = self.read_answer().await?;
        if status != 200 {
            bail!("status {status}: {}", String::from_utf8_lossy(&self.answer));
        }
        Ok(&self.answer)
    }

    async fn read_answer(&mut self) -> Result<u16> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .context("no status line")?;
        let (mut length, mut chunked) = (0, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
            chunked |= name.eq_ignore_ascii_case("transfer-encoding") && value.contains("chunked");
        }
        self.answer.clear();
        if chunked {
            self.read_chunks().await?;
        } else {
            self.answer.resize(length, 0);
            self.stream.read_exact(&mut self.answer).await?;
        }
        Ok(status)
    }

    async fn read_chunks(&mut self) -> Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            let size = usize::from_str_radix(line.trim().split(';').next().unwrap_or_default(), 16)?;
            let start = self.answer.len();
            self.answer.resize(start + size, 0);
            self.stream.read_exact(&mut self.answer[start..]).await?;
            line.clear();
            self.stream.read_line(&mut line).await?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}
