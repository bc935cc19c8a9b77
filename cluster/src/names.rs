//! Which names nodes and ranges may have, and how a range's name becomes a folder's.

use std::fmt::Write;

use candor_proto::{NodeName, RangeName, limits};

use crate::error::NameError;

/// A node's name is also a name in its certificate: lower-case letters, digits, `-` and `_`, starting and ending
/// with a letter or digit.
pub(crate) fn check_node(name: &NodeName) -> Result<(), NameError> {
    let text = name.as_str();
    let refuse = |why| {
        Err(NameError {
            what: "node name",
            name: text.to_owned(),
            why,
        })
    };
    if text.is_empty() || text.len() > limits::NAME_BYTES_MAX {
        return refuse("must have 1 to 63 bytes");
    }
    if !text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    {
        return refuse("may hold lower-case letters, digits, `-` and `_`");
    }
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || !text.ends_with(|c: char| c.is_ascii_alphanumeric()) {
        return refuse("must start and end with a letter or digit");
    }
    Ok(())
}

/// A range is named like the namespace it holds; `system` is each node's own.
pub(crate) fn check_range(name: &RangeName) -> Result<(), NameError> {
    let text = name.as_str();
    let refuse = |why| {
        Err(NameError {
            what: "namespace",
            name: text.to_owned(),
            why,
        })
    };
    if text.is_empty() || text.len() > limits::NAME_BYTES_MAX {
        return refuse("must have 1 to 63 bytes");
    }
    if text.chars().any(char::is_control) {
        return refuse("must not hold control characters");
    }
    if text == RangeName::SYSTEM {
        return refuse("is the name of each node's own declarations");
    }
    Ok(())
}

/// The folder of a range: its name with everything but lower-case letters, digits, `-` and `_` written as `%xx`,
/// so that no name leaves the data directory and none collides on a file system without case.
pub(crate) fn folder(name: &RangeName) -> String {
    let mut folder = String::with_capacity(name.as_str().len());
    for byte in name.as_str().bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_' {
            folder.push(char::from(byte));
        } else {
            write!(folder, "%{byte:02x}").expect("writing to a String cannot fail");
        }
    }
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_are_names_in_certificates() {
        for good in ["n1", "db-2", "a", "eu_west_1", &"n".repeat(63)] {
            assert_eq!(check_node(&NodeName::new(good)), Ok(()), "{good}");
        }
        for bad in ["", "N1", "-n", "n-", "a.b", "a b", "ü", &"n".repeat(64), "../x"] {
            assert!(check_node(&NodeName::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn range_names_never_leave_the_folder_and_never_collide() {
        for bad in ["", "system", "a\nb", &"n".repeat(64)] {
            assert!(check_range(&RangeName::new(bad)).is_err(), "{bad:?}");
        }
        let names = ["main", "Main", "..", ".", "a/b", "a%2fb", "ä", "a b"];
        let folders: std::collections::BTreeSet<String> = names
            .iter()
            .map(|n| folder(&RangeName::new(n)).to_lowercase())
            .collect();
        assert_eq!(folders.len(), names.len());
        assert!(folders.iter().all(|f| !f.contains('/') && !f.contains('.')));
        assert_eq!(folder(&RangeName::new("main")), "main");
    }
}
