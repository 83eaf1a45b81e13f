//! Group commit: submissions that arrive during a publish are published together in the next messages.
//!
//! All partitions share one wave: one message for each partition with pending submissions, published and acknowledged
//! together. The main cost of a message to the broker is waking up for it, so eight messages at once cost little more
//! than one. An idle committer publishes a wave at once. Under load the messages grow, with at most two waves in
//! flight. Many small requests thus become few messages, which makes an fsync for each message affordable.
//!
//! After a wave of many messages, the next one is delayed by a millisecond or two: such a wave indicates many
//! concurrent clients. Without the delay, a fast broker and its readers would get messages of little more than one item
//! each. A wave of one message causes no delay, so that a single client never waits.
//!
//! Pending submissions are limited in number and in bytes. Submissions whose client no longer waits, because it was
//! asked to retry, are dropped. After a timeout the broker gets one submission at a time until it answers again: the
//! connection would buffer everything and publish it long after the clients were asked to retry.

mod wave;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::Subject;
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{PublishError, Publisher, subject::Names};
use wave::{ByteReservation, Outcome, Outcomes, Submission, Wave};
pub use wave::{MESSAGE_BYTES, PART_BYTES, Part};

/// Maximum number of waves in flight.
const MAX_IN_FLIGHT: usize = 2;
/// Delay of the next wave for each message of a wave except the first.
const PAUSE_PER_MESSAGE: Duration = Duration::from_micros(140);
/// Maximum number of queued submissions; more are refused.
const MAX_QUEUED: usize = 32_768;

/// Accepts submissions for all partitions of the ingest stream.
pub struct GroupCommit {
    partitions: u16,
    submissions: mpsc::Sender<Submission>,
    queued_bytes: Arc<AtomicUsize>,
}

impl GroupCommit {
    /// Starts a task that ends once this is dropped and all submissions are acknowledged.
    pub fn start(publisher: &Publisher, names: &Names, partitions: u16, tasks: &TaskTracker) -> Self {
        let subjects: Arc<[Subject]> = (0..partitions).map(|p| names.ingest(p).into()).collect();
        let publisher = publisher.clone();
        Self::of(partitions, tasks, PAUSE_PER_MESSAGE, move |messages: Vec<(u16, Bytes)>| {
            let (publisher, subjects) = (publisher.clone(), subjects.clone());
            async move {
                kernel::failpoint::hit("gateway.before_publish");
                let named = |(partition, message)| (subjects[usize::from(partition)].clone(), message);
                let outcomes = publisher.publish_all(messages.into_iter().map(named).collect()).await;
                kernel::failpoint::hit("gateway.after_publish");
                outcomes
            }
        })
    }

    fn of<F>(
        partitions: u16,
        tasks: &TaskTracker,
        pause: Duration,
        publish: impl Fn(Vec<(u16, Bytes)>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Vec<Outcome>> + Send + 'static,
    {
        let (submissions, receiver) = mpsc::channel(MAX_QUEUED);
        tasks.spawn(run(partitions, pause, publish, receiver, tasks.clone()));
        Self { partitions, submissions, queued_bytes: Arc::default() }
    }

    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Waits until the stream holds the items. Returns, for each part, its partition and the sequence of its message.
    ///
    /// Takes at most one part per partition, each of at most [`PART_BYTES`]. Dropping the future withdraws a submission
    /// that is not in flight. After an error, the stream may hold some of the parts.
    pub async fn commit(&self, parts: Vec<Part>) -> Result<Vec<(u16, u64)>, PublishError> {
        if parts.iter().any(|(p, items)| *p >= self.partitions || items.bytes.len() > PART_BYTES) {
            return Err(PublishError::TooLarge);
        }
        let bytes = parts.iter().map(|(_, items)| items.bytes.len()).sum();
        let reservation = ByteReservation::take(bytes, &self.queued_bytes).ok_or(PublishError::Busy)?;
        let partitions: Vec<u16> = parts.iter().map(|(partition, _)| *partition).collect();
        let (done, outcomes) = oneshot::channel();
        self.submissions.try_send(Submission { parts, done, reservation }).map_err(|_| PublishError::Busy)?;
        let outcomes = outcomes.await.map_err(|_| PublishError::Timeout)?;
        partitions.into_iter().map(|partition| Ok((partition, outcomes.of(partition)?))).collect()
    }
}

async fn run<F>(
    partitions: u16,
    pause: Duration,
    publish: impl Fn(Vec<(u16, Bytes)>) -> F,
    mut queue: mpsc::Receiver<Submission>,
    tasks: TaskTracker,
) where
    F: Future<Output = Vec<Outcome>> + Send + 'static,
{
    let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    let broker_silent = Arc::new(AtomicBool::new(false));
    let mut deferred = None;
    let mut not_before = Instant::now();
    loop {
        let first = match deferred.take() {
            Some(submission) => submission,
            None => match queue.recv().await {
                Some(submission) => submission,
                None => return,
            },
        };
        // Acquire the permit first: submissions that arrive meanwhile join this wave. The yield below lets other ready
        // tasks submit theirs as well.
        let Ok(permit) = in_flight.clone().acquire_owned().await else { return };
        if Instant::now() < not_before {
            tokio::time::sleep_until(not_before).await;
        }
        tokio::task::yield_now().await;
        let mut wave = Wave::new(partitions);
        let mut next = Some(first);
        let probing = broker_silent.load(Ordering::Relaxed);
        while wave.is_empty() || !probing {
            let Some(submission) = next.take().or_else(|| queue.try_recv().ok()) else { break };
            if submission.done.is_closed() {
                continue;
            }
            if let Err(too_much) = wave.add(submission) {
                deferred = Some(too_much);
                break;
            }
        }
        if wave.is_empty() {
            continue;
        }
        let (messages, waiting) = wave.finish();
        not_before = Instant::now() + pause * (messages.len() as u32).saturating_sub(1);
        let in_order: Vec<u16> = messages.iter().map(|(partition, _)| *partition).collect();
        let publishing = publish(messages.into_iter().map(|(partition, m)| (partition, Bytes::from(m))).collect());
        let broker_silent = broker_silent.clone();
        tasks.spawn(async move {
            let outcomes = publishing.await;
            broker_silent.store(outcomes.contains(&Err(PublishError::Timeout)), Ordering::Relaxed);
            drop(permit);
            let outcomes = Arc::new(Outcomes(in_order.into_iter().zip(outcomes).collect()));
            for done in waiting {
                let _ = done.send(outcomes.clone());
            }
        });
    }
}

#[cfg(test)]
mod tests;
