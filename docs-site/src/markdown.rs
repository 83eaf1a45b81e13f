//! Reads a page's Markdown and renders it as HTML.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use crate::{API_REFERENCE, BASE, path_of, slashes};

/// A page, as read.
pub(crate) struct Page {
    source: String,
    /// Its heading of the first level.
    pub(crate) title: String,
    pub(crate) sections: Vec<Section>,
}

/// The part of a page below a heading.
pub(crate) struct Section {
    /// The heading's anchor, as GitHub forms it; empty for the page's title.
    pub(crate) id: String,
    pub(crate) heading: String,
    pub(crate) level: u8,
    /// The text without markup, for the search.
    pub(crate) text: String,
}

/// What links of a page are checked against.
pub(crate) struct Links<'a> {
    pub(crate) docs: &'a Path,
    pub(crate) pages: &'a BTreeMap<PathBuf, Page>,
}

/// What pages show and link to besides other pages; relative to `docs`.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) images: BTreeSet<PathBuf>,
    pub(crate) outside: BTreeSet<PathBuf>,
}

/// Where a link leads.
enum Target {
    Url(String),
    /// A file of the repository that does not belong to the site.
    Outside(PathBuf),
}

impl Page {
    pub(crate) fn read(source: &str) -> Result<Self> {
        let mut page = Self { source: source.to_owned(), title: String::new(), sections: Vec::new() };
        let mut sections: Vec<Section> = Vec::new();
        let mut is_heading = false;
        for event in parser(source) {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    is_heading = true;
                    let level = level as u8;
                    sections.push(Section { id: String::new(), heading: String::new(), level, text: String::new() });
                }
                Event::End(TagEnd::Heading(_)) => {
                    is_heading = false;
                    let taken: Vec<&str> = sections.iter().map(|section| section.id.as_str()).collect();
                    if let Some(section) = sections.last().filter(|section| section.level > 1) {
                        let id = unused(&slug(&section.heading), &taken);
                        if let Some(section) = sections.last_mut() {
                            section.id = id;
                        }
                    }
                }
                Event::Text(part) | Event::Code(part) => {
                    if let Some(section) = sections.last_mut() {
                        if is_heading { section.heading.push_str(&part) } else { section.text.push_str(&part) }
                    }
                }
                Event::End(TagEnd::Paragraph | TagEnd::TableCell | TagEnd::Item | TagEnd::CodeBlock)
                | Event::SoftBreak
                | Event::HardBreak => {
                    if let Some(section) = sections.last_mut().filter(|section| !section.text.ends_with(' ')) {
                        section.text.push(' ');
                    }
                }
                _ => {}
            }
        }
        let title = sections.first().filter(|section| section.level == 1).context("does not begin with a # heading")?;
        page.title.clone_from(&title.heading);
        page.sections = sections;
        Ok(page)
    }

    pub(crate) fn events(&self) -> Parser<'_> {
        parser(&self.source)
    }

    /// Renders the page; adds the files that it names to `named`.
    pub(crate) fn html(&self, path: &Path, links: &Links<'_>, named: &mut Named) -> Result<String> {
        let mut events = Vec::new();
        let mut sections = self.sections.iter();
        let mut opened = Vec::new();
        for event in self.events() {
            match event {
                Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                    let id = sections.next().map(|section| section.id.clone()).filter(|id| !id.is_empty());
                    let id = id.map(CowStr::from);
                    events.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
                }
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let target = links.target(path, &dest_url)?;
                    opened.push(matches!(target, Target::Url(_)));
                    match target {
                        Target::Url(url) => {
                            events.push(Event::Start(Tag::Link { link_type, dest_url: url.into(), title, id }));
                        }
                        Target::Outside(file) => {
                            named.outside.insert(file);
                        }
                    }
                }
                Event::End(TagEnd::Link) => {
                    if opened.pop() == Some(true) {
                        events.push(event);
                    }
                }
                Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                    let image = links.existing(path, &dest_url)?;
                    let dest_url = format!("{BASE}{}", slashes(&image)).into();
                    named.images.insert(image);
                    events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
                }
                // Wide tables scroll by themselves.
                Event::Start(Tag::Table(alignments)) => {
                    events.push(Event::Html("<div class=\"table\">".into()));
                    events.push(Event::Start(Tag::Table(alignments)));
                }
                Event::End(TagEnd::Table) => {
                    events.push(event);
                    events.push(Event::Html("</div>".into()));
                }
                event => events.push(event),
            }
        }
        let mut text = String::new();
        html::push_html(&mut text, events.into_iter());
        Ok(text)
    }
}

impl Links<'_> {
    fn target(&self, from: &Path, link: &str) -> Result<Target> {
        if link.contains("://") || link.starts_with("mailto:") {
            return Ok(Target::Url(link.to_owned()));
        }
        let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
        let path = if file.is_empty() { from.to_owned() } else { self.existing(from, file)? };
        let Some(page) = self.pages.get(&path) else {
            let is_api = path == Path::new("../openapi.yaml");
            return Ok(if is_api { Target::Url(API_REFERENCE.to_owned()) } else { Target::Outside(path) });
        };
        let mut url = format!("{BASE}{}", path_of(&path));
        if let Some(anchor) = anchor {
            let exists = page.sections.iter().any(|section| section.id == anchor);
            ensure!(exists, "{} has no heading #{anchor}", path.display());
            url = format!("{url}#{anchor}");
        }
        Ok(Target::Url(url))
    }

    /// Returns the file that a page names, relative to `docs`; fails if `docs` does not contain it.
    fn existing(&self, from: &Path, file: &str) -> Result<PathBuf> {
        let mut path = PathBuf::new();
        for part in from.parent().unwrap_or(Path::new("")).join(file).components() {
            match part {
                Component::ParentDir if path.file_name().is_some() => {
                    path.pop();
                }
                part => path.push(part),
            }
        }
        ensure!(path.starts_with("..") || self.docs.join(&path).exists(), "{} does not exist", path.display());
        Ok(path)
    }
}

fn parser(source: &str) -> Parser<'_> {
    Parser::new_ext(source, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_GFM)
}

/// Returns the anchor of a heading, as GitHub forms it: lower case, without punctuation, hyphens for spaces.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// Appends a number if the anchor is taken, as GitHub does.
fn unused(slug: &str, taken: &[&str]) -> String {
    let numbered = |n: usize| if n == 0 { slug.to_owned() } else { format!("{slug}-{n}") };
    let free = (0..=taken.len()).map(numbered).find(|id| !taken.contains(&id.as_str()));
    free.unwrap_or_default()
}

impl Section {
    /// Whether the navigation within a page shows it.
    pub(crate) fn is_listed(&self) -> bool {
        self.level == HeadingLevel::H2 as u8 || self.level == HeadingLevel::H3 as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_githubs() {
        assert_eq!(
            slug("Diagnose an installation: `rekindle doctor`".replace('`', "").as_str()),
            "diagnose-an-installation-rekindle-doctor"
        );
        assert_eq!(slug("TLS & proxies"), "tls--proxies");
        assert_eq!(unused("a", &["", "a", "a-1"]), "a-2");
    }

    #[test]
    fn pages_begin_with_a_heading() {
        assert!(Page::read("text\n").is_err());
        assert_eq!(Page::read("# A `b`\n").unwrap().title, "A b");
    }
}
