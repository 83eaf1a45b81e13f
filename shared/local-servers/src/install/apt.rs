//! Installs Debian packages without starting or enabling system services.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{LocalError, run};

const POLICY: &str = "/usr/sbin/policy-rc.d";
const CLUSTER_CONF: &str = "/etc/postgresql-common/createcluster.d/rekindle-install.conf";
const LOCK: &str = "/var/lock/rekindle-install.lock";
const FILE_MARKER: &str = "# Written by rekindle while it installs packages; safe to remove.";

pub(super) struct Apt(OnceLock<()>);

impl Apt {
    /// Returns `Some` on a Debian-like system, as root.
    pub(super) fn usable() -> Option<Self> {
        let debian = Path::new("/usr/bin/apt-get").exists() && Path::new("/etc/debian_version").exists();
        (debian && rustix::process::geteuid().is_root()).then(|| Self(OnceLock::new()))
    }

    /// Installs packages. The first call also updates the package lists.
    pub(super) fn install(&self, packages: &[&str]) -> Result<(), LocalError> {
        let lock = fs::File::create(LOCK).map_err(LocalError::io("create", Path::new(LOCK)))?;
        lock.lock().map_err(LocalError::io("lock", Path::new(LOCK)))?;
        let _services = NoServices::hold();
        if self.0.set(()).is_ok() {
            // The installation may succeed with the old lists if the update fails.
            let _ = run("the package lists", &mut apt_get(&["update", "-q"]));
        }
        let mut command = apt_get(&["install", "-y", "-q", "--no-install-recommends"]);
        run("packages", command.args(packages))?;
        disable_services(packages);
        Ok(())
    }
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(["-o", "DPkg::Lock::Timeout=300"]).args(arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C").stdin(std::process::Stdio::null());
    command
}

/// Disables services that the installation enabled for the next boot.
fn disable_services(packages: &[&str]) {
    if !Path::new("/run/systemd/system").exists() {
        return;
    }
    for service in packages.iter().filter(|name| matches!(**name, "postgresql" | "redis-server" | "postfix")) {
        // The packages are installed, so a failure is ignored.
        let _ = run("services", Command::new("systemctl").args(["disable", service]));
    }
}

/// While it exists, package scripts start no service and create no database cluster.
struct NoServices(Vec<PathBuf>);

impl NoServices {
    fn hold() -> Self {
        // 101 means "forbidden by policy". An existing policy of the machine stays in force.
        let policy = write_unless_exists(Path::new(POLICY), &format!("#!/bin/sh\n{FILE_MARKER}\nexit 101\n"), 0o755);
        let cluster = write_unless_exists(
            Path::new(CLUSTER_CONF),
            &format!("{FILE_MARKER}\ncreate_main_cluster = false\n"),
            0o644,
        );
        Self(policy.into_iter().chain(cluster).collect())
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = fs::remove_file(file);
        }
    }
}

/// Writes a file unless it exists. Returns the path if this program may remove the file, including one that an
/// interrupted installation left.
fn write_unless_exists(path: &Path, text: &str, mode: u32) -> Option<PathBuf> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).ok()?;
    }
    let written = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let ours = match written {
        Ok(mut file) => file.write_all(text.as_bytes()).is_ok(),
        Err(_) => fs::read_to_string(path).is_ok_and(|found| found.contains(FILE_MARKER)),
    };
    ours.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_file_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d/policy");
        assert_eq!(write_unless_exists(&path, &format!("{FILE_MARKER}\n"), 0o755), Some(path.clone()));
        assert_eq!(
            write_unless_exists(&path, &format!("{FILE_MARKER}\n"), 0o755),
            Some(path.clone()),
            "left by an earlier installation"
        );
        fs::write(&path, "exit 0\n").unwrap();
        assert_eq!(write_unless_exists(&path, FILE_MARKER, 0o755), None);
        assert_eq!(fs::read_to_string(&path).unwrap(), "exit 0\n");
    }
}
