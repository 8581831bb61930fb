//! Names, label keys and label values: the characters allowed in them, with the API server's messages.

use model::base::name::is_dns_subdomain;

/// The text as Go's `%q` writes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

const NAME_SHAPE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_SHAPE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn qualified(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    edge(text.chars().next())
        && edge(text.chars().last())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Why the text cannot be one segment of a path, in the API server's words.
pub(crate) fn bad_segment(text: &str) -> Option<String> {
    match text {
        "" => Some("name or generateName is required".to_owned()),
        "." | ".." => Some(format!("may not be '{text}'")),
        _ => ['/', '%']
            .into_iter()
            .find(|one| text.contains(*one))
            .map(|one| format!("may not contain '{one}'")),
    }
}

/// Why the text cannot be a label key, in the API server's words.
pub(crate) fn bad_key(key: &str) -> Option<String> {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if name.contains('/') {
                return Some(format!(
                    "a qualified name {NAME_SHAPE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
                ));
            }
            if prefix.is_empty() {
                return Some("prefix part must be non-empty".into());
            }
            if let Some(why) = bad_subdomain(prefix) {
                return Some(format!("prefix part {why}"));
            }
            name
        }
        None => key,
    };
    if name.is_empty() {
        return Some(format!(
            "name part must be non-empty; name part {NAME_SHAPE}"
        ));
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".into());
    }
    (!qualified(name)).then(|| format!("name part {NAME_SHAPE}"))
}

/// Why the text cannot be a label value, in the API server's words.
pub(crate) fn bad_value(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".into());
    }
    (!value.is_empty() && !qualified(value)).then(|| VALUE_SHAPE.into())
}

/// Why the text cannot be an object's name (an RFC 1123 subdomain), in the API server's words.
pub(crate) fn bad_subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 bytes".into());
    }
    (!is_dns_subdomain(text)).then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_the_real_server_does() {
        for good in ["a", "a.b", "a-1.b2"] {
            assert_eq!(bad_subdomain(good), None, "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a..b", "a.", &"a".repeat(254)] {
            assert!(bad_subdomain(bad).is_some(), "{bad}");
        }
        for good in ["a", "A.b_c-d", "example.com/Name"] {
            assert_eq!(bad_key(good), None, "{good}");
        }
        for bad in [
            "",
            "/a",
            "a/",
            "a/b/c",
            "Ex_ample/a",
            "a b",
            &"a".repeat(64),
        ] {
            assert!(bad_key(bad).is_some(), "{bad}");
        }
        assert!(bad_value("").is_none() && bad_value("a b").is_some());
        assert_eq!(quoted("a\"b\n\u{1b}"), r#""a\"b\n\x1b""#);
    }
}
