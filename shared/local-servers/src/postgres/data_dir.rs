//! Locates and initializes PostgreSQL's data directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::USER;
use super::owner::Owner;
use crate::server_dir::{ServerDir, write_private};
use crate::{LocalError, PgBin};

/// Parents of the data directory if the server's user cannot reach the server's own directory; only used as root.
const FALLBACK_PARENTS: [&str; 2] = ["/var/lib", "/var/tmp"];

/// Prefix of the name under which data is initialized. The process ID follows, because the initdb of an interrupted
/// start may still be writing.
const UNFINISHED: &str = "data.unfinished-";

/// Returns the data directory, initialized and owned by the server's user. It is `data` in the server's directory, or a
/// link from there to a directory that the user can reach.
pub(super) async fn prepare(bin: &PgBin, dir: &ServerDir, owner: &Owner, sync: bool) -> Result<PathBuf, LocalError> {
    let data = dir.path.join("data");
    let password = dir.password()?;
    if password.is_some() && data.join("PG_VERSION").is_file() {
        return data.canonicalize().map_err(LocalError::io("find", &data));
    }
    if data.join("PG_VERSION").is_file() {
        return Err(
            dir.error(format!("the password file is missing; restore it, or remove {} to start over", data.display()))
        );
    }
    let home = home(&dir.path, owner)?;
    let filled = home.join("data");
    if home != dir.path && filled.exists() {
        if password.is_some() && filled.join("PG_VERSION").is_file() {
            // Only the link is missing.
            return link(&filled, &data);
        }
        // Left by a directory of the same name that was removed together with its password.
        fs::remove_dir_all(&filled).map_err(LocalError::io("remove", &filled))?;
    }
    let password = dir.ensure_password()?;
    // Initialized under another name, so that an interrupted first start leaves nothing that appears complete.
    remove_unfinished(&home);
    let unfinished = home.join(format!("{UNFINISHED}{}", std::process::id()));
    fs::create_dir(&unfinished).map_err(LocalError::io("create", &unfinished))?;
    owner.take_ownership_of(&unfinished)?;
    let given = initdb(bin, &home, &unfinished, &password, owner, sync).await;
    if let Err(problem) = given {
        let _ = fs::remove_dir_all(&unfinished);
        return Err(LocalError::Refused(format!("PostgreSQL's initdb failed: {problem}")));
    }
    fs::rename(&unfinished, &filled).map_err(LocalError::io("move into place", &filled))?;
    if home == dir.path { Ok(filled) } else { link(&filled, &data) }
}

/// Removes what interrupted starts left, as far as possible.
fn remove_unfinished(home: &Path) {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    for entry in entries.filter(|e| e.file_name().to_string_lossy().starts_with(UNFINISHED)) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

fn link(filled: &Path, data: &Path) -> Result<PathBuf, LocalError> {
    let _ = fs::remove_file(data);
    std::os::unix::fs::symlink(filled, data).map_err(LocalError::io("link", data))?;
    Ok(filled.to_owned())
}

/// Removes a server's directory, and the directory elsewhere that it links to.
pub(super) fn remove(dir: &Path) -> Result<(), LocalError> {
    let data = dir.join("data");
    if fs::read_link(&data).is_ok()
        && let Ok(target) = data.canonicalize()
        && let Some(home) = target.parent().filter(|home| Owner::is_ours(home))
    {
        fs::remove_dir_all(home).map_err(LocalError::io("remove", home))?;
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(LocalError::io("remove", dir)(error)),
        _ => Ok(()),
    }
}

/// Returns the server's directory, or, if the user cannot enter it, one elsewhere.
fn home(dir: &Path, owner: &Owner) -> Result<PathBuf, LocalError> {
    if owner.can_enter(dir) {
        return Ok(dir.to_owned());
    }
    let digest = hex::encode(Sha256::digest(dir.as_os_str().as_encoded_bytes()));
    let parent = FALLBACK_PARENTS.iter().map(Path::new).find(|parent| owner.can_enter(parent));
    let closed =
        || LocalError::Refused(format!("PostgreSQL's user cannot enter {}; choose another directory", dir.display()));
    let home = parent.ok_or_else(closed)?.join(format!("rekindle-{}", &digest[..16]));
    if fs::symlink_metadata(&home).is_ok() {
        if !Owner::is_ours(&home) {
            let problem = format!("{} belongs to another user; choose another directory for the data", home.display());
            return Err(LocalError::Refused(problem));
        }
        return Ok(home);
    }
    fs::DirBuilder::new().create(&home).map_err(LocalError::io("create", &home))?;
    fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o711))
        .map_err(LocalError::io("open", &home))?;
    Ok(home)
}

async fn initdb(
    bin: &PgBin,
    home: &Path,
    data: &Path,
    password: &str,
    owner: &Owner,
    sync: bool,
) -> Result<(), LocalError> {
    let password_file = home.join("password.initdb");
    write_private(&password_file, password)?;
    owner.take_ownership_of(&password_file)?;
    // Collates by bytes, so that an index does not depend on the system's locales. Letters of all scripts still have
    // upper and lower case.
    let letters = if cfg!(target_os = "macos") { "UTF-8" } else { "C.UTF-8" };
    let mut command = Command::new(bin.dir.join("initdb"));
    command.args(["--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--username", USER]);
    command.arg(format!("--lc-ctype={letters}")).args((!sync).then_some("--no-sync"));
    command.arg("--pwfile").arg(&password_file).arg("-D").arg(data);
    command.env("LC_ALL", "C").current_dir(home).stdin(Stdio::null());
    owner.drop_privileges(&mut command);
    let output = tokio::process::Command::from(command).kill_on_drop(true).output().await;
    let _ = fs::remove_file(&password_file);
    let output = output.map_err(LocalError::io("start", &bin.dir.join("initdb")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(LocalError::Refused(text.lines().map(str::trim).collect::<Vec<_>>().join("; ")))
}
