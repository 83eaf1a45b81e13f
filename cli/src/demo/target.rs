//! The system that the demo calls, from the files of `rekindle up` or from flags.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub base_url: String,
    pub public_key: String,
    pub secret_key: String,
    pub mail_dir: PathBuf,
    pub push_dir: PathBuf,
}

/// The part of `credentials.json` that the demo needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetOptions {
    pub base_url: Option<String>,
    pub public_key: Option<String>,
    pub secret_key: Option<String>,
    pub mail_dir: Option<PathBuf>,
    pub push_dir: Option<PathBuf>,
}

impl TargetOptions {
    /// Fills missing values from the file. Each flag takes precedence, and the file may be absent if all five are
    /// given.
    pub fn or_from_file(self, run_dir: &Path) -> anyhow::Result<Target> {
        let path = run_dir.join("credentials.json");
        let written = match std::fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json).with_context(|| format!("reading {}", path.display()))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => TargetOptions::default(),
            Err(e) => return Err(e).with_context(|| format!("reading {}", path.display())),
        };
        let missing =
            |flag| format!("{flag} is not set, and {} does not contain it: is the system up?", path.display());
        Ok(Target {
            base_url: self.base_url.or(written.base_url).with_context(|| missing("--base-url"))?,
            public_key: self.public_key.or(written.public_key).with_context(|| missing("--public-key"))?,
            secret_key: self.secret_key.or(written.secret_key).with_context(|| missing("--secret-key"))?,
            mail_dir: self.mail_dir.or(written.mail_dir).with_context(|| missing("--mail-dir"))?,
            push_dir: self.push_dir.or(written.push_dir).with_context(|| missing("--push-dir"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_take_precedence_over_credentials_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = TargetOptions::default().or_from_file(dir.path()).err().unwrap().to_string();
        assert!(error.contains("--base-url") && error.contains("is the system up?"), "{error}");
        let json = r#"{"baseUrl":"http://a","publicKey":"pk","secretKey":"sk","mailDir":"/m","pushDir":"/p","adminEmail":"x"}"#;
        std::fs::write(dir.path().join("credentials.json"), json).unwrap();
        let flags = TargetOptions { base_url: Some("http://b".into()), ..TargetOptions::default() };
        let target = flags.or_from_file(dir.path()).unwrap();
        assert_eq!((target.base_url.as_str(), target.public_key.as_str()), ("http://b", "pk"));
        assert_eq!((target.mail_dir, target.push_dir), (PathBuf::from("/m"), PathBuf::from("/p")));
    }
}
