//! Files that hold secrets: written atomically, and readable only by their owner.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

const OWNER_ONLY: u32 = 0o600;

/// Replaces `path` by `content` atomically: after a crash, either the old file or the new one exists.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(&draft)?;
    // A draft left by a crash keeps its old mode.
    file.set_permissions(fs::Permissions::from_mode(OWNER_ONLY))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Returns the file's text, or `None` if the file does not exist.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_atomically_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.json");
        assert_eq!(read(&path).unwrap(), None);
        fs::write(folder.path().join("secret.draft"), "left behind by a crash").unwrap();
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
