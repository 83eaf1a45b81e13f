//! A few messages of the send stream, from their arrival to their acknowledgement.

mod received;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::jetstream::AckKind;
use bytes::Bytes;
use futures_util::future::join_all;
use jiff::Timestamp;
use shared::backoff::Backoff;
use shared::bus::dead_letter;
use shared::clock::machine_now;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::metric_name::Metric;
use shared::send::{Channel, Lane};
use shared::store::StoreError;
use shared::store::messages::due;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use crate::App;
use crate::attempt::attempt;
use crate::claim::{Held, claim_slice, standing};
use crate::claim_turns::in_turn;
use crate::intake::{Intake, Refused};
use crate::limits::{Admitted, Limit, Place, Room};
use crate::settle::judge;
use crate::traced;
pub use received::Received;

/// Before a message that we could not work on comes again.
const OWN_FAULT: Backoff = Backoff { first: Duration::from_millis(500), factor: 2, most: Duration::from_secs(5) };

/// How long messages of which all is begun wait to be settled before they are acknowledged: most calls are that prompt, and what is
/// claimed comes again by itself.
const PROMPT: Duration = Duration::from_secs(1);
/// Between two looks whether what waits is in the way of others.
const LOOK: Duration = Duration::from_millis(50);

/// Messages of which their provider has not taken all in so long make way for others. Of what can wait, a group is hundreds of rows
/// or thousands, which take a while with any provider.
const fn slow(lane: Lane) -> Duration {
    match lane {
        Lane::Direct => Duration::from_secs(3),
        Lane::Automation | Lane::Campaign => Duration::from_mins(2),
    }
}

/// How long what was in the way waits for its next turn, at least; and up to twice as long.
const fn put_off(lane: Lane) -> Duration {
    match lane {
        Lane::Direct => Duration::from_secs(5),
        Lane::Automation | Lane::Campaign => Duration::from_secs(30),
    }
}

/// Rows that are given back together.
const PORTION: usize = 1_000;

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
    /// Places for those who wait for their accounts' limits.
    pub beside: Arc<Semaphore>,
}

type Rows = Vec<(Uuid, i32)>;

/// How far a project's messages were brought.
struct Begun {
    /// Calls, each of which comes to its end in any case.
    under_way: Vec<JoinHandle<()>>,
    /// What is not begun, as its account has a limit.
    limited: Option<(ProjectId, Rows)>,
    outcome: Result<(), Unfinished>,
}

impl Begun {
    fn failed(why: Unfinished) -> Self {
        Self { under_way: Vec::new(), limited: None, outcome: Err(why) }
    }
}

/// Of a project and a group, what waits here for its account. No more than rows are kept: they come again by themselves, and so
/// what brought them is acknowledged meanwhile.
struct Limited {
    project: ProjectId,
    rows: Rows,
    _room: Option<Room>,
    _place: Option<OwnedSemaphorePermit>,
}

/// Works on messages of one lane and acknowledges them once every row of theirs is settled, or waits as a row: for its
/// time or its account, or claimed, for its provider. When the fault is ours (the database is away), they come again, and no
/// attempt is spent.
pub async fn handle(app: Arc<App>, queue: Queue, received: Received, turn: Turn) {
    failpoint::hit("delivery.after_receive");
    let Received { payloads, unanswered } = received;
    let Turn { crowd, slot, beside } = turn;
    let mut begun = work(&app, (queue, Some(&crowd)), payloads).await;
    let is_stopping = begun.iter().any(|begun| matches!(begun.outcome, Err(Unfinished::Stopping)));
    let limited: Vec<(ProjectId, Rows)> = begun.iter_mut().filter_map(|begun| begun.limited.take()).collect();
    if !is_stopping {
        // Before others begin, so that no more of this is written at a time than there are turns.
        for entered in join_all(limited.into_iter().map(|of| enter(&app, queue, of, &beside))).await {
            match entered {
                Ok(limited) => drop(app.tasks.spawn(send_limited(app.clone(), queue, limited))),
                Err(error) => begun.push(Begun::failed(error.into())),
            }
        }
    }
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

/// Begins all of it, but for what goes by accounts with a limit.
async fn work(app: &Arc<App>, of: (Queue, Option<&Crowd>), payloads: Vec<Bytes>) -> Vec<Begun> {
    let mut intake = Intake::default();
    payloads.into_iter().for_each(|payload| intake.read(payload));
    let read = async {
        intake.record_direct(app).await?;
        bury(app, std::mem::take(&mut intake.refused)).await
    };
    if let Err(error) = read.await {
        return vec![Begun::failed(error)];
    }
    // Beside each other: one project's provider keeps nobody else from being begun.
    let each = intake.wanted.into_iter().map(|(project, rows)| async move {
        let rows: Vec<(Uuid, i32)> = rows.into_iter().collect();
        match app.channels.limit(app, (project, of.0.channel)).await {
            Ok(None) => send_all(app, of, project, &rows).await,
            Ok(Some(_)) => Begun { under_way: Vec::new(), limited: Some((project, rows)), outcome: Ok(()) },
            Err(error) => Begun::failed(error.into()),
        }
    });
    join_all(each).await
}

async fn send_all(app: &Arc<App>, of: (Queue, Option<&Crowd>), project: ProjectId, rows: &[(Uuid, i32)]) -> Begun {
    let mut under_way = Vec::new();
    let outcome = send_project(app, of, project, rows, &mut under_way).await;
    Begun { under_way, limited: None, outcome }
}

/// Room for messages to wait here for their account. Those for which there is none are left as rows until it may be their turn.
async fn enter(
    app: &App,
    queue: Queue,
    (project, mut rows): (ProjectId, Rows),
    beside: &Arc<Semaphore>,
) -> Result<Limited, StoreError> {
    let Some(limit) = app.channels.limit(app, (project, queue.channel)).await? else {
        return Ok(Limited { project, rows, _room: None, _place: None });
    };
    let place = beside.clone().try_acquire_owned().ok();
    let (room, later) = limit.room(queue.lane, rows.len(), if place.is_some() { Place::Here } else { Place::Scarce });
    wait_as_rows(app, project, &limit, &rows[room.rows()..], &later).await?;
    rows.truncate(room.rows());
    Ok(Limited { project, rows, _room: Some(room), _place: place })
}

/// Sends messages as fast as their account allows, in nobody's way. What cannot be begun is left to the scheduler.
async fn send_limited(app: Arc<App>, queue: Queue, limited: Limited) {
    let Limited { project, rows, .. } = &limited;
    let delay = match send_project(&app, (queue, None), *project, rows, &mut Vec::new()).await {
        Ok(()) => return,
        Err(Unfinished::Stopping) => Duration::ZERO,
        Err(Unfinished::Store(error)) => {
            tracing::warn!(lane = queue.lane.as_str(), %error, "cannot work on {} messages; they come again", rows.len());
            OWN_FAULT.most
        }
    };
    let mut failures = 0;
    while let Err(error) = give_back(&app, *project, rows, delay).await {
        tracing::debug!(%error, "{} messages cannot be given back", rows.len());
        failures += 1;
        tokio::select! {
            biased;
            // They come again all the same, only later.
            () = app.shutdown.cancelled() => return,
            () = tokio::time::sleep(OWN_FAULT.delay(failures, rand::random())) => {}
        }
    }
}

async fn wait_as_rows(
    app: &App,
    project: ProjectId,
    limit: &Limit,
    rows: &[(Uuid, i32)],
    later: &[Duration],
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let now = app.clock.now();
    let due: Vec<Timestamp> = later.iter().map(|wait| now.checked_add(*wait).unwrap_or(now)).collect();
    let db = app.store.connection().await?;
    let put_off = due::put_off(&db, project, rows, &due, &judge::limited(&limit.words()), now).await?;
    metrics::counter!(Metric::MessagesLimited, "how" => "put_off").increment(put_off);
    Ok(())
}

/// Claims slices no larger than what is permitted at the moment, so that whatever happens to this process leaves only
/// those few in doubt.
async fn send_project(
    app: &Arc<App>,
    (queue, crowd): (Queue, Option<&Crowd>),
    project: ProjectId,
    rows: &[(Uuid, i32)],
    under_way: &mut Vec<JoinHandle<()>>,
) -> Result<(), Unfinished> {
    let (mut rows, mut has_waited, began) = (rows.to_vec(), false, Instant::now());
    while !rows.is_empty() {
        let limit = app.channels.limit(app, (project, queue.channel)).await?;
        let admitted = async {
            match &limit {
                Some(limit) => (limit.admit(&app.permits, queue.lane, project, rows.len()).await, None),
                None => {
                    let turn = app.claim_turns.next(project, queue.lane).await;
                    (Admitted::freely(app.permits.acquire(queue.lane, project, rows.len()).await), Some(turn))
                }
            }
        };
        let (Admitted { mut permits, mut tokens, waited }, mut turn) = tokio::select! {
            biased;
            () = app.shutdown.cancelled() => return Err(Unfinished::Stopping),
            admitted = admitted => admitted,
            () = in_the_way(app, (queue.lane, project), crowd, began) => {
                let delay = put_off(queue.lane).mul_f64(1.0 + rand::random::<f64>());
                return Ok(give_back(app, project, &rows, delay).await?);
            }
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
            // is not made again for as long as its message has waited before: so it is waited for.
        }
    }
    Ok(())
}

/// Until messages that wait for their project's slow provider keep others from being begun. It has its hands full of them, or
/// nothing has come back from it for a while, which direct messages do not wait for.
async fn in_the_way(app: &App, (lane, project): (Lane, ProjectId), crowd: Option<&Crowd>, began: Instant) {
    let Some(crowd) = crowd else { return std::future::pending().await };
    let is_slow = || {
        (lane == Lane::Direct && app.permits.is_stalled(project))
            || (began.elapsed() >= slow(lane) && app.permits.has_begun(project))
    };
    while !(crowd.is_waiting() && is_slow()) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Leaves rows to the scheduler, which hands them over again when their time comes. What is claimed is left alone.
async fn give_back(app: &App, project: ProjectId, rows: &[(Uuid, i32)], delay: Duration) -> Result<(), StoreError> {
    let now = app.clock.now();
    let due_at = now.checked_add(delay).unwrap_or(now);
    let db = app.store.connection().await?;
    for rows in rows.chunks(PORTION) {
        due::give_back_locked(&db, project, &rows.iter().copied().collect(), due_at).await?;
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
        metrics::counter!(Metric::DeadLetters, "from" => "send").increment(1);
    }
    Ok(())
}
