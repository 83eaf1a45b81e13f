use super::*;

#[test]
fn css_is_inlined_into_matching_elements_only() {
    let body = "<style>.a{color:red} @media (max-width:9px){.a{color:blue}} td:hover{color:green}</style>\
                <table><tr>{% for x in y %}<TD CLASS=a style='top:0'>{{ x }}</td>{% endfor %}</tr></table>\
                <!--[if mso]><p class=a><![endif]--><p Class='a'>&nbsp;<![if !mso]>";
    let expected = body
        .replace("style='top:0'", "style='color: red;top:0'")
        .replace("<p Class='a'>", "<p style=\"color: red\" Class='a'>");
    assert_eq!(compiled(body), expected);
}

#[test]
fn loops_and_conditions_keep_their_positions() {
    let body = "<style>td{top:1px}</style><table>{% for row in rows %}<tr><td>{{ row }}</td></tr>{% endfor %}</table>\
                {% if a %}<div class=\"b\">{% else %}<div>{% endif %}<b {% if c %}hidden{% endif %} title=\"{{ d }}\">x</b></div>";
    assert_eq!(compiled(body), body.replace("<td>", "<td style=\"top: 1px\">"));
}

#[test]
fn own_style_takes_precedence_and_important_is_kept() {
    let body = "<style>p{color:red!important;top:0}</style><p style=\"top:{{ x | default: \"1\" }}px;\">";
    let prepared = compiled(body);
    let style = prepared.rsplit("style=\"").next().unwrap();
    assert!(style.ends_with(";top:{{ x | default: \"1\" }}px;\">"), "{style}");
    assert!(style.contains("important") && style.contains("top: 0"), "{style}");
}

#[test]
fn placeholder_values_are_inlined_with_their_rule() {
    let body = "<style>a{color:{{ brand }};top:0}</style><a>x</a><a>y</a>";
    let prepared = compiled(body);
    assert_eq!(held(&prepared), ["{{ brand }}"; 3]);
    assert_eq!(prepared.matches("<a style=\"color: {{ brand }};").count(), 2, "{prepared}");
}

#[test]
fn placeholder_quotes_are_preserved() {
    let css = "<style>p{color:{{ a | default: 'red' }};font:\"x\"}</style>";
    for (element, end) in [("<p style='top:0'>", ";top:0'>"), ("<p style=\"top:0\">", ";top:0\">"), ("<p>", "\">")] {
        let body = format!("{css}{element}");
        let prepared = compiled(&body);
        assert_eq!(held(&prepared), ["{{ a | default: 'red' }}"; 2], "{prepared}");
        assert!(prepared.starts_with(css) && prepared.ends_with(end), "{prepared}");
    }
}

#[test]
fn undecidable_rules_are_not_inlined() {
    for body in [
        "<style>{% if a %}p{top:0}{% endif %}</style><p>",
        "<style>.{{ a }}{top:0}</style><p>",
        "<style>p{ {{ a }} }</style><p>",
        "{% assign a = 1 %}<style>p{top:{{ a }}px}</style><p>",
    ] {
        let prepared = prepare(body).unwrap();
        assert!(prepared.compiled.is_none() && prepared.not_inlined.is_some(), "{body}: {prepared:?}");
    }
    // Here only the one element is left unstyled.
    for (body, styled) in [
        ("<style>p{top:0}</style><p class='{{ a }}'><p>", "<p class='{{ a }}'><p style=\"top: 0\">"),
        ("<style>p{top:0}</style><p {{ a }}><p>", "<p {{ a }}><p style=\"top: 0\">"),
        ("<style>p{top:0}</style><p data-css-inline=ignore><p>", "<p data-css-inline=ignore><p style=\"top: 0\">"),
        ("<style>[align=left]{top:0}</style><p align=left>", "<p style=\"top: 0\" align=left>"),
    ] {
        assert!(compiled(body).ends_with(styled), "{}", compiled(body));
    }
    for body in ["<p>no css</p>", "", "plain {{ text }}", "<style media=print>p{top:0}</style><p>"] {
        assert_eq!(prepare(body).unwrap(), PreparedBody::default(), "{body}");
    }
}

#[test]
fn no_external_resource_is_loaded() {
    let body = "<link rel=stylesheet href='http://127.0.0.1:1/a.css'><style>@import url(http://127.0.0.1:1/b.css);p{top:0}</style><p>";
    assert!(compiled(body).ends_with("<p style=\"top: 0\">"));
}

#[test]
fn oversized_css_is_not_inlined() {
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
        let prepared = prepare(&body).unwrap();
        assert!(prepared.compiled.is_none() && prepared.not_inlined.is_some(), "{:?}", &body[..60]);
    }
}
