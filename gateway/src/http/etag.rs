//! Entity tags and `If-Match` (RFC 9110, 8.8.3 and 13.1.1): whoever changes a resource can say in what state they read it,
//! and is refused where somebody else has changed it since.
//!
//! A tag is a hash of what can be edited of a resource, as it is stored: counters and times that move by themselves leave
//! it as it is, and it takes no query of its own. It is compared under the lock of the row that is written.

use http::HeaderMap;
use http::header::IF_MATCH;
use serde::Serialize;
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

use crate::http::error::ApiError;

/// Of the hash: enough that no two states share them.
const BYTES: usize = 16;
/// What a tag ends with where the answer is compressed, which makes it another representation.
pub const GZIPPED: &str = "-gzip";

/// The state of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityTag(String);

impl EntityTag {
    /// Of everything that can be edited of a resource.
    pub fn of(editable: &impl Serialize) -> Result<Self, ApiError> {
        let value = serde_json::to_value(editable).map_err(|e| ApiError::Internal(format!("tagging: {e}")))?;
        let mut hash = Sha256::new();
        absorb(&value, &mut hash);
        Ok(Self(hex::encode(&hash.finalize()[..BYTES])))
    }

    /// As `ETag` has it.
    pub fn header(&self) -> String {
        format!("\"{}\"", self.0)
    }

    fn is(&self, opaque: &[u8]) -> bool {
        // A compression says so behind it: ours, or a proxy's (`-br`, `-zstd`). There is no `-` in the tag itself.
        opaque.split(|byte| *byte == b'-').next() == Some(self.0.as_bytes())
    }
}

/// Equal values are the same bytes, before they are stored as after; different ones never are.
fn absorb(value: &Value, hash: &mut Sha256) {
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
            items.iter().for_each(|item| absorb(item, hash));
        }
        Value::Object(fields) => {
            piece(b"o", &fields.len().to_le_bytes());
            for (name, field) in fields {
                hash.update((name.len() as u64).to_le_bytes());
                hash.update(name);
                absorb(field, hash);
            }
        }
    }
}

/// The database writes numbers out: what came as `1e18` or `-0.0` comes back as an integer, or as 0. Fractions count in 15 digits:
/// written and read again, the last of 17 may be another.
fn digits(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float.fract() == 0.0 => (float + 0.0).to_string(),
        Some(float) => format!("{float:.14e}"),
        None => number.to_string(),
    }
}

/// What `If-Match` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: there is no such header.
    Absent,
    /// `*`: that there is a resource.
    Any,
    /// One of these tags, without their quotes. A weak one stands for no state (RFC 9110, 8.8.3.2) and is left out.
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
            let allowed =
                "If-Match must be `*`, or ETags as they were answered, in quotes and with commas between them";
            ApiError::BadRequest(allowed.to_owned())
        })
    }

    /// Whether a resource, such as an `automation`, that is there is still in a state that was asked for.
    pub fn check(&self, what: &str, current: impl FnOnce() -> Result<EntityTag, ApiError>) -> Result<(), ApiError> {
        let Self::OneOf(tags) = self else { return Ok(()) };
        let current = current()?;
        if tags.iter().any(|tag| current.is(tag)) { Ok(()) } else { Err(ApiError::changed_since(what)) }
    }
}

/// The strong tags of a list that has at least one tag; none where something else stands in it.
fn tags(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut rest, mut strong, mut found) = (list.trim_ascii(), Vec::new(), false);
    while !rest.is_empty() {
        // A list may have empty places (RFC 9110, 5.6.1.2).
        if let Some(behind) = rest.strip_prefix(b",") {
            rest = behind.trim_ascii_start();
            continue;
        }
        let weak = rest.strip_prefix(b"W/");
        let quoted = weak.unwrap_or(rest).strip_prefix(b"\"")?;
        let end = quoted.iter().position(|byte| *byte == b'"')?;
        let (opaque, behind) = (&quoted[..end], quoted[end + 1..].trim_ascii_start());
        if !opaque.iter().all(|byte| matches!(byte, 0x21 | 0x23..=0x7E | 0x80..)) {
            return None;
        }
        if !behind.is_empty() && !behind.starts_with(b",") {
            return None;
        }
        found = true;
        if weak.is_none() {
            strong.push(opaque.to_vec());
        }
        rest = behind;
    }
    found.then_some(strong)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn asked(lines: &[&'static str]) -> Result<Precondition, ApiError> {
        let line = |line: &&'static str| (IF_MATCH, HeaderValue::from_static(line));
        Precondition::of(&lines.iter().map(line).collect())
    }

    fn tags_of(all: &[&str]) -> Precondition {
        Precondition::OneOf(all.iter().map(|tag| tag.as_bytes().to_vec()).collect())
    }

    #[test]
    fn if_match_is_read_by_the_standard() {
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
            assert_eq!(asked(lines).unwrap(), expected, "{lines:?}");
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
            assert!(matches!(asked(lines), Err(ApiError::BadRequest(_))), "{lines:?}");
        }
    }

    #[test]
    fn a_tag_stands_for_one_state() {
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
    fn numbers_are_what_they_are_once_they_were_stored() {
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
    fn what_was_read_compressed_is_the_same_state() {
        let (tag, other) = (EntityTag::of(&1).unwrap(), EntityTag::of(&2).unwrap());
        let zipped = Precondition::OneOf(vec![format!("{}{GZIPPED}", tag.0).into_bytes()]);
        zipped.check("thing", || Ok(tag)).unwrap();
        let refused = zipped.check("thing", || Ok(other)).unwrap_err();
        assert_eq!(refused.status(), 412);
    }
}
