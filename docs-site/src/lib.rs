//! Builds the documentation site from the Markdown in `docs/`.
//!
//! `docs/README.md` is the home page, and its lists are the navigation: a `##` heading starts a section, and each link below it
//! is a page. The build fails if a page is missing from it, or if a link or an anchor leads nowhere.

mod contents;
mod layout;
mod markdown;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};

use contents::Contents;
use markdown::{Links, Named, Page};

/// The path that the site is served under.
pub const BASE: &str = "/docs/";
/// The page of the API reference, which the gateway serves itself.
const API_REFERENCE: &str = "/docs/api";
/// The folders of the site. Others, such as the decision records, are for contributors and stay in the repository.
const FOLDERS: [&str; 3] = ["guide", "operate", "reference"];

#[derive(Debug)]
pub struct Site {
    /// Ordered by path.
    pub files: Vec<File>,
    /// Files of the repository outside of `docs` that pages link to, relative to `docs`. The site names them without a link,
    /// and they need not be there: an image is built without them.
    pub outside: BTreeSet<PathBuf>,
}

/// A file of the site.
#[derive(Debug)]
pub struct File {
    /// The path below [`BASE`]; empty for the home page.
    pub path: String,
    pub bytes: Vec<u8>,
}

/// Builds the site from `docs` of the repository.
pub fn build(docs: &Path) -> Result<Site> {
    let sources = sources(docs)?;
    let mut pages = BTreeMap::new();
    for source in &sources {
        let text = fs::read_to_string(docs.join(source)).with_context(|| source.display().to_string())?;
        pages.insert(source.clone(), Page::read(&text).with_context(|| source.display().to_string())?);
    }
    let home = Path::new("README.md");
    let contents = Contents::of(&pages[home]).context("README.md")?;
    for source in sources.iter().filter(|source| *source != home) {
        ensure!(contents.lists(source), "docs/README.md does not list {}", source.display());
    }

    let links = Links { docs, pages: &pages };
    let mut files = Vec::new();
    let mut named = Named::default();
    for (source, page) in &pages {
        let html = page.html(source, &links, &mut named).with_context(|| format!("docs/{}", source.display()))?;
        let page = layout::page(&contents, source, page, &html);
        files.push(File { path: path_of(source), bytes: page.into_bytes() });
    }
    for image in named.images {
        let bytes = fs::read(docs.join(&image)).with_context(|| image.display().to_string())?;
        files.push(File { path: slashes(&image), bytes });
    }
    files.push(File { path: "search.json".to_owned(), bytes: search::index(&pages)? });
    files.push(File { path: "site.css".to_owned(), bytes: include_bytes!("site.css").to_vec() });
    files.push(File { path: "site.js".to_owned(), bytes: include_bytes!("site.js").to_vec() });
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Site { files, outside: named.outside })
}

/// Returns the Markdown files of the site, relative to `docs`.
fn sources(docs: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("README.md")];
    for folder in FOLDERS {
        let entries = fs::read_dir(docs.join(folder)).with_context(|| format!("docs/{folder}"))?;
        let names: Vec<_> = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        for name in names {
            let source = Path::new(folder).join(name);
            if source.extension().is_some_and(|extension| extension == "md") {
                found.push(source);
            }
        }
    }
    found.sort();
    if found.len() == 1 {
        bail!("{} has no pages", docs.display());
    }
    Ok(found)
}

/// Returns a page's path below [`BASE`]: `guide/automations` for `guide/automations.md`, and nothing for the home page.
fn path_of(source: &Path) -> String {
    if source == Path::new("README.md") { String::new() } else { slashes(&source.with_extension("")) }
}

fn slashes(path: &Path) -> String {
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs(pages: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in FOLDERS {
            fs::create_dir_all(root.path().join("docs").join(folder)).unwrap();
        }
        for (path, text) in pages {
            fs::write(root.path().join(path), text).unwrap();
        }
        root
    }

    const HOME: (&str, &str) = ("docs/README.md", "# Docs\n\n## Guide\n\n- [Mail](guide/mail.md): send one\n");

    fn built(pages: &[(&str, &str)]) -> Result<BTreeMap<String, String>> {
        let root = docs(pages);
        let site = build(&root.path().join("docs"))?;
        Ok(site.files.into_iter().map(|file| (file.path, String::from_utf8_lossy(&file.bytes).into_owned())).collect())
    }

    #[test]
    fn pages_link_to_each_other_by_their_paths() {
        let site = built(&[HOME, ("docs/guide/mail.md", "# Mail\n\nBack to the [list](../README.md).\n")]).unwrap();
        assert!(site[""].contains(r#"<a href="/docs/guide/mail">Mail</a>"#), "{}", site[""]);
        assert!(site["guide/mail"].contains(r#"<a href="/docs/">list</a>"#), "{}", site["guide/mail"]);
        assert!(site["guide/mail"].contains("<title>Mail · Rekindle</title>"));
    }

    #[test]
    fn links_to_other_files_of_the_repository_become_text_and_the_api_document_its_reference() {
        let mail = "# Mail\n\n[Rules](../../LICENSE), [API](../../openapi.yaml), [RFC](https://example.com/a).\n";
        let site =
            built(&[HOME, ("docs/guide/mail.md", mail), ("LICENSE", "free"), ("openapi.yaml", "openapi: 3.1.0")]);
        let page = &site.unwrap()["guide/mail"];
        assert!(page.contains("<p>Rules, <a href=\"/docs/api\">API</a>, "), "{page}");
        assert!(page.contains(r#"<a href="https://example.com/a">RFC</a>"#), "{page}");
    }

    #[test]
    fn dead_links_and_anchors_fail_the_build() {
        for (link, complaint) in [
            ("gone.md", "guide/gone.md does not exist"),
            ("mail.md#gone", "guide/mail.md has no heading #gone"),
            ("#gone", "guide/mail.md has no heading #gone"),
            ("gone.png", "guide/gone.png does not exist"),
        ] {
            let mark = if link.contains(".png") { "!" } else { "" };
            let error = built(&[HOME, ("docs/guide/mail.md", &format!("# Mail\n\n{mark}[x]({link})\n"))]).unwrap_err();
            assert!(format!("{error:#}").contains(complaint), "{error:#}");
        }
        let mail = "# Mail\n\n[here](#send-a-mail)\n\n## Send a mail\n";
        let site = built(&[HOME, ("docs/guide/mail.md", mail)]).unwrap();
        assert!(site["guide/mail"].contains(r#"<h2 id="send-a-mail">"#), "{}", site["guide/mail"]);
    }

    #[test]
    fn unlisted_pages_fail_the_build() {
        let error = built(&[HOME, ("docs/guide/mail.md", "# Mail\n"), ("docs/operate/new.md", "# New\n")]).unwrap_err();
        assert_eq!(format!("{error:#}"), "docs/README.md does not list operate/new.md");
    }

    #[test]
    fn images_belong_to_the_site() {
        let mail = ("docs/guide/mail.md", "# Mail\n\n![A mail](mail.svg)\n");
        let site = built(&[HOME, mail, ("docs/guide/mail.svg", "<svg/>")]).unwrap();
        assert!(site["guide/mail"].contains(r#"<img src="/docs/guide/mail.svg" alt="A mail" />"#));
        assert_eq!(site["guide/mail.svg"], "<svg/>");
    }

    #[test]
    fn search_finds_sections_by_their_text() {
        let mail = ("docs/guide/mail.md", "# Mail\n\nFirst.\n\n## Limits\n\nAt most `10` a second & more.\n");
        let site = built(&[HOME, mail]).unwrap();
        let index: Vec<serde_json::Value> = serde_json::from_str(&site["search.json"]).unwrap();
        let limits = index.iter().find(|entry| entry["heading"] == "Limits").unwrap();
        assert_eq!(limits["url"], "/docs/guide/mail#limits");
        assert_eq!(limits["page"], "Mail");
        assert_eq!(limits["text"], "At most 10 a second & more.");
    }

    /// The repository's own documentation builds: each page is listed, and no link is dead.
    #[test]
    fn the_documentation_builds() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let site = build(&docs).unwrap();
        assert!(site.files.iter().any(|file| file.path == "guide/first-steps"));
        for file in site.outside {
            assert!(docs.join(&file).exists(), "{} does not exist", file.display());
        }
    }
}
