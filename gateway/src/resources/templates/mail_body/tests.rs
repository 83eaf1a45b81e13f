//! Whole bodies, and bodies that nobody wrote.

use proptest::prelude::*;

use super::*;

fn compiled(body: &str) -> String {
    let made = made(body).unwrap();
    assert_eq!(made.not_inlined, None, "{body}");
    made.compiled.unwrap_or_else(|| body.to_owned())
}

fn mjml(inside: &str) -> String {
    format!("<mjml><mj-body>{inside}</mj-body></mjml>")
}

fn column(inside: &str) -> String {
    mjml(&format!("<mj-section><mj-column>{inside}</mj-column></mj-section>"))
}

/// The placeholders of a text, in order.
fn held(text: &str) -> Vec<&str> {
    placeholders(text).unwrap().into_iter().map(|p| text[p.range].trim()).collect()
}

#[test]
fn css_is_written_to_what_it_is_about_and_all_else_stays_as_it_is() {
    let body = "<style>.a{color:red} @media (max-width:9px){.a{color:blue}} td:hover{color:green}</style>\
                <table><tr>{% for x in y %}<TD CLASS=a style='top:0'>{{ x }}</td>{% endfor %}</tr></table>\
                <!--[if mso]><p class=a><![endif]--><p Class='a'>&nbsp;<![if !mso]>";
    let expected = body
        .replace("style='top:0'", "style='color: red;top:0'")
        .replace("<p Class='a'>", "<p style=\"color: red\" Class='a'>");
    assert_eq!(compiled(body), expected);
}

#[test]
fn rows_that_a_loop_repeats_and_tags_that_a_condition_chooses_keep_their_places() {
    let body = "<style>td{top:1px}</style><table>{% for row in rows %}<tr><td>{{ row }}</td></tr>{% endfor %}</table>\
                {% if a %}<div class=\"b\">{% else %}<div>{% endif %}<b {% if c %}hidden{% endif %} title=\"{{ d }}\">x</b></div>";
    assert_eq!(compiled(body), body.replace("<td>", "<td style=\"top: 1px\">"));
}

#[test]
fn an_elements_own_style_goes_before_and_what_is_important_stays_so() {
    let body = "<style>p{color:red!important;top:0}</style><p style=\"top:{{ x | default: \"1\" }}px;\">";
    let made = compiled(body);
    let style = made.rsplit("style=\"").next().unwrap();
    assert!(style.ends_with(";top:{{ x | default: \"1\" }}px;\">"), "{style}");
    assert!(style.contains("important") && style.contains("top: 0"), "{style}");
}

#[test]
fn a_value_that_is_filled_in_goes_where_its_rule_goes() {
    let body = "<style>a{color:{{ brand }};top:0}</style><a>x</a><a>y</a>";
    let made = compiled(body);
    assert_eq!(held(&made), ["{{ brand }}"; 3]);
    assert_eq!(made.matches("<a style=\"color: {{ brand }};").count(), 2, "{made}");
}

#[test]
fn quotes_of_a_placeholder_are_its_own() {
    let css = "<style>p{color:{{ a | default: 'red' }};font:\"x\"}</style>";
    for (element, end) in [("<p style='top:0'>", ";top:0'>"), ("<p style=\"top:0\">", ";top:0\">"), ("<p>", "\">")] {
        let body = format!("{css}{element}");
        let made = compiled(&body);
        assert_eq!(held(&made), ["{{ a | default: 'red' }}"; 2], "{made}");
        assert!(made.starts_with(css) && made.ends_with(end), "{made}");
    }
}

#[test]
fn where_it_cannot_be_known_what_a_rule_is_about_nothing_is_inlined() {
    for body in [
        "<style>{% if a %}p{top:0}{% endif %}</style><p>",
        "<style>.{{ a }}{top:0}</style><p>",
        "<style>p{ {{ a }} }</style><p>",
        "{% assign a = 1 %}<style>p{top:{{ a }}px}</style><p>",
    ] {
        let made = made(body).unwrap();
        assert!(made.compiled.is_none() && made.not_inlined.is_some(), "{body}: {made:?}");
    }
    // Of these only the one element is left alone.
    for (body, styled) in [
        ("<style>p{top:0}</style><p class='{{ a }}'><p>", "<p class='{{ a }}'><p style=\"top: 0\">"),
        ("<style>p{top:0}</style><p {{ a }}><p>", "<p {{ a }}><p style=\"top: 0\">"),
        ("<style>p{top:0}</style><p data-css-inline=ignore><p>", "<p data-css-inline=ignore><p style=\"top: 0\">"),
        ("<style>[align=left]{top:0}</style><p align=left>", "<p style=\"top: 0\" align=left>"),
    ] {
        assert!(compiled(body).ends_with(styled), "{}", compiled(body));
    }
    for body in ["<p>no css</p>", "", "plain {{ text }}", "<style media=print>p{top:0}</style><p>"] {
        assert_eq!(made(body).unwrap(), Made::default(), "{body}");
    }
}

#[test]
fn nothing_is_loaded() {
    let body = "<link rel=stylesheet href='http://127.0.0.1:1/a.css'><style>@import url(http://127.0.0.1:1/b.css);p{top:0}</style><p>";
    assert!(compiled(body).ends_with("<p style=\"top: 0\">"));
}

#[test]
fn what_is_too_much_is_left_as_it_is() {
    let rules = (0..10_000).map(|n| format!(".c{n} p > a:nth-child(2n+1){{top:{n}px}}\n")).collect::<Vec<_>>().concat();
    let many = format!("<style>{rules}</style>{}", "<p class=c1><a>".repeat(1_000));
    let deep = format!("<style>p{{top:0}}</style>{}", "<div>".repeat(50_000));
    let open = format!("<style>p{{top:0}}</style>{}", "<p><b>".repeat(10_000));
    let wide = format!("<style>p{{top:0}}</style>{}", "<p>x</p>".repeat(50_000));
    let large = format!("<style>p{{font:{}}}</style>{}", "x".repeat(4_000), "<p>x</p>".repeat(300));
    let siblings = format!("<style>{}</style>{}", "p:nth-child(2n+1)~p{top:0}".repeat(50), "<p>x</p>".repeat(4_000));
    let hidden = siblings.replace("nth-child", "\\6eTH-child");
    let shouted = siblings.replace("nth-child", "NTH-CHILD");
    let attributes = (0..100_000).map(|n| format!(" a{n}")).collect::<Vec<_>>().concat();
    let attributes = format!("<style>p{{top:0}}</style><p{attributes}>");
    for body in [many, deep, open, wide, large, siblings, hidden, shouted, attributes] {
        let made = made(&body).unwrap();
        assert!(made.compiled.is_none() && made.not_inlined.is_some(), "{:?}", &body[..60]);
    }
}

#[test]
fn mjml_becomes_html_and_its_placeholders_stay() {
    let body = column(
        "{% for item in items %}<mj-text color=\"{{ colour }}\">Hi {{ item.name }}, <b>{% if a %}yes{% endif %}</b></mj-text>{% endfor %}\
         <mj-button href=\"https://shop.example/{{ id }}?a={% if b %}1{% else %}2{% endif %}\">Go, {{ name }}</mj-button>\
         <mj-table>{% for row in rows %}<tr><td>{{ row }}</td></tr>{% endfor %}</mj-table>",
    );
    let html = compiled(&body);
    assert!(html.contains("<!doctype html>") || html.contains("<!DOCTYPE html>"), "{html}");
    assert!(!html.contains("<mj-") && !html.contains("held"), "{html}");
    assert!(html.contains("https://shop.example/{{ id }}?a={% if b %}1{% else %}2{% endif %}"), "{html}");
    assert!(html.contains("{% for row in rows %}<tr><td>{{ row }}</td></tr>{% endfor %}"), "{html}");
    let order: Vec<&str> = held(&html).into_iter().filter(|p| !["{{ colour }}", "{{ id }}"].contains(p)).collect();
    let expected = [
        "{% for item in items %}",
        "{{ item.name }}",
        "{% if a %}",
        "{% endif %}",
        "{% endfor %}",
        "{% if b %}",
        "{% else %}",
        "{% endif %}",
        "{{ name }}",
        "{% for row in rows %}",
        "{{ row }}",
        "{% endfor %}",
    ];
    assert_eq!(order, expected);
}

#[test]
fn sections_can_be_chosen_and_the_head_can_be_filled_in() {
    let section = "<mj-section><mj-column><mj-text>x</mj-text></mj-column></mj-section>";
    let body = format!(
        "<mjml><mj-head><mj-title>{{{{ title }}}}</mj-title><mj-preview>{{{{ teaser }}}}</mj-preview>\
         <mj-attributes><mj-all color=\"{{{{ brand }}}}\" /></mj-attributes>\
         <mj-style>.a{{color:{{{{ accent }}}}}}</mj-style></mj-head>\
         <mj-body>{{% if vip %}}{section}{{% else %}}{section}{{% endif %}}</mj-body></mjml>"
    );
    let html = made(&body).unwrap().compiled.unwrap();
    // The author's CSS is inlined; the compiler's own stays in its place.
    assert!(
        made(&body.replace("{{ accent }}", "red").replace("x</mj-text>", "<p class=\"a\">x</p></mj-text>"))
            .unwrap()
            .compiled
            .unwrap()
            .contains("<p style=\"color: red\" class=\"a\">x</p>")
    );
    assert!(!html.contains("style=\"border-collapse"), "{html}");
    for name in ["title", "teaser", "brand", "accent"] {
        assert!(html.contains(&format!("{{{{ {name} }}}}")), "{name}: {html}");
    }
    let tags: Vec<&str> = held(&html).into_iter().filter(|p| p.starts_with("{%")).collect();
    assert_eq!(tags, ["{% if vip %}", "{% else %}", "{% endif %}"]);
}

#[test]
fn mjml_with_a_fault_is_refused_where_it_lies() {
    for (body, line, words) in [
        ("<mjml>\n<mj-body>\n<mj-include path=\"x\" /></mj-body></mjml>".to_owned(), 3, "mj-include"),
        ("<mjml>\n<mj-body>{{ a }}\n  <mj-nothing-like-it/></mj-body></mjml>".to_owned(), 3, "no component"),
        ("<mjml>\n<mj-body>".to_owned(), 2, "MJML"),
        (mjml("\n<mj-section>\n<mj-column></mj-section>"), 3, "MJML"),
        (mjml("\n<{{ a }}>"), 2, "placeholder"),
        (format!("<mjml>\n{{% assign a = 1 %}}{}", &mjml("x")[6..]), 2, "placeholder"),
        (mjml("\n{{ a"), 2, ""),
        (mjml(&"<mj-wrapper>".repeat(5_000)), 1, "within each other"),
        (mjml(&"<mj-spacer/>".repeat(50_000)), 1, "at most"),
        (
            column(&format!(
                "<mj-social border-radius=\"{}\">{}</mj-social>",
                "1".repeat(100_000),
                "<mj-social-element name=\"x\"/>".repeat(1_000)
            )),
            1,
            "too large",
        ),
        (
            column(&format!("<mj-carousel>{}</mj-carousel>", "<mj-carousel-image src=\"a\"/>".repeat(60))),
            1,
            "at most 50",
        ),
        (
            format!(
                "<mjml><mj-head><mj-attributes><mj-all color=\"{}\"/></mj-attributes></mj-head><mj-body>{}</mj-body></mjml>",
                "x".repeat(100_000),
                "<mj-spacer/>".repeat(1_000)
            ),
            1,
            "too large",
        ),
    ] {
        let error = made(&body).unwrap_err();
        assert_eq!(error.line, line, "{error}: {:?}", &body[..body.len().min(90)]);
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn mjml_is_known_behind_what_says_nothing() {
    let inside = "<mj-section><mj-column><mj-text>{{ name }}</mj-text></mj-column></mj-section>";
    let plain = mjml(inside);
    let expected = compiled(&plain);
    assert!(!expected.contains("<mj") && expected.contains("{{ name }}"), "{expected}");
    for before in [
        "",
        " \n",
        "\u{feff}",
        "\u{feff}\r\n\t",
        "<!-- a <mjml> -->",
        "<?xml version=\"1.0\"?>\n<!-- a -->\u{feff} <!-- b -->\n",
        "<!doctype mjml>",
    ] {
        assert_eq!(compiled(&format!("{before}{plain}")), expected, "{before:?}");
    }
    // The place is that of the source.
    let error = made(&format!("\u{feff}<!--\n-->\n{}", mjml("<mj-nothing/>"))).unwrap_err();
    assert_eq!((error.line, error.message.as_str()), (3, "there is no component mj-nothing"));
    for before in ["{{ a }}", "\n{% assign a = 1 %}", "<!-- {{ a }} -->"] {
        let error = made(&format!("{before}{plain}")).unwrap_err();
        assert!(error.message.contains("before <mjml>"), "{error}");
    }
    for other in ["<mjmlx>", "<p><mjml></p>", "<!-- <mjml>", "<!-- a --><p>b</p>", "mjml", ""] {
        assert_eq!(compiled(other), other);
    }
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

/// These pieces, or where they are no template only those of them that are no tags of one.
fn body_of(mut parts: Vec<&'static str>) -> String {
    if Template::parse(&parts.concat()).is_err() {
        parts.retain(|part| !part.starts_with("{%"));
    }
    parts.concat()
}

/// What is left of a body where every style that was put in is taken out again.
fn without_styles(text: &str) -> String {
    text.replace(" style=\"color: red\"", "").replace("color: red;", "")
}

proptest! {
    #[test]
    fn inlining_adds_styles_and_changes_nothing_else(parts in prop::collection::vec(piece(), 0..30)) {
        let body = body_of(parts);
        if let Some(compiled) = made(&body).unwrap().compiled {
            prop_assert_eq!(without_styles(&compiled), body);
        }
    }

    #[test]
    fn whatever_placeholders_mjml_has_they_come_back_in_order_or_it_is_refused(
        parts in prop::collection::vec(prop::sample::select(vec![
            "{{ a }}", "{% if b %}", "{% else %}", "{% endif %}", "{% for c in d %}", "{% endfor %}",
            "<mj-text>x {{ e }}</mj-text>", "<mj-text><b class=\"{{ f }}\">y</b></mj-text>", "<mj-divider/>", "words",
            "<mj-button>{{ g }}</mj-button>", "<mj-raw>{{ h }}<br/></mj-raw>", "<mj-spacer height=\"{{ i }}\"/>", "\n",
        ]), 0..12),
    ) {
        let body = column(&body_of(parts));
        if let Ok(Made { compiled: Some(html), .. }) = made(&body) {
            prop_assert!(Template::parse(&html).is_ok());
            // What stands next to each other in one is one placeholder, and may be several in the other.
            let all = |text: &str| held(text).concat().replace(char::is_whitespace, "");
            let spacers = |text: String| text.replace("{{i}}", "");
            prop_assert_eq!(spacers(all(&html)), spacers(all(&body)));
        }
    }
}
