//! The lightest HTTP client that measures honestly: one kept connection, blocking, no work that is not the protocol's.
//!
//! pgbench is a small C program; a full client on this side would be measured instead of the node.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail};

/// One kept connection to a node.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    answer: Vec<u8>,
    head: String,
}

impl Connection {
    /// Connects to `address` and selects a namespace and a database for every request.
    pub(crate) fn open(address: &str, namespace: &str, database: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
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
    pub(crate) fn post(&mut self, body: &str) -> Result<&[u8]> {
        self.request.clear();
        self.request.extend_from_slice(self.head.as_bytes());
        write!(self.request, "{}\r\n\r\n{body}", body.len())?;
        self.stream.get_mut().write_all(&self.request)?;
        let status = self.read_answer()?;
        if status != 200 {
            bail!("status {status}: {}", String::from_utf8_lossy(&self.answer));
        }
        Ok(&self.answer)
    }

    fn read_answer(&mut self) -> Result<u16> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .context("no status line")?;
        let (mut length, mut chunked) = (0, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
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
            self.read_chunks()?;
        } else {
            self.answer.resize(length, 0);
            self.stream.read_exact(&mut self.answer)?;
        }
        Ok(status)
    }

    fn read_chunks(&mut self) -> Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim().split(';').next().unwrap_or_default(), 16)?;
            let start = self.answer.len();
            self.answer.resize(start + size, 0);
            self.stream.read_exact(&mut self.answer[start..])?;
            line.clear();
            self.stream.read_line(&mut line)?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}
