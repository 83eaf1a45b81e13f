//! A few messages of the send stream, from their arrival to their acknowledgement.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use futures_util::future::join_all;
use jiff::Timestamp;
use shared::backoff::Backoff;
use shared::bus::dead_letter;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::metric_name::{DEAD_LETTERS, MESSAGES_LIMITED};
use shared::send::{Channel, Lane};
use shared::store::StoreError;
use shared::store::messages::due;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::App;
use crate::attempt::attempt;
use crate::claim::claim_slice;
use crate::consume::Slot;
use crate::intake::{Intake, Refused, Wanted};
use crate::limits::{Admitted, Place};
use crate::settle::judge;

/// How often the broker hears that work goes on; it gives up on us after three times as long.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Before a message that we could not work on comes again.
const OWN_FAULT: Backoff = Backoff { first: Duration::from_millis(500), factor: 2, most: Duration::from_secs(5) };

/// Where messages were read.
#[derive(Clone, Copy)]
pub struct Queue {
    pub channel: Channel,
    pub lane: Lane,
}

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
pub async fn handle(app: Arc<App>, queue: Queue, received: Received, slot: Slot) {
    failpoint::hit("delivery.after_receive");
    let messages = &received.messages;
    match work(&app, queue, messages, slot).await {
        Ok(()) => {
            failpoint::hit("delivery.after_settle");
            answer(messages, |_| AckKind::Ack).await;
        }
        Err(Unfinished::Stopping) => answer(messages, |_| AckKind::Nak(None)).await,
        Err(Unfinished::Store(error)) => {
            tracing::warn!(lane = queue.lane.as_str(), %error, "cannot work on {} messages; they come again", messages.len());
            answer(messages, |delivered| AckKind::Nak(Some(OWN_FAULT.delay(delivered, rand::random())))).await;
        }
    }
}

async fn work(app: &Arc<App>, queue: Queue, messages: &[Message], slot: Slot) -> Result<(), Unfinished> {
    let mut intake = Intake::default();
    messages.iter().for_each(|m| intake.read(m.payload.clone()));
    intake.record_direct(app).await?;
    bury(app, std::mem::take(&mut intake.refused)).await?;
    let limited = send_unlimited(app, queue, intake.wanted).await?;
    if limited.is_empty() {
        return Ok(());
    }
    // Who waits for a provider keeps nobody from their place.
    let aside = slot.step_aside(messages.len());
    let place = if aside.is_some() { Place::Here } else { Place::Ledger };
    let each = limited.iter().map(|(project, rows)| send_limited(app, queue, *project, rows, place));
    join_all(each).await.into_iter().collect()
}

/// Sends all but the messages whose provider's account has a limit, which it returns.
async fn send_unlimited(
    app: &Arc<App>,
    queue: Queue,
    wanted: Wanted,
) -> Result<Vec<(ProjectId, Vec<(Uuid, i32)>)>, Unfinished> {
    let (mut under_way, mut limited) = (Vec::new(), Vec::new());
    let mut outcome = Ok(());
    for (project, rows) in wanted {
        let rows: Vec<(Uuid, i32)> = rows.into_iter().collect();
        outcome = match app.channels.limit(app, (project, queue.channel)).await {
            Ok(None) => send_project(app, queue, project, &rows, &mut under_way).await,
            Ok(Some(_)) => {
                limited.push((project, rows));
                Ok(())
            }
            Err(error) => Err(error.into()),
        };
        if outcome.is_err() {
            break;
        }
    }
    // What was claimed comes to its end in any case.
    for task in under_way {
        let _ = task.await;
    }
    outcome.map(|()| limited)
}

/// Sends messages as fast as their account allows. Those for which there is no room here are left as rows until it may be
/// their turn.
async fn send_limited(
    app: &Arc<App>,
    queue: Queue,
    project: ProjectId,
    rows: &[(Uuid, i32)],
    place: Place,
) -> Result<(), Unfinished> {
    let limit = app.channels.limit(app, (project, queue.channel)).await?;
    let room = limit.map(|limit| (limit.room(queue.lane, rows.len(), place), limit.words()));
    let here = room.as_ref().map_or(rows.len(), |((room, _), _)| room.rows());
    let (here, behind) = rows.split_at(here);
    if let Some(((_, later), why)) = &room
        && !behind.is_empty()
    {
        let now = app.clock.now();
        let due: Vec<Timestamp> = later.iter().map(|wait| now.checked_add(*wait).unwrap_or(now)).collect();
        let db = app.store.connection().await?;
        let put_off = due::put_off(&db, project, behind, &due, &judge::limited(why), now).await?;
        metrics::counter!(MESSAGES_LIMITED, "how" => "put_off").increment(put_off);
    }
    let mut under_way = Vec::new();
    let outcome = send_project(app, queue, project, here, &mut under_way).await;
    for task in under_way {
        let _ = task.await;
    }
    outcome
}

/// Claims slices no larger than what is permitted at the moment, so that whatever happens to this process leaves only
/// those few in doubt.
async fn send_project(
    app: &Arc<App>,
    queue: Queue,
    project: ProjectId,
    mut rows: &[(Uuid, i32)],
    under_way: &mut Vec<JoinHandle<()>>,
) -> Result<(), Unfinished> {
    let mut has_waited = false;
    while !rows.is_empty() {
        let limit = app.channels.limit(app, (project, queue.channel)).await?;
        let admitted = async {
            match &limit {
                Some(limit) => limit.admit(&app.permits, queue.lane, rows.len()).await,
                None => Admitted::freely(app.permits.acquire(queue.lane, rows.len()).await),
            }
        };
        let Admitted { mut permits, mut tokens, waited } = tokio::select! {
            () = app.shutdown.cancelled() => return Err(Unfinished::Stopping),
            admitted = admitted => admitted,
        };
        if waited && !has_waited {
            has_waited = true;
            metrics::counter!(MESSAGES_LIMITED, "how" => "waited").increment(rows.len() as u64);
        }
        let (slice, rest) = rows.split_at(permits.len().min(rows.len()));
        let claimed = claim_slice(app, project, slice).await?;
        failpoint::hit("delivery.after_claim");
        for loaded in claimed {
            let (permit, token) = (permits.pop(), tokens.pop());
            let app = app.clone();
            under_way.push(app.tasks.clone().spawn(async move {
                let settled = attempt(app.clone(), loaded, token).await;
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
