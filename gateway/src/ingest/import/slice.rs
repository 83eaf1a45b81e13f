//! A slice of an import: a bounded number of users that are published together.

use std::time::Duration;

use store_profiles::user_imports::{ImportProgress, LineProblem};
use tokio::time::Instant;

use super::MAX_PROBLEMS;
use super::user::ImportedUser;
use crate::context::Context;
use crate::http::error::{ApiError, Problem};
use crate::ingest::applied::Position;
use crate::ingest::publish::Outgoing;

/// Maximum users and bytes of a slice. Live events may wait until that many are recorded.
const MAX_USERS: usize = 1_000;
const MAX_SLICE_BYTES: usize = 512 * 1024;
/// How long a slice collects lines if they arrive slowly.
const MAX_AGE: Duration = Duration::from_secs(1);
/// How long to retry while the broker is unavailable.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(20);
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Lines that are settled together.
#[derive(Default)]
pub struct Slice {
    users: Vec<ImportedUser>,
    bytes: usize,
    since: Option<Instant>,
    pub advance: ImportProgress,
}

impl Slice {
    pub fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    pub fn is_full(&self) -> bool {
        let full = self.users.len() >= MAX_USERS || self.bytes >= MAX_SLICE_BYTES;
        full || self.since.is_some_and(|since| since.elapsed() >= MAX_AGE)
    }

    /// Adds a line. Problems beyond `MAX_PROBLEMS` are only counted.
    pub fn add(&mut self, line: u64, user: Result<ImportedUser, Vec<Problem>>, reported: &mut usize) {
        self.since.get_or_insert_with(Instant::now);
        match user {
            Ok(user) => {
                self.bytes += user.size();
                self.users.push(user);
                self.advance.imported += 1;
            }
            Err(problems) => {
                self.advance.failed += 1;
                for Problem { field, message } in problems {
                    if *reported < MAX_PROBLEMS {
                        *reported += 1;
                        self.advance.problems.push(LineProblem { line, field, message });
                    } else {
                        self.advance.problems_omitted += 1;
                    }
                }
            }
        }
    }

    /// Publishes the users and returns their positions in the stream.
    ///
    /// Retries while the broker is unavailable. A user that is published twice is harmless, because both items are the same.
    pub async fn publish(&self, cx: &Context<'_>) -> Result<Vec<Position>, ApiError> {
        let until = Instant::now() + PUBLISH_TIMEOUT;
        loop {
            let mut outgoing = Outgoing::new(&cx.app.ingest.group_commit, cx.project, self.users.len());
            for user in &self.users {
                // Carries the time of the request, so that it does not recreate a user who has been erased since.
                outgoing.push(&user.item(cx.project, cx.received_ms))?;
            }
            match outgoing.publish(&cx.app.ingest.group_commit, None).await {
                Ok(positions) => {
                    cx.app.meters.accepted.increment(self.users.len() as u64);
                    return Ok(positions);
                }
                Err(ApiError::Unavailable(_)) if Instant::now() < until => tokio::time::sleep(RETRY_DELAY).await,
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(bytes: usize) -> ImportedUser {
        ImportedUser { user_id: Some("u".to_owned()), anonymous_id: None, properties: "x".repeat(bytes) }
    }

    #[tokio::test(start_paused = true)]
    async fn slice_is_bounded_in_users_bytes_and_time() {
        let mut reported = 0;
        let fill = |bytes: usize, reported: &mut usize| {
            let mut slice = Slice::default();
            while !slice.is_full() {
                slice.add(1, Ok(user(bytes)), reported);
            }
            slice.users.len()
        };
        assert_eq!(fill(10, &mut reported), MAX_USERS);
        assert_eq!(fill(32_000, &mut reported), 17);
        let mut slice = Slice::default();
        tokio::time::advance(MAX_AGE * 3).await;
        assert!(slice.is_empty() && !slice.is_full());
        slice.add(1, Ok(user(1)), &mut reported);
        assert!(!slice.is_empty() && !slice.is_full());
        tokio::time::advance(MAX_AGE).await;
        assert!(slice.is_full());
    }

    #[test]
    fn problems_over_the_maximum_are_only_counted() {
        let (mut slice, mut reported) = (Slice::default(), MAX_PROBLEMS - 3);
        for line in 1..=4 {
            slice.add(line, Err(vec![Problem::new("a", "x"), Problem::new("b", "y")]), &mut reported);
        }
        let kept: Vec<_> = slice.advance.problems.iter().map(|p| (p.line, p.field.as_str())).collect();
        assert_eq!(kept, [(1, "a"), (1, "b"), (2, "a")]);
        assert_eq!((slice.advance.failed, slice.advance.problems_omitted), (4, 5));
    }
}
