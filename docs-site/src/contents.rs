//! The navigation, as listed on the home page.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd};

use crate::markdown::Page;

/// A section of the navigation.
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) entries: Vec<Entry>,
}

/// A page in the navigation.
pub(crate) struct Entry {
    pub(crate) title: String,
    /// The page's source, relative to `docs`.
    pub(crate) source: PathBuf,
}

pub(crate) struct Contents {
    pub(crate) sections: Vec<Section>,
}

impl Contents {
    /// Reads the sections and the links to pages below them from the home page.
    pub(crate) fn of(home: &Page) -> Result<Self> {
        let mut sections: Vec<Section> = Vec::new();
        let mut text = None;
        let mut target = None;
        for event in home.events() {
            match event {
                Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }) => text = Some(String::new()),
                Event::End(TagEnd::Heading(HeadingLevel::H2)) => {
                    sections.push(Section { title: text.take().unwrap_or_default(), entries: Vec::new() });
                }
                Event::Start(Tag::Link { dest_url, .. })
                    if dest_url.ends_with(".md") && !dest_url.starts_with("..") =>
                {
                    target = Some(PathBuf::from(dest_url.as_ref()));
                    text = Some(String::new());
                }
                Event::End(TagEnd::Link) => {
                    if let (Some(source), Some(section)) = (target.take(), sections.last_mut()) {
                        section.entries.push(Entry { title: text.take().unwrap_or_default(), source });
                    }
                }
                Event::Text(part) | Event::Code(part) => {
                    if let Some(text) = &mut text {
                        text.push_str(&part);
                    }
                }
                _ => {}
            }
        }
        sections.retain(|section| !section.entries.is_empty());
        ensure!(!sections.is_empty(), "lists no pages under headings of the second level");
        Ok(Self { sections })
    }

    pub(crate) fn lists(&self, source: &Path) -> bool {
        self.sections.iter().flat_map(|section| &section.entries).any(|entry| entry.source == source)
    }
}
