//! Servers for one test alone, which it can stop, kill, suspend and restart at the same address.

mod configured_nats;
mod disk;
mod nats;
mod postfix;
mod postgres;
mod redis;

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

pub use configured_nats::ConfiguredNats;
pub use disk::disks_can_be_mounted;
pub(crate) use disk::unmount;
pub use nats::PrivateNats;
pub use postfix::PrivatePostfix;
pub use postgres::PrivatePostgres;
pub use redis::PrivateRedis;

use crate::{background, must, random_name, servers, test_dir};

/// The directory of a server. Dropping it removes the server and its data.
#[derive(Debug)]
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn create(server: &str) -> Self {
        Self::at(test_dir::root().join("private").join(format!("{server}-{}", random_name())))
    }

    /// Creates a directory that the server's own user can enter, even if that user cannot enter this project's directory.
    fn in_temp_dir(server: &str) -> Self {
        Self::at(std::env::temp_dir().join(format!("rekindle-{server}-{}", random_name())))
    }

    fn at(path: PathBuf) -> Self {
        // Passable for the server's own user.
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o711).create(&path);
        must("a directory for a private server", made);
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        background::finish(async move {
            if let Err(error) = servers::stop_private(&path).await {
                eprintln!("could not clear {}: {error}", path.display());
            }
        });
    }
}
