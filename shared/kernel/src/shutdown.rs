//! Stopping: one token that everything watches, set by SIGTERM or SIGINT, and a drain with a deadline.

use std::time::Duration;

pub use tokio_util::sync::CancellationToken as Shutdown;
use tokio_util::task::TaskTracker;

/// How long one call to a provider may take. It ends within the drain, with time left to write its outcome down: a
/// call that is cut off is one whose outcome nobody learns.
pub const CALL: Duration = Duration::from_secs(20);
/// How long a process may take from the signal to its end.
pub const DRAIN: Duration = Duration::from_secs(25);
/// How long whoever stops a process waits before killing it.
pub const GRACE: Duration = Duration::from_secs(28);

/// A token that is cancelled by the first SIGTERM or SIGINT.
pub fn on_signal() -> std::io::Result<Shutdown> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = Shutdown::new();
    let stop = token.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::info!("stopping: finishing what is under way");
        stop.cancel();
    });
    Ok(token)
}

/// Waits for all tracked tasks; false when the deadline came first.
pub async fn drained(tasks: &TaskTracker, deadline: Duration) -> bool {
    tasks.close();
    tokio::time::timeout(deadline, tasks.wait()).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_within_the_drain_and_the_drain_before_the_kill() {
        assert!(CALL + Duration::from_secs(3) <= DRAIN);
        assert!(DRAIN + Duration::from_secs(2) <= GRACE);
    }
}
