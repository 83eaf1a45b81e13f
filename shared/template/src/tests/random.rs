//! Random sources and data: parsing and rendering complete without a panic and within the limits.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::filters;
use super::{Escape, Limits, Template, scope};

fn limits() -> Limits {
    Limits { output: 5_000, iterations: 500, work: 500_000 }
}

fn fragment() -> impl Strategy<Value = String> {
    const PARTS: &[&str] = &[
        "{{",
        "}}",
        "{%",
        "%}",
        "{{-",
        "-}}",
        "{%-",
        "-%}",
        " ",
        "\n",
        "'",
        "\"",
        "|",
        ":",
        ",",
        ".",
        "..",
        "[",
        "]",
        "(",
        ")",
        "==",
        "!=",
        "<",
        ">=",
        "=",
        "and",
        "or",
        "contains",
        "if",
        "elsif",
        "else",
        "endif",
        "unless",
        "endunless",
        "for",
        "in",
        "endfor",
        "reversed",
        "limit:",
        "offset:",
        "case",
        "when",
        "endcase",
        "assign",
        "capture",
        "endcapture",
        "comment",
        "endcomment",
        "raw",
        "endraw",
        "break",
        "continue",
        "forloop.index",
        "x",
        "user.name",
        "list",
        "map",
        "nil",
        "true",
        "empty",
        "blank",
        "5",
        "-1",
        "2.5",
        "99999999999999999999",
        "é",
        "<b>",
        "#",
        "(1..9)",
        "'a'",
        "default",
        "upcase",
        "json",
        "é{",
    ];
    prop::collection::vec(prop::sample::select(PARTS), 0..60).prop_map(|parts| parts.join(" "))
}

/// Sources that mostly parse.
fn program() -> impl Strategy<Value = String> {
    let value = prop::sample::select(vec![
        "x",
        "text",
        "list",
        "map",
        "map.a",
        "list[0]",
        "list.last",
        "forloop",
        "(1..9)",
        "(1..999999)",
        "'<é>'",
        "-3",
        "2.5",
        "nil",
        "blank",
        "map[text]",
        "y",
    ]);
    let known = filters::unknown("");
    let names: Vec<String> =
        known.rsplit("the filters are ").next().unwrap_or("").split(", ").map(str::to_owned).collect();
    let call = (prop::sample::select(names), prop::collection::vec(value.clone(), 0..3)).prop_map(|(name, args)| {
        let call = if args.is_empty() { name } else { format!("{name}: {}", args.join(", ")) };
        // A call with a wrong number of arguments would cause the whole source to be rejected.
        if Template::parse(&format!("{{{{ x | {call} }}}}")).is_ok() { format!(" | {call}") } else { String::new() }
    });
    let pipe = (value.clone(), prop::collection::vec(call, 0..4))
        .prop_map(|(value, calls)| value.to_owned() + &calls.concat());
    let leaf = prop_oneof![
        pipe.clone().prop_map(|pipe| format!("{{{{ {pipe} }}}}")),
        pipe.prop_map(|pipe| format!("{{% assign y = {pipe} %}}")),
        "[a-z<>& {}é]{0,9}".prop_map(|text| text.replace("{{", "{ {")),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let body = prop::collection::vec(inner, 0..5).prop_map(|parts| parts.concat());
        let op = prop::sample::select(vec!["==", "!=", "<", ">", "<=", ">=", "contains", "and", "or"]);
        prop_oneof![
            (value.clone(), op, value.clone(), body.clone(), body.clone())
                .prop_map(|(a, op, b, x, y)| format!("{{% if {a} {op} {b} %}}{x}{{% else %}}{y}{{% endif %}}")),
            (value.clone(), value.clone(), body.clone())
                .prop_map(|(list, limit, x)| format!("{{%- for x in {list} limit: {limit} -%}}{x}{{% endfor %}}")),
            (value.clone(), value.clone(), body.clone())
                .prop_map(|(a, b, x)| format!("{{% case {a} %}}{{% when {b} %}}{x}{{% endcase %}}")),
            body.prop_map(|x| format!("{{% capture y %}}{x}{{% endcapture %}}")),
        ]
    })
}

fn data() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "\\PC{0,12}".prop_map(Json::from),
        "[<>&\"'{}%a ]{0,12}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::vec(("[a-c]", inner), 0..5).prop_map(|pairs| pairs.into_iter().collect()),
        ]
    })
}

fn check(source: &str, x: &Json, list: &Json) {
    let Ok(template) = Template::parse(source) else { return };
    let data = json!({ "x": x, "text": "<a & 'b'>", "list": list, "map": { "a": x, "b": list } });
    for escape in [Escape::Html, Escape::None] {
        if let Ok(text) = template.render(&scope(&data), escape, &limits()) {
            assert!(text.len() <= limits().output);
        }
    }
}

proptest! {
    #[test]
    fn parsing_random_text_never_panics(source in "\\PC{0,200}") {
        check(&source, &Json::Null, &Json::Null);
    }

    #[test]
    fn parsing_fragments_never_panics(source in fragment()) {
        check(&source, &json!("v"), &json!([1, 2]));
    }

    #[test]
    fn rendering_never_panics(source in program(), x in data(), list in data()) {
        check(&source, &x, &list);
    }

    /// No data can add markup to the output or end an attribute.
    #[test]
    fn data_cannot_add_markup(x in data(), call in prop::sample::select(vec![
        "strip", "upcase", "downcase", "capitalize", "escape", "escape_once", "json", "join: ','", "truncate: 5", "truncatewords: 1",
        "split: 'a' | last", "append: x", "prepend: x", "replace: 'a', x", "slice: 0, 4", "strip_html", "url_decode", "default: x",
        "reverse | join", "uniq | sort | first", "strip_newlines",
    ])) {
        let source = format!("{{{{ x | {call} }}}}{{% capture y %}}{{{{ x }}}}{{% endcapture %}}{{{{ y | {call} }}}}");
        let data = json!({ "x": x });
        let template = Template::parse(&source).unwrap();
        let text = template.render(&scope(&data), Escape::Html, &Limits::default()).unwrap();
        prop_assert!(!text.contains(['<', '>', '"', '\'']), "{source}: {text}");
    }
}
