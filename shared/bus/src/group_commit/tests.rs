use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::wave::MAX_QUEUED_BYTES;
use super::*;
use wire::event::{EncodedItems, IngestBatch, IngestItem};

const PARTITIONS: u16 = 3;

/// The content of a published wave: the times of each partition's items.
type Seen = Vec<(u16, Vec<i64>)>;

type Queue = (Arc<GroupCommit>, mpsc::UnboundedSender<Vec<Outcome>>, mpsc::UnboundedReceiver<Seen>);

/// Returns a queue, a sender for the outcomes of its waves, and a receiver of the published waves.
fn queue_of_all() -> Queue {
    queue_with(PAUSE_PER_MESSAGE)
}

fn queue_with(pause: Duration) -> Queue {
    let ((acks, outcomes), (sent, messages)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let outcomes = Arc::new(Mutex::new(outcomes));
    let queue = GroupCommit::of(PARTITIONS, &TaskTracker::new(), pause, move |messages| {
        let times =
            |message| IngestBatch::decode_checked(message).unwrap().items.iter().map(|i| i.received_ms).collect();
        sent.send(messages.into_iter().map(|(partition, message)| (partition, times(message))).collect()).unwrap();
        let outcomes = outcomes.clone();
        async move { outcomes.lock().await.recv().await.unwrap() }
    });
    (Arc::new(queue), acks, messages)
}

/// Like `queue_of_all`, for tests that use only the first partition.
fn queue() -> (Arc<GroupCommit>, mpsc::UnboundedSender<Outcome>, mpsc::UnboundedReceiver<Vec<i64>>) {
    let (queue, acks, mut waves) = queue_of_all();
    let ((one, mut ones), (sent, messages)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    tokio::spawn(async move {
        while let Some(outcome) = ones.recv().await {
            let _ = acks.send(vec![outcome]);
        }
    });
    tokio::spawn(async move {
        while let Some(wave) = waves.recv().await {
            let [(0, times)] = &wave[..] else { panic!("{wave:?}") };
            let _ = sent.send(times.clone());
        }
    });
    (queue, one, messages)
}

fn acknowledge(acks: &mpsc::UnboundedSender<Outcome>, messages: usize) {
    (0..messages).for_each(|_| acks.send(Ok(1)).unwrap());
}

fn items(n: i64, bytes: usize) -> EncodedItems {
    let mut items = EncodedItems::default();
    items.push(&IngestItem { received_ms: n, user_id: Some("u".repeat(bytes)), ..IngestItem::default() });
    items
}

async fn commit(queue: &GroupCommit, n: i64, bytes: usize) -> Outcome {
    queue.commit(vec![(0, items(n, bytes))]).await.map(|positions| positions[0].1)
}

/// Submits an item and returns once it is queued or in flight.
async fn submit(queue: &Arc<GroupCommit>, n: i64, bytes: usize) -> JoinHandle<Outcome> {
    let queue = queue.clone();
    let submission = tokio::spawn(async move { commit(&queue, n, bytes).await });
    run_other_tasks().await;
    submission
}

/// Lets the other tasks on the test's single thread run until they wait.
async fn run_other_tasks() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn submissions_during_publish_are_published_together() {
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
async fn abandoned_submissions_are_dropped() {
    let (queue, acks, mut messages) = queue();
    let mut outcomes = Vec::new();
    for n in 0..6 {
        outcomes.push(submit(&queue, n, 10).await);
    }
    // The task that waits for a permit holds the third submission; the fourth is queued.
    for gone in [2, 3] {
        outcomes[gone].abort();
    }
    run_other_tasks().await;
    acknowledge(&acks, 2);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(messages.recv().await.unwrap());
    }
    assert_eq!(seen, [vec![0], vec![1], vec![4, 5]]);
}

#[tokio::test]
async fn nothing_is_published_if_all_submissions_are_abandoned() {
    let (queue, acks, mut messages) = queue();
    let held = [submit(&queue, 0, 10).await, submit(&queue, 1, 10).await];
    let gone = [submit(&queue, 2, 10).await, submit(&queue, 3, 10).await];
    gone.iter().for_each(JoinHandle::abort);
    run_other_tasks().await;
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
async fn unresponsive_broker_gets_one_submission_at_a_time() {
    let (queue, acks, mut messages) = queue();
    for n in 0..8 {
        submit(&queue, n, 10).await;
    }
    let mut seen = Vec::new();
    for outcome in [Err(PublishError::Timeout), Err(PublishError::Timeout), Ok(1), Ok(1)] {
        acks.send(outcome).unwrap();
        run_other_tasks().await;
    }
    while let Ok(message) = messages.try_recv() {
        seen.push(message);
    }
    assert_eq!(seen, [vec![0], vec![1], vec![2], vec![3], vec![4, 5, 6, 7]]);
}

#[tokio::test]
async fn queued_bytes_are_bounded() {
    let (queue, acks, _messages) = queue();
    let bytes = MESSAGE_BYTES - 100;
    let most = MAX_QUEUED_BYTES / bytes;
    // Two are in flight, the task holds one, and the others are queued.
    let mut outcomes = Vec::new();
    for n in 0..most as i64 + 2 {
        outcomes.push(submit(&queue, n, bytes).await);
    }
    assert_eq!(commit(&queue, 99, bytes).await, Err(PublishError::Busy));
    acknowledge(&acks, most + 3);
    for outcome in outcomes {
        assert_eq!(outcome.await.unwrap(), Ok(1));
    }
    assert_eq!(commit(&queue, 99, bytes).await, Ok(1));
}

#[tokio::test]
async fn wave_has_one_message_and_outcome_per_partition() {
    let (queue, acks, mut waves) = queue_of_all();
    let submit = |parts: Vec<(u16, i64)>| {
        let queue = queue.clone();
        let parts = parts.into_iter().map(|(partition, n)| (partition, items(n, 10))).collect();
        tokio::spawn(async move { queue.commit(parts).await })
    };
    let mut outcomes = Vec::new();
    for parts in [vec![(0, 1)], vec![(0, 2)], vec![(2, 3)], vec![(1, 4), (2, 5)], vec![(1, 6)]] {
        outcomes.push(submit(parts));
        run_other_tasks().await;
    }
    for _ in 0..2 {
        acks.send(vec![Ok(1)]).unwrap();
    }
    acks.send(vec![Ok(2), Err(PublishError::Full)]).unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(waves.recv().await.unwrap());
    }
    assert_eq!(seen, [vec![(0, vec![1])], vec![(0, vec![2])], vec![(2, vec![3, 5]), (1, vec![4, 6])]]);
    let mut received = Vec::new();
    for outcome in outcomes {
        received.push(outcome.await.unwrap());
    }
    let full = || Err(PublishError::Full);
    assert_eq!(received, [Ok(vec![(0, 1)]), Ok(vec![(0, 1)]), Ok(vec![(2, 2)]), full(), full()]);
}

#[tokio::test]
async fn message_stays_below_maximum_size() {
    let (queue, acks, mut messages) = queue();
    let bytes = PART_BYTES / 3;
    let mut outcomes = Vec::new();
    for n in 0..8 {
        outcomes.push(submit(&queue, n, bytes).await);
    }
    acknowledge(&acks, 8);
    for outcome in outcomes {
        assert_eq!(outcome.await.unwrap(), Ok(1));
    }
    let mut seen = Vec::new();
    while let Ok(message) = messages.try_recv() {
        seen.push(message);
    }
    // With their field headers, three items of a third each exceed the maximum.
    assert_eq!(seen, [vec![0], vec![1], vec![2, 3], vec![4, 5], vec![6, 7]]);
    assert_eq!(queue.commit(vec![(0, items(1, PART_BYTES))]).await, Err(PublishError::TooLarge));
    assert_eq!(queue.commit(vec![(PARTITIONS, items(1, 1))]).await, Err(PublishError::TooLarge));
}

#[tokio::test]
async fn wave_of_many_messages_delays_next_wave() {
    let pause = Duration::from_millis(200);
    let (queue, acks, mut waves) = queue_with(pause);
    (0..9).for_each(|_| acks.send(vec![Ok(1); 3]).unwrap());
    let all = |n: i64| (0..PARTITIONS).map(|partition| (partition, items(n, 10))).collect();
    let submit = |parts: Vec<Part>| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.commit(parts).await })
    };
    let since = Instant::now();
    for n in 1..4 {
        submit(all(n));
        run_other_tasks().await;
    }
    let of_each = |times: &[i64]| (0..PARTITIONS).map(|partition| (partition, times.to_vec())).collect::<Seen>();
    assert_eq!(waves.recv().await.unwrap(), of_each(&[1]));
    assert!(since.elapsed() < pause);
    assert_eq!(waves.recv().await.unwrap(), of_each(&[2, 3]));
    assert!(since.elapsed() >= pause * 2);
}

#[tokio::test]
async fn wave_of_one_message_causes_no_delay() {
    let pause = Duration::from_mins(1);
    let (queue, acks, mut waves) = queue_with(pause);
    let since = Instant::now();
    for n in 1..5 {
        acks.send(vec![Ok(1)]).unwrap();
        let queue = queue.clone();
        tokio::spawn(async move { queue.commit(vec![(0, items(n, 10))]).await });
        assert_eq!(waves.recv().await.unwrap(), [(0, vec![n])]);
    }
    assert!(since.elapsed() < pause);
}
