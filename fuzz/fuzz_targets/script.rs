//! Script → statements: no text may panic, overflow the stack or run without end, and every span lies inside the text
//! on the edges of characters.

#![no_main]

use candor_parser::{Param, parse_script};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let check = |start: usize, length: usize| {
        assert!(text.is_char_boundary(start) && text.is_char_boundary(start + length));
    };
    match parse_script(text) {
        Ok(script) => {
            let mut end = 0;
            for statement in &script.statements {
                assert!(statement.span.start >= end);
                check(statement.span.start, statement.span.length);
                end = statement.span.start + statement.span.length;
                assert_eq!(statement.text, text[statement.span.start..end]);
                if let Some((_, tail)) = statement.tails.first() {
                    check(tail.start, tail.length);
                }
                let params = vec![Param::Text("30s".to_owned()); statement.parameters];
                let _ = statement.tails.resolve(&params);
                let _ = statement.check_in_transaction();
                // What was accepted once is accepted alone, and means the same.
                if statement.tails.is_empty() {
                    let again = parse_script(&statement.text).expect("a statement of a script is a script");
                    assert_eq!(again.statements.len(), 1);
                }
            }
        }
        Err(error) => {
            if let Some(span) = error.span() {
                check(span.start, span.length);
            }
            assert!(!error.to_body().error.is_empty());
        }
    }
});
