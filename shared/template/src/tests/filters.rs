//! Every filter, with the arguments and edge cases that Liquid defines.

use super::super::filters;
use super::table;

#[test]
fn texts() {
    table(&[
        (
            "{{ 'aé' | upcase }}{{ 'AÉ' | downcase }}{{ 'hELLO wORLD' | capitalize }}{{ '' | capitalize }}",
            "AÉaéHello world",
        ),
        ("[{{ '  a ' | strip }}][{{ '  a ' | lstrip }}][{{ '  a ' | rstrip }}][{{ 5 | strip }}]", "[a][a ][  a][5]"),
        ("{{ lines | strip_newlines }}", "onetwothree"),
        ("{{ 'a' | append: 'b' | prepend: 'c' }}{{ 5 | append: 1.5 }}{{ 'a' | append: missing }}", "cab51.5a"),
        (
            "{{ 'a-b-c' | replace: '-', '+' }} {{ 'a-b-c' | replace_first: '-', '+' }} {{ 'aa' | replace: 'a' }}|",
            "a+b+c a+b-c |",
        ),
        ("{{ 'a-b-c' | remove: '-' }} {{ 'a-b-c' | remove_first: '-' }}", "abc ab-c"),
        ("{{ 'ab' | replace: '', '.' }}", ".a.b."),
        ("{{ 'Ground control to Major Tom.' | truncate: 20 }}", "Ground control to..."),
        ("{{ 'Ground control to Major Tom.' | truncate: 25, ', and so on' }}", "Ground control, and so on"),
        ("{{ 'Ground control to Major Tom.' | truncate: 20, '' }}", "Ground control to Ma"),
        (
            "{{ 'abc' | truncate: 3 }}{{ 'abcd' | truncate: 3 }}{{ 'abcd' | truncate: 1 }}{{ 'ab' | truncate: -1 }}",
            "abc.........",
        ),
        ("{{ 'Ground control to Major Tom.' | truncatewords: 3 }}", "Ground control to..."),
        ("{{ 'one two three' | truncatewords: 2, '--' }} {{ 'one  two' | truncatewords: 2 }}", "one two-- one  two"),
        ("{{ '😀😀😀😀' | truncate: 4 }}{{ '😀😀😀😀😀' | truncate: 4 }}{{ '😀é' | size }}", "😀😀😀😀😀...2"),
        (
            "{{ 'a,b,,' | split: ',' | size }}{{ 'abc' | split: '' | join: '-' }} {{ ' a  b ' | split: ' ' | join: '.' }}",
            "2a-b-c a.b",
        ),
        ("{{ '' | split: ',' | size }}{{ missing | split: ',' | size }}", "00"),
        (
            "{{ 'Liquid' | slice: 0 }} {{ 'Liquid' | slice: 2, 5 }} {{ 'Liquid' | slice: -3, 2 }} [{{ 'a' | slice: 9 }}{{ 'a' | slice: -9, 2 }}]",
            "L quid ui []",
        ),
        (
            "{{ '<a href=\"x\">&' | escape }} {{ '1 < 2 &amp; &#39; &x;& &#x27;' | escape_once }}",
            "&lt;a href=&quot;x&quot;&gt;&amp; 1 &lt; 2 &amp; &#39; &x;&amp; &#x27;",
        ),
        (
            "{{ 'a b/ü&~' | url_encode }} {{ 'a+b%2F%C3%BC%zz%' | url_decode }} {{ '%ff' | url_decode }}",
            "a+b%2F%C3%BC%26~ a b/ü%zz% %ff",
        ),
        ("{{ 'a\n\nb' | newline_to_br }}", "a<br />\n<br />\nb"),
        (
            "{{ 'Have <em>you</em> <!-- > -->read<script>x > \"<b>\"</script><STYLE>a</style>?' | strip_html }}",
            "Have you read?",
        ),
        ("{{ 'a < b' | strip_html }}{{ '<a' | strip_html }}", "a < b<a"),
    ]);
}

#[test]
fn numbers() {
    table(&[
        (
            "{{ 4 | plus: 2 }} {{ 16 | minus: 4.5 }} {{ '3' | times: 4 }} {{ 'x' | plus: 1 }} {{ missing | plus: 1 }}",
            "6 11.5 12 1 1",
        ),
        (
            "{{ 0.1 | plus: 0.2 }} {{ 1.1 | times: 3 }} {{ 183.357 | times: 12 }} {{ 19.99 | times: 3 }}",
            "0.3 3.3 2200.284 59.97",
        ),
        (
            "{{ 16 | divided_by: 4 }} {{ 5 | divided_by: 3 }} {{ -7 | divided_by: 2 }} {{ 20 | divided_by: 8.0 }}",
            "4 1 -4 2.5",
        ),
        ("[{{ 1 | divided_by: 0 }}{{ 1 | divided_by: 0.0 }}{{ 1 | modulo: 0 }}]", "[]"),
        (
            "{{ 3 | modulo: 2 }} {{ 24 | modulo: 7 }} {{ -7 | modulo: 3 }} {{ 7 | modulo: -3 }} {{ 183.5 | modulo: 12 }}",
            "1 3 2 -2 3.5",
        ),
        (
            "{{ 1.2 | round }} {{ 2.7 | round }} {{ 183.357 | round: 2 }} {{ 1.005 | round: 2 }} {{ 5 | round: 2 }} {{ -1.5 | round }}",
            "1 3 183.36 1.01 5 -2",
        ),
        (
            "{{ 1.2 | ceil }} {{ '3.5' | ceil }} {{ 1.9 | floor }} {{ -1.1 | floor }} {{ -17 | abs }} {{ '-19.86' | abs }}",
            "2 4 1 -2 17 19.86",
        ),
        ("{{ 4 | at_least: 5 }} {{ 4 | at_most: 3 }}", "5 3"),
        ("{{ 9223372036854775807 | plus: 1 }}", "9223372036854776000"),
        (
            "{{ -9223372036854775808 | abs }} {{ -9223372036854775808 | divided_by: -1 }}",
            "9223372036854776000 9223372036854776000",
        ),
        ("[{{ 'inf' | plus: 1 }} {{ 'nan' | plus: 1 }} {{ '1e5' | plus: 1 }}]", "[1 1 1]"),
    ]);
}

#[test]
fn lists() {
    table(&[
        (
            "{{ list | join }} {{ list | join: ', ' }} {{ list | first }}{{ list | last }} {{ list | size }}",
            "a b c a, b, c ac 3",
        ),
        ("{{ numbers | sort | join }} {{ numbers | reverse | join }}", "1 2 3 10 10 2 1 3"),
        ("{{ mixed | sort | json }}", r#"[1,2,"a","b",true,null]"#),
        ("{{ items | sort: 'price' | map: 'title' | join: ' ' }}", "hat Shoes Coat"),
        (
            "{{ items | sort_natural: 'title' | map: 'title' | join: ' ' }} {{ items | sort: 'title' | map: 'title' | join }}",
            "Coat hat Shoes Coat Shoes hat",
        ),
        ("{{ items | map: 'size.eu' | join: ',' }} {{ items | map: 'size.eu' | compact | size }}", "42,7, 2"),
        (
            "{{ items | where: 'sale' | map: 'title' | join }} {{ items | where: 'title', 'hat' | size }}",
            "Shoes Coat 1",
        ),
        (
            "{{ 'a,b,a' | split: ',' | uniq | join }} {{ items | uniq: 'sale' | size }} {{ mixed | uniq | size }}",
            "a b 2 6",
        ),
        (
            "{{ list | concat: numbers | join }} {{ list | slice: 1, 2 | join }} {{ list | slice: -1 | join }}",
            "a b c 3 1 2 10 b c c",
        ),
        ("{{ numbers | sum }} {{ items | sum: 'price' }}", "16 184.9"),
        ("{{ (1..4) | join: '' }} {{ (1..4) | size }} {{ (1..4) | reverse | first }}", "1234 4 4"),
        ("{{ user | size }} {{ user.name | size }} {{ 5 | size }} {{ missing | size }}", "3 3 0 0"),
        (
            "{{ user.name | json }} {{ list | json }} {{ missing | json }} {{ f | json }} {{ '\"' | json }}",
            r#""Ana" ["a","b","c"] null 9.5 "\"""#,
        ),
        ("{{ user.name | join: ',' }} {{ user.name | first }}|", "Ana |"),
    ]);
}

#[test]
fn dates() {
    table(&[
        ("{{ '2026-03-14T15:09:26Z' | date: '%a, %b %d, %y' }}", "Sat, Mar 14, 26"),
        ("{{ '2026-03-14T15:09:26.535Z' | date: '%Y-%m-%d %H:%M:%S' }}", "2026-03-14 15:09:26"),
        ("{{ '2026-03-04T23:30:00+02:00' | date: '%-d %B %Y, %-I:%M %p' }}", "4 March 2026, 11:30 PM"),
        ("{{ '2026-03-14' | date: '%A %e' }} {{ '2026-03-14 10:00:00' | date: '%H' }}", "Saturday 14 10"),
        (
            "{{ 1773500966 | date: '%F %T' }} {{ '1773500966' | date: '%F' }} {{ 1773500966000 | date: '%F %T' }}",
            "2026-03-14 15:09:26 2026-03-14 2026-03-14 15:09:26",
        ),
        ("{{ 'now' | date: '%Y-%m-%d %H:%M' }} {{ 'today' | date: '%j' }}", "2026-03-14 15:09 073"),
        ("{{ 'now' | date: '%s' | plus: 86400 | date: '%F' }}", "2026-03-15"),
        ("{{ 'now' | date: '%H:%M %Z', 'America/New_York' }} {{ 'now' | date: '%H', missing }}", "11:09 EDT 15"),
        ("{{ '2026-03-14' | date: '%F', 'America/New_York' }} {{ 'now' | date: '%H', 'No/Where' }}", "2026-03-14 15"),
        (
            "{{ 'soon' | date: '%Y' }} {{ '' | date: '%Y' }}{{ missing | date: '%Y' }}{{ yes | date: '%Y' }}",
            "soon true",
        ),
        ("{{ 99999999999999999 | date: '%Y' }} {{ 'now' | date: digits }}", "99999999999999999 12"),
    ]);
}

#[test]
fn filters_never_panic_and_have_unique_names() {
    let inputs = [
        "missing",
        "n",
        "f",
        "neg",
        "yes",
        "empty_text",
        "html",
        "lines",
        "list",
        "items",
        "mixed",
        "user",
        "(1..9)",
        "(9..1)",
        "9223372036854775807",
        "-9223372036854775808",
        "'😀é'",
        "blank",
        "'now'",
        "empty_list",
    ];
    let args = [
        "",
        ": missing",
        ": -1",
        ": 'a'",
        ": 'a', 'b'",
        ": 9223372036854775807, -9223372036854775808",
        ": list",
        ": 2.5, user",
    ];
    let known = filters::unknown("");
    let names: Vec<&str> = known.rsplit("the filters are ").next().unwrap().split(", ").collect();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "sorted, so that a filter is easy to find in the list");
    let data = super::sample();
    let scope = super::scope(&data);
    let mut rendered = 0;
    for name in names {
        for input in inputs {
            for arg in args {
                let source = format!("{{{{ {input} | {name}{arg} }}}}");
                // Sources with a wrong number of arguments are rejected.
                let Ok(template) = super::Template::parse(&source) else { continue };
                for escape in [super::Escape::Html, super::Escape::None] {
                    template
                        .render(&scope, escape, &super::Limits::default())
                        .unwrap_or_else(|e| panic!("{source}: {e}"));
                    rendered += 1;
                }
            }
        }
    }
    assert!(rendered > 5_000, "{rendered}");
}
