//! The directory of emails. An email appears under its name only once it is synced to disk.

use std::fs;
use std::io::{Result, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::session::Envelope;
use kernel::clock::Clock;

#[derive(Debug)]
pub(super) struct Spool {
    dir: PathBuf,
    clock: Clock,
    written: AtomicU64,
}

impl Spool {
    /// Creates the directory if it is missing.
    pub(super) fn open(dir: &Path) -> Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        Ok(Self { dir: dir.to_owned(), clock: Clock::system(), written: AtomicU64::new(0) })
    }

    /// Writes one email; blocking.
    pub(super) fn store(&self, envelope: &Envelope, mail: &[u8]) -> Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:013}-{number:07}-{:08x}.eml", self.clock.now_ms(), rand::random::<u32>());
        let unfinished = self.dir.join(format!(".{name}.unfinished"));
        let written =
            Self::write(&unfinished, envelope, mail).and_then(|()| fs::rename(&unfinished, self.dir.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    fn write(path: &Path, envelope: &Envelope, mail: &[u8]) -> Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
        let to: String = envelope.to.iter().flat_map(|to| ["Delivered-To: ", to, "\r\n"]).collect();
        let head = format!("Return-Path: <{}>\r\n{to}", envelope.from);
        file.write_all(&[head.as_bytes(), mail].concat())?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emails_are_complete_and_ordered() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(&dir.path().join("mail")).unwrap();
        let envelope = Envelope { from: "a@b".into(), to: vec!["c@d".into(), "e@f".into()], unanswered: false };
        for n in 0..20 {
            spool.store(&envelope, format!("{n}\r\n").as_bytes()).unwrap();
        }
        let mut names: Vec<PathBuf> =
            fs::read_dir(dir.path().join("mail")).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        for (n, name) in names.iter().enumerate() {
            let expected = format!("Return-Path: <a@b>\r\nDelivered-To: c@d\r\nDelivered-To: e@f\r\n{n}\r\n");
            assert_eq!(fs::read_to_string(name).unwrap(), expected);
            assert_eq!(name.extension().unwrap(), "eml");
        }
        assert_eq!(names.len(), 20);
    }
}
