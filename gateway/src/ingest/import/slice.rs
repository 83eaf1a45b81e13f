//! A slice of an import: a bounded number of users that are published together.

use std::time::Duration;

use store_profiles::user_imports::{Advance, LineProblem};
use tokio::time::Instant;

use super::MAX_PROBLEMS;
use super::person::Person;
use crate::context::Context;
use crate::http::error::{ApiError, Problem};
use crate::ingest::applied::Position;
use crate::ingest::publish::Outgoing;

/// Maximum users and bytes of a slice. Live events may wait until that many are recorded.
const PEOPLE: usize = 1_000;
const BYTES: usize = 512 * 1024;
/// How long a slice collects lines if they arrive slowly.
const GATHERS: Duration = Duration::from_secs(1);
/// How long to retry while the broker is unavailable.
const PUBLISH: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(500);

/// Lines that are settled together.
#[derive(Default)]
pub struct Slice {
    people: Vec<Person>,
    bytes: usize,
    since: Option<Instant>,
    pub advance: Advance,
}

impl Slice {
    pub fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    pub fn is_full(&self) -> bool {
        let full = self.people.len() >= PEOPLE || self.bytes >= BYTES;
        full || self.since.is_some_and(|since| since.elapsed() >= GATHERS)
    }

    /// Adds a line. Problems beyond `MAX_PROBLEMS` are only counted.
    pub fn add(&mut self, line: u64, person: Result<Person, Vec<Problem>>, shown: &mut usize) {
        self.since.get_or_insert_with(Instant::now);
        match person {
            Ok(person) => {
                self.bytes += person.size();
                self.people.push(person);
                self.advance.imported += 1;
            }
            Err(problems) => {
                self.advance.failed += 1;
                for Problem { field, message } in problems {
                    if *shown < MAX_PROBLEMS {
                        *shown += 1;
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
        let until = Instant::now() + PUBLISH;
        loop {
            let mut outgoing = Outgoing::new(&cx.app.ingest.group_commit, cx.project, self.people.len());
            for person in &self.people {
                // Carries the time of the request, so that it does not recreate a user who has been erased since.
                outgoing.push(&person.item(cx.project, cx.received_ms))?;
            }
            match outgoing.publish(&cx.app.ingest.group_commit, None).await {
                Ok(positions) => {
                    cx.app.meters.accepted.increment(self.people.len() as u64);
                    return Ok(positions);
                }
                Err(ApiError::Unavailable(_)) if Instant::now() < until => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(bytes: usize) -> Person {
        Person { user_id: Some("u".to_owned()), anonymous_id: None, properties: "x".repeat(bytes) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slice_is_bounded_in_number_bytes_and_time() {
        let mut shown = 0;
        let fill = |bytes: usize, shown: &mut usize| {
            let mut slice = Slice::default();
            while !slice.is_full() {
                slice.add(1, Ok(person(bytes)), shown);
            }
            slice.people.len()
        };
        assert_eq!(fill(10, &mut shown), PEOPLE);
        assert_eq!(fill(32_000, &mut shown), 17);
        let mut slice = Slice::default();
        tokio::time::advance(GATHERS * 3).await;
        assert!(slice.is_empty() && !slice.is_full());
        slice.add(1, Ok(person(1)), &mut shown);
        assert!(!slice.is_empty() && !slice.is_full());
        tokio::time::advance(GATHERS).await;
        assert!(slice.is_full());
    }

    #[test]
    fn of_problems_the_first_are_kept_and_the_rest_counted() {
        let (mut slice, mut shown) = (Slice::default(), MAX_PROBLEMS - 3);
        for line in 1..=4 {
            slice.add(line, Err(vec![Problem::new("a", "x"), Problem::new("b", "y")]), &mut shown);
        }
        let kept: Vec<_> = slice.advance.problems.iter().map(|p| (p.line, p.field.as_str())).collect();
        assert_eq!(kept, [(1, "a"), (1, "b"), (2, "a")]);
        assert_eq!((slice.advance.failed, slice.advance.problems_omitted), (4, 5));
    }
}
