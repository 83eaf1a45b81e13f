//! A few messages of the send stream, from their arrival to their acknowledgement.

mod beside;
mod crowd;
mod received;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::AckKind;
use bytes::Bytes;
use futures_util::future::join_all;
use shared::backoff::Backoff;
use shared::bus::dead_letter;
use shared::clock::machine_now;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::metric_name::Metric;
use shared::send::{Channel, Lane};
use shared::store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::App;
use crate::attempt::attempt;
use crate::backlogs::Row;
use crate::claim::{Held, claim_slice, standing};
use crate::claim_turns::in_turn;
use crate::in_hand::Tenant;
use crate::intake::{Intake, Refused, Wanted};
use crate::limits::Admitted;
use crate::traced;
use beside::{Aside, Why, set_aside};
pub use crowd::Crowd;
use crowd::{has_room, in_the_way};
pub use received::Received;

/// Before a message that we could not work on comes again.
const OWN_FAULT: Backoff = Backoff { first: Duration::from_millis(500), factor: 2, most: Duration::from_secs(5) };

/// How long messages of which all is begun wait to be settled before they are acknowledged: most calls are that prompt, and what is
/// claimed comes again by itself.
const PROMPT: Duration = Duration::from_secs(1);

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

/// A group's turn to begin: over when all of it is begun, or waits beside or as rows.
pub struct Turn {
    pub crowd: Crowd,
    /// Until it is written down.
    pub intake: OwnedSemaphorePermit,
    pub slot: OwnedSemaphorePermit,
    /// Places for those who wait for their accounts' limits.
    pub beside: Arc<Semaphore>,
}

/// How far a project's messages were brought.
struct Begun {
    /// Calls, each of which comes to its end in any case.
    under_way: Vec<JoinHandle<()>>,
    outcome: Result<(), Unfinished>,
}

/// Works on messages of one lane and acknowledges them once every row of theirs is settled, or waits as a row: for its
/// time, its account or its project's turn, or claimed, for its provider. When the fault is ours (the database is away), they
/// come again, and no attempt is spent.
pub async fn handle(app: Arc<App>, queue: Queue, received: Received, turn: Turn) {
    failpoint::hit("delivery.after_receive");
    let Received { payloads, unanswered } = received;
    let Turn { crowd, intake, slot, beside } = turn;
    let begun = match in_turn(Some(intake), take_in(&app, payloads)).await {
        Ok(wanted) => work(&app, (queue, Some(&crowd)), wanted, &beside).await,
        Err(error) => vec![Begun { under_way: Vec::new(), outcome: Err(error) }],
    };
    // Others begin, however long these calls take.
    drop(slot);
    let (under_way, outcomes): (Vec<_>, Vec<_>) = begun.into_iter().map(|b| (b.under_way, b.outcome)).unzip();
    let (under_way, outcome) = (under_way.into_iter().flatten(), outcomes.into_iter().collect());
    let settled = tokio::time::timeout(PROMPT, join_all(under_way)).await.is_ok();
    match outcome {
        Ok(()) => {
            if settled {
                failpoint::hit("delivery.after_settle");
            }
            unanswered.answer(|_| AckKind::Ack).await;
        }
        Err(Unfinished::Stopping) => unanswered.answer(|_| AckKind::Nak(None)).await,
        Err(Unfinished::Store(error)) => {
            tracing::warn!(lane = queue.lane.as_str(), %error, "cannot work on {} messages; they come again", unanswered.count());
            unanswered.answer(|delivered| AckKind::Nak(Some(OWN_FAULT.delay(delivered, rand::random())))).await;
        }
    }
}

/// Reads messages, and gives their rows to those that have none yet.
async fn take_in(app: &App, payloads: Vec<Bytes>) -> Result<Wanted, Unfinished> {
    let mut intake = Intake::default();
    payloads.into_iter().for_each(|payload| intake.read(payload));
    intake.record_direct(app).await?;
    bury(app, intake.refused).await?;
    Ok(intake.wanted)
}

/// Begins all of it, or finds it room to wait beside: what goes by accounts with a limit, or behind messages of its project that
/// wait already.
async fn work(
    app: &Arc<App>,
    (queue, crowd): (Queue, Option<&Crowd>),
    wanted: Wanted,
    beside: &Arc<Semaphore>,
) -> Vec<Begun> {
    // Each by itself to the end: one project's provider keeps nobody else from being begun, or from waiting beside.
    let each = wanted.into_iter().map(|(project, rows)| async move {
        let rows: Vec<Row> = rows.into_iter().collect();
        let mut under_way = Vec::new();
        let outcome = async {
            let (rows, why) = match app.channels.limit(app, (project, queue.channel)).await? {
                Some(_) => (rows, Why::Limited),
                None => (send_project(app, (queue, crowd), project, &rows, &mut under_way).await?, Why::InTheWay),
            };
            if !rows.is_empty() {
                set_aside(app, queue, Aside { project, rows, why }, beside).await?;
            }
            Ok(())
        }
        .await;
        Begun { under_way, outcome }
    });
    join_all(each).await
}

/// Whether messages of the project wait beside, which these do not go before.
fn goes_behind(app: &App, (queue, crowd): (Queue, Option<&Crowd>), project: ProjectId) -> bool {
    crowd.is_some() && queue.lane == Lane::Direct && app.backlogs.is_open((project, queue.channel))
}

/// Claims slices no larger than what is permitted at the moment, so that whatever happens to this process leaves only
/// those few in doubt. Returns what makes way for others.
async fn send_project(
    app: &Arc<App>,
    (queue, crowd): (Queue, Option<&Crowd>),
    project: ProjectId,
    rows: &[Row],
    under_way: &mut Vec<JoinHandle<()>>,
) -> Result<Vec<Row>, Unfinished> {
    let (mut rows, mut has_waited, began) = (rows.to_vec(), false, Instant::now());
    let of = Tenant { owner: app.owners.of(&app.store, project).await?, project };
    while !rows.is_empty() {
        if goes_behind(app, (queue, crowd), project) {
            has_room(app, queue, project, crowd).await?;
            return Ok(rows);
        }
        let limit = app.channels.limit(app, (project, queue.channel)).await?;
        let admitted = async {
            match &limit {
                Some(limit) => (limit.admit(&app.permits, queue.lane, of, rows.len()).await, None),
                None => {
                    let turn = app.claim_turns.next(project, queue.lane).await;
                    (Admitted::freely(app.permits.acquire(queue.lane, of, rows.len()).await), Some(turn))
                }
            }
        };
        let (Admitted { mut permits, mut tokens, waited }, mut turn) = tokio::select! {
            biased;
            () = app.shutdown.cancelled() => return Err(Unfinished::Stopping),
            admitted = admitted => admitted,
            () = in_the_way(app, queue, project, crowd, began) => return Ok(rows),
        };
        if waited && !has_waited {
            has_waited = true;
            metrics::counter!(Metric::MessagesLimited, "how" => "waited").increment(rows.len() as u64);
        }
        let rest = rows.split_off(permits.len().min(rows.len()));
        let mut slice = std::mem::replace(&mut rows, rest);
        let since = machine_now();
        for held in [Held::LeftOut, Held::WaitedFor] {
            let claimed = in_turn(turn.take(), claim_slice(app, project, &slice, held)).await?;
            failpoint::hit("delivery.after_claim");
            let are_all = claimed.len() == slice.len();
            if !are_all {
                slice.retain(|(id, _)| claimed.iter().all(|loaded| loaded.message.id != *id));
            }
            for mut loaded in claimed {
                let mut hop = traced::begin(&mut loaded.message, since);
                let (mut permit, token) = (permits.pop(), tokens.pop());
                let app = app.clone();
                under_way.push(app.tasks.clone().spawn(async move {
                    let settled = attempt(app.clone(), loaded, token).await;
                    if let Some(permit) = &mut permit {
                        permit.called();
                    }
                    traced::judged(&mut hop, &settled);
                    app.settler.settle(queue.channel, settled).await;
                    hop.end();
                    drop(permit);
                }));
            }
            if are_all || held == Held::WaitedFor {
                break;
            }
            // Behind a long queue most of what comes was handed over before, and is sent by now. Each such row would take a
            // permit, and as many looks as there are slices: this one is for all.
            let stand = standing(app, project, &[&slice[..], &rows].concat()).await?;
            slice.retain(|row| stand.contains(row));
            rows.retain(|row| stand.contains(row));
            if slice.is_empty() {
                break;
            }
            // What still stands was locked. It may be that somebody only noted when it is due, and a hand-over that found nothing
            // is not made again for as long as its message has waited before: so it is waited for, unless this stops.
            if app.shutdown.is_cancelled() {
                return Err(Unfinished::Stopping);
            }
        }
    }
    Ok(rows)
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
        metrics::counter!(Metric::DeadLetters, "from" => "send").increment(1);
    }
    Ok(())
}
