//! Filters that replace text: search and replace, HTML and URL encoding.

use super::super::escape as html;
use super::texts::rewritten;
use super::{Args, Escape, Limit, Value};

type Out<'a> = Result<Value<'a>, Limit>;

/// Escapes HTML. Does nothing in HTML mode: the text is escaped on output, and until then other filters see it
/// unescaped.
pub(super) fn escape<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    if value.is_nil() || args.escape == Escape::Html {
        return Ok(value);
    }
    let mut out = args.buf();
    html::html(&value.text(args.max)?, &mut out)?;
    Ok(out.into_text().into())
}

pub(super) fn escape_once<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    match value {
        Value::Nil | Value::Safe(_) => Ok(value),
        other => {
            let mut out = args.buf();
            html::html_once(&other.text(args.max)?, &mut out)?;
            Ok(marked(out.into_text(), args))
        }
    }
}

/// Inserts `<br />` before each line break. In HTML mode the text itself is escaped first.
pub(super) fn newline_to_br<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let text = as_written(&value, args)?;
    let mut out = args.buf();
    for line in text.split_inclusive('\n') {
        let body = line.strip_suffix('\n').map(|body| body.strip_suffix('\r').unwrap_or(body));
        out.push(body.unwrap_or(line))?;
        if body.is_some() {
            out.push("<br />\n")?;
        }
    }
    Ok(marked(out.into_text(), args))
}

/// Marks a text as HTML in HTML mode, so that it is not escaped again.
fn marked<'a>(text: String, args: &Args<'a, '_>) -> Value<'a> {
    if args.escape == Escape::Html { Value::Safe(text.into()) } else { text.into() }
}

/// Returns the output of the value: escaped in HTML mode, unchanged otherwise.
fn as_written(value: &Value<'_>, args: &Args<'_, '_>) -> Result<String, Limit> {
    let mut out = args.buf();
    value.write(&mut out, args.escape)?;
    Ok(out.into_text())
}

pub(super) fn strip_newlines<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    Ok(rewritten(&value, value.text(args.max)?.replace(['\r', '\n'], "")))
}

/// Removes tags, comments, and the contents of scripts and styles.
pub(super) fn strip_html<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let text = value.text(args.max)?;
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let close = ["script", "style"].iter().find(|name| is_tag(rest, name)).map(|name| format!("</{name}"));
        let skipped = match close {
            Some(close) => find_ignoring_case(rest, &close).and_then(|from| Some(from + rest[from..].find('>')? + 1)),
            None if rest.starts_with("<!--") => rest.find("-->").map(|end| end + 3),
            None => None,
        };
        match skipped.or_else(|| rest.find('>').map(|end| end + 1)) {
            Some(end) => rest = &rest[end..],
            None => break,
        }
    }
    out.push_str(rest);
    Ok(rewritten(&value, out))
}

fn is_tag(text: &str, name: &str) -> bool {
    text.get(1..=name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}

fn find_ignoring_case(text: &str, needle: &str) -> Option<usize> {
    text.as_bytes().windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle.as_bytes()))
}

/// Replaces up to `times` matches. The buffer is bounded: a short text can contain many matches of a long replacement.
fn substitute<'a>(value: &Value<'a>, args: &Args<'a, '_>, with: &Value<'a>, times: usize) -> Out<'a> {
    let (text, from) = (value.text(args.max)?, args.get(0).text(args.max)?);
    // Text inserted into HTML is escaped.
    let to = match value {
        Value::Safe(_) => as_written(with, args)?.into(),
        _ => with.text(args.max)?,
    };
    let mut out = args.buf();
    let mut last = 0;
    for (at, found) in text.match_indices(&*from).take(times) {
        out.push(&text[last..at])?;
        out.push(&to)?;
        last = at + found.len();
    }
    out.push(&text[last..])?;
    Ok(rewritten(value, out.into_text()))
}

pub(super) fn replace<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    substitute(&value, args, args.get(1), usize::MAX)
}

pub(super) fn replace_first<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    substitute(&value, args, args.get(1), 1)
}

pub(super) fn remove<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    substitute(&value, args, &Value::Nil, usize::MAX)
}

pub(super) fn remove_first<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    substitute(&value, args, &Value::Nil, 1)
}

/// Encodes as in a form: letters, digits and `-_.~` stay, a space becomes `+`.
pub(super) fn url_encode<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    if value.is_nil() {
        return Ok(value);
    }
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let text = value.text(args.max)?;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            b' ' => out.push('+'),
            _ => out.extend(['%', HEX[usize::from(byte >> 4)] as char, HEX[usize::from(byte & 15)] as char]),
        }
    }
    Ok(out.into())
}

/// Decodes a form-encoded text. Invalid escapes stay as they are; so does the whole text if the result is not UTF-8.
pub(super) fn url_decode<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let text = value.text(args.max)?;
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match (byte, digit(at), digit(at + 1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', _, _) => out.push(b' '),
            _ => out.push(byte),
        }
    }
    Ok(String::from_utf8(out).map_or_else(|_| value.clone(), Value::from))
}
