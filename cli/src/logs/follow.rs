//! Follows a growing file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// Maximum bytes per read.
const CHUNK: u64 = 1024 * 1024;

pub struct Follower {
    path: PathBuf,
    offset: u64,
    /// The beginning of a line that is not complete yet.
    partial: Vec<u8>,
}

impl Follower {
    /// Follows the file from `offset` bytes.
    pub fn new(path: PathBuf, offset: u64) -> Self {
        Self { path, offset, partial: Vec::new() }
    }

    /// Returns the complete lines that were added since the last call. After a rotation, it reads the new file from its
    /// beginning.
    pub fn read(&mut self) -> io::Result<Vec<String>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // The log was rotated, and the new file does not exist yet.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        if file.metadata()?.len() < self.offset {
            self.offset = 0;
            self.partial.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        self.offset += file.take(CHUNK).read_to_end(&mut self.partial)? as u64;
        let Some(end) = self.partial.iter().rposition(|b| *b == b'\n') else { return Ok(Vec::new()) };
        let whole: Vec<u8> = self.partial.drain(..=end).collect();
        Ok(String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    #[test]
    fn whole_lines_are_read_as_they_are_added() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let add = |text: &str| {
            OpenOptions::new().create(true).append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
        };
        let mut follower = Follower::new(path.clone(), 0);
        assert_eq!(follower.read().unwrap(), Vec::<String>::new());
        add("one\ntw");
        assert_eq!(follower.read().unwrap(), ["one"]);
        add("o\nthree\n");
        assert_eq!(follower.read().unwrap(), ["two", "three"]);
        assert!(follower.read().unwrap().is_empty());
        fs::rename(&path, folder.path().join("a.log.1")).unwrap();
        assert!(follower.read().unwrap().is_empty());
        add("new\n");
        assert_eq!(follower.read().unwrap(), ["new"]);
    }
}
