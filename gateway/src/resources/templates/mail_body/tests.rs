//! Complete bodies, and randomly generated ones.

mod css;
mod mjml;

use proptest::prelude::*;

use super::*;

fn compiled(body: &str) -> String {
    let prepared = prepare(body).unwrap();
    assert_eq!(prepared.not_inlined, None, "{body}");
    prepared.compiled.unwrap_or_else(|| body.to_owned())
}

fn in_mjml(inside: &str) -> String {
    format!("<mjml><mj-body>{inside}</mj-body></mjml>")
}

fn column(inside: &str) -> String {
    in_mjml(&format!("<mj-section><mj-column>{inside}</mj-column></mj-section>"))
}

/// Returns the placeholders of a text, in order.
fn held(text: &str) -> Vec<&str> {
    placeholders(text).unwrap().into_iter().map(|p| text[p.range].trim()).collect()
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "<p class=a>",
        "</p>",
        "<table>",
        "<tr>",
        "<td style='top:{{ a }}'>",
        "</td>",
        "</table>",
        "{{ a }}",
        "{% if b %}",
        "{% else %}",
        "{% endif %}",
        "{% for c in d %}",
        "{% endfor %}",
        "{{ c | upcase }}",
        "<b class='{{ a }}'>",
        "</b>",
        "text & é",
        "<!-- {{ a }} -->",
        "<style>p,td,b{color:red}</style>",
        "<br/>",
        "<",
        "{% raw %}{{ x }}{% endraw %}",
        "<img src=\"{{ a }}\"",
        ">",
        "\"",
        "'",
        "<title>{{ a }}</title>",
        "<a {{ b }} href={{ c }}>",
    ])
}

/// Joins the pieces; if they are not a valid template, leaves out the template tags.
fn body_of(mut parts: Vec<&'static str>) -> String {
    if Template::parse(&parts.concat()).is_err() {
        parts.retain(|part| !part.starts_with("{%"));
    }
    parts.concat()
}

/// Removes the styles that inlining has added.
fn without_styles(text: &str) -> String {
    text.replace(" style=\"color: red\"", "").replace("color: red;", "")
}

proptest! {
    #[test]
    fn inlining_adds_styles_and_changes_nothing_else(parts in prop::collection::vec(piece(), 0..30)) {
        let body = body_of(parts);
        if let Some(compiled) = prepare(&body).unwrap().compiled {
            prop_assert_eq!(without_styles(&compiled), body);
        }
    }

    #[test]
    fn placeholders_in_mjml_keep_their_order_or_are_rejected(
        parts in prop::collection::vec(prop::sample::select(vec![
            "{{ a }}", "{% if b %}", "{% else %}", "{% endif %}", "{% for c in d %}", "{% endfor %}",
            "<mj-text>x {{ e }}</mj-text>", "<mj-text><b class=\"{{ f }}\">y</b></mj-text>", "<mj-divider/>", "words",
            "<mj-button>{{ g }}</mj-button>", "<mj-raw>{{ h }}<br/></mj-raw>", "<mj-spacer height=\"{{ i }}\"/>", "\n",
        ]), 0..12),
    ) {
        let body = column(&body_of(parts));
        if let Ok(PreparedBody { compiled: Some(html), .. }) = prepare(&body) {
            prop_assert!(Template::parse(&html).is_ok());
            // Adjacent placeholders are one placeholder in one text and may be several in the other.
            let all = |text: &str| held(text).concat().replace(char::is_whitespace, "");
            let spacers = |text: String| text.replace("{{i}}", "");
            prop_assert_eq!(spacers(all(&html)), spacers(all(&body)));
        }
    }
}
