//! Log files: rotated once they are large, read from the end.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// A log larger than this is rotated when its process starts.
pub const MAX_LOG_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum bytes at the end of a log that are searched for its last lines.
const MAX_TAIL_BYTES: u64 = 256 * 1024;

/// Rotates a log larger than `max_bytes` to `<name>.log.1`, replacing the previous one.
pub fn rotate(path: &Path, max_bytes: u64) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|m| m.len() > max_bytes) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    Ok(())
}

/// Returns the last `count` lines, oldest first, and the file's length when they were read. A missing file counts as
/// empty.
pub fn last_lines(path: &Path, count: usize) -> io::Result<(Vec<String>, u64)> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(e) => return Err(e),
    };
    let length = file.metadata()?.len();
    let start = length.saturating_sub(MAX_TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(length - start).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line of a tail is incomplete.
    let mut lines: Vec<String> = text.lines().skip(usize::from(start > 0)).map(str::to_owned).collect();
    lines.drain(..lines.len().saturating_sub(count));
    Ok((lines, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_log_is_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.log");
        rotate(&path, 10).unwrap();
        fs::write(&path, "0123456789").unwrap();
        rotate(&path, 10).unwrap();
        assert!(path.exists());
        fs::write(&path, "0123456789a").unwrap();
        rotate(&path, 10).unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read_to_string(folder.path().join("gateway.log.1")).unwrap(), "0123456789a");
    }

    #[test]
    fn last_lines_of_any_log_are_returned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        assert_eq!(last_lines(&path, 5).unwrap(), (vec![], 0));
        fs::write(&path, "a\nb\nc\n").unwrap();
        assert_eq!(last_lines(&path, 2).unwrap().0, ["b", "c"]);
        assert_eq!(last_lines(&path, 9).unwrap().0, ["a", "b", "c"]);
        let long = (0..40_000).map(|i| format!("line {i}")).collect::<Vec<_>>().join("\n");
        fs::write(&path, &long).unwrap();
        let (lines, length) = last_lines(&path, 100_000).unwrap();
        assert_eq!((lines.last().map(String::as_str), length), (Some("line 39999"), long.len() as u64));
        assert!(lines[0].starts_with("line "));
    }
}
