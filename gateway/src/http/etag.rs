//! Entity tags and `If-Match` (RFC 9110, 8.8.3 and 13.1.1).
//!
//! A client that changes a resource can name the state in which it read it; the change is refused if the resource has changed
//! since.
//!
//! A tag is a hash of the editable part of a resource, as stored. Counters and timestamps that change by themselves do not
//! affect it, and it needs no query of its own. It is compared under the lock of the row that is written.

use http::HeaderMap;
use http::header::IF_MATCH;
use serde::Serialize;
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

use crate::http::error::ApiError;

/// Bytes of the hash that are kept: enough to make collisions negligible.
const TAG_BYTES: usize = 16;
/// Suffix of a tag if the response is compressed, because that is another representation.
pub const GZIPPED: &str = "-gzip";

/// The tag of a resource's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityTag(String);

impl EntityTag {
    /// Returns the tag of the editable part of a resource.
    pub fn of(editable: &impl Serialize) -> Result<Self, ApiError> {
        let value = serde_json::to_value(editable).map_err(|e| ApiError::Internal(format!("tagging: {e}")))?;
        let mut hash = Sha256::new();
        hash_value(&value, &mut hash);
        Ok(Self(hex::encode(&hash.finalize()[..TAG_BYTES])))
    }

    /// Returns the value of the `ETag` header.
    pub fn header(&self) -> String {
        format!("\"{}\"", self.0)
    }

    fn is(&self, opaque: &[u8]) -> bool {
        // Compression adds a suffix: ours, or a proxy's (`-br`, `-zstd`). The tag itself contains no `-`.
        opaque.split(|byte| *byte == b'-').next() == Some(self.0.as_bytes())
    }
}

/// Hashes a value unambiguously: equal values have equal bytes, before they are stored and after; different values never do.
fn hash_value(value: &Value, hash: &mut Sha256) {
    let mut piece = |kind: &[u8], bytes: &[u8]| {
        hash.update(kind);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    match value {
        Value::Null => piece(b"0", b""),
        Value::Bool(yes) => piece(b"b", &[u8::from(*yes)]),
        Value::Number(number) => piece(b"n", digits(number).as_bytes()),
        Value::String(text) => piece(b"s", text.as_bytes()),
        Value::Array(items) => {
            piece(b"a", &items.len().to_le_bytes());
            items.iter().for_each(|item| hash_value(item, hash));
        }
        Value::Object(fields) => {
            piece(b"o", &fields.len().to_le_bytes());
            for (name, field) in fields {
                hash.update((name.len() as u64).to_le_bytes());
                hash.update(name);
                hash_value(field, hash);
            }
        }
    }
}

/// Returns the canonical digits of a number.
///
/// The database writes numbers in full: `1e18` or `-0.0` comes back as an integer, or as 0. Fractions count to 15 digits,
/// because the last of 17 may change when they are written and read again.
fn digits(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float.fract() == 0.0 => (float + 0.0).to_string(),
        Some(float) => format!("{float:.14e}"),
        None => number.to_string(),
    }
}

/// The precondition of `If-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The header is absent.
    Absent,
    /// `*`: the resource must exist.
    Any,
    /// One of these tags, without quotes. Weak tags never match (RFC 9110, 8.8.3.2) and are left out.
    OneOf(Vec<Vec<u8>>),
}

impl Precondition {
    pub fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut lines = headers.get_all(IF_MATCH).iter().map(http::HeaderValue::as_bytes).peekable();
        if lines.peek().is_none() {
            return Ok(Self::Absent);
        }
        let line = lines.collect::<Vec<_>>().join(&b","[..]);
        if line.trim_ascii() == b"*" {
            return Ok(Self::Any);
        }
        tags(&line).map(Self::OneOf).ok_or_else(|| {
            let allowed = "If-Match must be `*`, or a comma-separated list of quoted ETags as they were returned";
            ApiError::BadRequest(allowed.to_owned())
        })
    }

    /// Checks that an existing resource, such as an `automation`, is still in a requested state. Fails with 412 otherwise.
    pub fn check(&self, what: &str, current: impl FnOnce() -> Result<EntityTag, ApiError>) -> Result<(), ApiError> {
        let Self::OneOf(tags) = self else { return Ok(()) };
        let current = current()?;
        if tags.iter().any(|tag| current.is(tag)) { Ok(()) } else { Err(ApiError::changed_since(what)) }
    }
}

/// Returns the strong tags of a list with at least one tag, or `None` if the list is malformed.
fn tags(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut rest, mut strong, mut found) = (list.trim_ascii(), Vec::new(), false);
    while !rest.is_empty() {
        // A list may have empty elements (RFC 9110, 5.6.1.2).
        if let Some(tail) = rest.strip_prefix(b",") {
            rest = tail.trim_ascii_start();
            continue;
        }
        let weak = rest.strip_prefix(b"W/");
        let quoted = weak.unwrap_or(rest).strip_prefix(b"\"")?;
        let end = quoted.iter().position(|byte| *byte == b'"')?;
        let (opaque, tail) = (&quoted[..end], quoted[end + 1..].trim_ascii_start());
        if !opaque.iter().all(|byte| matches!(byte, 0x21 | 0x23..=0x7E | 0x80..)) {
            return None;
        }
        if !tail.is_empty() && !tail.starts_with(b",") {
            return None;
        }
        found = true;
        if weak.is_none() {
            strong.push(opaque.to_vec());
        }
        rest = tail;
    }
    found.then_some(strong)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn parsed(lines: &[&'static str]) -> Result<Precondition, ApiError> {
        let line = |line: &&'static str| (IF_MATCH, HeaderValue::from_static(line));
        Precondition::of(&lines.iter().map(line).collect())
    }

    fn tags_of(all: &[&str]) -> Precondition {
        Precondition::OneOf(all.iter().map(|tag| tag.as_bytes().to_vec()).collect())
    }

    #[test]
    fn if_match_is_parsed_as_the_rfc_specifies() {
        for (lines, expected) in [
            (&[][..], Precondition::Absent),
            (&["*"], Precondition::Any),
            (&["  * "], Precondition::Any),
            (&["\"a\""], tags_of(&["a"])),
            (&["\"\""], tags_of(&[""])),
            (&["\"a,b\" , \"c\""], tags_of(&["a,b", "c"])),
            (&[", \"a\",,"], tags_of(&["a"])),
            (&["\"a\"", "\"b\""], tags_of(&["a", "b"])),
            (&["W/\"a\", \"b\""], tags_of(&["b"])),
            (&["W/\"a\""], tags_of(&[])),
        ] {
            assert_eq!(parsed(lines).unwrap(), expected, "{lines:?}");
        }
        for lines in [
            &[""][..],
            &[","],
            &["a"],
            &["\"a"],
            &["\"a\"b"],
            &["\"a\" \"b\""],
            &["*, \"a\""],
            &["w/\"a\""],
            &["\"a b\""],
            &["*", "*"],
        ] {
            assert!(matches!(parsed(lines), Err(ApiError::BadRequest(_))), "{lines:?}");
        }
    }

    #[test]
    fn different_states_have_different_tags() {
        let states = [
            json!(null),
            json!(["a"]),
            json!("a"),
            json!(["a", null]),
            json!([["a"], []]),
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"a": 1.5}),
            json!({"a": {}}),
            json!({"a": []}),
            json!({"a": 1, "b": null}),
            json!({"b": 1, "a": null}),
            json!({"a": u64::MAX}),
            json!({"a": u64::MAX - 1}),
        ];
        for (i, one) in states.iter().enumerate() {
            for (j, other) in states.iter().enumerate() {
                let same = EntityTag::of(one).unwrap() == EntityTag::of(other).unwrap();
                assert_eq!(same, i == j, "{one} {other}");
            }
        }
    }

    #[test]
    fn number_has_the_same_tag_before_and_after_storage() {
        for (sent, stored) in [
            ("1e18", "1000000000000000000"),
            ("-0.0", "0.0"),
            ("1.0", "1"),
            ("0.10", "0.1"),
            ("2.2626716304673388e-07", "2.262671630467338e-07"),
        ] {
            let tag = |text: &str| EntityTag::of(&serde_json::from_str::<Value>(text).unwrap()).unwrap();
            assert_eq!(tag(sent), tag(stored), "{sent}");
        }
    }

    #[test]
    fn tag_of_a_compressed_response_matches() {
        let (tag, other) = (EntityTag::of(&1).unwrap(), EntityTag::of(&2).unwrap());
        let zipped = Precondition::OneOf(vec![format!("{}{GZIPPED}", tag.0).into_bytes()]);
        zipped.check("thing", || Ok(tag)).unwrap();
        let refused = zipped.check("thing", || Ok(other)).unwrap_err();
        assert_eq!(refused.status(), 412);
    }
}
