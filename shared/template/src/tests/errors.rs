//! Tests of parse errors and their positions.

use super::Template;

fn error(source: &str) -> (u32, u32, String) {
    let error = Template::parse(source).expect_err(source);
    (error.line, error.column, error.message)
}

#[test]
fn errors_have_position_and_message() {
    let rows = [
        ("Hi {{ name", 1, 4, "`{{` is never closed with `}}`"),
        ("Hi\n  {{ name </p>\n{{ x }}", 2, 3, "`{{` is never closed"),
        ("a\r\nb\r\n {% if x", 3, 2, "`{%` is never closed with `%}`"),
        ("{% if x %}\n{{ x }}", 1, 1, "`{% if %}` is never closed with `{% endif %}`"),
        (
            "{% for x in y %}{% if x %}{% endfor %}",
            1,
            27,
            "expected `{% endif %}` for the {% if %} in line 1, found `{% endfor %}`",
        ),
        ("a\n{% endif %}", 2, 1, "`{% endif %}` has no matching opening tag"),
        ("{% else %}", 1, 1, "`{% else %}` has no matching opening tag"),
        ("{% if a %}{% when 1 %}{% endif %}", 1, 11, "expected `{% endif %}`"),
        ("{% if a %}{% else %}{% else %}{% endif %}", 1, 21, "expected `{% endif %}`"),
        ("{% if a %}{% else if b %}{% endif %}", 1, 11, "elsif"),
        ("é {{ x | foo }}", 1, 10, "unknown filter \"foo\"; the filters are abs, append"),
        ("{% include 'x' %}", 1, 1, "unknown tag \"include\"; the tags are assign"),
        ("{% %}", 1, 1, "needs a name"),
        ("{{ x | }}", 1, 8, "expected the name of a filter, found the end of the tag"),
        ("{{ x y }}", 1, 6, "expected `|` or the end of the tag, found `y`"),
        ("{{ x | append }}", 1, 8, "takes 1 argument, not 0"),
        ("{{ x | truncate: 1, 2, 3 }}", 1, 8, "takes 0 to 2 arguments, not 3"),
        ("{{ x | upcase: 1 }}", 1, 8, "takes no arguments, not 1"),
        ("{{ x. }}", 1, 7, "expected a name after the dot"),
        ("{{ x[0 }}", 1, 8, "expected `]`"),
        ("{{ 'abc }}", 1, 4, "no closing '"),
        ("{{ x | default: \"a }}\n<a href=\"b\">", 1, 17, "no closing \""),
        ("{{ “x” }}", 1, 4, "straight quotes"),
        ("{{ a + b }}", 1, 6, "use a filter such as `| plus: 1`"),
        ("{{ a - b }}", 1, 6, "use a filter"),
        ("{{ a == b }}", 1, 6, "comparisons are only allowed in {% if %}"),
        ("{% if a && b %}{% endif %}", 1, 9, "conditions are joined by `and`"),
        ("{% if a || b %}{% endif %}", 1, 9, "join conditions by `or`"),
        ("{% if !a %}{% endif %}", 1, 7, "{% unless %}"),
        ("{% if a = 1 %}{% endif %}", 1, 9, "write `==`"),
        ("{% if (a or b) and c %}{% endif %}", 1, 7, "parentheses are only for ranges"),
        ("{% if %}{% endif %}", 1, 7, "expected a value"),
        ("{% for x of y %}{% endfor %}", 1, 10, "expected `in`, found `of`"),
        ("{% for x in y foo %}{% endfor %}", 1, 15, "`limit:`"),
        ("{% assign x 1 %}", 1, 13, "expected `=`"),
        ("{% assign x.y = 1 %}", 1, 12, "expected `=`"),
        ("{% break %}", 1, 1, "outside of a {% for %}"),
        ("{% raw %} {{ x }}", 1, 1, "`{% raw %}` is never closed with `{% endraw %}`"),
        ("{% comment %} {{ x }}", 1, 1, "`{% comment %}` is never closed"),
        ("{{ 2nd }}", 1, 4, "cannot start with a digit"),
        ("{{ x | date: '%!' }}", 1, 8, "not a date format"),
        ("{% endif x", 1, 1, "never closed"),
        ("{%", 1, 1, "needs a name"),
        ("{{", 1, 1, "never closed"),
        ("{% if", 1, 1, "never closed"),
        ("{% # note", 1, 1, "never closed"),
        ("{% comment", 1, 1, "never closed"),
    ];
    for (source, line, column, message) in rows {
        let found = error(source);
        assert_eq!((found.0, found.1), (line, column), "{source}: {}", found.2);
        assert!(found.2.contains(message), "{source}: {}", found.2);
    }
}

#[test]
fn display_contains_line_and_column() {
    let error = Template::parse("a\n{{ x | foo }}").unwrap_err().to_string();
    assert!(error.starts_with("line 2, column 8: unknown filter \"foo\"; the filters are abs, "), "{error}");
}
