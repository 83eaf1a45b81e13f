//! A wave: submissions that are collected into one message per partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

use crate::PublishError;
use wire::event::{EncodedItems, begin_message};

/// Maximum size of a message, in bytes.
pub const MESSAGE_BYTES: usize = 512 * 1024;
/// Bytes reserved for a message's header.
const HEAD_BYTES: usize = 16;
/// Maximum size of a submission's part for one partition, in bytes.
pub const PART_BYTES: usize = MESSAGE_BYTES - HEAD_BYTES;
/// Maximum number of queued bytes; more are refused.
pub const MAX_QUEUED_BYTES: usize = 32 * 1024 * 1024;
/// Maximum size of a wave, in bytes: the connection buffers one at a time.
const WAVE_BYTES: usize = 2 * 1024 * 1024;

/// The items of a submission for one partition.
pub type Part = (u16, EncodedItems);
/// The message of a partition.
pub type Message = (u16, Vec<u8>);
pub type Outcome = Result<u64, PublishError>;
/// The channel to the caller that waits for a submission.
pub type OutcomeSender = oneshot::Sender<Arc<Outcomes>>;

pub struct Submission {
    pub parts: Vec<Part>,
    pub done: OutcomeSender,
    /// Released when the submission is in a message or dropped.
    pub reservation: ByteReservation,
}

/// A reservation of [`MAX_QUEUED_BYTES`]; dropping it releases the bytes.
pub struct ByteReservation {
    bytes: usize,
    taken: Arc<AtomicUsize>,
}

impl ByteReservation {
    pub fn take(bytes: usize, taken: &Arc<AtomicUsize>) -> Option<Self> {
        let reservation = Self { bytes, taken: taken.clone() };
        (taken.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_QUEUED_BYTES).then_some(reservation)
    }
}

impl Drop for ByteReservation {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The outcomes of a wave's messages, in the order in which its submissions first used the partitions.
pub struct Outcomes(pub Vec<(u16, Outcome)>);

impl Outcomes {
    pub fn of(&self, partition: u16) -> Outcome {
        let found = self.0.iter().find(|(p, _)| *p == partition);
        found.map_or(Err(PublishError::Timeout), |(_, outcome)| outcome.clone())
    }
}

/// Submissions that are published together.
pub struct Wave {
    submissions: Vec<Submission>,
    /// Size of each partition's message, in bytes.
    sizes: Vec<usize>,
    bytes: usize,
}

impl Wave {
    pub fn new(partitions: u16) -> Self {
        Self { submissions: Vec::new(), sizes: vec![HEAD_BYTES; usize::from(partitions)], bytes: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.submissions.is_empty()
    }

    /// Adds a submission. Returns it if a message or the wave would become too large; the first one is always added.
    pub fn add(&mut self, submission: Submission) -> Result<(), Submission> {
        let fits = |(partition, items): &Part| self.sizes[usize::from(*partition)] + items.bytes.len() <= MESSAGE_BYTES;
        let within_limits =
            self.bytes + submission.reservation.bytes <= WAVE_BYTES && submission.parts.iter().all(fits);
        if !within_limits && !self.submissions.is_empty() {
            return Err(submission);
        }
        self.bytes += submission.reservation.bytes;
        for (partition, items) in &submission.parts {
            self.sizes[usize::from(*partition)] += items.bytes.len();
        }
        self.submissions.push(submission);
        Ok(())
    }

    /// Returns a message for each partition with items, and the channels of the waiting callers.
    pub fn finish(self) -> (Vec<Message>, Vec<OutcomeSender>) {
        let mut messages: Vec<Message> = Vec::new();
        let mut waiting = Vec::with_capacity(self.submissions.len());
        for Submission { parts, done, reservation } in self.submissions {
            for (partition, items) in parts {
                let at = messages.iter().position(|(p, _)| *p == partition).unwrap_or_else(|| {
                    let mut message = Vec::with_capacity(self.sizes[usize::from(partition)]);
                    begin_message(&mut message);
                    messages.push((partition, message));
                    messages.len() - 1
                });
                messages[at].1.extend_from_slice(&items.bytes);
            }
            waiting.push(done);
            drop(reservation);
        }
        (messages, waiting)
    }
}
