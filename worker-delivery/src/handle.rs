//! A few messages of the send stream, from their arrival to their acknowledgement.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use shared::backoff::Backoff;
use shared::bus::dead_letter;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::metric_name::DEAD_LETTERS;
use shared::send::Lane;
use shared::store::StoreError;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::App;
use crate::attempt::attempt;
use crate::claim::claim_slice;
use crate::intake::{Intake, Refused, Wanted};

/// How often the broker hears that work goes on; it gives up on us after three times as long.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Before a message that we could not work on comes again.
const OWN_FAULT: Backoff = Backoff { first: Duration::from_millis(500), factor: 2, most: Duration::from_secs(5) };

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

/// Works on messages of one lane and acknowledges them once every row of theirs is settled, or waits as a row. When
/// the fault is ours (the database is away), they come again, and no attempt is spent.
pub async fn handle(app: Arc<App>, lane: Lane, received: Received) {
    failpoint::hit("delivery.after_receive");
    let messages = &received.messages;
    match work(&app, lane, messages).await {
        Ok(()) => {
            failpoint::hit("delivery.after_settle");
            answer(messages, |_| AckKind::Ack).await;
        }
        Err(Unfinished::Stopping) => answer(messages, |_| AckKind::Nak(None)).await,
        Err(Unfinished::Store(error)) => {
            tracing::warn!(lane = lane.as_str(), %error, "cannot work on {} messages; they come again", messages.len());
            answer(messages, |delivered| AckKind::Nak(Some(OWN_FAULT.delay(delivered, rand::random())))).await;
        }
    }
}

async fn work(app: &Arc<App>, lane: Lane, messages: &[Message]) -> Result<(), Unfinished> {
    let mut intake = Intake::default();
    messages.iter().for_each(|m| intake.read(m.payload.clone()));
    intake.record_direct(app).await?;
    bury(app, std::mem::take(&mut intake.refused)).await?;
    send_all(app, lane, intake.wanted).await
}

async fn send_all(app: &Arc<App>, lane: Lane, wanted: Wanted) -> Result<(), Unfinished> {
    let mut under_way = Vec::new();
    let mut outcome = Ok(());
    for (project, rows) in wanted {
        let rows: Vec<(Uuid, i32)> = rows.into_iter().collect();
        outcome = send_project(app, lane, project, &rows, &mut under_way).await;
        if outcome.is_err() {
            break;
        }
    }
    // What was claimed comes to its end in any case.
    for task in under_way {
        let _ = task.await;
    }
    outcome
}

/// Claims slices no larger than what is permitted at the moment, so that whatever happens to this process leaves only
/// those few in doubt.
async fn send_project(
    app: &Arc<App>,
    lane: Lane,
    project: ProjectId,
    mut rows: &[(Uuid, i32)],
    under_way: &mut Vec<JoinHandle<()>>,
) -> Result<(), Unfinished> {
    while !rows.is_empty() {
        let mut permits = tokio::select! {
            () = app.shutdown.cancelled() => return Err(Unfinished::Stopping),
            permits = app.permits.acquire(lane, rows.len()) => permits,
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
