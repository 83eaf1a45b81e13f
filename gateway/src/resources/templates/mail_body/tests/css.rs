use super::*;

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
