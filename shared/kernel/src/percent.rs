//! Percent-encoding, as in URLs and lists of settings.

/// Decodes a text; returns `None` if it is malformed or not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_text_is_rejected() {
        assert_eq!(decode("a%20%C3%A9+b").as_deref(), Some("a é+b"));
        for wrong in ["%2", "%zz", "%ff"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
