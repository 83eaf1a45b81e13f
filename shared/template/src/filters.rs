//! The table of filters, from which the parser takes names and argument counts.

#![allow(clippy::unnecessary_wraps, reason = "the table holds functions of one type")]

mod dates;
mod lists;
mod numbers;
mod rewrite;
mod texts;

use jiff::Timestamp;

use super::Escape;
use super::budget::{Buf, Limit};
use super::value::Value;

pub(super) use dates::check_format as check_date_format;

/// The arguments of a filter besides its input.
pub(super) struct Args<'a, 'b> {
    pub(super) values: &'b [Value<'a>],
    pub(super) allow_false: bool,
    pub(super) now: Timestamp,
    /// Maximum size of a text in bytes.
    pub(super) max: usize,
    pub(super) escape: Escape,
}

impl<'a> Args<'a, '_> {
    /// Returns the argument at `index`, or nil if it is missing.
    fn get(&self, index: usize) -> &Value<'a> {
        self.values.get(index).unwrap_or(&Value::Nil)
    }

    fn int(&self, index: usize) -> Option<i64> {
        match self.get(index).number()? {
            Value::Int(value) => Some(value),
            other => other.as_f64().map(|value| value as i64),
        }
    }

    fn buf(&self) -> Buf {
        Buf::new(self.max)
    }
}

type Run = for<'a> fn(Value<'a>, &Args<'a, '_>) -> Result<Value<'a>, Limit>;

#[derive(Debug)]
pub(super) struct Filter {
    pub(super) name: &'static str,
    /// Minimum and maximum number of arguments.
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) run: Run,
}

pub(super) fn find(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.name == name)
}

/// Returns the error message for an unknown filter.
pub(super) fn unknown(name: &str) -> String {
    let known: Vec<&str> = FILTERS.iter().map(|filter| filter.name).collect();
    format!("unknown filter {name:?}; the filters are {}", known.join(", "))
}

const fn filter(name: &'static str, min: usize, max: usize, run: Run) -> Filter {
    Filter { name, min, max, run }
}

static FILTERS: &[Filter] = &[
    filter("abs", 0, 0, numbers::abs),
    filter("append", 1, 1, texts::append),
    filter("at_least", 1, 1, numbers::at_least),
    filter("at_most", 1, 1, numbers::at_most),
    filter("capitalize", 0, 0, texts::capitalize),
    filter("ceil", 0, 0, numbers::ceil),
    filter("compact", 0, 1, lists::compact),
    filter("concat", 1, 1, lists::concat),
    filter("date", 1, 2, dates::date),
    filter("default", 0, 1, default),
    filter("divided_by", 1, 1, numbers::divided_by),
    filter("downcase", 0, 0, texts::downcase),
    filter("escape", 0, 0, rewrite::escape),
    filter("escape_once", 0, 0, rewrite::escape_once),
    filter("first", 0, 0, lists::first),
    filter("floor", 0, 0, numbers::floor),
    filter("join", 0, 1, lists::join),
    filter("json", 0, 0, json),
    filter("last", 0, 0, lists::last),
    filter("lstrip", 0, 0, texts::lstrip),
    filter("map", 1, 1, lists::map),
    filter("minus", 1, 1, numbers::minus),
    filter("modulo", 1, 1, numbers::modulo),
    filter("newline_to_br", 0, 0, rewrite::newline_to_br),
    filter("plus", 1, 1, numbers::plus),
    filter("prepend", 1, 1, texts::prepend),
    filter("remove", 1, 1, rewrite::remove),
    filter("remove_first", 1, 1, rewrite::remove_first),
    filter("replace", 1, 2, rewrite::replace),
    filter("replace_first", 1, 2, rewrite::replace_first),
    filter("reverse", 0, 0, lists::reverse),
    filter("round", 0, 1, numbers::round),
    filter("rstrip", 0, 0, texts::rstrip),
    filter("size", 0, 0, lists::size),
    filter("slice", 1, 2, lists::slice),
    filter("sort", 0, 1, lists::sort),
    filter("sort_natural", 0, 1, lists::sort_natural),
    filter("split", 1, 1, texts::split),
    filter("strip", 0, 0, texts::strip),
    filter("strip_html", 0, 0, rewrite::strip_html),
    filter("strip_newlines", 0, 0, rewrite::strip_newlines),
    filter("sum", 0, 1, lists::sum),
    filter("times", 1, 1, numbers::times),
    filter("truncate", 0, 2, texts::truncate),
    filter("truncatewords", 0, 2, texts::truncatewords),
    filter("uniq", 0, 1, lists::uniq),
    filter("upcase", 0, 0, texts::upcase),
    filter("url_decode", 0, 0, rewrite::url_decode),
    filter("url_encode", 0, 0, rewrite::url_encode),
    filter("where", 1, 2, lists::filter_where),
];

fn default<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Result<Value<'a>, Limit> {
    let absent = match value {
        Value::Bool(false) => !args.allow_false,
        _ => value.is_nil() || value.is_empty(),
    };
    Ok(if absent { args.get(0).clone() } else { value })
}

fn json<'a>(value: Value<'a>, args: &Args<'a, '_>) -> Result<Value<'a>, Limit> {
    let mut out = args.buf();
    value.write_json(&mut out)?;
    Ok(out.into_text().into())
}
