//! The directory of the test servers: `target/testkit`, or `TESTKIT_DIR`.

use std::path::{Path, PathBuf};

use crate::must;

/// Returns the directory of the shared servers, which the first server creates.
pub(crate) fn root() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let workspace = workspace.canonicalize().unwrap_or(workspace);
    let root = match (var("TESTKIT_DIR"), var("CARGO_TARGET_DIR")) {
        (Some(dir), _) => dir,
        // Tests run in the directory of their crate, cargo in that of the workspace.
        (None, Some(target)) => workspace.join(target).join("testkit"),
        (None, None) => workspace.join("target/testkit"),
    };
    std::path::absolute(&root).unwrap_or(root)
}

/// A lock that one test holds at a time, across processes. Released on drop, and by the system when the process ends.
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
