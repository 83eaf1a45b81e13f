//! Values in templates, borrowed from the data if possible.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::budget::{Buf, Limit};
use super::{Escape, escape};

/// Maximum number of elements in a list that a filter makes from a range.
const RANGE_MAX: i64 = 100_000;

#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(&'a str),
    Owned(Rc<str>),
    /// Text that is already HTML (a capture with markup, the result of `newline_to_br`): written without escaping.
    Safe(Rc<str>),
    List(&'a [Json]),
    Map(&'a Map<String, Json>),
    /// A list created while rendering.
    Items(Rc<Vec<Value<'a>>>),
    /// Both ends are inclusive.
    Range(i64, i64),
    /// `forloop`, with the depth of the loop.
    Loop(usize),
    Empty,
    Blank,
}

impl<'a> From<&'a Json> for Value<'a> {
    fn from(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Nil,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Self::Int(value),
                None => number.as_f64().map_or(Self::Nil, Self::float),
            },
            Json::String(text) => Self::Str(text),
            Json::Array(list) => Self::List(list),
            Json::Object(map) => Self::Map(map),
        }
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Owned(text.into())
    }
}

impl<'a> Value<'a> {
    /// Creates a number. An infinite or undefined one, such as 0/0, becomes nil, so that it renders empty.
    pub(super) fn float(value: f64) -> Self {
        if value.is_finite() { Self::Float(value) } else { Self::Nil }
    }

    pub(super) fn items(items: Vec<Value<'a>>) -> Self {
        Self::Items(Rc::new(items))
    }

    pub(super) fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// Returns false only for nil and false.
    pub(super) fn is_truthy(&self) -> bool {
        !matches!(self, Self::Nil | Self::Bool(false))
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            Self::Owned(text) | Self::Safe(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number of elements of a list.
    pub(super) fn list_len(&self) -> Option<usize> {
        match self {
            Self::List(list) => Some(list.len()),
            Self::Items(items) => Some(items.len()),
            Self::Range(from, to) if to < from => Some(0),
            Self::Range(from, to) => usize::try_from(to.saturating_sub(*from).saturating_add(1)).ok(),
            _ => None,
        }
    }

    /// Returns the element at `index` of a list, or nil past its end.
    pub(super) fn at(&self, index: usize) -> Value<'a> {
        match self {
            Self::List(list) => list.get(index).map_or(Self::Nil, Self::from),
            Self::Items(items) => items.get(index).cloned().unwrap_or(Self::Nil),
            Self::Range(from, to) => match i64::try_from(index).ok().and_then(|index| from.checked_add(index)) {
                Some(value) if value <= *to => Self::Int(value),
                _ => Self::Nil,
            },
            _ => Self::Nil,
        }
    }

    /// Returns the elements for list filters: none for nil, and the value itself for anything other than a list.
    pub(super) fn elements(&self) -> Result<Vec<Value<'a>>, Limit> {
        Ok(match self {
            Self::List(list) => list.iter().map(Self::from).collect(),
            Self::Items(items) => items.to_vec(),
            Self::Range(from, to) => {
                if self.list_len().is_none_or(|len| len as i64 > RANGE_MAX) {
                    return Err(Limit::Iterations(RANGE_MAX as u32));
                }
                (*from..=*to).map(Value::Int).collect()
            }
            Self::Nil | Self::Empty | Self::Blank => Vec::new(),
            other => vec![other.clone()],
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Map(map) => map.is_empty(),
            Self::Empty | Self::Blank => true,
            _ => self.as_str().map(str::is_empty).or(self.list_len().map(|len| len == 0)).unwrap_or(false),
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        !self.is_truthy() || self.is_empty() || self.as_str().is_some_and(|text| text.trim().is_empty())
    }

    /// Returns the field `key`. `size` also exists for lists, strings and maps without that key, `first` and `last`
    /// for lists.
    pub(super) fn field(&self, key: &str) -> Value<'a> {
        if let Self::Map(map) = self {
            match map.get(key) {
                Some(value) => return Self::from(value),
                None if key == "size" => return Self::Int(map.len() as i64),
                None => return Self::Nil,
            }
        }
        match key {
            "size" => match (self.list_len(), self.as_str()) {
                (Some(len), _) => Self::Int(len as i64),
                (None, Some(text)) => Self::Int(text.chars().count() as i64),
                _ => Self::Nil,
            },
            "first" => self.at(0),
            "last" => self.list_len().and_then(|len| len.checked_sub(1)).map_or(Self::Nil, |index| self.at(index)),
            _ => Self::Nil,
        }
    }

    /// Returns the element at a position (negative positions count from the end) or with a key.
    pub(super) fn index(&self, index: &Value<'a>) -> Value<'a> {
        match (index, self.list_len()) {
            (Self::Int(position), Some(len)) => {
                let position = if *position < 0 { position.checked_add(len as i64) } else { Some(*position) };
                position.and_then(|p| usize::try_from(p).ok()).map_or(Self::Nil, |p| self.at(p))
            }
            _ => index.as_str().map_or(Self::Nil, |key| self.field(key)),
        }
    }

    /// Converts a filter's input to a number. A string that contains a number counts as one; other values give `None`.
    pub(super) fn number(&self) -> Option<Value<'a>> {
        match self {
            Self::Int(_) | Self::Float(_) => Some(self.clone()),
            _ => {
                let text = self.as_str()?.trim();
                if let Ok(value) = text.parse::<i64>() {
                    return Some(Self::Int(value));
                }
                // Rust's parser also accepts "inf", "nan" and exponents, which no user means as a number.
                let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+'));
                text.parse::<f64>().ok().filter(|value| plain && value.is_finite()).map(Self::Float)
            }
        }
    }

    pub(super) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Compares by type: a number never equals its string.
    pub(super) fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Self::Empty, value) | (value, Value::Empty) => value.is_empty(),
            (Self::Blank, value) | (value, Value::Blank) => value.is_blank(),
            (Self::Nil, Value::Nil) => true,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Map(a), Value::Map(b)) => a == b,
            (Self::List(a), Value::List(b)) => a == b,
            _ => match (self.list_len(), other.list_len()) {
                (Some(a), Some(b)) => {
                    a == b && a as i64 <= RANGE_MAX && (0..a).all(|i| self.at(i).equals(&other.at(i)))
                }
                _ => self.compare(other) == Some(Ordering::Equal),
            },
        }
    }

    /// Returns the order of two numbers or two strings. `None` for other values, so that every comparison of them
    /// is false.
    pub(super) fn compare(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            _ => match (self.as_str(), other.as_str()) {
                (Some(a), Some(b)) => Some(a.cmp(b)),
                _ => self.as_f64()?.partial_cmp(&other.as_f64()?),
            },
        }
    }

    /// Returns whether a string contains a string, a list an element, or a map a key.
    pub(super) fn contains(&self, other: &Value<'_>, max: usize) -> Result<bool, Limit> {
        if other.is_nil() {
            return Ok(false);
        }
        if let Some(text) = self.as_str() {
            return Ok(text.contains(&*other.text(max)?));
        }
        Ok(match self {
            Self::Map(map) => other.as_str().is_some_and(|key| map.contains_key(key)),
            Self::Range(from, to) => matches!(other, Value::Int(value) if from <= value && value <= to),
            _ => self.list_len().is_some_and(|len| (0..len).any(|i| self.at(i).equals(other))),
        })
    }

    /// Converts to text of at most `max` bytes.
    pub(super) fn text(&self, max: usize) -> Result<Cow<'_, str>, Limit> {
        if let Some(text) = self.as_str() {
            return Ok(Cow::Borrowed(text));
        }
        let mut out = Buf::new(max);
        self.write(&mut out, Escape::None)?;
        Ok(Cow::Owned(out.into_text()))
    }

    /// Writes the output of `{{ value }}`: the elements of a list without separator, a map as JSON, nothing for nil.
    pub(super) fn write(&self, out: &mut Buf, mode: Escape) -> Result<(), Limit> {
        match self {
            Self::Nil | Self::Empty | Self::Blank | Self::Loop(_) => Ok(()),
            Self::Bool(value) => out.push(if *value { "true" } else { "false" }),
            Self::Int(value) => display(out, value),
            // A float is formatted without exponent or trailing ".0".
            Self::Float(value) => display(out, value),
            Self::Str(text) => plain(text, out, mode),
            Self::Owned(text) => plain(text, out, mode),
            Self::Safe(text) => out.push(text),
            Self::Map(map) => plain(&json_text(*map), out, mode),
            Self::List(list) => list.iter().try_for_each(|item| Value::from(item).write(out, mode)),
            Self::Items(items) => items.iter().try_for_each(|item| item.write(out, mode)),
            Self::Range(from, to) => {
                display(out, from)?;
                out.push("..")?;
                display(out, to)
            }
        }
    }

    /// Writes the value as JSON.
    pub(super) fn write_json(&self, out: &mut Buf) -> Result<(), Limit> {
        match self {
            Self::List(list) => out.push(&json_text(*list)),
            Self::Map(map) => out.push(&json_text(*map)),
            Self::Items(_) | Self::Range(..) => {
                out.push("[")?;
                for (i, item) in self.elements()?.iter().enumerate() {
                    if i > 0 {
                        out.push(",")?;
                    }
                    item.write_json(out)?;
                }
                out.push("]")
            }
            Self::Nil | Self::Empty | Self::Blank | Self::Loop(_) => out.push("null"),
            Self::Bool(_) | Self::Int(_) | Self::Float(_) => self.write(out, Escape::None),
            _ => out.push(&json_text(self.as_str().unwrap_or_default())),
        }
    }

    /// Returns roughly how many bytes a filter must process.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::List(list) => list.iter().map(json_weight).sum::<usize>() + 8,
            Self::Map(map) => map.values().map(json_weight).sum::<usize>() + 8,
            Self::Items(items) => items.iter().map(Value::weight).sum::<usize>() + 8,
            _ => 8 + self.as_str().map_or(0, str::len),
        }
    }
}

fn json_weight(json: &Json) -> usize {
    Value::from(json).weight() + 16
}

fn json_text<T: serde::Serialize + ?Sized>(value: &T) -> String {
    // Serializing JSON values into memory cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn plain(text: &str, out: &mut Buf, mode: Escape) -> Result<(), Limit> {
    match mode {
        Escape::Html => escape::html(text, out),
        Escape::None => out.push(text),
    }
}

fn display(out: &mut Buf, value: &impl std::fmt::Display) -> Result<(), Limit> {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = write!(text, "{value}");
    out.push(&text)
}
