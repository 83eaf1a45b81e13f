//! Tests of the language as a whole; every table row is a source and what it renders to.

mod errors;
mod filters;
mod hostile;
mod language;
mod random;
mod scopes;

use jiff::Timestamp;
use serde_json::{Value as Json, json};

use super::{Escape, Limits, Scope, Template};

/// 2026-03-14T15:09:26Z
fn now() -> Timestamp {
    "2026-03-14T15:09:26Z".parse().unwrap()
}

fn scope(data: &Json) -> Scope<'_> {
    let roots = data.as_object().unwrap();
    roots.iter().fold(Scope::new(now()), |scope, (name, value)| scope.with(name, value))
}

fn render(source: &str, data: &Json, escape: Escape) -> String {
    let template = Template::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    template.render(&scope(data), escape, &Limits::default()).unwrap_or_else(|error| panic!("{source}: {error}"))
}

/// The data of the test tables.
fn sample() -> Json {
    json!({
        "user": {
            "email": "ana@example.org",
            "name": "Ana",
            "properties": { "plan": "pro", "b c": "spaced", "tags": ["red", "green"], "none": null, "empty": "" },
        },
        "n": 5, "f": 9.5, "g": 5.0, "big": 9_007_199_254_740_993_i64, "neg": -7, "yes": true, "no": false, "nothing": null,
        "blank_text": "  ", "empty_text": "", "empty_list": [], "digits": "12",
        "list": ["a", "b", "c"],
        "numbers": [3, 1, 2, 10],
        "items": [
            { "title": "Shoes", "price": 49.9, "sale": true, "size": { "eu": 42 } },
            { "title": "hat", "price": 15, "sale": false, "size": { "eu": 7 } },
            { "title": "Coat", "price": 120, "sale": true },
        ],
        "html": "<b>Tom & \"Jerry's\"</b>",
        "lines": "one\ntwo\r\nthree",
        "mixed": [2, "b", null, 1, "a", true],
    })
}

/// Checks a table without escaping.
fn table(rows: &[(&str, &str)]) {
    let data = sample();
    for (source, expected) in rows {
        assert_eq!(render(source, &data, Escape::None), *expected, "{source}");
    }
}

/// Checks a table of HTML.
fn html_table(rows: &[(&str, &str)]) {
    let data = sample();
    for (source, expected) in rows {
        assert_eq!(render(source, &data, Escape::Html), *expected, "{source}");
    }
}
