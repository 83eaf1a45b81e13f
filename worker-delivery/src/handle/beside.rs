//! Messages that wait here for their account or for their project's turn, in nobody's way: what brought them is acknowledged, as
//! they are rows that come again by themselves.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use shared::ids::ProjectId;
use shared::metric_name::Metric;
use shared::send::Lane;
use shared::store::StoreError;
use shared::store::messages::due;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{OWN_FAULT, Queue, Unfinished, send_project};
use crate::App;
use crate::backlogs::{Joined, Opened, Row};
use crate::limits::{Place, Room};
use crate::settle::judge;

/// Rows that are written together.
const PORTION: usize = 1_000;
/// How often whoever stops tries to give rows back.
const TRIES: u32 = 4;
/// Between two looks whether more waits, while the last is being begun.
const LOOK: Duration = Duration::from_millis(50);
/// Rows of a backlog that are taken from it together.
const TAKEN: usize = 512;
/// How long messages of campaigns and automations that were in the way wait for their next turn, at least; and up to twice as long.
const PUT_OFF: Duration = Duration::from_secs(30);

/// Of a project and a group, what waits beside.
pub struct Aside {
    pub project: ProjectId,
    pub rows: Vec<Row>,
    pub why: Why,
}

#[derive(Clone, Copy)]
pub enum Why {
    /// Its account has a limit.
    Limited,
    /// It was in the way of others, or goes behind some that were.
    InTheWay,
}

/// Finds room for messages to wait here, and has them sent when it is their turn. Those for which there is none are left as rows until
/// it may be.
pub async fn set_aside(app: &Arc<App>, queue: Queue, aside: Aside, places: &Arc<Semaphore>) -> Result<(), StoreError> {
    let Aside { project, rows, why } = aside;
    match (why, queue.lane) {
        (Why::Limited, _) => {
            let limited = enter(app, queue, (project, rows), places).await?;
            app.tasks.spawn(send_limited(app.clone(), queue, limited));
            Ok(())
        }
        (Why::InTheWay, Lane::Direct) => join(app, queue, (project, rows), places).await,
        (Why::InTheWay, Lane::Automation | Lane::Campaign) => {
            give_back(app, project, &rows, PUT_OFF.mul_f64(1.0 + rand::random::<f64>())).await
        }
    }
}

/// Rows go to the end of their project's backlog.
async fn join(
    app: &Arc<App>,
    queue: Queue,
    (project, rows): (ProjectId, Vec<Row>),
    places: &Arc<Semaphore>,
) -> Result<(), StoreError> {
    let Joined { opened, left } = app.backlogs.join((project, queue.channel), rows);
    if let Some(opened) = opened {
        let (app, places) = (app.clone(), places.clone());
        app.tasks.clone().spawn(async move {
            // While the claim of one takes long, the other goes on.
            let empty = || empty(&app, queue, project, &opened, &places);
            tokio::join!(empty(), empty());
        });
    }
    let (left, later): (Vec<Row>, Vec<Duration>) = left.into_iter().unzip();
    wait_as_rows(app, project, judge::behind(), &left, &later).await?;
    Ok(())
}

/// Begins what waits in a backlog until nothing does.
async fn empty(app: &Arc<App>, queue: Queue, project: ProjectId, opened: &Opened, places: &Arc<Semaphore>) {
    let mut failures = 0;
    loop {
        // Whoever stops gives all of it back at once.
        let is_stopping = app.shutdown.is_cancelled();
        let Some(portion) = opened.next(if is_stopping { usize::MAX } else { TAKEN }) else {
            if opened.is_closed() {
                return;
            }
            // More may come while the last of it is being begun.
            tokio::time::sleep(LOOK).await;
            continue;
        };
        // Since they joined the account may have got a limit.
        if !is_stopping
            && let Ok(Some(_)) = app.channels.limit(app, (project, queue.channel)).await
            && let Ok(limited) = enter(app, queue, (project, portion.rows.clone()), places).await
        {
            app.tasks.spawn(send_limited(app.clone(), queue, limited));
        } else if send_beside(app, queue, project, &portion.rows).await {
            failures = 0;
        } else {
            failures += 1;
            tokio::select! {
                () = app.shutdown.cancelled() => {}
                () = tokio::time::sleep(OWN_FAULT.delay(failures, rand::random())) => {}
            }
        }
    }
}

struct Limited {
    project: ProjectId,
    rows: Vec<Row>,
    _room: Option<Room>,
    _place: Option<OwnedSemaphorePermit>,
}

/// Room for messages to wait here for their account. Those for which there is none are left as rows until it may be their turn.
async fn enter(
    app: &App,
    queue: Queue,
    (project, mut rows): (ProjectId, Vec<Row>),
    places: &Arc<Semaphore>,
) -> Result<Limited, StoreError> {
    let Some(limit) = app.channels.limit(app, (project, queue.channel)).await? else {
        return Ok(Limited { project, rows, _room: None, _place: None });
    };
    let place = places.clone().try_acquire_owned().ok();
    let (room, later) = limit.room(queue.lane, rows.len(), if place.is_some() { Place::Here } else { Place::Scarce });
    let put_off = wait_as_rows(app, project, &judge::limited(&limit.words()), &rows[room.rows()..], &later).await?;
    metrics::counter!(Metric::MessagesLimited, "how" => "put_off").increment(put_off);
    rows.truncate(room.rows());
    Ok(Limited { project, rows, _room: Some(room), _place: place })
}

/// How many are put off: those that nobody has claimed since.
async fn wait_as_rows(
    app: &App,
    project: ProjectId,
    reason: &str,
    rows: &[Row],
    later: &[Duration],
) -> Result<u64, StoreError> {
    let (now, mut put_off) = (app.clock.now(), 0);
    for (rows, later) in rows.chunks(PORTION).zip(later.chunks(PORTION)) {
        let due: Vec<Timestamp> = later.iter().map(|wait| now.checked_add(*wait).unwrap_or(now)).collect();
        let db = app.store.connection().await?;
        put_off += due::put_off(&db, project, rows, &due, reason, now).await?;
    }
    Ok(put_off)
}

/// Sends messages as fast as their account allows.
async fn send_limited(app: Arc<App>, queue: Queue, limited: Limited) {
    send_beside(&app, queue, limited.project, &limited.rows).await;
}

/// Sends messages in nobody's way. What cannot be begun is left to the scheduler; then this is false.
async fn send_beside(app: &Arc<App>, queue: Queue, project: ProjectId, rows: &[Row]) -> bool {
    let delay = match send_project(app, (queue, None), project, rows, &mut Vec::new()).await {
        Ok(_) => return true,
        Err(Unfinished::Stopping) => Duration::ZERO,
        Err(Unfinished::Store(error)) => {
            tracing::warn!(lane = queue.lane.as_str(), %error, "cannot work on {} messages; they come again", rows.len());
            OWN_FAULT.most
        }
    };
    let mut failures = 0;
    while let Err(error) = give_back(app, project, rows, delay).await {
        tracing::debug!(%error, "{} messages cannot be given back", rows.len());
        failures += 1;
        let is_stopping = app.shutdown.is_cancelled();
        if is_stopping && failures >= TRIES {
            // They come again all the same, only later.
            return false;
        }
        tokio::select! {
            () = app.shutdown.cancelled(), if !is_stopping => {}
            () = tokio::time::sleep(OWN_FAULT.delay(failures, rand::random())) => {}
        }
    }
    false
}

/// Leaves rows to the scheduler, which hands them over again when their time comes. What is claimed is left alone.
async fn give_back(app: &App, project: ProjectId, rows: &[Row], delay: Duration) -> Result<(), StoreError> {
    let now = app.clock.now();
    let due_at = now.checked_add(delay).unwrap_or(now);
    for rows in rows.chunks(PORTION) {
        let db = app.store.connection().await?;
        due::give_back_locked(&db, project, &rows.iter().copied().collect(), due_at).await?;
    }
    Ok(())
}
