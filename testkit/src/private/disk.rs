//! A separate file system for a private server's data, small enough to be filled.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{must, random_name};

/// Prefix of the names of mount points, which identifies them.
const PREFIX: &str = "rekindle-disk-";
/// Steps in bytes by which the ballast file grows: large ones first, then pages.
const STEPS: [usize; 2] = [1 << 20, 1 << 12];

/// A tmpfs, which requires Linux and root. It is [`unmount`]ed with its server's directory.
#[derive(Debug)]
pub(super) struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Moves the data of a stopped server to a disk of `bytes` bytes, and leaves a symbolic link to it.
    ///
    /// Panics with the reason on failure.
    pub(super) fn create(data: &Path, bytes: u64) -> Self {
        // In a directory that the server's own user can enter, even if that user cannot enter this project's.
        let at = std::env::temp_dir().join(format!("{PREFIX}{}", random_name()));
        must("a disk for a private server", mount(&at, bytes));
        let disk = Self { at };
        let moved = disk.take_over(data);
        if moved.is_err() {
            let _ = unmount_at(&disk.at);
        }
        must("moving a private server's data", moved);
        disk
    }

    fn take_over(&self, data: &Path) -> io::Result<()> {
        let found = data.canonicalize()?;
        run(Command::new("cp").arg("--archive").arg(&found).arg(self.data()))?;
        if fs::symlink_metadata(data)?.is_symlink() {
            // The data is in a directory created for it, which its server's user can enter.
            fs::remove_dir_all(found.parent().unwrap_or(&found))?;
            fs::remove_file(data)?;
        } else {
            fs::remove_dir_all(data)?;
        }
        std::os::unix::fs::symlink(self.data(), data)
    }

    fn data(&self) -> PathBuf {
        self.at.join("data")
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }

    /// Fills the remaining space.
    pub(super) async fn fill(&self) {
        let ballast = self.ballast();
        let filled = tokio::task::spawn_blocking(move || {
            let mut file = File::create(ballast)?;
            STEPS.into_iter().try_for_each(|step| write_until_full(&mut file, step))
        });
        must("filling a disk", must("filling a disk", filled.await));
    }

    /// Frees the space.
    pub(super) fn free(&self) {
        must("freeing a disk", fs::remove_file(self.ballast()));
    }
}

fn write_until_full(file: &mut File, step: usize) -> io::Result<()> {
    let zeros = vec![0; step];
    loop {
        match file.write(&zeros) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Whether disks can be mounted here; the error says why not.
pub fn disks_can_be_mounted() -> Result<(), String> {
    let at = std::env::temp_dir().join(format!("{PREFIX}{}", random_name()));
    let tried = mount(&at, 1 << 20).and_then(|()| unmount_at(&at));
    tried.map_err(|error| format!("cannot mount a tmpfs, which requires Linux and root: {error}"))
}

/// Unmounts the disk that holds a stopped server's data, if any.
pub(crate) fn unmount(data: &Path) -> io::Result<()> {
    let Ok(target) = fs::read_link(data) else { return Ok(()) };
    let disk = target.parent().filter(|at| at.file_name().is_some_and(|n| n.to_string_lossy().starts_with(PREFIX)));
    disk.filter(|at| at.exists()).map_or(Ok(()), unmount_at)
}

fn mount(at: &Path, bytes: u64) -> io::Result<()> {
    fs::create_dir(at)?;
    let options = format!("size={bytes},mode=0711");
    let mounted = run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "rekindle-disk"]).arg(at));
    if mounted.is_err() {
        let _ = fs::remove_dir(at);
    }
    mounted
}

fn unmount_at(at: &Path) -> io::Result<()> {
    // Lazily: children of a server that was just killed may not have ended yet.
    run(Command::new("umount").arg("--lazy").arg(at)).and_then(|()| fs::remove_dir(at))
}

/// Runs a command; an error contains its output.
fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
