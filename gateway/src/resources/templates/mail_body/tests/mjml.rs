use super::*;

#[test]
fn mjml_compiles_to_html_with_placeholders() {
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
fn conditional_sections_and_head_placeholders_work() {
    let section = "<mj-section><mj-column><mj-text>x</mj-text></mj-column></mj-section>";
    let body = format!(
        "<mjml><mj-head><mj-title>{{{{ title }}}}</mj-title><mj-preview>{{{{ teaser }}}}</mj-preview>\
         <mj-attributes><mj-all color=\"{{{{ brand }}}}\" /></mj-attributes>\
         <mj-style>.a{{color:{{{{ accent }}}}}}</mj-style></mj-head>\
         <mj-body>{{% if vip %}}{section}{{% else %}}{section}{{% endif %}}</mj-body></mjml>"
    );
    let html = prepare(&body).unwrap().compiled.unwrap();
    // The author's CSS is inlined; the compiler's own CSS is not.
    assert!(
        prepare(&body.replace("{{ accent }}", "red").replace("x</mj-text>", "<p class=\"a\">x</p></mj-text>"))
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
fn invalid_mjml_is_rejected_with_a_position() {
    for (body, line, words) in [
        ("<mjml>\n<mj-body>\n<mj-include path=\"x\" /></mj-body></mjml>".to_owned(), 3, "mj-include"),
        ("<mjml>\n<mj-body>{{ a }}\n  <mj-nothing-like-it/></mj-body></mjml>".to_owned(), 3, "unknown component"),
        ("<mjml>\n<mj-body>".to_owned(), 2, "MJML"),
        (in_mjml("\n<mj-section>\n<mj-column></mj-section>"), 3, "MJML"),
        (in_mjml("\n<{{ a }}>"), 2, "placeholder"),
        (format!("<mjml>\n{{% assign a = 1 %}}{}", &in_mjml("x")[6..]), 2, "placeholder"),
        (in_mjml("\n{{ a"), 2, ""),
        (in_mjml(&"<mj-wrapper>".repeat(5_000)), 1, "nested at most"),
        (in_mjml(&"<mj-spacer/>".repeat(50_000)), 1, "at most"),
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
        let error = prepare(&body).unwrap_err();
        assert_eq!(error.line, line, "{error}: {:?}", &body[..body.len().min(90)]);
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn mjml_is_detected_after_insignificant_content() {
    let inside = "<mj-section><mj-column><mj-text>{{ name }}</mj-text></mj-column></mj-section>";
    let plain = in_mjml(inside);
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
    // The position refers to the source.
    let error = prepare(&format!("\u{feff}<!--\n-->\n{}", in_mjml("<mj-nothing/>"))).unwrap_err();
    assert_eq!((error.line, error.message.as_str()), (3, "unknown component mj-nothing"));
    for before in ["{{ a }}", "\n{% assign a = 1 %}", "<!-- {{ a }} -->"] {
        let error = prepare(&format!("{before}{plain}")).unwrap_err();
        assert!(error.message.contains("before <mjml>"), "{error}");
    }
    for other in ["<mjmlx>", "<p><mjml></p>", "<!-- <mjml>", "<!-- a --><p>b</p>", "mjml", ""] {
        assert_eq!(compiled(other), other);
    }
}
