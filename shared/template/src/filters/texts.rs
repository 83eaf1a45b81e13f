//! Filters that change the case, the ends or the length of a string. HTML stays HTML if no new text is added.

use super::{Args, Escape, Limit, Value};

type Out<'a> = Result<Value<'a>, Limit>;

/// Returns the result of rewriting `value`, which stays marked as HTML if `value` is.
pub(super) fn rewritten<'a>(value: &Value<'a>, text: String) -> Value<'a> {
    match value {
        Value::Safe(_) => Value::Safe(text.into()),
        _ => Value::from(text),
    }
}

pub(super) fn upcase<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    Ok(rewritten(&value, value.text(args.max)?.to_uppercase()))
}

pub(super) fn downcase<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    Ok(rewritten(&value, value.text(args.max)?.to_lowercase()))
}

pub(super) fn capitalize<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let text = value.text(args.max)?;
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    Ok(rewritten(&value, first + &chars.as_str().to_lowercase()))
}

fn trimmed<'a>(value: Value<'a>, args: &Args<'a, '_>, trim: for<'s> fn(&'s str) -> &'s str) -> Out<'a> {
    Ok(match value {
        Value::Str(text) => Value::Str(trim(text)),
        other => rewritten(&other, trim(&other.text(args.max)?).to_owned()),
    })
}

pub(super) fn strip<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    trimmed(value, args, str::trim)
}

pub(super) fn lstrip<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    trimmed(value, args, str::trim_start)
}

pub(super) fn rstrip<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    trimmed(value, args, str::trim_end)
}

/// Concatenates two values. If one of them is HTML, the other is escaped.
fn joined<'a>(left: &Value<'a>, right: &Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let html = matches!(left, Value::Safe(_)) || matches!(right, Value::Safe(_));
    let mode = if html { Escape::Html } else { Escape::None };
    let mut out = args.buf();
    left.write(&mut out, mode)?;
    right.write(&mut out, mode)?;
    let text = out.into_text();
    Ok(if html { Value::Safe(text.into()) } else { text.into() })
}

pub(super) fn append<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    joined(&value, args.get(0), args)
}

pub(super) fn prepend<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    joined(args.get(0), &value, args)
}

/// Shortens to a number of characters (default 50), including the ending (default "...").
pub(super) fn truncate<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let length = usize::try_from(args.int(0).unwrap_or(50)).unwrap_or(0);
    let ending = ending(args)?;
    let text = value.text(args.max)?;
    if text.chars().nth(length).is_none() {
        drop(text);
        return Ok(value);
    }
    let keep = length.saturating_sub(ending.chars().count());
    let cut = text.char_indices().nth(keep).map_or(text.len(), |(at, _)| at);
    shortened(&text[..cut], &ending, args)
}

/// Shortens to a number of words (default 15), and adds the ending (default "...") if words were removed.
pub(super) fn truncatewords<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let count = usize::try_from(args.int(0).unwrap_or(15)).unwrap_or(0).max(1);
    let ending = ending(args)?;
    let text = value.text(args.max)?;
    if text.split_whitespace().nth(count).is_none() {
        drop(text);
        return Ok(value);
    }
    let words: Vec<&str> = text.split_whitespace().take(count).collect();
    shortened(&words.join(" "), &ending, args)
}

fn ending(args: &Args<'_, '_>) -> Result<String, Limit> {
    match args.get(1) {
        Value::Nil => Ok("...".to_owned()),
        other => Ok(other.text(args.max)?.into_owned()),
    }
}

/// Returns a shortened string. It no longer counts as HTML: a tag may have been cut.
fn shortened<'a>(text: &str, ending: &str, args: &Args<'a, '_>) -> Out<'a> {
    let mut out = args.buf();
    out.push(text)?;
    out.push(ending)?;
    Ok(out.into_text().into())
}

/// Splits at a separator: a space matches any white space, an empty separator splits into characters. Empty parts
/// at the end are dropped.
pub(super) fn split<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    fn parts<'t>(text: &'t str, at: &str) -> Vec<&'t str> {
        match at {
            " " => text.split_whitespace().collect(),
            "" => text.char_indices().map(|(i, c)| &text[i..i + c.len_utf8()]).collect(),
            _ => {
                let mut parts: Vec<&str> = text.split(at).collect();
                parts.truncate(parts.iter().rposition(|part| !part.is_empty()).map_or(0, |last| last + 1));
                parts
            }
        }
    }
    let at = args.get(0).text(args.max)?;
    Ok(Value::items(match &value {
        Value::Str(text) => parts(text, &at).into_iter().map(Value::Str).collect(),
        other => parts(&other.text(args.max)?, &at).into_iter().map(|part| rewritten(other, part.to_owned())).collect(),
    }))
}
