//! What a request to `/sql` says: its script, parameters, session, and the form of the answer.

use std::time::Duration;

use candor_parser::span::parse_span;
use candor_proto::{ErrorBody, ErrorCode, Redirected};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use serde::Deserialize;

/// The media types an answer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One object with every result.
    Json,
    /// A head, a line per row, an end; as it comes.
    Ndjson,
    /// A header line and rows, as it comes.
    Csv,
    /// Arrow IPC stream, as it comes.
    Arrow,
}

impl Format {
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Json, "application/json"),
        (Self::Ndjson, "application/x-ndjson"),
        (Self::Csv, "text/csv"),
        (Self::Arrow, "application/vnd.apache.arrow.stream"),
    ];

    /// The media type of the answer.
    pub(crate) fn media_type(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(format, _)| *format == self)
            .map_or("application/json", |(_, name)| name)
    }

    /// The first format that the request accepts, in its own order (weights other than 0 are not compared).
    fn accepted(accept: &str) -> Option<Self> {
        accept.split(',').find_map(|item| {
            let mut parts = item.split(';').map(str::trim);
            let media = parts.next()?.to_ascii_lowercase();
            if parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000")) {
                return None;
            }
            match media.as_str() {
                "*/*" | "application/*" | "" => Some(Self::Json),
                "application/jsonlines" | "application/ndjson" => Some(Self::Ndjson),
                "text/*" => Some(Self::Csv),
                _ => Self::NAMES
                    .iter()
                    .find(|(_, name)| *name == media)
                    .map(|(format, _)| *format),
            }
        })
    }
}

/// Which session the request runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionAsked {
    /// One of its own, which ends with it.
    Own,
    /// A new one that is kept.
    New,
    /// A kept one.
    Kept(String),
}

/// A request to `/sql`.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) script: String,
    pub(crate) params: Vec<serde_json::Value>,
    pub(crate) format: Format,
    pub(crate) namespace: Option<String>,
    pub(crate) database: Option<String>,
    pub(crate) settings: Option<String>,
    pub(crate) session: SessionAsked,
    pub(crate) redirected: Option<Redirected>,
    pub(crate) timeout: Option<Duration>,
    /// The caller's own name for the request.
    pub(crate) request_id: Option<String>,
    /// Path and query, byte for byte, for a `Location`.
    pub(crate) path_and_query: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    sql: String,
    #[serde(default)]
    params: Vec<serde_json::Value>,
}

impl Sql {
    /// Reads head and body.
    ///
    /// # Errors
    /// `bad-request`, `empty-body`, `not-acceptable`: each names the header or field.
    pub(crate) fn parse(parts: &Parts, body: &str) -> Result<Self, ErrorBody> {
        let header = |name: &str| -> Result<Option<String>, ErrorBody> {
            let Some(value) = parts.headers.get(name) else {
                return Ok(None);
            };
            let text = value
                .to_str()
                .map_err(|_| bad(format!("the header {name} is not plain text")))?;
            Ok(Some(text.to_owned()))
        };
        let is_json = header(CONTENT_TYPE.as_str())?
            .and_then(|media| {
                media
                    .split(';')
                    .next()
                    .map(|media| media.trim().eq_ignore_ascii_case("application/json"))
            })
            .unwrap_or(false);
        if body.trim().is_empty() {
            return Err(ErrorBody::new(
                ErrorCode::EmptyBody,
                "the request's body is empty, and a script is required",
            )
            .with_help("some clients send a streamed body empty after a redirect: send the script from memory"));
        }
        let (script, params) = if is_json {
            let document: Document = serde_json::from_str(body)
                .map_err(|error| bad(format!("the body is not {{\"sql\": …, \"params\": […]}}: {error}")))?;
            (document.sql, document.params)
        } else {
            (body.to_owned(), Vec::new())
        };
        let format = match header(ACCEPT.as_str())? {
            None => Format::Json,
            Some(accept) => Format::accepted(&accept).ok_or_else(|| {
                let names: Vec<&str> = Format::NAMES.iter().map(|(_, name)| *name).collect();
                ErrorBody::new(
                    ErrorCode::NotAcceptable,
                    format!("`{accept}` names no format that /sql can give"),
                )
                .with_help(format!("accept one of: {}", names.join(", ")))
            })?,
        };
        let redirected = header(Redirected::HEADER)?
            .map(|text| text.parse::<Redirected>().map_err(|error| bad(error.to_string())))
            .transpose()?;
        let timeout = header("candor-timeout")?
            .map(|text| parse_span(&text).map_err(|error| bad(format!("Candor-Timeout: {error}"))))
            .transpose()?;
        let session = match header("candor-session")? {
            None => SessionAsked::Own,
            Some(word) if word.eq_ignore_ascii_case("new") => SessionAsked::New,
            Some(id) => SessionAsked::Kept(id),
        };
        Ok(Self {
            script,
            params,
            format,
            namespace: header("candor-namespace")?,
            database: header("candor-database")?,
            settings: header("candor-settings")?,
            request_id: header("candor-request-id")?,
            session,
            redirected,
            timeout,
            path_and_query: parts
                .uri
                .path_and_query()
                .map_or("/sql", |text| text.as_str())
                .to_owned(),
        })
    }
}

fn bad(why: String) -> ErrorBody {
    ErrorBody::new(ErrorCode::BadRequest, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(headers: &[(&str, &str)], body: &str) -> Result<Sql, ErrorBody> {
        let mut request = http::Request::post("/sql?a=%20b&c");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Sql::parse(&request.body(()).expect("request").into_parts().0, body)
    }

    #[test]
    fn a_script_is_text_or_a_document() {
        let plain = parse(&[], "SELECT 1").expect("fine");
        assert_eq!((plain.script.as_str(), plain.format), ("SELECT 1", Format::Json));
        assert_eq!(plain.path_and_query, "/sql?a=%20b&c");
        let json = parse(
            &[("content-type", "application/json; charset=utf-8")],
            r#"{"sql":"SELECT $1","params":[7]}"#,
        )
        .expect("fine");
        assert_eq!(json.params, vec![serde_json::json!(7)]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let code = |headers: &[(&str, &str)], body: &str| parse(headers, body).expect_err("refused").code;
        assert_eq!(code(&[], "  \n"), ErrorCode::EmptyBody);
        assert_eq!(
            code(&[("content-type", "application/json")], "{}"),
            ErrorCode::BadRequest
        );
        assert_eq!(
            code(&[("content-type", "application/json")], r#"{"sql":"x","parms":[]}"#),
            ErrorCode::BadRequest
        );
        assert_eq!(code(&[("accept", "image/png")], "x"), ErrorCode::NotAcceptable);
        assert_eq!(code(&[("candor-redirected", "node=n1")], "x"), ErrorCode::BadRequest);
        assert_eq!(code(&[("candor-timeout", "soon")], "x"), ErrorCode::BadRequest);
    }

    #[test]
    fn the_first_accepted_format_counts() {
        for (accept, format) in [
            ("*/*", Some(Format::Json)),
            ("text/csv;q=0.9, application/json", Some(Format::Csv)),
            ("application/json;q=0, application/x-ndjson", Some(Format::Ndjson)),
            ("image/png, application/vnd.apache.arrow.stream", Some(Format::Arrow)),
            ("image/png", None),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }
}
