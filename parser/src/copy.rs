//! COPY between a collection or a query and a file or the client.

use candor_proto::SourceSpan;
use sqlparser::tokenizer::Token;

use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::refuse;
use crate::sql;
use crate::statement::{Body, Copy, CopyDirection, CopyFormat, CopyOptions, CopySource, CopyTarget};

/// `COPY name [(columns)] | (query)  FROM | TO  'path' | STDIN | STDOUT  [[WITH] (option {, option})]`, or PostgreSQL's
/// older form of the options: `[WITH] {CSV | HEADER | DELIMITER [AS] 'c' | NULL [AS] 'text'}`.
pub(crate) fn copy(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    cursor.expect("COPY")?;
    let source_at = cursor.span();
    let source = source(cursor)?;
    let direction = if cursor.take("FROM") {
        CopyDirection::From
    } else if cursor.take("TO") {
        CopyDirection::To
    } else {
        return Err(cursor.wanted("FROM or TO"));
    };
    if direction == CopyDirection::From && matches!(source, CopySource::Query(_)) {
        return Err(ParseError::syntax_help(
            "a query cannot be copied into",
            "write COPY name FROM …, or INSERT INTO name SELECT …",
            source_at,
        ));
    }
    let target_span = cursor.span();
    let target = target(cursor, direction)?;
    let options = options(cursor)?;
    cursor.expect_end_of_read()?;
    Ok(Body::Copy(Copy {
        direction,
        source,
        target,
        target_span,
        options,
    }))
}

fn source(cursor: &mut Cursor<'_>) -> Result<CopySource, ParseError> {
    if cursor.words.is_sign(cursor.at, &Token::LParen) {
        let close = closing(cursor)?;
        let inner = cursor.words.part(cursor.at + 1, close);
        if inner.list.is_empty() {
            return Err(cursor.wanted("a query in brackets"));
        }
        let query = refuse::query(sql::statement(&inner)?, &inner)?;
        cursor.at = close + 1;
        return Ok(CopySource::Query(Box::new(query)));
    }
    let name = cursor.qualified_name("the name of a collection, or a query in brackets")?;
    let mut columns = Vec::new();
    if cursor.take_sign(&Token::LParen) {
        loop {
            columns.push(cursor.name("the name of a column")?.0);
            if !cursor.take_sign(&Token::Comma) {
                break;
            }
        }
        cursor.expect_sign(&Token::RParen)?;
    }
    Ok(CopySource::Table { name, columns })
}

/// The bracket that closes the one at the cursor.
fn closing(cursor: &Cursor<'_>) -> Result<usize, ParseError> {
    let mut depth = 0_usize;
    for (offset, word) in cursor.words.list[cursor.at..].iter().enumerate() {
        match word.token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Ok(cursor.at + offset);
        }
    }
    Err(ParseError::syntax("this bracket is not closed", cursor.span()))
}

fn target(cursor: &mut Cursor<'_>, direction: CopyDirection) -> Result<CopyTarget, ParseError> {
    let at = cursor.span();
    if cursor.is("PROGRAM") {
        return Err(ParseError::unsupported(
            "COPY … PROGRAM",
            "a node runs no programs: copy from a file or STDIN",
            at,
        ));
    }
    match direction {
        CopyDirection::From if cursor.take("STDIN") => return Ok(CopyTarget::Stdin),
        CopyDirection::To if cursor.take("STDOUT") => return Ok(CopyTarget::Stdout),
        _ => {}
    }
    let what = match direction {
        CopyDirection::From => "a path in quotes or STDIN",
        CopyDirection::To => "a path in quotes or STDOUT",
    };
    let (path, _) = cursor.string(what)?;
    if path.is_empty() {
        return Err(ParseError::syntax("the path is empty", at));
    }
    Ok(CopyTarget::Path(path))
}

fn options(cursor: &mut Cursor<'_>) -> Result<CopyOptions, ParseError> {
    let mut options = CopyOptions::default();
    let start = cursor.span();
    let with = cursor.take("WITH");
    if !cursor.take_sign(&Token::LParen) {
        if OLDER.iter().any(|word| cursor.is(word)) {
            return older_options(cursor, start);
        }
        if with || cursor.is("STORED") || cursor.is("PARTITIONED") || cursor.is("OPTIONS") {
            return Err(ParseError::syntax_help(
                "the options of COPY stand in brackets",
                "write COPY … (FORMAT csv, HEADER true)",
                start,
            ));
        }
        return Ok(options);
    }
    let mut seen = Vec::new();
    loop {
        let (name, at) = cursor.name("an option: FORMAT, HEADER, DELIMITER or NULL")?;
        if seen.contains(&name) {
            return Err(ParseError::syntax(format!("{} stands twice", name.to_uppercase()), at));
        }
        option(cursor, &name, at, &mut options)?;
        seen.push(name);
        if !cursor.take_sign(&Token::Comma) {
            break;
        }
    }
    cursor.expect_sign(&Token::RParen)?;
    check_csv_only(&options, start)?;
    Ok(options)
}

/// Words that begin an option in the older form.
const OLDER: [&str; 4] = ["CSV", "HEADER", "DELIMITER", "NULL"];

/// Options without brackets and commas, as PostgreSQL wrote them before version 9.
fn older_options(cursor: &mut Cursor<'_>, start: SourceSpan) -> Result<CopyOptions, ParseError> {
    let mut options = CopyOptions::default();
    while let Some(word) = OLDER.iter().find(|word| cursor.is(word)) {
        let at = cursor.span();
        cursor.expect(word)?;
        let again = match *word {
            "CSV" => options.format.replace(CopyFormat::Csv).is_some(),
            "HEADER" => options.header.replace(true).is_some(),
            "DELIMITER" => {
                let _ = cursor.take("AS");
                options.delimiter.replace(delimiter(cursor)?).is_some()
            }
            _ => {
                let _ = cursor.take("AS");
                options.null.replace(cursor.string("a string in quotes")?.0).is_some()
            }
        };
        if again {
            return Err(ParseError::syntax(format!("{word} stands twice"), at));
        }
    }
    if options.format.is_none() {
        // Without CSV the older form means PostgreSQL's own text format.
        return Err(ParseError::unsupported(
            "COPY in PostgreSQL's text format",
            "add CSV, or write COPY … (FORMAT csv, HEADER true)",
            start,
        ));
    }
    Ok(options)
}

fn option(cursor: &mut Cursor<'_>, name: &str, at: SourceSpan, options: &mut CopyOptions) -> Result<(), ParseError> {
    match name {
        "format" => options.format = Some(format(cursor)?),
        "header" => options.header = Some(flag(cursor)?),
        "delimiter" => options.delimiter = Some(delimiter(cursor)?),
        "null" => options.null = Some(cursor.string("a string in quotes")?.0),
        other => {
            return Err(ParseError::unsupported(
                format!("the COPY option {}", crate::cursor::shorten(&other.to_uppercase())),
                "options are FORMAT csv | ndjson | parquet, HEADER true | false, DELIMITER ',' and NULL ''",
                at,
            ));
        }
    }
    Ok(())
}

fn format(cursor: &mut Cursor<'_>) -> Result<CopyFormat, ParseError> {
    let at = cursor.span();
    let text = match cursor.string("a format") {
        Ok((text, _)) => text,
        Err(_) => cursor.name("a format: csv, ndjson or parquet")?.0,
    };
    match text.to_ascii_lowercase().as_str() {
        "csv" => Ok(CopyFormat::Csv),
        "json" | "ndjson" | "jsonl" => Ok(CopyFormat::Ndjson),
        "parquet" => Ok(CopyFormat::Parquet),
        _ => Err(ParseError::unsupported(
            format!("the format {}", crate::cursor::shorten(&text)),
            "formats are csv, ndjson and parquet",
            at,
        )),
    }
}

/// A boolean; the option alone means true.
fn flag(cursor: &mut Cursor<'_>) -> Result<bool, ParseError> {
    if cursor.words.is_sign(cursor.at, &Token::Comma) || cursor.words.is_sign(cursor.at, &Token::RParen) {
        return Ok(true);
    }
    let written = cursor.words.written(cursor.at).trim_matches('\'').to_ascii_lowercase();
    let value = match written.as_str() {
        "true" | "on" | "1" => true,
        "false" | "off" | "0" => false,
        _ => return Err(cursor.wanted("true or false")),
    };
    cursor.at += 1;
    Ok(value)
}

fn delimiter(cursor: &mut Cursor<'_>) -> Result<char, ParseError> {
    let (text, at) = cursor.string("one character in quotes")?;
    let text = if text == "\\t" { "\t" } else { &text };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if c.is_ascii() && !matches!(c, '\n' | '\r' | '"' | '\0') => Ok(c),
        _ => Err(ParseError::syntax_help(
            "DELIMITER is not one ASCII character",
            "write DELIMITER ';', or DELIMITER '\\t' for a tab",
            at,
        )),
    }
}

/// HEADER, DELIMITER and NULL would be ignored by the other formats.
fn check_csv_only(options: &CopyOptions, at: SourceSpan) -> Result<(), ParseError> {
    let csv_only = options.header.is_some() || options.delimiter.is_some() || options.null.is_some();
    match options.format {
        Some(CopyFormat::Ndjson | CopyFormat::Parquet) if csv_only => Err(ParseError::syntax_help(
            "HEADER, DELIMITER and NULL are for FORMAT csv",
            "leave them away for this format",
            at,
        )),
        _ => Ok(()),
    }
}
