//! Tests of data that looks like a template, and of templates that exceed the limits.

use std::time::Instant;

use serde_json::json;

use super::super::{Limit, RenderError};
use super::{Escape, Limits, Template, render, scope};

#[test]
fn data_is_never_a_template() {
    for name in ["{{ 7*7 }}", "{% for i in (1..9) %}x{% endfor %}", "{{ user.secret }}", "{% raw %}", "{{", "%}"] {
        let data = json!({ "user": { "name": name, "secret": "s3cret" } });
        for source in [
            "{{ user.name }}",
            "{% assign x = user.name %}{{ x }}",
            "{% capture x %}{{ user.name }}{% endcapture %}{{ x }}",
            "{{ user.name | append: '' }}",
            "{{ '{{ x }}' | replace: '{{ x }}', user.name }}",
        ] {
            assert_eq!(render(source, &data, Escape::None), name, "{source}");
            assert_eq!(render(source, &data, Escape::Html), name, "{source}");
        }
    }
}

#[test]
fn markup_in_data_is_inert() {
    let data = json!({ "x": "<script>alert('1')</script>\" onload=\"y" });
    let inert = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onload=&quot;y";
    for source in [
        "{{ x }}",
        "{{ x | strip }}",
        "{{ x | escape }}",
        "{{ x | default: 'y' }}",
        "{{ x | split: ' ' | join: ' ' }}",
        "{% assign y = x %}{{ y }}",
        "{% capture y %}{{ x }}{% endcapture %}{{ y }}",
        "{% capture y %}<p>{% endcapture %}{{ y | append: x | remove: '<p>' }}",
        "{{ x | newline_to_br }}",
        "{% capture y %}<p>@{% endcapture %}{{ y | replace: '@', x | remove: '<p>' }}",
    ] {
        assert_eq!(render(source, &data, Escape::Html), inert, "{source}");
    }
}

/// Renders with the default limits. The time limit is generous, because test machines are busy.
fn refusal(source: &str) -> RenderError {
    let text = "x".repeat(1000);
    let data = json!({ "text": text, "list": (0..1000).collect::<Vec<_>>() });
    let template = Template::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    let start = Instant::now();
    let error = template.render(&scope(&data), Escape::Html, &Limits::default()).expect_err(source);
    assert!(start.elapsed().as_secs() < 20, "{source}: {:?}", start.elapsed());
    error
}

#[test]
fn bombs_are_refused() {
    let doubled = "{% assign x = x | append: x %}".repeat(40);
    let rows = [
        (
            "{% for a in (1..1000) %}{% for b in (1..1000) %}{% endfor %}{% endfor %}".to_owned(),
            Limit::Iterations(100_000),
        ),
        ("{% for a in (1..100000000000) %}{% endfor %}".to_owned(), Limit::Iterations(100_000)),
        (
            "{% for a in (-9223372036854775808..9223372036854775807) %}{% endfor %}".to_owned(),
            Limit::Iterations(100_000),
        ),
        ("{{ (1..9223372036854775807) | join }}".to_owned(), Limit::Iterations(100_000)),
        (
            "{% for a in list %}{% for b in list %}{{ text }}{% endfor %}{% endfor %}".to_owned(),
            Limit::Output(1_048_576),
        ),
        (format!("{{% assign x = text %}}{doubled}{{{{ x }}}}"), Limit::Output(1_048_576)),
        ("{% assign x = text | append: text | replace: 'x', text %}".to_owned(), Limit::Output(1_048_576)),
        (
            "{% for a in list %}{% capture x %}{{ x }}{{ x }}y{% endcapture %}{% endfor %}".to_owned(),
            Limit::Output(1_048_576),
        ),
        ("{% for a in list %}{% assign x = list | join: text | size %}{% endfor %}".to_owned(), Limit::Work),
        ("{% for a in list %}{% assign list = list | concat: list %}{% endfor %}".to_owned(), Limit::Work),
        ("{% for a in (1..99999) %}{% assign x = list | sort | reverse | uniq %}{% endfor %}".to_owned(), Limit::Work),
        (
            "{% assign x = text | replace: 'x', text %}{% for a in (1..99999) %}{% if x == x %}{% endif %}{% endfor %}"
                .to_owned(),
            Limit::Work,
        ),
        (
            "{% capture x %}{% for a in (1..900) %}{{ text }}{% endfor %}{% endcapture %}\
             {% for a in (1..99999) %}{% if x == x %}{% endif %}{% if x contains 'yy' %}{% endif %}{% endfor %}"
                .to_owned(),
            Limit::Work,
        ),
    ];
    for (source, limit) in rows {
        assert_eq!(refusal(&source).limit, limit, "{source}");
    }
}

#[test]
fn limit_error_has_position() {
    let error = refusal("a\n  {% for a in (1..1000000) %}\n{% endfor %}");
    assert_eq!(error.to_string(), "line 2, column 3: the loops run more than 100000 times in total");
}

#[test]
fn limits_are_exact() {
    let data = json!({ "x": "é<" });
    let template = Template::parse("ab{{ x }}").unwrap();
    let render = |output| template.render(&scope(&data), Escape::Html, &Limits { output, ..Limits::default() });
    assert_eq!(render(8).unwrap(), "abé&lt;");
    assert_eq!(render(7).unwrap_err().limit, Limit::Output(7));
    let template = Template::parse("{% for i in (1..3) %}{% endfor %}").unwrap();
    let render = |iterations| template.render(&scope(&data), Escape::Html, &Limits { iterations, ..Limits::default() });
    assert!(render(3).is_ok());
    assert_eq!(render(2).unwrap_err().limit, Limit::Iterations(2));
}

#[test]
fn deep_nesting_is_refused_without_stack_overflow() {
    for open in [
        "{% if x %}",
        "{% for x in y %}",
        "{% unless x %}",
        "{% capture x %}",
        "{% case x %}{% when 1 %}",
        "{% if x %}{% else %}",
    ] {
        let error = Template::parse(&open.repeat(10_000)).unwrap_err();
        assert!(error.message.contains("nested more than 50 deep"), "{error}");
        assert_eq!(error.column as usize, open.len() * 50 + 1);
    }
    for inner in ["a[".repeat(10_000), "(".repeat(10_000), "(1..".repeat(10_000)] {
        let error = Template::parse(&format!("{{{{ {inner} }}}}")).unwrap_err();
        assert!(error.message.contains("nested more than 50 deep"), "{error}");
    }
    let fits = format!("{}x{}", "{% if true %}".repeat(50), "{% endif %}".repeat(50));
    assert_eq!(render(&fits, &json!({}), Escape::Html), "x");
}

#[test]
fn long_sources_are_refused_or_parsed_in_linear_time() {
    assert!(Template::parse(&"x".repeat(1024 * 1024 + 1)).unwrap_err().message.contains("at most"));
    let many = [
        "{{",
        "{%",
        "{% raw %}",
        "{% comment %}",
        "{{ x }}",
        "{{ 'a' }}",
        "{",
        "{% if x %}{% endif %}",
        "{{ a.b['c'] }}",
    ];
    for part in many {
        let start = Instant::now();
        let _ = Template::parse(&part.repeat(1024 * 1024 / part.len()));
        assert!(start.elapsed().as_secs() < 20, "{part}: {:?}", start.elapsed());
    }
    let path = format!("{{{{ a{} }}}}", ".a".repeat(400_000));
    assert_eq!(render(&path, &json!({ "a": {} }), Escape::Html), "");
}

#[test]
fn every_script_is_rendered_unchanged() {
    let name = "مرحبا שלום 日本語 👩‍👩‍👧 e\u{301} \u{202e}x";
    let data = json!({ "имя": name, "user": { "ключ с": 1 } });
    let source = "Ünï {{ имя }} — {{ имя | append: '…' }} {{ user['ключ с'] }}\r\n👋";
    assert_eq!(render(source, &data, Escape::Html), format!("Ünï {name} — {name}… 1\r\n👋"));
}
