//! `docs/grammar.md` says what is true: its examples are read, and its refusals are refused with the code beside them.

use std::path::Path;

use candor_parser::parse_script;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/grammar.md");
    std::fs::read_to_string(path).expect("docs/grammar.md")
}

#[test]
fn every_refusal_of_the_grammar_page_is_one() {
    let page = page();
    let mut rows = 0;
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, example, code] = cells.as_slice() else { continue };
        let (Some(example), code) = (example.strip_prefix('`'), code.trim_matches([' ', '`', '|'])) else {
            continue;
        };
        let example = example.trim_end_matches('`');
        let error = parse_script(example).expect_err(example);
        assert_eq!(error.code().as_str(), code, "{example}: {error}");
        assert!(error.help().is_some(), "{example}: {error} says no way out");
        rows += 1;
    }
    assert!(rows > 30, "only {rows} rows were found");
}

#[test]
fn every_example_of_the_grammar_page_is_read() {
    let page = page();
    let blocks: Vec<_> = page
        .split("```sql\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() > 1);
    for block in blocks {
        parse_script(block).unwrap_or_else(|e| panic!("{block}: {e}"));
    }
}
