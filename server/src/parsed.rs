//! Scripts that were read lately: an application sends the same few texts over and over, with other parameters.
//!
//! What a text parses to depends on the text alone, so nothing ever makes an entry wrong. Two generations: when the younger
//! is full it becomes the older, and what was not asked for meanwhile goes with the one before.

use std::collections::HashMap;
use std::sync::Arc;

use candor_parser::{ParseError, Script, parse_script};
use parking_lot::Mutex;

/// Scripts in one generation.
const SCRIPTS_MAX: usize = 1024;

/// Longer scripts are read anew each time: they hold their values in their text, bytes.
const SCRIPT_BYTES_MAX: usize = 4096;

type Generation = HashMap<Box<str>, Arc<Script>>;

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
    pub(crate) fn script(&self, text: &str) -> Result<Arc<Script>, ParseError> {
        if text.len() > SCRIPT_BYTES_MAX {
            return parse_script(text).map(Arc::new);
        }
        if let Some(known) = self.0.lock().find(text) {
            return Ok(known);
        }
        let script = Arc::new(parse_script(text)?);
        self.0.lock().keep(text, &script);
        Ok(script)
    }
}

impl Generations {
    fn find(&mut self, text: &str) -> Option<Arc<Script>> {
        if let Some(known) = self.younger.get(text) {
            return Some(Arc::clone(known));
        }
        let (text, known) = self.older.remove_entry(text)?;
        self.keep(&text, &known);
        Some(known)
    }

    fn keep(&mut self, text: &str, script: &Arc<Script>) {
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
