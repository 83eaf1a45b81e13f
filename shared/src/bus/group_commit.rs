//! Group commit: what arrives while a publish is under way goes out together as the next message.
//!
//! No timer is involved: an idle partition publishes at once, a busy one in ever larger messages, two under way at a
//! time. So many small requests cost the broker few messages, and an fsync for each message becomes affordable.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::{PublishError, Publisher, subject::Names};
use crate::event::{EncodedItems, begin_message};

/// A message stays below this, in bytes; a submission must.
pub const MESSAGE_BYTES: usize = 512 * 1024;
const IN_FLIGHT: usize = 2;
/// Submissions that may wait in one partition before more are refused.
const WAITING: usize = 8_192;

struct Submission {
    items: EncodedItems,
    done: oneshot::Sender<Result<u64, PublishError>>,
}

/// One queue for each partition of the ingest stream.
pub struct GroupCommit {
    partitions: Vec<mpsc::Sender<Submission>>,
}

impl GroupCommit {
    /// Starts a task for each partition; they end once this is dropped and what was submitted is acknowledged.
    pub fn start(publisher: &Publisher, names: &Names, partitions: u16, tasks: &TaskTracker) -> Self {
        let start = |partition| {
            let (sender, receiver) = mpsc::channel(WAITING);
            tasks.spawn(run(publisher.clone(), names.ingest(partition), receiver, tasks.clone()));
            sender
        };
        Self { partitions: (0..partitions).map(start).collect() }
    }

    pub fn partitions(&self) -> u16 {
        self.partitions.len() as u16
    }

    /// Waits until the stream has the items; returns the sequence of the message that holds them.
    /// Items over [`MESSAGE_BYTES`] must be submitted in parts.
    pub async fn commit(&self, partition: u16, items: EncodedItems) -> Result<u64, PublishError> {
        let (done, outcome) = oneshot::channel();
        let queue = self.partitions.get(usize::from(partition)).ok_or(PublishError::TooLarge)?;
        queue.try_send(Submission { items, done }).map_err(|_| PublishError::Busy)?;
        outcome.await.unwrap_or(Err(PublishError::Timeout))
    }
}

async fn run(publisher: Publisher, subject: String, mut queue: mpsc::Receiver<Submission>, tasks: TaskTracker) {
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut held_over = None;
    loop {
        let first = match held_over.take() {
            Some(submission) => submission,
            None => match queue.recv().await {
                Some(submission) => submission,
                None => return,
            },
        };
        // The permit comes first: what arrives while it is awaited joins this message.
        let Ok(permit) = in_flight.clone().acquire_owned().await else { return };
        let mut message = Vec::with_capacity(first.items.bytes.len() + 16);
        begin_message(&mut message);
        message.extend_from_slice(&first.items.bytes);
        let mut waiting = vec![first.done];
        while let Ok(next) = queue.try_recv() {
            if message.len() + next.items.bytes.len() > MESSAGE_BYTES {
                held_over = Some(next);
                break;
            }
            message.extend_from_slice(&next.items.bytes);
            waiting.push(next.done);
        }
        let (publisher, subject) = (publisher.clone(), subject.clone());
        tasks.spawn(async move {
            crate::failpoint::hit("gateway.before_publish");
            let outcome = publisher.publish(subject, Bytes::from(message)).await;
            crate::failpoint::hit("gateway.after_publish");
            drop(permit);
            for done in waiting {
                let _ = done.send(outcome.clone());
            }
        });
    }
}
