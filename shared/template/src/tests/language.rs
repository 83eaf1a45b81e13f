//! Outputs, conditions, loops, variables and white space.

use super::{html_table, table};

#[test]
fn outputs() {
    table(&[
        ("", ""),
        ("plain { text } % with 100% }} braces", "plain { text } % with 100% }} braces"),
        ("Hi {{ user.name }}!", "Hi Ana!"),
        ("{{user.name}}{{ user . name }}", "AnaAna"),
        ("{{ user.properties.plan | default: \"free\" }}", "pro"),
        ("{{ user.properties['b c'] }}/{{ user[\"properties\"][\"plan\"] }}", "spaced/pro"),
        ("{{ list[0] }}{{ list[-1] }}{{ list[9] }}{{ list[-9] }}", "ac"),
        ("{{ list.first }}{{ list.last }}{{ list.size }}", "ac3"),
        ("{{ items[1].title }} {{ items[0].size.eu }}", "hat 42"),
        ("{% assign k = 'plan' %}{{ user.properties[k] }}", "pro"),
        ("{{ n }} {{ f }} {{ g }} {{ neg }} {{ big }}", "5 9.5 5 -7 9007199254740993"),
        ("{{ yes }} {{ no }} {{ nothing }}", "true false "),
        ("{{ list }}", "abc"),
        ("{{ items[1] }}", r#"{"price":15,"sale":false,"size":{"eu":7},"title":"hat"}"#),
        (
            "{{ 'single' }} {{ \"it's\" }} {{ 3 }} {{ -2.50 }} {{ true }} {{ nil }}{{ empty }}",
            "single it's 3 -2.5 true ",
        ),
        ("{{ (1..3) }}", "1..3"),
        ("{{ \"}} %}\" }}", "}} %}"),
        ("{{ }}{{}}", ""),
        ("{% echo n | plus: 1 %}", "6"),
        ("{{ user.name\n  | upcase\n}}", "ANA"),
    ]);
}

#[test]
fn missing_values_render_empty_at_every_depth() {
    table(&[
        ("[{{ x }}{{ x.y.z }}{{ x[0].y }}{{ x['a']['b'] }}{{ user.a.b.c }}{{ n.a }}{{ user.name.first.b }}]", "[]"),
        ("[{{ x | upcase }}{{ x | date: '%Y' }}{{ x | join: ',' }}{{ x | first }}{{ x | split: ',' | last }}]", "[]"),
        ("{{ nick | default: 'friend' }} {{ user.properties.none | default: 'friend' }}", "friend friend"),
        ("{{ empty_text | default: 'e' }}{{ empty_list | default: 'l' }}{{ no | default: 'f' }}", "elf"),
        ("{{ no | default: 'f', allow_false: true }}{{ 0 | default: 1 }}{{ blank_text | default: 'x' }}|", "false0  |"),
        ("{% for x in missing.list %}x{% endfor %}", ""),
    ]);
}

#[test]
fn truthiness_matches_liquid() {
    let rows = [
        ("yes", true),
        ("no", false),
        ("nothing", false),
        ("missing", false),
        ("empty_text", true),
        ("empty_list", true),
        ("0", true),
        ("''", true),
        ("n == 5", true),
        ("n == '5'", false),
        ("g == 5", true),
        ("n != 5", false),
        ("n <> 4", true),
        ("n > 4 and n < 6 and n >= 5 and n <= 5", true),
        ("f > n", true),
        ("'b' > 'a'", true),
        ("digits > 5", false),
        ("missing > 1", false),
        ("missing < 1", false),
        ("missing == nil", true),
        ("nothing == null", true),
        ("missing != blank", false),
        ("missing == blank", true),
        ("empty_text == blank", true),
        ("blank_text == blank", true),
        ("no == blank", true),
        ("empty_list == blank", true),
        ("n == blank", false),
        ("user.name != blank", true),
        ("empty_text == empty", true),
        ("empty_list == empty", true),
        ("missing == empty", false),
        ("blank_text == empty", false),
        ("user.name == \"Ana\" and list contains \"b\"", true),
        ("user.email contains '@example'", true),
        ("user.properties contains 'plan'", true),
        ("list contains 'z'", false),
        ("numbers contains 10", true),
        ("numbers contains '10'", false),
        ("digits contains 2", true),
        ("missing contains 'x'", false),
        ("list contains missing", false),
        ("(1..5) contains 3", true),
        // Evaluated from the right: true and (false and (false or true)).
        ("true and false and false or true", false),
        ("true or false and false", true),
        ("false and false or true", false),
        ("list == user.properties.tags", false),
        ("yes == true", true),
    ];
    for (condition, expected) in rows {
        table(&[
            (&format!("{{% if {condition} %}}1{{% else %}}0{{% endif %}}"), if expected { "1" } else { "0" }),
            (&format!("{{% unless {condition} %}}1{{% else %}}0{{% endunless %}}"), if expected { "0" } else { "1" }),
        ]);
    }
}

#[test]
fn branches() {
    table(&[
        ("{% if n == 1 %}a{% elsif n == 5 %}b{% elsif n == 5 %}c{% else %}d{% endif %}", "b"),
        ("{% if no %}a{% elsif no %}b{% else %}d{% endif %}", "d"),
        ("{% if no %}a{% endif %}", ""),
        ("{% unless no %}a{% endunless %}", "a"),
        ("{% unless yes %}a{% elsif yes %}b{% endunless %}", "b"),
        ("{% if yes %}{% if no %}a{% else %}b{% endif %}{% endif %}", "b"),
        ("{% case n %} {% when 1 %}a{% when 4, 5 %}b{% when 5 %}c{% else %}d{% endcase %}", "b"),
        ("{% case user.name %}{% when 'Bob' or 'Ana' %}hit{% endcase %}", "hit"),
        ("{% case n %}{% when '5' %}a{% else %}d{% endcase %}{% case n %}{% when 1 %}x{% endcase %}", "d"),
    ]);
}

#[test]
fn loops() {
    table(&[
        ("{% for x in list %}{{ x }},{% endfor %}", "a,b,c,"),
        ("{% for x in list limit:2 %}{{ x }}{% endfor %}", "ab"),
        ("{% for x in list limit: 1 offset: 1 %}{{ x }}{% endfor %}", "b"),
        ("{% for x in list reversed limit:2 %}{{ x }}{% endfor %}", "ba"),
        ("{% for x in numbers, limit: n, offset: 2 %}{{ x }} {% endfor %}", "2 10 "),
        ("{% for x in list offset:9 %}x{% else %}none{% endfor %}", "none"),
        ("{% for x in empty_list %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}!{% endfor %}", "none!"),
        (
            "{% for i in (1..3) %}{{ i }}{% endfor %}{% for i in (3..1) %}x{% endfor %}{% for i in (n..6) %}{{i}}{% endfor %}",
            "12356",
        ),
        ("{% for x in 'text' %}[{{ x }}]{% endfor %}{% for x in '' %}x{% endfor %}", "[text]"),
        (
            "{% for p in items[1] %}{{ p[0] }}={{ p[1] }};{% endfor %}",
            r#"price=15;sale=false;size={"eu":7};title=hat;"#,
        ),
        (
            "{% for x in list %}{{ forloop.index }}{{ forloop.index0 }}{{ forloop.rindex }}{{ forloop.rindex0 }}\
             {{ forloop.first }}{{ forloop.last }}{{ forloop.length }} {% endfor %}",
            "1032truefalse3 2121falsefalse3 3210falsetrue3 ",
        ),
        (
            "{% for a in (1..2) %}{% for b in (1..2) %}{{ forloop.parentloop.index }}{{ forloop.index }} {% endfor %}{% endfor %}",
            "11 12 21 22 ",
        ),
        ("{% for x in list %}{% if x == 'b' %}{% continue %}{% endif %}{{ x }}{% endfor %}", "ac"),
        ("{% for x in list %}{% if x == 'b' %}{% break %}{% endif %}{{ x }}{% endfor %}", "a"),
        (
            "{% for a in list %}{% for b in list %}{% if b == 'b' %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}{% endfor %}",
            "aa ba ca ",
        ),
        ("{% for i in (1..1000000000) %}{% if i > 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "123"),
        ("{% for user in list %}{{ user }}{% endfor %}{{ user.name }}", "abcAna"),
        ("{% for x in list %}{% capture y %}{{ y }}{{ x }}{% endcapture %}{% endfor %}{{ y }}", "abc"),
        ("{{ forloop.index }}", ""),
    ]);
}

#[test]
fn variables() {
    table(&[
        ("{% assign x = 'a' | upcase | append: 'b' %}{{ x }}", "Ab"),
        ("{{ x }}{% assign x = n %}{{ x }}{% assign x = nil %}[{{ x }}]", "5[]"),
        ("{% assign name = user.name | default: 'you' %}{{ name }}", "Ana"),
        ("{% capture x %}Hi {{ user.name }}{% endcapture %}{{ x | size }}", "6"),
        ("{% capture 'x' %}1{% endcapture %}{{ x }}", "1"),
        ("{% if no %}{% assign n = 9 %}{% endif %}{{ n }}", "5"),
        ("{% assign parts = 'a,b' | split: ',' %}{% for p in parts %}<{{ p }}>{% endfor %}", "<a><b>"),
    ]);
}

#[test]
fn comments_and_raw() {
    table(&[
        ("a{% comment %} {{ x | nofilter }} {% if %} {% endcomment %}b", "ab"),
        ("a{% comment %}{% comment %}x{% endcomment %}y{% endcomment %}b", "ab"),
        ("a{%- comment -%} x {%- endcomment -%} b", "ab"),
        ("a{% # note %}b{%- # note -%} c", "abc"),
        ("{% raw %}{{ user.name }} {% if %}{% endraw %}", "{{ user.name }} {% if %}"),
        ("[ {%- raw -%} {{ x }} {%- endraw -%} ]", "[{{ x }}]"),
        ("{%raw%}{% endcomment %}{%endraw%}", "{% endcomment %}"),
    ]);
}

#[test]
fn white_space_control() {
    table(&[
        ("a {{- n -}} b", "a5b"),
        ("a {{- n }} b", "a5 b"),
        ("a\n{%- if yes -%}\n x \n{%- endif -%}\nb", "axb"),
        ("a\r\n{% if yes %}\r\n x\r\n{% endif %}", "a\r\n\r\n x\r\n"),
        ("{{ user.name-}} x{{-user.name-}}", "AnaxAna"),
        ("  {%- assign x = 1 -%}  ", ""),
        ("a {{- -}} b", "ab"),
    ]);
}

#[test]
fn html_is_escaped_once() {
    html_table(&[
        ("{{ html }}", "&lt;b&gt;Tom &amp; &quot;Jerry&#39;s&quot;&lt;/b&gt;"),
        ("<a title=\"{{ html }}\">", "<a title=\"&lt;b&gt;Tom &amp; &quot;Jerry&#39;s&quot;&lt;/b&gt;\">"),
        ("{{ '<i>' }} {{ missing | default: '<i>' }}", "&lt;i&gt; &lt;i&gt;"),
        ("{{ '<' | escape }} {{ '<' | escape | escape }} {{ '&lt;&' | escape_once }}", "&lt; &lt; &lt;&amp;"),
        ("{{ html | escape | truncate: 9 }}", "&lt;b&gt;Tom..."),
        ("{{ lines | newline_to_br }}", "one<br />\ntwo<br />\nthree"),
        ("{{ html | append: \"\n\" | newline_to_br }}", "&lt;b&gt;Tom &amp; &quot;Jerry&#39;s&quot;&lt;/b&gt;<br />\n"),
        ("{{ html | strip_html }}", "Tom &amp; &quot;Jerry&#39;s&quot;"),
        (
            "{{ items[1] | json }}",
            "{&quot;price&quot;:15,&quot;sale&quot;:false,&quot;size&quot;:{&quot;eu&quot;:7},&quot;title&quot;:&quot;hat&quot;}",
        ),
        ("{% assign x = html %}{{ x | slice: 0, 3 }}", "&lt;b&gt;"),
        ("{{ '<' | prepend: html | split: 'Tom' | first }}", "&lt;b&gt;"),
    ]);
}

#[test]
fn only_captures_with_markup_are_html() {
    html_table(&[
        (
            "{% capture x %}<b>{{ html }}</b>{% endcapture %}{{ x }}",
            "<b>&lt;b&gt;Tom &amp; &quot;Jerry&#39;s&quot;&lt;/b&gt;</b>",
        ),
        ("{% capture x %}{{ '<' }} <br>{{ '<' }}{% endcapture %}{{ x }}{{ x | upcase }}", "&lt; <br>&lt;&LT; <BR>&LT;"),
        ("{% capture x %}{{ '<' }}{% endcapture %}{{ x }} {{ x | size }}", "&lt; 1"),
        ("{% capture x %}O'Neil{% endcapture %}{% if x == \"O'Neil\" %}{{ x | url_encode }}{% endif %}", "O%27Neil"),
        ("{% capture x %}<br>{% endcapture %}{{ x | append: '<' | prepend: '>' }}", "&gt;<br>&lt;"),
        ("{% capture x %}<br>a{% endcapture %}{{ x | replace: 'a', '<' }}", "<br>&lt;"),
        (
            "{% capture x %}<p>{% endcapture %}{% capture y %}{{ '<' }}{{ x }}{{ '<' }}{% endcapture %}{{ y }}",
            "&lt;<p>&lt;",
        ),
        (
            "{% capture x %}<i>a</i>,<i>{{ '<' }}</i>{% endcapture %}{{ x | split: ',' | join: '<' }}",
            "<i>a</i>&lt;<i>&lt;</i>",
        ),
        ("{% capture x %}<i>long text</i>{% endcapture %}{{ x | truncate: 7 }}", "&lt;i&gt;l..."),
    ]);
    table(&[("{% capture x %}<b>{{ html }}{% endcapture %}{{ x }}", "<b><b>Tom & \"Jerry's\"</b>")]);
}
