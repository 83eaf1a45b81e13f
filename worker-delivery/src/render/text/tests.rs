use proptest::prelude::*;

use super::*;

#[test]
fn text_keeps_paragraphs_lists_quotations_and_links() {
    for (html, expected) in [
        ("", ""),
        ("<img src=x>", ""),
        ("Hi <b>An</b>n,\r\n  how   are&nbsp;you?", "Hi Ann, how are you?\n"),
        ("1 &lt; 2 &amp; &copy;", "1 < 2 & ©\n"),
        ("<h1>Hi</h1><p>one</p>\n<p>two<br>three<br><br>four</p>", "Hi\n\none\n\ntwo\nthree\n\nfour\n"),
        ("<div>one</div><div><div>two</div></div>three", "one\ntwo\nthree\n"),
        ("<p>Get:<ul><li>a<li><p>b</p><p>c</p></li><li></li></ul>end", "Get:\n\n* a\n\n* b\n\n  c\n\nend\n"),
        ("<ol start=3><li>a</li><li>b<ul><li>c</li></ul></li></ol><ol><li>d</ol>", "3. a\n4. b\n  * c\n\n1. d\n"),
        ("a<blockquote>b<br>c<blockquote>d</blockquote></blockquote>e", "a\n\n> b\n> c\n\n> > d\n\ne\n"),
        ("<pre>a\n  b\n\nc</pre>d  e", "a\n  b\n\nc\n\nd e\n"),
        ("a<hr>b", "a\n\n---\n\nb\n"),
        ("<table><tr><td>Tea</td><td>$2</td></tr><tr><td><div>x</div></td></tr></table>", "Tea $2\nx\n"),
        ("<img alt=' Our\nlogo '> x", "Our logo x\n"),
        ("<a href='https://a.b/?c=1&amp;d'>Track it</a>!", "Track it <https://a.b/?c=1&d>!\n"),
        ("<a href='https://a.b/'>https://a.b</a>", "https://a.b\n"),
        ("<a href='MAILTO:a@b.c?subject=Order 12'>us</a>", "us <MAILTO:a@b.c?subject=Order%2012>\n"),
        ("<a href=app:x>a</a><a href=//x>b</a> <button>c</button><button>d</button>", "a <app:x> b c d\n"),
        ("<a href=a:1><img alt=A></a><a href=b:2><img alt=B></a>", "A <a:1> B <b:2>\n"),
        ("<ol><li value=7>a<li>b</ol>", "7. a\n8. b\n"),
        ("<table><tr><td><ul><li>a<blockquote>b</td><td>c</td></tr></table>d", "* a\n\n>   b\nc\n\nd\n"),
        ("<pre>a\r\n\r\nb</pre>", "a\n\nb\n"),
        ("<a href='mailto:a@b.c'>a@b.c</a> <a href='mailto:a@b.c'>us</a>", "a@b.c us <mailto:a@b.c>\n"),
        ("<a href='https://a.b'><table><tr><td>Buy</td></tr></table></a>x", "Buy <https://a.b>\n\nx\n"),
        ("<li><a href='https://a.b'><img src=x></a><a href='https://c.d'>y", "* <https://a.b> y <https://c.d>\n"),
        (
            "<a href='#x'>a</a> <a href='/x'>b</a> <a href='javascript:x'>c</a> <a name=x>d</a> <a href=' ht\ntps://x.y/a b&lt; '>e</a>",
            "a b c d e <https://x.y/a%20b%3C>\n",
        ),
    ] {
        assert_eq!(from_html(html), expected, "{html}");
    }
}

#[test]
fn hidden_content_is_left_out() {
    for html in [
        "<head><title>no</title><style>p > a { x: '</p>no' }</style></head>yes",
        "<script>no('</p>no')</script>yes<!-- no -->",
        "<!--[if mso]><p>no</p><![endif]-->yes",
        "<div style=\"color:red; Display: none\">no<div>no</div>no</div>yes",
        "<span hidden>no</span>yes<textarea>no</textarea><select><option>no</select>",
        "<p>&nbsp;&zwnj;&#8203;&#847;</p>yes",
        "yes<div style='display:none'>no",
        "<p style='display:\n none !important'>no<p>yes",
        "<table><tr><td style='display:none'>no<table><tr><td>no</td></tr></table></td><td>yes</table>",
        "<table><tr style=display:none><td>no</td></tr><tr><td>yes</table>",
        // Left open: it ends with the enclosing element.
        "<table><tr><td><div style='display:none'>no<p>no</p></td></tr></table><p>yes</p>",
        "<p><span hidden>no</p>yes",
        "<div hidden>no</p>no</div>yes",
        "<div><span hidden>no<div>no</div></div>yes",
        "<div style='display:none;display:block'>yes</div>",
        "<ul hidden><li>no</ul><table hidden><tr><td>no</table><a hidden href=a:b>no</a>yes",
        "yes<img alt=no style='display: none'>",
    ] {
        assert_eq!(from_html(html), "yes\n", "{html}");
    }
}

#[test]
fn nested_and_large_html_takes_linear_time() {
    let parts = [
        "<div>",
        "<blockquote>x",
        "<ul><li>x",
        "<a href=https://a.b>x",
        "<div hidden>x",
        "<pre>\n\nx",
        "&",
        "<table><td>",
    ];
    let many = |part: &str| part.repeat(100_000);
    let attributes = (0..100_000).map(|n| format!(" a{n}=1")).collect::<Vec<_>>().concat();
    let with_attributes = ["a", "img", "ol", "div"].map(|name| format!("<{name}{attributes}>x"));
    let levels = format!("{}{}<pre>{}", "<ul>".repeat(9), "<blockquote>".repeat(9), many("x\n"));
    for html in parts.map(many).into_iter().chain(with_attributes).chain([levels]) {
        let text = from_html(&html);
        assert!(text.len() <= 3 * html.len(), "{} of {}", text.len(), html.len());
    }
}

proptest! {
    #[test]
    fn text_has_no_surrounding_blank_lines(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "<p>", "</p>", "<a href=https://a.b>", "<a>", "</a>", "<ul>", "</ul>", "<ol>", "<li>", "</li>", "<pre>", "</pre>",
                    "<blockquote>", "</blockquote>", "<div hidden>", "</div>", "<td>", "<br>", "<hr>", "<script>", "</script>", "\n", " ", "&nbsp;",
                ]).prop_map(str::to_owned),
                any::<String>(),
            ],
            0..40,
        )
    ) {
        let text = from_html(&parts.concat());
        prop_assert!(!text.starts_with('\n') && !text.ends_with("\n\n"), "{:?}", text);
    }
}
