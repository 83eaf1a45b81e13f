//! Tests of name resolution, and of the lists of used and missing variables.

use serde_json::json;

use super::super::one_line;
use super::{Escape, Limits, Scope, Template, now};

#[test]
fn layers() {
    let user = json!({ "name": "Ana", "email": null, "properties": { "name": "ignored", "email": "p@x.org", "city": "Lima", "total": 1 } });
    let properties = json!({ "city": "ignored", "total": 2, "order": "A-1", "user": "ignored" });
    let scope = Scope::new(now())
        .with("user", &user)
        .with("properties", &properties)
        .with_text("unsubscribeUrl", "https://x.org/u?a=1&b=2")
        .with_fallback(&user);
    let source = "{{ name }} {{ email }} {{ city }} {{ order }} {{ total }} {{ properties.total }} {{ user.name }} {{ unsubscribeUrl }}";
    let template = Template::parse(source).unwrap();
    let text = template.render(&scope, Escape::None, &Limits::default()).unwrap();
    assert_eq!(text, "Ana p@x.org Lima A-1 1 2 Ana https://x.org/u?a=1&b=2");
    let html = template.render(&scope, Escape::Html, &Limits::default()).unwrap();
    assert!(html.ends_with("https://x.org/u?a=1&amp;b=2"), "{html}");
}

#[test]
fn variables_are_the_paths_into_the_data() {
    let source = "{{ user.properties.plan }}{{ user.properties.plan | default: nick }}{% for i in cart.items %}{{ i.title }}{{ forloop.index }}\
                  {% endfor %}{% assign x = a['b c'] %}{{ x }}{{ list[0].t }}{{ m[k].z }}{% if flag == other %}{% endif %}";
    let template = Template::parse(source).unwrap();
    let expected = ["a[\"b c\"]", "cart.items", "flag", "k", "list[0].t", "m", "nick", "other", "user.properties.plan"];
    assert_eq!(template.variables().collect::<Vec<_>>(), expected);
}

#[test]
fn warnings_list_missing_variables() {
    let data = json!({ "user": { "name": "Ana" }, "items": [{ "t": 1 }, {}] });
    let source = "{{ user.name }}{{ user.nick }}{{ user.nick }}{{ a | default: 'x' }}{{ b | upcase }}{% if c %}{{ d }}{% endif %}\
                  {% for i in items %}{{ i.t }}{% endfor %}{% for i in none %}{% endfor %}{% assign z = e %}";
    let rendered = Template::parse(source)
        .unwrap()
        .render_with_warnings(&super::scope(&data), Escape::Html, &Limits::default())
        .unwrap();
    assert_eq!(rendered.text, "Anax1");
    assert_eq!(rendered.missing, ["user.nick", "b", "i.t", "none", "e"]);
}

#[test]
fn rendered_line_has_no_line_breaks() {
    let rows = [
        ("Hi\r\nBcc: all@example.org", "Hi Bcc: all@example.org"),
        ("  a \t\n b\u{0}c\u{85}d\u{2028}e\u{7f}  ", "a b c d e"),
        ("\r\n", ""),
        ("שלום עולם 🎉", "שלום עולם 🎉"),
    ];
    for (text, expected) in rows {
        assert_eq!(one_line(text), expected);
        let data = json!({ "t": text });
        let template = Template::parse("{{ t }}").unwrap();
        assert_eq!(template.render_line(&super::scope(&data), &Limits::default()).unwrap(), expected);
    }
}

#[test]
fn template_is_send_and_sync() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Template::parse("{{ x | upcase }}").unwrap());
}
