//! Operators and functions of JSON documents.

use arrow::array::{Array as _, AsArray as _};
use candor_storage::{ColumnType, ElementType};
use datafusion::common::ScalarValue;

use super::function::Kind::{Bool, Int, Text, Texts};
use super::function::{Gives, Spec, TEXTS, of_text, text};
use crate::error::EngineError;
use crate::value::json::{self, Node, Value};

type Answer = Result<ScalarValue, EngineError>;

const JSON: Gives = Gives::Type(ColumnType::Json);
const JSONB: Gives = Gives::Type(ColumnType::Jsonb);
const TEXT: Gives = Gives::Type(ColumnType::Text);
const BOOL: Gives = Gives::Type(ColumnType::Bool);
const INT4: Gives = Gives::Type(ColumnType::Int32);
const JSONS: Gives = Gives::Type(ColumnType::Array {
    element: ElementType::Json,
    depth: 1,
});
const JSONBS: Gives = Gives::Type(ColumnType::Array {
    element: ElementType::Jsonb,
    depth: 1,
});

const STEP: &[&[super::function::Kind]] = &[&[Text, Text], &[Text, Int]];
const PATHS: &[&[super::function::Kind]] = &[&[Text, Texts]];

pub(super) static GET: Spec = Spec::new("json_get", STEP, JSON, get);
pub(super) static GET_B: Spec = Spec::new("jsonb_get", STEP, JSONB, get);
pub(super) static GET_TEXT: Spec = Spec::new("json_get_text", STEP, TEXT, get_text);
pub(super) static PATH: Spec = Spec::new("json_path", PATHS, JSON, path);
pub(super) static PATH_B: Spec = Spec::new("jsonb_path", PATHS, JSONB, path);
pub(super) static PATH_TEXT: Spec = Spec::new("json_path_text", PATHS, TEXT, path_text);
pub(super) static HAS_KEY: Spec = Spec::new("jsonb_exists", &[&[Text, Text]], BOOL, has_key);
pub(super) static HAS_ANY: Spec = Spec::new("jsonb_exists_any", PATHS, BOOL, has_any);
pub(super) static HAS_ALL: Spec = Spec::new("jsonb_exists_all", PATHS, BOOL, has_all);
pub(super) static CONTAINS: Spec = Spec::new("jsonb_contains", &[&[Text, Text]], BOOL, contains);
pub(super) static CONCAT: Spec = Spec::new("jsonb_concat", &[&[Text, Text]], JSONB, concat);
pub(super) static WITHOUT: Spec = Spec::new(
    "jsonb_delete",
    &[&[Text, Text], &[Text, Int], &[Text, Texts]],
    JSONB,
    without,
);
pub(super) static WITHOUT_PATH: Spec = Spec::new("jsonb_delete_path", PATHS, JSONB, without_path);
pub(super) static COMPARE: Spec = Spec::new("jsonb_cmp", &[&[Text, Text]], INT4, compare);

pub(super) static FUNCTIONS: &[Spec] = &[
    Spec::new("json_array_length", &[&[Text]], INT4, array_length),
    Spec::new("jsonb_array_length", &[&[Text]], INT4, array_length),
    Spec::new("json_typeof", &[&[Text]], TEXT, type_of),
    Spec::new("jsonb_typeof", &[&[Text]], TEXT, type_of),
    Spec::new("json_extract_path", &[&[Text, Text]], JSON, extract_path).variadic(),
    Spec::new("jsonb_extract_path", &[&[Text, Text]], JSONB, extract_path).variadic(),
    Spec::new("json_extract_path_text", &[&[Text, Text]], TEXT, extract_path_text).variadic(),
    Spec::new("jsonb_extract_path_text", &[&[Text, Text]], TEXT, extract_path_text).variadic(),
    Spec::new(
        "jsonb_set",
        &[&[Text, Texts, Text], &[Text, Texts, Text, Bool]],
        JSONB,
        set,
    ),
    Spec::new(
        "jsonb_insert",
        &[&[Text, Texts, Text], &[Text, Texts, Text, Bool]],
        JSONB,
        insert,
    ),
    Spec::new("json_strip_nulls", &[&[Text]], JSON, strip_nulls),
    Spec::new("jsonb_strip_nulls", &[&[Text]], JSONB, strip_nulls),
    Spec::new("jsonb_pretty", &[&[Text]], TEXT, pretty),
    // What the functions that give several rows are made of: each is the unnested list.
    Spec::new("json_array_items", &[&[Text]], JSONS, items),
    Spec::new("jsonb_array_items", &[&[Text]], JSONBS, items),
    Spec::new("json_array_texts", &[&[Text]], TEXTS, items_text),
    Spec::new("json_key_list", &[&[Text]], TEXTS, keys),
    Spec::new("jsonb_key_list", &[&[Text]], TEXTS, keys_in_order),
    Spec::new("json_value_list", &[&[Text]], JSONS, |args| values(args, false)),
    Spec::new("jsonb_value_list", &[&[Text]], JSONBS, |args| values(args, true)),
    Spec::new("json_value_texts", &[&[Text]], TEXTS, |args| value_texts(args, false)),
    Spec::new("jsonb_value_texts", &[&[Text]], TEXTS, |args| value_texts(args, true)),
    Spec::new("json_of_items", &[&[Texts]], JSON, |args| Ok(of_items(args))),
    Spec::new("jsonb_of_items", &[&[Texts]], JSONB, |args| Ok(of_items(args))),
    Spec::new("json_of_members", &[&[Texts]], JSON, |args| Ok(of_members(args))),
    Spec::new("jsonb_of_members", &[&[Texts]], JSONB, of_members_b),
];

fn document(value: &ScalarValue) -> Result<Node, EngineError> {
    json::parse(text(value)).map_err(|reason| EngineError::bad_value(format!("the document is not JSON: {reason}")))
}

fn part(whole: &ScalarValue, node: Option<&Node>) -> ScalarValue {
    node.map_or(ScalarValue::Null, |node| of_text(&text(whole)[node.place.clone()]))
}

fn shown(whole: &ScalarValue, node: Option<&Node>) -> ScalarValue {
    let found = node.and_then(|node| node.shown(text(whole)));
    found.map_or(ScalarValue::Null, of_text)
}

fn step<'a>(node: &'a Node, step: &ScalarValue) -> Option<&'a Node> {
    match step {
        ScalarValue::Int64(Some(at)) => node.element(*at),
        key => node.field(text(key)),
    }
}

fn get(args: &[ScalarValue]) -> Answer {
    Ok(part(&args[0], step(&document(&args[0])?, &args[1])))
}

fn get_text(args: &[ScalarValue]) -> Answer {
    Ok(shown(&args[0], step(&document(&args[0])?, &args[1])))
}

/// The texts of a list; `None` where one is NULL.
fn texts(value: &ScalarValue) -> Vec<Option<String>> {
    let ScalarValue::List(list) = value else {
        return Vec::new();
    };
    if list.is_null(0) {
        return Vec::new();
    }
    let values = list.value(0);
    match values.as_string_view_opt() {
        Some(values) => values.iter().map(|text| text.map(str::to_owned)).collect(),
        None => vec![None; values.len()],
    }
}

fn walk<'a>(node: &'a Node, steps: &'a [Option<String>]) -> Option<&'a Node> {
    if steps.iter().any(Option::is_none) {
        return None;
    }
    node.path(steps.iter().flatten().map(String::as_str))
}

fn path(args: &[ScalarValue]) -> Answer {
    Ok(part(&args[0], walk(&document(&args[0])?, &texts(&args[1]))))
}

fn path_text(args: &[ScalarValue]) -> Answer {
    Ok(shown(&args[0], walk(&document(&args[0])?, &texts(&args[1]))))
}

fn extract_path(args: &[ScalarValue]) -> Answer {
    Ok(part(&args[0], document(&args[0])?.path(args[1..].iter().map(text))))
}

fn extract_path_text(args: &[ScalarValue]) -> Answer {
    Ok(shown(&args[0], document(&args[0])?.path(args[1..].iter().map(text))))
}

const fn of_bool(value: bool) -> ScalarValue {
    ScalarValue::Boolean(Some(value))
}

fn has_key(args: &[ScalarValue]) -> Answer {
    Ok(of_bool(document(&args[0])?.has_key(text(&args[1]))))
}

fn has_any(args: &[ScalarValue]) -> Answer {
    let node = document(&args[0])?;
    Ok(of_bool(texts(&args[1]).iter().flatten().any(|key| node.has_key(key))))
}

fn has_all(args: &[ScalarValue]) -> Answer {
    let node = document(&args[0])?;
    Ok(of_bool(texts(&args[1]).iter().flatten().all(|key| node.has_key(key))))
}

fn contains(args: &[ScalarValue]) -> Answer {
    Ok(of_bool(document(&args[0])?.contains(&document(&args[1])?)))
}

fn compare(args: &[ScalarValue]) -> Answer {
    let order = document(&args[0])?.compare(&document(&args[1])?);
    Ok(ScalarValue::Int32(Some(order as i32)))
}

fn concat(args: &[ScalarValue]) -> Answer {
    let joined = match (document(&args[0])?.value, document(&args[1])?.value) {
        (Value::Object(mut a), Value::Object(b)) => {
            a.extend(b);
            Value::Object(a)
        }
        (a, b) => {
            let items = |value| match value {
                Value::Array(items) => items,
                other => vec![Node::new(other)],
            };
            let mut all = items(a);
            all.extend(items(b));
            Value::Array(all)
        }
    };
    Ok(of_text(Node::new(joined).to_text()))
}

fn without(args: &[ScalarValue]) -> Answer {
    let mut node = document(&args[0])?;
    let keys = match &args[1] {
        list @ ScalarValue::List(_) => texts(list).into_iter().flatten().collect(),
        ScalarValue::Int64(Some(at)) => {
            match &mut node.value {
                Value::Array(items) => {
                    if let Some(at) = json::array_at(items.len(), *at) {
                        items.remove(at);
                    }
                }
                _ => return Err(EngineError::bad_value("only arrays have elements by number")),
            }
            Vec::new()
        }
        key => vec![text(key).to_owned()],
    };
    match &mut node.value {
        Value::Object(fields) => fields.retain(|(name, _)| !keys.contains(name)),
        Value::Array(items) => {
            items.retain(|item| !matches!(&item.value, Value::Text(text) if keys.contains(text)));
        }
        _ => {
            return Err(EngineError::bad_value(
                "only objects and arrays have parts to leave out",
            ));
        }
    }
    Ok(of_text(node.to_text()))
}

/// What becomes of the place that a path leads to.
enum Change {
    Remove,
    Set { value: Node, create: bool },
    Insert { value: Node, after: bool },
}

fn changed(node: &mut Node, steps: &[String], change: &Change) -> Result<(), EngineError> {
    let [step, rest @ ..] = steps else {
        return Ok(());
    };
    match &mut node.value {
        Value::Object(fields) => change_field(fields, step, rest, change),
        Value::Array(items) => change_item(items, step, rest, change),
        _ => Ok(()),
    }
}

fn change_field(
    fields: &mut Vec<(String, Node)>,
    step: &str,
    rest: &[String],
    change: &Change,
) -> Result<(), EngineError> {
    let at = fields.iter().rposition(|(name, _)| name == step);
    match (at, rest, change) {
        (Some(at), [], Change::Remove) => {
            fields.remove(at);
        }
        (Some(at), [], Change::Set { value, .. }) => fields[at].1 = value.clone(),
        (Some(_), [], Change::Insert { .. }) => {
            return Err(EngineError::bad_value(format!(
                "the key `{step}` is there: jsonb_set replaces it"
            )));
        }
        (Some(at), rest, change) => changed(&mut fields[at].1, rest, change)?,
        (None, [], Change::Set { value, create: true } | Change::Insert { value, .. }) => {
            fields.push((step.to_owned(), value.clone()));
        }
        (None, ..) => {}
    }
    Ok(())
}

fn change_item(items: &mut Vec<Node>, step: &str, rest: &[String], change: &Change) -> Result<(), EngineError> {
    let number: i64 = step
        .trim()
        .parse()
        .map_err(|_| EngineError::bad_value(format!("the path goes through an array, and `{step}` is not a number")))?;
    match (json::array_at(items.len(), number), rest, change) {
        (Some(at), [], Change::Remove) => {
            items.remove(at);
        }
        (Some(at), [], Change::Set { value, .. }) => items[at] = value.clone(),
        (Some(at), [], Change::Insert { value, after }) => items.insert(at + usize::from(*after), value.clone()),
        (Some(at), rest, change) => changed(&mut items[at], rest, change)?,
        // Beyond either end, a value is added at that end.
        (None, [], Change::Set { value, create: true } | Change::Insert { value, .. }) => {
            let at = if number < 0 { 0 } else { items.len() };
            items.insert(at, value.clone());
        }
        (None, ..) => {}
    }
    Ok(())
}

fn change(args: &[ScalarValue], change: &Change) -> Answer {
    let mut node = document(&args[0])?;
    let steps: Option<Vec<String>> = texts(&args[1]).into_iter().collect();
    let Some(steps) = steps else {
        return Err(EngineError::bad_value("a path has no NULL in it"));
    };
    changed(&mut node, &steps, change)?;
    Ok(of_text(node.to_text()))
}

fn without_path(args: &[ScalarValue]) -> Answer {
    change(args, &Change::Remove)
}

fn flag(value: Option<&ScalarValue>, default: bool) -> bool {
    match value {
        Some(ScalarValue::Boolean(Some(flag))) => *flag,
        _ => default,
    }
}

fn set(args: &[ScalarValue]) -> Answer {
    let set = Change::Set {
        value: document(&args[2])?,
        create: flag(args.get(3), true),
    };
    change(args, &set)
}

fn insert(args: &[ScalarValue]) -> Answer {
    let insert = Change::Insert {
        value: document(&args[2])?,
        after: flag(args.get(3), false),
    };
    change(args, &insert)
}

fn array_length(args: &[ScalarValue]) -> Answer {
    match document(&args[0])?.value {
        Value::Array(items) => Ok(ScalarValue::Int32(Some(items.len() as i32))),
        _ => Err(EngineError::bad_value(
            "the document is not an array, so it has no length",
        )),
    }
}

fn type_of(args: &[ScalarValue]) -> Answer {
    Ok(of_text(document(&args[0])?.kind()))
}

fn strip_nulls(args: &[ScalarValue]) -> Answer {
    fn strip(node: &mut Node) {
        match &mut node.value {
            Value::Object(fields) => {
                fields.retain(|(_, value)| !matches!(value.value, Value::Null));
                for (_, value) in fields {
                    strip(value);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut node = document(&args[0])?;
    strip(&mut node);
    Ok(of_text(node.to_text()))
}

fn pretty(args: &[ScalarValue]) -> Answer {
    fn write(node: &Node, indent: usize, out: &mut String) {
        let line = |out: &mut String, indent: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * 4));
        };
        match &node.value {
            Value::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    line(out, indent + 1);
                    write(item, indent + 1, out);
                }
                line(out, indent);
                out.push(']');
            }
            Value::Object(fields) => {
                out.push('{');
                for (at, (key, value)) in json::in_order(fields).into_iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    line(out, indent + 1);
                    json::write_text(key, out);
                    out.push_str(": ");
                    write(value, indent + 1, out);
                }
                line(out, indent);
                out.push('}');
            }
            _ => node.write(out),
        }
    }
    let mut out = String::new();
    write(&document(&args[0])?, 0, &mut out);
    Ok(of_text(out))
}

/// A list of texts as one value.
pub(super) fn list(texts: impl IntoIterator<Item = Option<String>>) -> ScalarValue {
    let values: Vec<ScalarValue> = texts.into_iter().map(ScalarValue::Utf8View).collect();
    ScalarValue::List(ScalarValue::new_list(
        &values,
        &arrow::datatypes::DataType::Utf8View,
        true,
    ))
}

fn array_items(value: &ScalarValue) -> Result<Vec<Node>, EngineError> {
    match document(value)?.value {
        Value::Array(items) => Ok(items),
        _ => Err(EngineError::bad_value(
            "the document is not an array, so it has no elements",
        )),
    }
}

fn items(args: &[ScalarValue]) -> Answer {
    let whole = text(&args[0]);
    let items = array_items(&args[0])?;
    Ok(list(
        items.iter().map(|item| Some(whole[item.place.clone()].to_owned())),
    ))
}

fn items_text(args: &[ScalarValue]) -> Answer {
    let whole = text(&args[0]);
    Ok(list(array_items(&args[0])?.iter().map(|item| item.shown(whole))))
}

fn fields(value: &ScalarValue) -> Result<Vec<(String, Node)>, EngineError> {
    match document(value)?.value {
        Value::Object(fields) => Ok(fields),
        _ => Err(EngineError::bad_value(
            "the document is not an object, so it has no keys",
        )),
    }
}

fn keys(args: &[ScalarValue]) -> Answer {
    Ok(list(fields(&args[0])?.into_iter().map(|(key, _)| Some(key))))
}

fn keys_in_order(args: &[ScalarValue]) -> Answer {
    let fields = fields(&args[0])?;
    Ok(list(
        json::in_order(&fields).into_iter().map(|(key, _)| Some(key.to_owned())),
    ))
}

/// The fields, in the order of JSONB's keys or in that of the text.
fn ordered_fields(value: &ScalarValue, in_order: bool) -> Result<Vec<Node>, EngineError> {
    let fields = fields(value)?;
    if !in_order {
        return Ok(fields.into_iter().map(|(_, node)| node).collect());
    }
    let ordered = json::in_order(&fields).into_iter();
    Ok(ordered.map(|(_, node)| node.clone()).collect())
}

fn values(args: &[ScalarValue], in_order: bool) -> Answer {
    let whole = text(&args[0]);
    let nodes = ordered_fields(&args[0], in_order)?;
    Ok(list(
        nodes.iter().map(|node| Some(whole[node.place.clone()].to_owned())),
    ))
}

fn value_texts(args: &[ScalarValue], in_order: bool) -> Answer {
    let whole = text(&args[0]);
    let nodes = ordered_fields(&args[0], in_order)?;
    Ok(list(nodes.iter().map(|node| node.shown(whole))))
}

fn of_items(args: &[ScalarValue]) -> ScalarValue {
    let items: Vec<String> = texts(&args[0])
        .into_iter()
        .map(|item| item.unwrap_or_else(|| "null".to_owned()))
        .collect();
    of_text(format!("[{}]", items.join(", ")))
}

fn of_members(args: &[ScalarValue]) -> ScalarValue {
    let members: Vec<String> = texts(&args[0]).into_iter().flatten().collect();
    of_text(format!("{{ {} }}", members.join(", ")))
}

fn of_members_b(args: &[ScalarValue]) -> Answer {
    let members: Vec<String> = texts(&args[0]).into_iter().flatten().collect();
    let normal = json::normal(&format!("{{{}}}", members.join(", ")));
    normal.map(of_text).map_err(EngineError::bad_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_set_inserted_and_removed() {
        let path = |steps: &[&str]| list(steps.iter().map(|step| Some((*step).to_owned())));
        let shown = |answer: Answer| text(&answer.expect("works")).to_owned();
        let doc = of_text(r#"{"a": {"b": [1, 2]}}"#);
        let seven = of_text("7");
        let args = [doc.clone(), path(&["a", "b", "1"]), seven.clone()];
        assert_eq!(shown(set(&args)), r#"{"a": {"b": [1, 7]}}"#);
        assert_eq!(shown(insert(&args)), r#"{"a": {"b": [1, 7, 2]}}"#);
        assert_eq!(shown(without_path(&args)), r#"{"a": {"b": [1]}}"#);
        let args = [doc.clone(), path(&["a", "c"]), seven.clone()];
        assert_eq!(shown(set(&args)), r#"{"a": {"b": [1, 2], "c": 7}}"#);
        let args = [doc, path(&["x", "c"]), seven, of_bool(true)];
        assert_eq!(shown(set(&args)), r#"{"a": {"b": [1, 2]}}"#);
    }
}
