//! Where the test servers live: `target/testkit`, or `TESTKIT_DIR`.

use std::path::{Path, PathBuf};

use crate::must;

/// The directory of the shared servers; made with the first server.
pub(crate) fn root() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let workspace = workspace.canonicalize().unwrap_or(workspace);
    let root = match (var("TESTKIT_DIR"), var("CARGO_TARGET_DIR")) {
        (Some(dir), _) => dir,
        // Tests run in their crate's directory, cargo in the workspace's.
        (None, Some(target)) => workspace.join(target).join("testkit"),
        (None, None) => workspace.join("target/testkit"),
    };
    std::path::absolute(&root).unwrap_or(root)
}

/// Held by one test at a time, in whatever process it runs; let go of when dropped, and by the system when a process
/// ends.
pub(crate) struct Lock(#[expect(dead_code, reason = "held for its lock")] std::fs::File);

/// Waits for the lock of this name.
pub(crate) async fn lock(name: &str) -> Lock {
    let path = root().join(format!("{name}.lock"));
    let locked = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(root())?;
        let file = std::fs::File::create(&path)?;
        file.lock()?;
        Ok::<_, std::io::Error>(file)
    });
    Lock(must("locking target/testkit", must("locking target/testkit", locked.await)))
}
