//! DEFINE, REMOVE and their SQL spellings CREATE DATABASE, CREATE SCHEMA and DROP.

use candor_proto::{NodeName, PeerRole, SourceSpan};
use sqlparser::ast;
use sqlparser::tokenizer::Token;

use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::lex::span_of;
use crate::refuse;
use crate::sql;
use crate::statement::{Body, Define, DefineCollection, DefineReplica, DefineWhat, QualifiedName, Remove, RemoveKind};

/// What will be definable and is not yet.
const NOT_YET: [(&str, &str); 3] = [
    (
        "USER",
        "users are not available yet: every caller of this node may do everything",
    ),
    (
        "FAILOVER",
        "automatic failover is not available yet: a namespace is led by the node that defined it",
    ),
    ("FUNCTION", "functions of one's own are not available"),
];

/// DEFINE NAMESPACE | DATABASE | COLLECTION | REPLICA.
pub(crate) fn define(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    cursor.expect("DEFINE")?;
    refuse_not_yet(cursor, "DEFINE")?;
    if cursor.take("NAMESPACE") || cursor.take("NS") {
        let if_not_exists = if_not_exists(cursor);
        let (name, name_span) = cursor.name("the name of the namespace")?;
        cursor.expect_end()?;
        return Ok(definition(if_not_exists, DefineWhat::Namespace(name), name_span));
    }
    if cursor.take("DATABASE") || cursor.take("DB") {
        return database(cursor);
    }
    if cursor.take("COLLECTION") || cursor.take("TABLE") {
        return collection(cursor);
    }
    if cursor.take("REPLICA") {
        return replica(cursor);
    }
    Err(cursor.wanted("NAMESPACE, DATABASE, COLLECTION or REPLICA"))
}

/// CREATE DATABASE | SCHEMA [IF NOT EXISTS] name; the words before the name are read already.
pub(crate) fn database(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    let if_not_exists = if_not_exists(cursor);
    let name = cursor.qualified_name("the name of the database")?;
    let (namespace, name, name_span) = database_name(name)?;
    cursor.expect_end()?;
    Ok(definition(
        if_not_exists,
        DefineWhat::Database { namespace, name },
        name_span,
    ))
}

/// `[namespace.]database`.
fn database_name(name: QualifiedName) -> Result<(Option<String>, String, SourceSpan), ParseError> {
    if name.namespace.is_some() {
        return Err(ParseError::syntax_help(
            "the name of a database has more than two parts",
            "write database or namespace.database",
            name.span,
        ));
    }
    Ok((name.database, name.name, name.span))
}

fn definition(if_not_exists: bool, what: DefineWhat, name_span: SourceSpan) -> Body {
    Body::Define(Define {
        if_not_exists,
        what,
        name_span,
    })
}

fn if_not_exists(cursor: &mut Cursor<'_>) -> bool {
    cursor.take_all(&["IF", "NOT", "EXISTS"])
}

fn refuse_not_yet(cursor: &Cursor<'_>, verb: &str) -> Result<(), ParseError> {
    for (word, help) in NOT_YET {
        if cursor.is(word) {
            return Err(ParseError::unsupported(format!("{verb} {word}"), help, cursor.span()));
        }
    }
    Ok(())
}

fn collection(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    let option = cursor.span();
    let mut if_not = if_not_exists(cursor);
    let overwrite = cursor.take("OVERWRITE");
    if overwrite {
        if_not |= if_not_exists(cursor);
    }
    if if_not && (overwrite || cursor.is("OVERWRITE")) {
        return Err(ParseError::syntax_help(
            "IF NOT EXISTS keeps what is there and OVERWRITE replaces it",
            "keep one of them",
            option,
        ));
    }
    let name_at = cursor.at;
    let name = cursor.qualified_name("the name of the collection")?;
    let open = cursor.is_done();
    // `t (columns)` is what follows CREATE TABLE; an open collection is a table without columns.
    let words = cursor.words.rest(name_at);
    let prefix = [sql::word("CREATE"), sql::word("TABLE")];
    let ast::Statement::CreateTable(mut table) = sql::statement_after(&prefix, &words)? else {
        return Err(cursor.wanted("a list of columns"));
    };
    if table.query.is_some() {
        return Err(ParseError::syntax_help(
            "DEFINE COLLECTION takes no query",
            "write CREATE TABLE name AS SELECT …",
            words.locate(&["AS"]),
        ));
    }
    if !open && table.columns.is_empty() {
        return Err(ParseError::syntax_help(
            "the list of columns is empty",
            format!("leave it away for an open collection: DEFINE COLLECTION {name}"),
            name.span,
        ));
    }
    table.if_not_exists = if_not;
    refuse::create_table(&mut table, &words)?;
    let name_span = name.span;
    let what = DefineWhat::Collection(DefineCollection {
        name,
        overwrite,
        open,
        table: Box::new(table),
    });
    Ok(definition(if_not, what, name_span))
}

fn replica(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    let if_not_exists = if_not_exists(cursor);
    let (name, name_span) = cursor.name("the name of the node")?;
    check_node_name(&name, name_span)?;
    let mut at = None;
    let (mut clients_at, mut http_at, mut roles, mut region) = (None, None, None, None);
    while !cursor.is_done() {
        let start = cursor.span();
        if cursor.take("AT") {
            put(&mut at, address(cursor)?, "AT", start)?;
        } else if cursor.take_all(&["CLIENTS", "AT"]) {
            put(&mut clients_at, address(cursor)?, "CLIENTS AT", start)?;
        } else if cursor.take_all(&["HTTP", "AT"]) {
            put(&mut http_at, address(cursor)?, "HTTP AT", start)?;
        } else if cursor.take("ROLES") || cursor.take("ROLE") {
            put(&mut roles, roles_list(cursor)?, "ROLES", start)?;
        } else if cursor.take("REGION") {
            let (text, at) = cursor.string("a region in quotes: 'eu-1'")?;
            crate::cursor::check_name(&text, at)?;
            put(&mut region, text, "REGION", start)?;
        } else {
            return Err(cursor.wanted("AT, CLIENTS AT, HTTP AT, ROLES or REGION"));
        }
    }
    let Some(at) = at else {
        return Err(ParseError::syntax_help(
            "DEFINE REPLICA does not say where the node is",
            format!("write DEFINE REPLICA {name} AT 'host:port'"),
            span_of(cursor.words.end, cursor.words.end),
        ));
    };
    let replica = DefineReplica {
        name: NodeName::new(&name),
        at,
        clients_at,
        http_at,
        roles: roles.unwrap_or_else(|| vec![PeerRole::Readable]),
        region,
    };
    Ok(definition(if_not_exists, DefineWhat::Replica(replica), name_span))
}

fn put<T>(slot: &mut Option<T>, value: T, word: &str, at: SourceSpan) -> Result<(), ParseError> {
    if slot.replace(value).is_some() {
        return Err(ParseError::syntax(format!("{word} stands twice"), at));
    }
    Ok(())
}

/// Names of nodes stand in headers and certificates, so they are plainer than other names.
fn check_node_name(name: &str, at: SourceSpan) -> Result<(), ParseError> {
    let plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if plain {
        return Ok(());
    }
    Err(ParseError::Name {
        message: "the name of a node has letters, digits, `-`, `_` and `.` only".to_owned(),
        help: Some("it stands in headers and certificates".to_owned()),
        at: crate::error::place(at),
    })
}

/// `'host:port'`; an IPv6 host stands in brackets.
fn address(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    let (text, at) = cursor.string("an address in quotes: 'host:port'")?;
    let refuse = |message: String| {
        Err(ParseError::syntax_help(
            message,
            "write 'host:port', such as 'db-2.internal:7501' or '[::1]:7501'",
            at,
        ))
    };
    let Some((host, port)) = text.rsplit_once(':') else {
        return refuse(format!("the address '{text}' has no port"));
    };
    if !port.parse::<u16>().is_ok_and(|port| port > 0) || port.starts_with('+') {
        return refuse(format!("the port of '{text}' is not a number from 1 to 65535"));
    }
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let fits = match inner {
        Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.len() <= 253
                && host
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        }
    };
    if !fits {
        return refuse(format!("the host of '{text}' is not a host name or address"));
    }
    if matches!(host, "0.0.0.0" | "[::]") {
        return refuse(format!(
            "'{text}' is an address to listen on, and no other node can reach it"
        ));
    }
    Ok(text)
}

fn roles_list(cursor: &mut Cursor<'_>) -> Result<Vec<PeerRole>, ParseError> {
    let mut roles = Vec::new();
    loop {
        let role = if cursor.take("READABLE") {
            PeerRole::Readable
        } else if cursor.take("COORDINATING") {
            PeerRole::Coordinating
        } else if cursor.take("WRITABLE") {
            PeerRole::Writable
        } else {
            return Err(cursor.wanted("READABLE, COORDINATING or WRITABLE"));
        };
        roles.push(role);
        if !cursor.take_sign(&Token::Comma) {
            break;
        }
    }
    roles.sort_unstable();
    roles.dedup();
    Ok(roles)
}

/// REMOVE NAMESPACE | DATABASE | COLLECTION | VIEW | REPLICA [IF EXISTS] name.
pub(crate) fn remove(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    cursor.expect("REMOVE")?;
    refuse_not_yet(cursor, "REMOVE")?;
    let kind = if cursor.take("NAMESPACE") || cursor.take("NS") {
        RemoveKind::Namespace
    } else if cursor.take("DATABASE") || cursor.take("DB") {
        RemoveKind::Database
    } else if cursor.take("COLLECTION") || cursor.take("TABLE") {
        RemoveKind::Collection
    } else if cursor.take("VIEW") {
        RemoveKind::View
    } else if cursor.take("REPLICA") {
        RemoveKind::Replica
    } else {
        return Err(cursor.wanted("NAMESPACE, DATABASE, COLLECTION, VIEW or REPLICA"));
    };
    let if_exists = cursor.take_all(&["IF", "EXISTS"]);
    let name = removed_name(cursor, kind)?;
    cursor.expect_end()?;
    let names = vec![name];
    Ok(Body::Remove(Remove {
        kind,
        names,
        if_exists,
        cascade: false,
    }))
}

fn removed_name(cursor: &mut Cursor<'_>, kind: RemoveKind) -> Result<QualifiedName, ParseError> {
    let name = cursor.qualified_name("a name")?;
    let parts_max = match kind {
        RemoveKind::Namespace | RemoveKind::Replica => 1,
        RemoveKind::Database => 2,
        RemoveKind::Collection | RemoveKind::View | RemoveKind::Index => 3,
    };
    let parts = 1 + usize::from(name.database.is_some()) + usize::from(name.namespace.is_some());
    if parts > parts_max {
        return Err(ParseError::syntax(
            format!("this name has {parts} parts, and at most {parts_max} fit here"),
            name.span,
        ));
    }
    Ok(name)
}

/// DROP TABLE | VIEW | INDEX | DATABASE | SCHEMA [IF EXISTS] name {, name} [CASCADE | RESTRICT].
pub(crate) fn drop(cursor: &mut Cursor<'_>) -> Result<Body, ParseError> {
    cursor.expect("DROP")?;
    let start = cursor.words.whole().start;
    let end = cursor.span().start + cursor.span().length;
    let kind = if cursor.take("TABLE") {
        RemoveKind::Collection
    } else if cursor.take("VIEW") {
        RemoveKind::View
    } else if cursor.take("INDEX") {
        RemoveKind::Index
    } else if cursor.take("DATABASE") || cursor.take("SCHEMA") {
        RemoveKind::Database
    } else if cursor.is_done() {
        return Err(cursor.wanted("TABLE, VIEW, INDEX, DATABASE or SCHEMA"));
    } else {
        let what = format!("DROP {}", cursor.words.written(cursor.at).to_uppercase());
        return Err(ParseError::unsupported(
            crate::cursor::shorten(&what),
            "DROP takes TABLE, VIEW, INDEX, DATABASE or SCHEMA",
            span_of(start, end),
        ));
    };
    let if_exists = cursor.take_all(&["IF", "EXISTS"]);
    let mut names = vec![removed_name(cursor, kind)?];
    while cursor.take_sign(&Token::Comma) {
        names.push(removed_name(cursor, kind)?);
    }
    let at = cursor.span();
    let cascade = cursor.take("CASCADE");
    if !cascade && cursor.take("RESTRICT") && kind == RemoveKind::Database {
        return Err(ParseError::unsupported(
            "RESTRICT",
            "leave it away: a database goes with everything in it",
            at,
        ));
    }
    cursor.expect_end()?;
    Ok(Body::Remove(Remove {
        kind,
        names,
        if_exists,
        cascade,
    }))
}
