//! The index that the page's script searches.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::markdown::Page;
use crate::{BASE, path_of};

/// A section of a page.
#[derive(Serialize)]
struct Entry<'a> {
    url: String,
    /// The page's title.
    page: &'a str,
    /// The section's heading; the page's title for the text before the first heading.
    heading: &'a str,
    text: &'a str,
}

/// Returns the index as a JSON array with one entry for each section of each page.
pub(crate) fn index(pages: &BTreeMap<PathBuf, Page>) -> Result<Vec<u8>> {
    let mut entries = Vec::new();
    for (source, page) in pages {
        for section in &page.sections {
            let path = path_of(source);
            let anchor = if section.id.is_empty() { String::new() } else { format!("#{}", section.id) };
            entries.push(Entry {
                url: format!("{BASE}{path}{anchor}"),
                page: &page.title,
                heading: &section.heading,
                text: section.text.trim(),
            });
        }
    }
    Ok(serde_json::to_vec(&entries)?)
}
