//! Parses `FROM:<a@b> SIZE=1` and `TO:<a@b>`: paths and their parameters, and the tags that request a failure.

/// The argument of `MAIL FROM:` or `RCPT TO:`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Without the angle brackets; empty for `<>`.
    pub address: String,
    /// Names in upper case.
    pub parameters: Vec<(String, String)>,
}

/// The failure that a recipient's tag requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Code(u16),
    Hang,
    Unanswered,
}

/// Parses a path. Returns `None` if the syntax is wrong or the address contains control characters, or spaces outside
/// quotes.
pub(super) fn parse(text: &str, prefix: &str) -> Option<Path> {
    let head = text.get(..prefix.len()).filter(|head| head.eq_ignore_ascii_case(prefix))?;
    let rest = text[head.len()..].trim_start_matches(' ').strip_prefix('<')?;
    let end = end_of_address(rest)?;
    let parameters = rest[end + 1..].split(' ').filter(|word| !word.is_empty()).map(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (name.to_ascii_uppercase(), value.to_owned())
    });
    Some(Path { address: rest[..end].to_owned(), parameters: parameters.collect() })
}

/// Returns the position of the closing bracket.
fn end_of_address(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            c if c.is_control() => return None,
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '>' if !quoted => return Some(at),
            '<' | ' ' if !quoted => return None,
            _ => {}
        }
    }
    None
}

/// Returns the failure that the tag at the end of a recipient's local part requests.
pub(super) fn fault(address: &str) -> Option<Fault> {
    let (local, _) = address.rsplit_once('@')?;
    let (_, tag) = local.rsplit_once('+')?;
    let code = |name: &str, family: std::ops::Range<u16>| {
        tag.strip_prefix(name)?.parse().ok().filter(|code| family.contains(code)).map(Fault::Code)
    };
    match tag {
        "hang" => Some(Fault::Hang),
        "unanswered" => Some(Fault::Unanswered),
        _ => code("reject", 500..600).or_else(|| code("defer", 400..500)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed_with_parameters() {
        let path = parse("from: <\"a> b\"@x.org> size=12 SMTPUTF8", "FROM:").unwrap();
        assert_eq!(path.address, "\"a> b\"@x.org");
        assert_eq!(path.parameters, [("SIZE".into(), "12".into()), ("SMTPUTF8".into(), String::new())]);
        assert_eq!(parse("FROM:<>", "FROM:").unwrap().address, "");
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for text in ["", "FROM", "TO:<a@b>", "FROM:a@b", "FROM:<a@b", "FROM:<a b@c>", "FROM:<a\u{7}@b>", "FROM:<<a@b>>"]
        {
            assert_eq!(parse(text, "FROM:"), None, "{text}");
        }
    }

    #[test]
    fn tags_request_failures() {
        assert_eq!(fault("ann+reject550@x.org"), Some(Fault::Code(550)));
        assert_eq!(fault("ann+defer451@x.org"), Some(Fault::Code(451)));
        assert_eq!(fault("ann+hang@x.org"), Some(Fault::Hang));
        for plain in ["ann@x.org", "ann+reject250@x.org", "ann+defer550@x.org", "ann+reject@x.org", "ann+news@x.org"] {
            assert_eq!(fault(plain), None, "{plain}");
        }
    }
}
