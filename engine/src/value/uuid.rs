//! UUIDs: kept as their canonical text.

/// The canonical text: 32 lower-case digits in groups of 8, 4, 4, 4, 12. PostgreSQL's other spellings are read too:
/// capitals, braces around it, and hyphens left out or standing behind any group of four digits.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    let bare = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut digits = String::with_capacity(36);
    let mut count = 0;
    let mut may_break = false;
    for character in bare.chars() {
        if character == '-' && may_break && count < 32 {
            may_break = false;
            continue;
        }
        if !character.is_ascii_hexdigit() || count == 32 {
            return None;
        }
        if matches!(count, 8 | 12 | 16 | 20) {
            digits.push('-');
        }
        digits.push(character.to_ascii_lowercase());
        count += 1;
        may_break = count % 4 == 0;
    }
    (count == 32).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_postgresql_is_one_value() {
        let canonical_text = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        ] {
            assert_eq!(canonical(text).as_deref(), Some(canonical_text), "{text}");
        }
        for text in [
            "",
            "a0eebc99",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0e-ebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1111",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
