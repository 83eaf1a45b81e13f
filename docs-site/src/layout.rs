//! The HTML around a page's text.

use std::fmt::Write;
use std::path::Path;

use pulldown_cmark_escape::escape_html;

use crate::contents::Contents;
use crate::markdown::Page;
use crate::{API_REFERENCE, BASE, path_of};

/// Returns the whole document of a page.
pub(crate) fn page(contents: &Contents, source: &Path, page: &Page, html: &str) -> String {
    let title =
        if source == Path::new("README.md") { "Rekindle".to_owned() } else { format!("{} · Rekindle", page.title) };
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="stylesheet" href="{BASE}site.css">
<script src="{BASE}site.js" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header>
<a class="home" href="{BASE}">Rekindle <span>Docs</span></a>
<div class="search" role="search">
<input type="search" placeholder="Search (press /)" aria-label="Search the documentation" autocomplete="off" hidden>
<ol hidden></ol>
</div>
<a href="{API_REFERENCE}">API reference</a>
<a href="/">Dashboard</a>
</header>
<details class="menu"><summary>Contents</summary></details>
<nav aria-label="Pages">
{navigation}</nav>
<main id="content">
{html}</main>
<aside aria-label="On this page">
{headings}</aside>
</body>
</html>
"##,
        title = escaped(&title),
        navigation = navigation(contents, source),
        headings = headings(page),
    )
}

fn navigation(contents: &Contents, current: &Path) -> String {
    let mut text = String::new();
    for section in &contents.sections {
        let _ = writeln!(text, "<h2>{}</h2>\n<ul>", escaped(&section.title));
        for entry in &section.entries {
            let mark = if entry.source == current { r#" aria-current="page""# } else { "" };
            let (path, title) = (path_of(&entry.source), escaped(&entry.title));
            let _ = writeln!(text, r#"<li><a href="{BASE}{path}"{mark}>{title}</a></li>"#);
        }
        text.push_str("</ul>\n");
    }
    text
}

fn headings(page: &Page) -> String {
    let mut text = String::new();
    let listed: Vec<_> = page.sections.iter().filter(|section| section.is_listed()).collect();
    if listed.len() < 2 {
        return text;
    }
    text.push_str("<h2>On this page</h2>\n<ul>\n");
    for section in listed {
        let (level, id, heading) = (section.level, &section.id, escaped(&section.heading));
        let _ = writeln!(text, r##"<li class="level-{level}"><a href="#{id}">{heading}</a></li>"##);
    }
    text.push_str("</ul>\n");
    text
}

fn escaped(text: &str) -> String {
    let mut html = String::new();
    let _ = escape_html(&mut html, text);
    html
}
