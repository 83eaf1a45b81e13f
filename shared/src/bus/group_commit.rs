//! Group commit: what arrives while a publish is under way goes out together as the next message.
//!
//! No timer is involved: an idle partition publishes at once, a busy one in ever larger messages, two under way at a
//! time. So many small requests cost the broker few messages, and an fsync for each message becomes affordable.
//!
//! What waits is bounded in number and in bytes. What nobody waits for any more, because its client has been told to
//! come back, is left out. A broker that fell silent gets one submission at a time until it answers again: the
//! connection would keep it all, and publish it long after its clients were told to come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::{PublishError, Publisher, subject::Names};
use crate::event::{EncodedItems, begin_message};

/// A message stays below this, in bytes; a submission must.
pub const MESSAGE_BYTES: usize = 512 * 1024;
const IN_FLIGHT: usize = 2;
/// Submissions that may wait in one partition before more are refused.
const WAITING: usize = 8_192;
/// Bytes that may.
const WAITING_BYTES: usize = 8 * 1024 * 1024;

struct Submission {
    items: EncodedItems,
    done: oneshot::Sender<Result<u64, PublishError>>,
    /// Its bytes' part of [`WAITING_BYTES`], given back when it is in a message or left out.
    room: OwnedSemaphorePermit,
}

struct Queue {
    submissions: mpsc::Sender<Submission>,
    room: Arc<Semaphore>,
}

/// One queue for each partition of the ingest stream.
pub struct GroupCommit {
    partitions: Vec<Queue>,
}

impl GroupCommit {
    /// Starts a task for each partition; they end once this is dropped and what was submitted is acknowledged.
    pub fn start(publisher: &Publisher, names: &Names, partitions: u16, tasks: &TaskTracker) -> Self {
        let start = |partition| {
            let (publisher, subject) = (publisher.clone(), names.ingest(partition));
            Queue::start(tasks, move |message| {
                let (publisher, subject) = (publisher.clone(), subject.clone());
                async move {
                    crate::failpoint::hit("gateway.before_publish");
                    let outcome = publisher.publish(subject, message).await;
                    crate::failpoint::hit("gateway.after_publish");
                    outcome
                }
            })
        };
        Self { partitions: (0..partitions).map(start).collect() }
    }

    pub fn partitions(&self) -> u16 {
        self.partitions.len() as u16
    }

    /// Waits until the stream has the items; returns the sequence of the message that holds them.
    /// Items over [`MESSAGE_BYTES`] must be submitted in parts. Whoever stops waiting withdraws what is not yet under way.
    pub async fn commit(&self, partition: u16, items: EncodedItems) -> Result<u64, PublishError> {
        let queue = self.partitions.get(usize::from(partition)).ok_or(PublishError::TooLarge)?;
        queue.commit(items).await
    }
}

impl Queue {
    fn start<F>(tasks: &TaskTracker, publish: impl Fn(Bytes) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<u64, PublishError>> + Send + 'static,
    {
        let (submissions, receiver) = mpsc::channel(WAITING);
        tasks.spawn(run(publish, receiver, tasks.clone()));
        Self { submissions, room: Arc::new(Semaphore::new(WAITING_BYTES)) }
    }

    async fn commit(&self, items: EncodedItems) -> Result<u64, PublishError> {
        let (done, outcome) = oneshot::channel();
        let bytes = u32::try_from(items.bytes.len()).map_err(|_| PublishError::TooLarge)?;
        let room = self.room.clone().try_acquire_many_owned(bytes).map_err(|_| PublishError::Busy)?;
        self.submissions.try_send(Submission { items, done, room }).map_err(|_| PublishError::Busy)?;
        outcome.await.unwrap_or(Err(PublishError::Timeout))
    }
}

async fn run<F>(publish: impl Fn(Bytes) -> F, mut queue: mpsc::Receiver<Submission>, tasks: TaskTracker)
where
    F: Future<Output = Result<u64, PublishError>> + Send + 'static,
{
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
    let silent = Arc::new(AtomicBool::new(false));
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
        let mut waiting = Vec::new();
        let mut next = Some(first);
        let probing = silent.load(Ordering::Relaxed);
        while waiting.is_empty() || !probing {
            let Some(Submission { items, done, room }) = next.take().or_else(|| queue.try_recv().ok()) else { break };
            if done.is_closed() {
                continue;
            }
            if !waiting.is_empty() && message.len() + items.bytes.len() > MESSAGE_BYTES {
                held_over = Some(Submission { items, done, room });
                break;
            }
            message.extend_from_slice(&items.bytes);
            waiting.push(done);
        }
        if waiting.is_empty() {
            continue;
        }
        let (publishing, silent) = (publish(Bytes::from(message)), silent.clone());
        tasks.spawn(async move {
            let outcome = publishing.await;
            silent.store(outcome == Err(PublishError::Timeout), Ordering::Relaxed);
            drop(permit);
            for done in waiting {
                let _ = done.send(outcome.clone());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Mutex;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::event::{IngestBatch, IngestItem};

    type Outcome = Result<u64, PublishError>;

    /// A queue whose messages have the outcomes that are sent, in their order; and those messages' items' times.
    fn queue() -> (Arc<Queue>, mpsc::UnboundedSender<Outcome>, mpsc::UnboundedReceiver<Vec<i64>>) {
        let ((acks, outcomes), (sent, messages)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let outcomes = Arc::new(Mutex::new(outcomes));
        let queue = Queue::start(&TaskTracker::new(), move |message| {
            let items = IngestBatch::decode_checked(message).unwrap().items;
            sent.send(items.iter().map(|i| i.received_ms).collect()).unwrap();
            let outcomes = outcomes.clone();
            async move { outcomes.lock().await.recv().await.unwrap() }
        });
        (Arc::new(queue), acks, messages)
    }

    fn acknowledge(acks: &mpsc::UnboundedSender<Outcome>, messages: usize) {
        (0..messages).for_each(|_| acks.send(Ok(1)).unwrap());
    }

    fn items(n: i64, bytes: usize) -> EncodedItems {
        let mut items = EncodedItems::default();
        items.push(&IngestItem { received_ms: n, user_id: Some("u".repeat(bytes)), ..IngestItem::default() });
        items
    }

    /// Returns when it is in the queue or further.
    async fn submit(queue: &Arc<Queue>, n: i64, bytes: usize) -> JoinHandle<Outcome> {
        let queue = queue.clone();
        let submission = tokio::spawn(async move { queue.commit(items(n, bytes)).await });
        give_way().await;
        submission
    }

    /// On the test's one thread, the other tasks have done what they can after this.
    async fn give_way() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_arrives_meanwhile_goes_out_together() {
        let (queue, acks, mut messages) = queue();
        let mut outcomes = Vec::new();
        for n in 0..6 {
            outcomes.push(submit(&queue, n, 10).await);
        }
        acknowledge(&acks, 3);
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(messages.recv().await.unwrap());
        }
        assert_eq!(seen, [vec![0], vec![1], vec![2, 3, 4, 5]]);
        for outcome in outcomes {
            assert_eq!(outcome.await.unwrap(), Ok(1));
        }
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_left_out() {
        let (queue, acks, mut messages) = queue();
        let mut outcomes = Vec::new();
        for n in 0..6 {
            outcomes.push(submit(&queue, n, 10).await);
        }
        // The third is in the hand of the task that waits for a message's turn, the fourth is in the queue.
        for gone in [2, 3] {
            outcomes[gone].abort();
        }
        give_way().await;
        acknowledge(&acks, 2);
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(messages.recv().await.unwrap());
        }
        assert_eq!(seen, [vec![0], vec![1], vec![4, 5]]);
    }

    #[tokio::test]
    async fn where_all_are_gone_nothing_goes_out() {
        let (queue, acks, mut messages) = queue();
        let held = [submit(&queue, 0, 10).await, submit(&queue, 1, 10).await];
        let gone = [submit(&queue, 2, 10).await, submit(&queue, 3, 10).await];
        gone.iter().for_each(JoinHandle::abort);
        give_way().await;
        acknowledge(&acks, 3);
        for held in held {
            assert_eq!(held.await.unwrap(), Ok(1));
        }
        assert_eq!(submit(&queue, 4, 10).await.await.unwrap(), Ok(1));
        let mut seen = Vec::new();
        while let Ok(message) = messages.try_recv() {
            seen.extend(message);
        }
        assert_eq!(seen, [0, 1, 4]);
    }

    #[tokio::test]
    async fn a_silent_broker_gets_one_at_a_time_until_it_answers() {
        let (queue, acks, mut messages) = queue();
        for n in 0..8 {
            submit(&queue, n, 10).await;
        }
        let mut seen = Vec::new();
        for outcome in [Err(PublishError::Timeout), Err(PublishError::Timeout), Ok(1), Ok(1)] {
            acks.send(outcome).unwrap();
            give_way().await;
        }
        while let Ok(message) = messages.try_recv() {
            seen.push(message);
        }
        assert_eq!(seen, [vec![0], vec![1], vec![2], vec![3], vec![4, 5, 6, 7]]);
    }

    #[tokio::test]
    async fn what_waits_is_bounded_in_bytes_until_it_went_out() {
        let (queue, acks, _messages) = queue();
        let bytes = MESSAGE_BYTES - 100;
        let most = WAITING_BYTES / bytes;
        // Two are under way, one is in hand, the others are in the queue.
        for n in 0..most as i64 + 2 {
            submit(&queue, n, bytes).await;
        }
        assert_eq!(queue.commit(items(99, bytes)).await, Err(PublishError::Busy));
        acknowledge(&acks, most + 3);
        give_way().await;
        assert_eq!(queue.commit(items(99, bytes)).await, Ok(1));
    }
}
