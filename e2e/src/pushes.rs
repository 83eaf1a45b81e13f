//! The pushes to made-up devices.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use uuid::Uuid;

/// Counts the copies of each message.
///
/// Panics on a file that is not a push.
pub fn copies(dir: &Path) -> BTreeMap<Uuid, u32> {
    let mut copies = BTreeMap::new();
    // The first push creates the directory.
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let push: Value = serde_json::from_slice(&text).unwrap_or_default();
            let id = push["messageId"].as_str().and_then(|id| Uuid::try_parse(id).ok());
            let id = id.unwrap_or_else(|| panic!("{}: no message ID in {push}", path.display()));
            *copies.entry(id).or_default() += 1;
        }
    }
    copies
}
