//! What a database holds, from the document a node gives about it: columns for `\\d`, statements for `.schema`.

use serde_json::Value;

/// The columns of `\\d NAME`.
pub(super) const COLUMNS: [&str; 5] = ["column", "type", "nullable", "default", "key"];

/// One row for each column of a collection's document.
pub(super) fn columns(document: &Value) -> Vec<Vec<Value>> {
    let key = texts(&document["key"]);
    let unique: Vec<Vec<&str>> = document["unique"].as_array().into_iter().flatten().map(texts).collect();
    let columns = document["columns"].as_array().into_iter().flatten();
    columns
        .map(|column| {
            let name = column["name"].as_str().unwrap_or("");
            let part = if key.contains(&name) {
                Value::from("primary")
            } else if unique.iter().any(|columns| columns.contains(&name)) {
                Value::from("unique")
            } else {
                Value::Null
            };
            let nullable = if column["nullable"] == true { "yes" } else { "no" };
            vec![
                Value::from(name),
                column["type"].clone(),
                Value::from(nullable),
                column["default"].clone(),
                part,
            ]
        })
        .collect()
}

/// The statements that make the collections and views of a database's document, or the one of this name.
pub(super) fn statements(document: &Value, only: Option<&str>) -> Vec<String> {
    let wanted = |item: &&Value| only.is_none_or(|only| item["name"] == only);
    let collections = document["collections"].as_array().into_iter().flatten().filter(wanted);
    let views = document["views"].as_array().into_iter().flatten().filter(wanted);
    let view = |view: &Value| {
        let (name, sql) = (view["name"].as_str().unwrap_or(""), view["sql"].as_str().unwrap_or(""));
        format!("CREATE VIEW {} AS {sql};", identifier(name))
    };
    collections.map(collection).chain(views.map(view)).collect()
}

fn collection(document: &Value) -> String {
    let name = identifier(document["name"].as_str().unwrap_or(""));
    if document["open"] == true {
        // Its columns are those that its rows have brought.
        return format!("DEFINE COLLECTION {name};");
    }
    let mut parts: Vec<String> = document["columns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(column)
        .collect();
    let key = texts(&document["key"]);
    if !key.is_empty() {
        parts.push(format!("PRIMARY KEY ({})", identifiers(&key)));
    }
    for unique in document["unique"].as_array().into_iter().flatten() {
        parts.push(format!("UNIQUE ({})", identifiers(&texts(unique))));
    }
    for check in document["checks"].as_array().into_iter().flatten() {
        let name = check["name"]
            .as_str()
            .map(|name| format!("CONSTRAINT {} ", identifier(name)));
        let sql = check["check"].as_str().unwrap_or("");
        parts.push(format!("{}CHECK ({sql})", name.unwrap_or_default()));
    }
    format!("CREATE TABLE {name} (\n    {}\n);", parts.join(",\n    "))
}

fn column(column: &Value) -> String {
    let text = |member: &str| column[member].as_str().unwrap_or("").to_owned();
    let mut line = format!("{} {}", identifier(&text("name")), text("type"));
    if column["nullable"] == false {
        line.push_str(" NOT NULL");
    }
    if let Some(default) = column["default"].as_str() {
        line.push_str(" DEFAULT ");
        line.push_str(default);
    }
    line
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn identifiers(names: &[&str]) -> String {
    names.iter().map(|name| identifier(name)).collect::<Vec<_>>().join(", ")
}

/// A name as it must be written.
fn identifier(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({
            "name": "orders",
            "open": false,
            "columns": [
                {"name": "id", "type": "BIGINT", "nullable": false, "default": null},
                {"name": "Note", "type": "TEXT", "nullable": true, "default": "'x'"},
            ],
            "key": ["id"],
            "unique": [["Note"]],
            "checks": [{"name": "positive", "check": "id > 0"}],
        })
    }

    #[test]
    fn the_statement_makes_the_same_collection_again() {
        let database = json!({"collections": [document()], "views": [{"name": "v", "sql": "SELECT 1"}]});
        assert_eq!(
            statements(&database, None),
            [
                "CREATE TABLE orders (\n    id BIGINT NOT NULL,\n    \"Note\" TEXT DEFAULT 'x',\n    PRIMARY KEY (id),\n    \
                 UNIQUE (\"Note\"),\n    CONSTRAINT positive CHECK (id > 0)\n);",
                "CREATE VIEW v AS SELECT 1;"
            ]
        );
        assert_eq!(statements(&database, Some("v")).len(), 1);
    }

    #[test]
    fn columns_say_what_part_they_play() {
        let rows = columns(&document());
        assert_eq!(
            rows[0],
            [json!("id"), json!("BIGINT"), json!("no"), Value::Null, json!("primary")]
        );
        assert_eq!(
            rows[1],
            [
                json!("Note"),
                json!("TEXT"),
                json!("yes"),
                json!("'x'"),
                json!("unique")
            ]
        );
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(identifier("orders"), "orders");
        assert_eq!(identifier("Or\"ders"), "\"Or\"\"ders\"");
    }
}
