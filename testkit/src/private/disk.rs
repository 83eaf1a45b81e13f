//! A file system of its own under a private server's data, small enough to be filled.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{must, random_name};

/// Begins the names of mount points, by which they are known again.
const PREFIX: &str = "rekindle-disk-";
/// By so many bytes a ballast grows, and in the end by pages.
const STEPS: [usize; 2] = [1 << 20, 1 << 12];

/// A tmpfs: Linux, and root, are what it takes. It is [`unmount`]ed with its server's directory.
#[derive(Debug)]
pub(super) struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Moves the data of a server that does not run onto a disk of so many bytes, and leaves a link to it.
    ///
    /// Panics with the reason when that cannot be done.
    pub(super) fn under(data: &Path, bytes: u64) -> Self {
        // Where a server's own user can enter, whoever may enter this project's directory.
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
            // It lies in a place made for it, where its server's user can enter.
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

    /// Takes what room there is left.
    pub(super) async fn fill(&self) {
        let ballast = self.ballast();
        let filled = tokio::task::spawn_blocking(move || {
            let mut file = File::create(ballast)?;
            STEPS.into_iter().try_for_each(|step| write_all_room(&mut file, step))
        });
        must("filling a disk", must("filling a disk", filled.await));
    }

    /// Gives the room back.
    pub(super) fn free(&self) {
        must("freeing a disk", fs::remove_file(self.ballast()));
    }
}

fn write_all_room(file: &mut File, step: usize) -> io::Result<()> {
    let zeros = vec![0; step];
    loop {
        match file.write(&zeros) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Whether disks can be had here; otherwise why not.
pub fn disks_can_be_mounted() -> Result<(), String> {
    let at = std::env::temp_dir().join(format!("{PREFIX}{}", random_name()));
    let tried = mount(&at, 1 << 20).and_then(|()| unmount_at(&at));
    tried.map_err(|error| format!("a tmpfs cannot be mounted, which takes Linux and root: {error}"))
}

/// Takes away the disk that a stopped server's data lies on, where it has one.
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

/// An error says what the program said.
fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
