//! Arrays as text: `{1,2,NULL}`, `{{"a b","c"},{d,e}}`.

use candor_storage::ARRAY_DEPTH_MAX;

/// One element of an array's text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Null,
    Text(String),
    List(Vec<Item>),
}

/// The elements of an array's text.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn parse(text: &str) -> Result<Vec<Item>, String> {
    let mut reader = Reader { rest: text.trim() };
    let rest = reader.rest;
    // `[0:2]={…}` names its bounds; only those that are meant anyway are taken.
    if rest.starts_with('[') {
        let (bounds, after) = rest.split_once('=').ok_or("`=` is missing behind the bounds")?;
        if !bounds.trim().split_inclusive(']').all(|bound| bound.starts_with("[1:")) {
            return Err("arrays start at 1 here".into());
        }
        reader.rest = after.trim_start();
    }
    let items = reader.list(1)?;
    match reader.rest.trim() {
        "" => Ok(items),
        _ => Err("more text follows the closing `}`".into()),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn list(&mut self, depth: u8) -> Result<Vec<Item>, String> {
        self.rest = self
            .rest
            .strip_prefix('{')
            .ok_or("an array starts with `{`")?
            .trim_start();
        let mut items = Vec::new();
        if let Some(rest) = self.rest.strip_prefix('}') {
            self.rest = rest;
            return Ok(items);
        }
        loop {
            items.push(self.item(depth)?);
            self.rest = self.rest.trim_start();
            if let Some(rest) = self.rest.strip_prefix('}') {
                self.rest = rest;
                return check_shape(items);
            }
            let rest = self.rest.strip_prefix(',').ok_or("`,` or `}` is missing")?;
            self.rest = rest.trim_start();
        }
    }

    fn item(&mut self, depth: u8) -> Result<Item, String> {
        match self.rest.chars().next() {
            Some('{') if depth == ARRAY_DEPTH_MAX => Err(format!("an array has at most {ARRAY_DEPTH_MAX} dimensions")),
            Some('{') => self.list(depth + 1).map(Item::List),
            Some('"') => self.quoted().map(Item::Text),
            Some(_) => self.plain(),
            None => Err("the closing `}` is missing".into()),
        }
    }

    fn quoted(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                other => text.push(other),
            }
        }
        Err("a closing `\"` is missing".into())
    }

    fn plain(&mut self) -> Result<Item, String> {
        let mut text = String::new();
        // Blanks at the end do not count, unless a backslash stands before them.
        let mut kept = 0;
        let mut is_escaped = false;
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                ',' | '}' => {
                    self.rest = &self.rest[at..];
                    text.truncate(kept);
                    return match text.as_str() {
                        "" => Err("an element is missing".into()),
                        word if !is_escaped && word.eq_ignore_ascii_case("null") => Ok(Item::Null),
                        _ => Ok(Item::Text(text)),
                    };
                }
                '\\' => {
                    is_escaped = true;
                    text.extend(characters.next().map(|(_, escaped)| escaped));
                    kept = text.len();
                }
                '"' | '{' => return Err(format!("`{character}` stands inside an element")),
                other => {
                    text.push(other);
                    if !other.is_whitespace() {
                        kept = text.len();
                    }
                }
            }
        }
        Err("the closing `}` is missing".into())
    }
}

/// Lists of lists have the same number of elements, all the way down.
fn check_shape(items: Vec<Item>) -> Result<Vec<Item>, String> {
    let shape = |item: &Item| match item {
        Item::List(items) => Some(items.len()),
        _ => None,
    };
    let first = items.first().and_then(shape);
    if items.iter().all(|item| shape(item) == first) {
        Ok(items)
    } else {
        Err("the parts of a multidimensional array have the same number of elements".into())
    }
}

/// Appends the text of one element, in quotes where it would be read as something else.
pub(crate) fn write_element(text: &str, out: &mut String) {
    let needs_quotes = text.is_empty()
        || text.eq_ignore_ascii_case("null")
        || text
            .chars()
            .any(|character| matches!(character, '{' | '}' | ',' | '"' | '\\') || character.is_whitespace());
    if !needs_quotes {
        out.push_str(text);
        return;
    }
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Item {
        Item::Text(text.into())
    }

    #[test]
    fn arrays_are_read_as_postgresql_reads_them() {
        for (input, expected) in [
            ("{}", vec![]),
            (" { 1 , 2 } ", vec![text("1"), text("2")]),
            ("{NULL,\"NULL\",null}", vec![Item::Null, text("NULL"), Item::Null]),
            (
                r#"{"a \"b\"",c\,d, e f }"#,
                vec![text("a \"b\""), text("c,d"), text("e f")],
            ),
            (
                "{{1,2},{3,4}}",
                vec![
                    Item::List(vec![text("1"), text("2")]),
                    Item::List(vec![text("3"), text("4")]),
                ],
            ),
            ("[1:2]={1,2}", vec![text("1"), text("2")]),
        ] {
            assert_eq!(parse(input).as_ref(), Ok(&expected), "{input}");
        }
        for input in [
            "",
            "1",
            "{1",
            "{1,}",
            "{,}",
            "{1}x",
            "{\"a}",
            "{{1},{2,3}}",
            "{{1},2}",
            "[0:1]={1,2}",
            "{{{{{{{1}}}}}}}",
        ] {
            assert!(parse(input).is_err(), "{input}");
        }
    }

    #[test]
    fn elements_are_quoted_where_they_must() {
        for (element, expected) in [
            ("a", "a"),
            ("", "\"\""),
            ("NULL", "\"NULL\""),
            ("a b", "\"a b\""),
            ("a\"\\b", "\"a\\\"\\\\b\""),
        ] {
            let mut out = String::new();
            write_element(element, &mut out);
            assert_eq!(out, expected);
        }
    }
}
