//! The directory of one local system, and the paths in it.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Which run directory is meant.
#[derive(Clone, Debug, clap::Args)]
pub struct RunDirArg {
    /// Directory for data, logs, state and credentials.
    #[arg(long, env = "RUN_DIR", default_value = ".run", value_name = "DIR")]
    pub run_dir: PathBuf,
}

/// An existing run directory, as an absolute path.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// Creates the directory if it does not exist.
    pub fn create(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot create {} (RUN_DIR)", path.display()))?;
        let dir = Self::existing(path)?.with_context(|| format!("cannot find {} (RUN_DIR)", path.display()))?;
        // The directory itself is traversable, because PostgreSQL may run as another user. These subdirectories are
        // private.
        for private in [dir.logs(), dir.pids(), dir.mail(), dir.push()] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&private);
            made.with_context(|| format!("cannot create {} (RUN_DIR)", private.display()))?;
        }
        Ok(dir)
    }

    /// Returns the directory, or `None` if nothing ever ran there.
    pub fn existing(path: &Path) -> Result<Option<Self>> {
        match fs::canonicalize(path) {
            Ok(path) if path.is_dir() => Ok(Some(Self(path))),
            Ok(path) => bail!("{} is not a directory (RUN_DIR)", path.display()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).with_context(|| format!("cannot open {} (RUN_DIR)", path.display())),
        }
    }

    /// Locks out other `up` and `down` commands on this directory until the file is dropped.
    pub fn lock(&self) -> Result<File> {
        let path = self.0.join("lock");
        let opened = File::options().create(true).append(true).open(&path);
        let file = opened.with_context(|| format!("cannot write {} (RUN_DIR)", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                bail!("another `rekindle up` or `down` is running in {}: wait for it to finish", self.0.display())
            }
            Err(TryLockError::Error(e)) => Err(e).context("cannot lock the run directory"),
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Programs that were installed only for this system.
    pub fn bin(&self) -> PathBuf {
        self.0.join("bin")
    }

    /// A server's own directory: `postgres`, `nats` or `redis`.
    pub fn server(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn mail(&self) -> PathBuf {
        self.0.join("mail")
    }

    /// Pushes to devices whose tokens belong to the local push mailbox.
    pub fn push(&self) -> PathBuf {
        self.0.join("push")
    }

    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    pub fn log(&self, process: &str) -> PathBuf {
        self.logs().join(format!("{process}.log"))
    }

    fn pids(&self) -> PathBuf {
        self.0.join("pids")
    }

    pub fn pid_file(&self, process: &str) -> PathBuf {
        self.pids().join(format!("{process}.pid"))
    }

    pub fn state_file(&self) -> PathBuf {
        self.0.join("state.json")
    }

    pub fn master_key_file(&self) -> PathBuf {
        self.0.join("master.key")
    }

    pub fn processes_file(&self) -> PathBuf {
        self.0.join("processes.json")
    }

    pub fn credentials_file(&self) -> PathBuf {
        self.0.join("credentials.json")
    }

    /// The credentials as shell variables.
    pub fn env_file(&self) -> PathBuf {
        self.0.join("env")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_dir_lock_is_exclusive() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&folder.path().join("run")).unwrap();
        assert!(dir.path().is_absolute());
        let held = dir.lock().unwrap();
        assert!(dir.lock().unwrap_err().to_string().contains("is running"));
        drop(held);
        dir.lock().unwrap();
    }

    #[test]
    fn unused_run_dir_does_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        assert!(RunDir::existing(&folder.path().join("none")).unwrap().is_none());
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(RunDir::existing(&folder.path().join("file")).is_err());
    }
}
