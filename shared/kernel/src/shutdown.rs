//! Graceful shutdown: a token that SIGTERM or SIGINT cancels, and a drain with a deadline.

use std::time::Duration;

pub use tokio_util::sync::CancellationToken as Shutdown;
use tokio_util::task::TaskTracker;

/// Timeout of a call to a provider. It is shorter than the drain, so that the outcome can still be recorded: the
/// outcome of a call that is cut off remains unknown.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time from the signal to the end of the process.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);
/// Time that the process manager must wait before it kills the process.
pub const GRACE: Duration = Duration::from_secs(28);

/// Returns a token that the first SIGTERM or SIGINT cancels.
pub fn on_signal() -> std::io::Result<Shutdown> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = Shutdown::new();
    let stop = token.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::info!("stopping: finishing the work in progress");
        stop.cancel();
    });
    Ok(token)
}

/// Waits for all tracked tasks. Returns false if the deadline passed first.
pub async fn drained(tasks: &TaskTracker, deadline: Duration) -> bool {
    tasks.close();
    tokio::time::timeout(deadline, tasks.wait()).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_timeout_fits_drain_and_drain_fits_grace() {
        assert!(CALL_TIMEOUT + Duration::from_secs(3) <= DRAIN_TIMEOUT);
        assert!(DRAIN_TIMEOUT + Duration::from_secs(2) <= GRACE);
    }
}
