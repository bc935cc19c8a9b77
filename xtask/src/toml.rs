//! The little TOML that manifests and `deny.toml` need: one key a line, arrays of strings over several lines.
//!
//! Not a parser of the format. What it does not understand it does not find, and every caller treats a thing that is
//! not found as a failure, so a manifest written in another way is noticed, not passed.

/// The lines of the table `header` (`[dependencies]`), comments and blank lines left out.
pub(crate) fn table<'a>(text: &'a str, header: &str) -> impl Iterator<Item = &'a str> {
    let start = text.lines().position(|line| line.trim() == header);
    text.lines()
        .skip(start.map_or(usize::MAX, |index| index + 1))
        .take_while(|line| !line.starts_with('['))
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The text of each block that starts with `header` (`[[package]]`), up to the next header.
pub(crate) fn blocks<'a>(text: &'a str, header: &'a str) -> impl Iterator<Item = &'a str> {
    text.split("\n[")
        .enumerate()
        .filter_map(move |(index, block)| block.strip_prefix(if index == 0 { header } else { &header[1..] }))
}

/// The value of `key = "value"` in `block`.
pub(crate) fn string(block: &str, key: &str) -> Option<String> {
    block.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        let value = value.trim().strip_prefix('"')?;
        (name.trim() == key).then(|| value.split('"').next().map(str::to_owned))?
    })
}

/// The strings of the array `key = [ … ]` in the table `header`.
pub(crate) fn strings(text: &str, header: &str, key: &str) -> Vec<String> {
    let body: Vec<&str> = table(text, header).collect();
    let Some(start) = body
        .iter()
        .position(|line| line.split_once('=').is_some_and(|(name, _)| name.trim() == key))
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for line in &body[start..] {
        let code = line.split(" #").next().unwrap_or(line);
        found.extend(code.split('"').skip(1).step_by(2).map(str::to_owned));
        if code.trim_end().ends_with(']') {
            break;
        }
    }
    found
}

/// The names that a manifest's table of dependencies lists.
pub(crate) fn dependencies(manifest: &str, header: &str) -> Vec<String> {
    table(manifest, header)
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim().split('.').next().unwrap_or_default().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"[package]
name = "candor-x"

[dependencies]
# a comment
serde.workspace = true
miette = { workspace = true, features = ["fancy"] }

[licenses]
allow = [
    "MIT", # plain
    "Apache-2.0",
]

[[bin]]
name = "one"

[[bin]]
name = "two"
"#;

    #[test]
    fn finds_dependencies_arrays_and_blocks() {
        assert_eq!(dependencies(TEXT, "[dependencies]"), ["serde", "miette"]);
        assert_eq!(strings(TEXT, "[licenses]", "allow"), ["MIT", "Apache-2.0"]);
        assert_eq!(strings(TEXT, "[licenses]", "deny"), Vec::<String>::new());
        let bins: Vec<_> = blocks(TEXT, "[[bin]]")
            .filter_map(|block| string(block, "name"))
            .collect();
        assert_eq!(bins, ["one", "two"]);
        assert_eq!(table(TEXT, "[nothing]").count(), 0);
    }
}
