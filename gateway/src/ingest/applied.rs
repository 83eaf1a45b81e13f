//! Waiting until what was accepted has been applied: `Prefer: wait=N` (RFC 7240).

use std::time::Duration;

use shared::store::ingest_partitions;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::publish::Position;
use crate::app::App;
use crate::context::Context;
use crate::error::ApiError;
use crate::respond::Reply;

/// Seconds at most.
const MAX_WAIT: u64 = 10;
/// How often the positions are read while somebody waits for them.
const EVERY: Duration = Duration::from_millis(20);

/// The positions up to which each partition has been applied, as last read.
pub struct Applied {
    positions: watch::Sender<Vec<i64>>,
    /// Held by the one who reads for all.
    reader: Mutex<()>,
}

impl Applied {
    pub fn new(partitions: u16) -> Self {
        let positions = watch::Sender::new(vec![0; usize::from(partitions)]);
        Self { positions, reader: Mutex::new(()) }
    }

    /// Waits until all positions are applied; false when the time came first. Of all that wait, one reads for the others.
    async fn wait(&self, app: &App, wanted: &[Position], until: Instant) -> bool {
        let mut seen = self.positions.subscribe();
        let reached = async {
            tokio::select! {
                outcome = seen.wait_for(|applied| has(applied, wanted)) => outcome.is_ok(),
                () = self.read(app, wanted) => true,
            }
        };
        tokio::time::timeout_at(until, reached).await.unwrap_or(false)
    }

    /// Once it is its turn: reads the positions for everybody until its own are reached.
    async fn read(&self, app: &App, wanted: &[Position]) {
        let _turn = self.reader.lock().await;
        loop {
            let read = async { ingest_partitions::applied(&app.store.connection().await?).await };
            if let Ok(applied) = read.await {
                let done = has(&applied, wanted);
                self.positions.send_replace(applied);
                if done {
                    return;
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

fn has(applied: &[i64], wanted: &[Position]) -> bool {
    wanted.iter().all(|(partition, seq)| applied.get(usize::from(*partition)).is_some_and(|a| *a >= *seq as i64))
}

/// How long a client asked to wait.
pub struct Wait(Option<u64>);

/// What came of the waiting, for the answer's headers.
pub struct Waited(Option<u64>);

impl Wait {
    /// From the `Prefer` headers. What is no such preference is ignored, as the standard says; a number that is too large is not.
    pub fn asked(cx: &Context<'_>) -> Result<Self, ApiError> {
        for value in cx.headers.get_all("prefer") {
            if let Some(seconds) = value.to_str().ok().and_then(wait_in) {
                let problem = || ApiError::invalid("Prefer", format!("wait must be 0 to {MAX_WAIT} seconds"));
                let seconds = seconds.parse().ok().filter(|s| *s <= MAX_WAIT).ok_or_else(problem)?;
                return Ok(Self(Some(seconds)));
            }
        }
        Ok(Self(None))
    }

    /// The seconds asked for; none where the client did not ask.
    pub fn seconds(&self) -> Option<u64> {
        self.0
    }

    /// Waits, if that was asked for. When the time runs out the items are accepted all the same.
    pub async fn until(self, app: &App, positions: &[Position]) -> Waited {
        if let Some(seconds) = self.0 {
            app.applied.wait(app, positions, Instant::now() + Duration::from_secs(seconds)).await;
        }
        Waited(self.0)
    }
}

impl Waited {
    pub fn tell(self, reply: Reply) -> Reply {
        match self.0 {
            Some(seconds) => reply.with("preference-applied", format!("wait={seconds}")),
            None => reply,
        }
    }
}

/// The value of `wait` in a list of preferences.
fn wait_in(header: &str) -> Option<&str> {
    header.split(',').find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("wait").then(|| value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preference_is_found_among_others() {
        for (header, expected) in [
            ("wait=5", Some("5")),
            ("respond-async, WAIT = \"10\"; x=y", Some("10")),
            ("return=minimal", None),
            ("wait", None),
        ] {
            assert_eq!(wait_in(header), expected, "{header}");
        }
    }

    #[test]
    fn every_partition_must_have_come_so_far() {
        assert!(has(&[5, 9], &[(0, 5), (1, 8)]));
        assert!(!has(&[5, 9], &[(0, 6)]));
        assert!(!has(&[5], &[(1, 1)]));
        assert!(has(&[], &[]));
    }
}
