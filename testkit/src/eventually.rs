//! Waits for conditions.

use std::fmt::Debug;
use std::time::Duration;

const POLL: Duration = Duration::from_millis(20);

/// Polls until the result is `Ok` and returns the value; panics with the last `Err` at the timeout.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut attempts = 0;
/// let result = testkit::eventually(std::time::Duration::from_secs(1), async || {
///     attempts += 1;
///     if attempts < 3 { Err(format!("{attempts} attempts")) } else { Ok(attempts) }
/// });
/// assert_eq!(result.await, 3);
/// # });
/// ```
#[track_caller]
pub fn eventually<T, E: Debug>(
    timeout: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = tokio::time::Instant::now() + timeout;
        let mut last = None;
        loop {
            let Ok(answer) = tokio::time::timeout_at(deadline, probe()).await else {
                panic!("not within {timeout:?} at {caller}: the probe hung; before that: {last:?}");
            };
            match answer {
                Ok(answer) => return answer,
                Err(state) => last = Some(state),
            }
            assert!(tokio::time::Instant::now() < deadline, "not within {timeout:?} at {caller}: {last:?}");
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Like [`eventually`], for a plain condition; `what` is in the panic message.
#[track_caller]
pub fn eventually_true(
    what: &str,
    timeout: Duration,
    mut holds: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    eventually(timeout, async move || if holds().await { Ok(()) } else { Err(what) })
}
