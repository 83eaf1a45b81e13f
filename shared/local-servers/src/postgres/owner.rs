//! The user that runs PostgreSQL, which refuses to run as root.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::LocalError;

/// `None`: the user that runs this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(Option<Ids>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ids {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Chooses, as root, the user `postgres`, or else `nobody`; otherwise the user that runs this program.
    pub(super) fn choose() -> Result<Self, LocalError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(None));
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let ids = ["postgres", "_postgres", "nobody"].iter().find_map(|name| ids_of(&users, name));
        let none =
            || LocalError::Refused("PostgreSQL does not run as root, and there is no user postgres or nobody".into());
        ids.ok_or_else(none).map(|ids| Self(Some(ids)))
    }

    /// Makes a command run as this user, without root's groups.
    pub(super) fn drop_privileges(&self, command: &mut Command) {
        if let Some(Ids { uid, gid }) = self.0 {
            command.uid(uid).gid(gid);
        }
    }

    pub(super) fn take_ownership_of(&self, path: &Path) -> Result<(), LocalError> {
        let Some(Ids { uid, gid }) = self.0 else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(LocalError::io("change the owner of", path))
    }

    /// Returns whether this user can enter a directory, through all its parents.
    pub(super) fn can_enter(&self, dir: &Path) -> bool {
        let mut command = Command::new("sh");
        // Started in the root directory, because the user may be unable to enter the current one.
        command.args(["-c", "cd -- \"$0\""]).arg(dir).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.drop_privileges(&mut command);
        self.0.is_none() || command.status().is_ok_and(|status| status.success())
    }

    /// Returns whether this program's user owns a directory, so that no other user placed it there.
    pub(super) fn is_ours(dir: &Path) -> bool {
        let found = std::fs::symlink_metadata(dir);
        found.is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw())
    }
}

/// Finds a user's IDs in `/etc/passwd`. Root is never returned.
fn ids_of(users: &str, name: &str) -> Option<Ids> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (uid != 0).then_some(Ids { uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_ids_are_found_by_full_name() {
        let users = "root:x:0:0::/root:/bin/sh\npostgresx:x:7:7:::\npostgres:x:101:104:a,b:/var:/bin/bash\nbad:x:a:b\n";
        assert_eq!(ids_of(users, "postgres"), Some(Ids { uid: 101, gid: 104 }));
        assert_eq!((ids_of(users, "root"), ids_of(users, "bad"), ids_of(users, "nobody")), (None, None, None));
    }
}
