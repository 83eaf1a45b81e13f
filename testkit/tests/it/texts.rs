//! The texts in the sources that hold statements.

use std::collections::BTreeMap;

use testkit::sources::{self, Source};

/// The crates whose sources hold statements.
const CRATES: [&str; 4] = ["database", "store-projects", "store-profiles", "store-sending"];

/// A mark for an escaped quote while texts are cut out by quotes.
const QUOTE: char = '\u{1}';

/// The texts of a source, in one line each.
pub(crate) struct Texts {
    /// From the sources of its crate.
    pub file: String,
    pub all: Vec<String>,
    /// Those that are constants, by their names, unless several have the same name.
    pub named: BTreeMap<String, String>,
}

impl Texts {
    fn of(source: &Source) -> Self {
        let lines = source.code().lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n").replace("\\\"", &QUOTE.to_string()).replace("\\\n", "\n");
        let (mut all, mut named) = (Vec::new(), BTreeMap::new());
        let mut before = "";
        for (at, part) in code.split('"').enumerate() {
            if at % 2 == 0 {
                before = part;
                continue;
            }
            let words: Vec<&str> = part.split_whitespace().collect();
            let text = words.join(" ").replace(QUOTE, "\"");
            let constant = before.rsplit_once("const ").and_then(|(_, rest)| rest.trim().split_once(": "));
            if let Some((name, "&str =")) = constant {
                let is_ambiguous = named.insert(name.to_owned(), text.clone()).is_some();
                if is_ambiguous {
                    named.insert(name.to_owned(), format!("{{{name}}}"));
                }
            }
            all.push(text);
        }
        Self { file: source.path.clone(), all, named }
    }
}

/// Every source of the crates that hold statements, by its path in the sources of its crate.
pub(crate) fn all_sources() -> Vec<Source> {
    CRATES.iter().flat_map(|name| sources::below(&format!("shared/{name}/src"))).collect()
}

pub(crate) fn all_texts() -> Vec<Texts> {
    all_sources().iter().map(Texts::of).collect()
}
