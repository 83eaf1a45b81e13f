//! Filters on lists. A single value counts as a list with one element, nil as an empty list.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::{Args, Escape, Limit, Value, numbers};

type Out<'a> = Result<Value<'a>, Limit>;

pub(super) fn size<'a>(value: Value<'a>, _: &Args<'a, '_>) -> Out<'a> {
    Ok(match &value {
        Value::Map(map) => Value::Int(map.len() as i64),
        other => match other.field("size") {
            Value::Nil => Value::Int(0),
            size => size,
        },
    })
}

pub(super) fn first<'a>(value: Value<'a>, _: &Args<'a, '_>) -> Out<'a> {
    Ok(value.at(0))
}

pub(super) fn last<'a>(value: Value<'a>, _: &Args<'a, '_>) -> Out<'a> {
    Ok(value.list_len().and_then(|len| len.checked_sub(1)).map_or(Value::Nil, |last| value.at(last)))
}

pub(super) fn join<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let glue = if args.values.is_empty() { " ".into() } else { args.get(0).text(args.max)? };
    let items = value.elements()?;
    // If one part is HTML, the result is HTML and the other parts are escaped.
    let html = items.iter().any(|item| matches!(item, Value::Safe(_)));
    let mode = if html { Escape::Html } else { Escape::None };
    let mut out = args.buf();
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            Value::Str(&glue).write(&mut out, mode)?;
        }
        item.write(&mut out, mode)?;
    }
    let text = out.into_text();
    Ok(if html { Value::Safe(text.into()) } else { text.into() })
}

pub(super) fn reverse<'a>(value: Value<'a>, _: &Args<'a, '_>) -> Out<'a> {
    let mut items = value.elements()?;
    items.reverse();
    Ok(Value::items(items))
}

pub(super) fn concat<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let mut items = value.elements()?;
    items.extend(args.get(0).elements()?);
    Ok(Value::items(items))
}

/// Returns a property of an item by its dotted path, or the item itself if `property` is not a string.
fn property<'a>(item: &Value<'a>, property: &Value<'a>) -> Value<'a> {
    match property.as_str() {
        Some(path) => path.split('.').fold(item.clone(), |value, key| value.field(key)),
        None => item.clone(),
    }
}

pub(super) fn map<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    Ok(Value::items(value.elements()?.iter().map(|item| property(item, args.get(0))).collect()))
}

/// Keeps the items whose property equals the second argument, or is truthy if there is none.
pub(super) fn filter_where<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let mut items = value.elements()?;
    items.retain(|item| {
        let found = property(item, args.get(0));
        args.values.get(1).map_or_else(|| found.is_truthy(), |wanted| found.equals(wanted))
    });
    Ok(Value::items(items))
}

pub(super) fn compact<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let mut items = value.elements()?;
    items.retain(|item| !property(item, args.get(0)).is_nil());
    Ok(Value::items(items))
}

pub(super) fn uniq<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for item in value.elements()? {
        let mut key = args.buf();
        property(&item, args.get(0)).write_json(&mut key)?;
        if seen.insert(key.into_text()) {
            kept.push(item);
        }
    }
    Ok(Value::items(kept))
}

pub(super) fn sum<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let mut total = Value::Int(0);
    for item in value.elements()? {
        let values = [property(&item, args.get(0))];
        total = numbers::plus(total, &Args { values: &values, ..*args })?;
    }
    Ok(total)
}

/// A total order over all values: numbers, strings, booleans, other values, nil.
fn order(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    fn rank(value: &Value<'_>) -> u8 {
        match value {
            Value::Int(_) | Value::Float(_) => 0,
            Value::Bool(_) => 2,
            Value::Nil => 4,
            other => other.as_str().map_or(3, |_| 1),
        }
    }
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        // Compare all numbers as floats: mixing exact and inexact comparisons would not give a consistent order.
        _ => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => a.as_str().cmp(&b.as_str()),
        },
    })
}

fn sorted<'a>(value: &Value<'a>, args: &Args<'a, '_>, key: fn(Value<'a>) -> Value<'a>) -> Out<'a> {
    let mut keyed: Vec<(Value<'a>, Value<'a>)> = Vec::new();
    for item in value.elements()? {
        keyed.push((key(property(&item, args.get(0))), item));
    }
    keyed.sort_by(|(a, _), (b, _)| order(a, b));
    Ok(Value::items(keyed.into_iter().map(|(_, item)| item).collect()))
}

pub(super) fn sort<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    sorted(&value, args, |key| key)
}

/// Like `sort`, but ignores case.
pub(super) fn sort_natural<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    sorted(&value, args, |key| match key.as_str() {
        Some(text) => text.to_lowercase().into(),
        None => key,
    })
}

/// Returns elements or characters from a position on, by default one. A negative position counts from the end.
pub(super) fn slice<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Out<'a> {
    let count = usize::try_from(if args.values.len() > 1 { args.int(1).unwrap_or(0) } else { 1 }).unwrap_or(0);
    let start = args.int(0).unwrap_or(0);
    let from = |len: usize| {
        let start = if start < 0 { start.saturating_add(len as i64) } else { start };
        usize::try_from(start).ok()
    };
    if value.list_len().is_some() {
        let items = value.elements()?;
        let items = from(items.len()).map(|start| items.into_iter().skip(start).take(count).collect());
        return Ok(Value::items(items.unwrap_or_default()));
    }
    let text = value.text(args.max)?;
    let part = from(text.chars().count()).map(|start| text.chars().skip(start).take(count).collect::<String>());
    Ok(part.unwrap_or_default().into())
}
