//! A few messages of the send stream, from their arrival to their acknowledgement.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use futures_util::future::join_all;
use shared::backoff::Backoff;
use shared::bus::dead_letter;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::metric_name::DEAD_LETTERS;
use shared::send::Lane;
use shared::store::StoreError;
use shared::store::messages::due;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::App;
use crate::attempt::attempt;
use crate::claim::claim_slice;
use crate::intake::{Intake, Refused};

/// How often the broker hears that work goes on; it gives up on us after three times as long.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Before a message that we could not work on comes again.
const OWN_FAULT: Backoff = Backoff { first: Duration::from_millis(500), factor: 2, most: Duration::from_secs(5) };

/// How long messages of which all is begun wait to be settled before they are acknowledged: most calls are that prompt, and what is
/// claimed comes again by itself.
const PROMPT: Duration = Duration::from_secs(1);
/// Between two looks whether what waits is in the way of others.
const LOOK: Duration = Duration::from_millis(50);
/// How long what was in the way waits for its next turn, at least; and up to twice as long.
const PUT_OFF: Duration = Duration::from_secs(5);

/// Why messages are not done with, through no fault of theirs.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("stopping")]
    Stopping,
}

/// Messages of which the broker hears that they are in hand, from their arrival on.
pub struct Received {
    messages: Arc<Vec<Message>>,
    _keepalive: AbortOnDrop,
}

impl Received {
    pub fn new(messages: Vec<Message>) -> Self {
        let messages = Arc::new(messages);
        let keepalive = AbortOnDrop(tokio::spawn(keep_alive(messages.clone())));
        Self { messages, _keepalive: keepalive }
    }
}

/// Whether others wait until a group is begun.
#[derive(Clone, Default)]
pub struct Crowd(Arc<AtomicUsize>);

impl Crowd {
    /// Somebody waits for as long as this takes.
    pub async fn during(&self, waits: impl Future<Output = ()>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        let _left = Left(&self.0);
        waits.await;
    }

    fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

struct Left<'a>(&'a AtomicUsize);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A group's turn to begin: over when all of it is begun, or put off.
pub struct Turn {
    pub crowd: Crowd,
    pub slot: OwnedSemaphorePermit,
}

/// Works on messages of one lane and acknowledges them once every row of theirs is settled, or waits as a row: for its
/// time, or claimed, for its provider. When the fault is ours (the database is away), they come again, and no attempt is
/// spent.
pub async fn handle(app: Arc<App>, lane: Lane, received: Received, turn: Turn) {
    failpoint::hit("delivery.after_receive");
    let messages = &received.messages;
    let Turn { crowd, slot } = turn;
    let (under_way, outcome) = work(&app, (lane, &crowd), messages).await;
    // Others begin, however long these calls take.
    drop(slot);
    let settled = tokio::time::timeout(PROMPT, join_all(under_way)).await.is_ok();
    match outcome {
        Ok(()) => {
            if settled {
                failpoint::hit("delivery.after_settle");
            }
            answer(messages, |_| AckKind::Ack).await;
        }
        Err(Unfinished::Stopping) => answer(messages, |_| AckKind::Nak(None)).await,
        Err(Unfinished::Store(error)) => {
            tracing::warn!(lane = lane.as_str(), %error, "cannot work on {} messages; they come again", messages.len());
            answer(messages, |delivered| AckKind::Nak(Some(OWN_FAULT.delay(delivered, rand::random())))).await;
        }
    }
}

/// Begins all of it; returns what is under way then, of which each comes to its end in any case.
async fn work(
    app: &Arc<App>,
    of: (Lane, &Crowd),
    messages: &[Message],
) -> (Vec<JoinHandle<()>>, Result<(), Unfinished>) {
    let mut intake = Intake::default();
    messages.iter().for_each(|m| intake.read(m.payload.clone()));
    let read = async {
        intake.record_direct(app).await?;
        bury(app, std::mem::take(&mut intake.refused)).await
    };
    if let Err(error) = read.await {
        return (Vec::new(), Err(error));
    }
    // Beside each other: one project's provider keeps nobody else from being begun.
    let each = intake.wanted.into_iter().map(|(project, rows)| async move {
        let rows: Vec<(Uuid, i32)> = rows.into_iter().collect();
        let mut under_way = Vec::new();
        let outcome = send_project(app, of, project, &rows, &mut under_way).await;
        (under_way, outcome)
    });
    let (under_way, outcomes): (Vec<_>, Vec<_>) = join_all(each).await.into_iter().unzip();
    (under_way.into_iter().flatten().collect(), outcomes.into_iter().collect())
}

/// Claims slices no larger than what is permitted at the moment, so that whatever happens to this process leaves only
/// those few in doubt.
async fn send_project(
    app: &Arc<App>,
    (lane, crowd): (Lane, &Crowd),
    project: ProjectId,
    mut rows: &[(Uuid, i32)],
    under_way: &mut Vec<JoinHandle<()>>,
) -> Result<(), Unfinished> {
    while !rows.is_empty() {
        let mut permits = tokio::select! {
            biased;
            () = app.shutdown.cancelled() => return Err(Unfinished::Stopping),
            permits = app.permits.acquire(lane, project, rows.len()) => permits,
            () = in_the_way(app, lane, crowd, project) => return Ok(put_off(app, project, rows).await?),
        };
        let (slice, rest) = rows.split_at(permits.len().min(rows.len()));
        let claimed = claim_slice(app, project, slice).await?;
        failpoint::hit("delivery.after_claim");
        for loaded in claimed {
            let permit = permits.pop();
            let app = app.clone();
            under_way.push(app.tasks.clone().spawn(async move {
                let settled = attempt(app.clone(), loaded).await;
                drop(permit);
                app.settler.settle(settled).await;
            }));
        }
        rows = rest;
    }
    Ok(())
}

/// Until direct messages that wait for their project's slow provider keep others from being begun.
async fn in_the_way(app: &App, lane: Lane, crowd: &Crowd, project: ProjectId) {
    if lane != Lane::Direct {
        return std::future::pending().await;
    }
    while !(crowd.is_waiting() && app.permits.is_stalled(project)) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Leaves rows to the scheduler, which hands them over again when their time comes.
async fn put_off(app: &App, project: ProjectId, rows: &[(Uuid, i32)]) -> Result<(), StoreError> {
    let delay = PUT_OFF.mul_f64(1.0 + rand::random::<f64>());
    let now = app.clock.now();
    let due_at = now.checked_add(delay).unwrap_or(now);
    let rows = rows.iter().copied().collect();
    due::give_back(&mut app.store.connection().await?, project, &rows, due_at).await?;
    Ok(())
}

/// Puts what cannot be worked on aside; only then may its message be acknowledged.
async fn bury(app: &App, refused: Vec<Refused>) -> Result<(), Unfinished> {
    for Refused { payload, reason } in refused {
        tracing::warn!(reason, "a message that cannot be worked on is put aside");
        let mut failures = 0;
        while let Err(error) = dead_letter::bury(&app.bus, "send", "worker-delivery", &reason, payload.clone()).await {
            failures += 1;
            tracing::warn!(%error, "cannot put a message aside");
            tokio::select! {
                () = app.shutdown.cancelled() => return Err(Unfinished::Stopping),
                () = tokio::time::sleep(Backoff::CONNECT.delay(failures, rand::random())) => {}
            }
        }
        metrics::counter!(DEAD_LETTERS, "from" => "send").increment(1);
    }
    Ok(())
}

/// `kind` is asked with the number of deliveries so far. An answer that is lost only brings the message back, and its
/// rows say that they are done.
async fn answer(messages: &[Message], kind: impl Fn(u32) -> AckKind) {
    for message in messages {
        let delivered = message.info().map_or(1, |info| u32::try_from(info.delivered).unwrap_or(1));
        if let Err(error) = message.ack_with(kind(delivered)).await {
            tracing::debug!(%error, "an acknowledgement was not sent");
        }
    }
}

async fn keep_alive(messages: Arc<Vec<Message>>) {
    loop {
        tokio::time::sleep(KEEPALIVE).await;
        answer(&messages, |_| AckKind::Progress).await;
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
