//! Scripts that were read lately: an application sends the same few texts over and over, with other parameters.
//!
//! What a text parses to depends on the text alone, so nothing ever makes an entry wrong; what the engine keeps with a
//! statement it checks itself. Two generations: when the younger
//! is full it becomes the older, and what was not asked for meanwhile goes with the one before.

use std::collections::HashMap;
use std::sync::Arc;

use candor_engine::StatementMemo;
use candor_parser::{Body, ParseError, Script, Statement, parse_script};
use parking_lot::Mutex;

use crate::relations::Relations;

/// Scripts in one generation.
const SCRIPTS_MAX: usize = 1024;

/// Longer scripts are read anew each time: they hold their values in their text, bytes.
const SCRIPT_BYTES_MAX: usize = 4096;

type Generation = HashMap<Box<str>, Arc<ParsedScript>>;

/// A script that was read, and what is known of its statements.
pub(crate) struct ParsedScript {
    pub(crate) script: Script,
    known: Vec<Known>,
}

/// What is known of a statement besides what it says.
pub(crate) struct Known {
    /// The collections that a read or a write names; nothing for other statements.
    pub(crate) relations: Relations,
    /// What the engine keeps of it.
    pub(crate) memo: Arc<StatementMemo>,
}

impl ParsedScript {
    fn read(text: &str) -> Result<Arc<Self>, ParseError> {
        let script = parse_script(text)?;
        let known = script.statements.iter().map(Known::of).collect();
        Ok(Arc::new(Self { script, known }))
    }

    /// The statements in order.
    pub(crate) fn statements(&self) -> impl ExactSizeIterator<Item = (&Statement, &Known)> {
        self.script.statements.iter().zip(&self.known)
    }
}

impl Known {
    fn of(statement: &Statement) -> Self {
        let relations = match &statement.body {
            Body::Query(tree) | Body::Write(tree) => Relations::in_tree(&**tree),
            _ => Relations::default(),
        };
        Self {
            relations,
            memo: Arc::default(),
        }
    }
}

/// Scripts that were read lately.
#[derive(Default)]
pub(crate) struct Parsed(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    younger: Generation,
    older: Generation,
}

impl Parsed {
    /// The script of a text.
    ///
    /// # Errors
    /// As [`parse_script`]; errors are not kept.
    pub(crate) fn script(&self, text: &str) -> Result<Arc<ParsedScript>, ParseError> {
        if text.len() > SCRIPT_BYTES_MAX {
            return ParsedScript::read(text);
        }
        if let Some(known) = self.0.lock().find(text) {
            return Ok(known);
        }
        let script = ParsedScript::read(text)?;
        self.0.lock().keep(text, &script);
        Ok(script)
    }
}

impl Generations {
    fn find(&mut self, text: &str) -> Option<Arc<ParsedScript>> {
        if let Some(known) = self.younger.get(text) {
            return Some(Arc::clone(known));
        }
        let (text, known) = self.older.remove_entry(text)?;
        self.keep(&text, &known);
        Some(known)
    }

    fn keep(&mut self, text: &str, script: &Arc<ParsedScript>) {
        if self.younger.len() >= SCRIPTS_MAX {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(text.into(), Arc::clone(script));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_once_while_it_is_asked_for() {
        let parsed = Parsed::default();
        let first = parsed.script("SELECT 1").expect("fine");
        for other in 0..SCRIPTS_MAX {
            parsed.script(&format!("SELECT {other}, 2")).expect("fine");
        }
        let again = parsed.script("SELECT 1").expect("fine");
        assert!(Arc::ptr_eq(&first, &again), "it outlives one generation");
        for other in 0..2 * SCRIPTS_MAX {
            parsed.script(&format!("SELECT {other}, 3")).expect("fine");
        }
        let later = parsed.script("SELECT 1").expect("fine");
        assert!(!Arc::ptr_eq(&first, &later), "what nobody asks for goes");
        let kept = parsed.0.lock();
        assert!(kept.younger.len() + kept.older.len() <= 2 * SCRIPTS_MAX);
    }

    #[test]
    fn errors_and_long_texts_are_not_kept() {
        let parsed = Parsed::default();
        assert!(parsed.script("SELEC 1").is_err());
        parsed
            .script(&format!("SELECT '{}'", "x".repeat(SCRIPT_BYTES_MAX)))
            .expect("fine");
        let kept = parsed.0.lock();
        assert!(kept.younger.is_empty() && kept.older.is_empty());
    }
}
