//! One batch of a queue: begun, sent, settled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use shared::clock::machine_now;
use shared::failpoint;
use shared::metric_name::Metric;
use shared::send::{Lane, Queue};
use shared::store::messages::claim::{self, Claimed};
use shared::store::messages::recipients::{self, LockMode};
use shared::store::messages::settle::in_doubt;
use shared::store::send_chunks::begin::{Taken, Want, count, take};
use shared::store::send_chunks::{self, NewChunk};
use shared::store::users::record::PersonKey;
use shared::store::users::{recipient, removals};
use shared::store::{StoreError, Transaction};
use tokio::time::Instant;
use uuid::Uuid;

use super::{Grant, NextState, Permit};
use crate::App;
use crate::attempt::attempt;
use crate::limits::{Limit, Token};
use crate::load::{Loaded, load};
use crate::settle::Member;
use crate::traced;

/// Delay after a failed claim; doubled at most by jitter.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Upper limit on the delay after which a queue without tokens is tried again: the account's limit may have changed meanwhile.
const MAX_BACK_OFF: Duration = Duration::from_secs(1);

/// Messages that are begun: their chunk is committed.
pub struct Batch {
    pub queue: Queue,
    pub chunk: Uuid,
    pub messages: Vec<Loaded>,
    /// When the claim started, for traces.
    pub since: SystemTime,
}

/// Result of a transaction that begins messages.
#[derive(Default)]
struct Begun {
    batch: Option<Batch>,
    has_more: bool,
    head: Option<Timestamp>,
}

/// Begins as many messages as there are permits and tokens for, reports the queue's next state, and sends the messages.
pub async fn run(app: Arc<App>, grant: Grant) {
    let Grant { queue, owner, permits, from } = grant;
    let begun = match admit(&app, queue, permits).await {
        Ok(Admitted::Now(permits, tokens)) => {
            begin(&app, queue, permits.len(), from).await.map(|begun| (begun, permits, tokens))
        }
        Ok(Admitted::Later(at)) => {
            return app.dispatcher.finish_attempt(queue, owner, NextState::BackOffUntil(at), None);
        }
        Ok(Admitted::Nothing) => return app.dispatcher.finish_attempt(queue, owner, NextState::Idle, None),
        Err(error) => Err(error),
    };
    match begun {
        Ok((Begun { batch, has_more, head }, permits, mut tokens)) => {
            let next = if has_more { NextState::Ready } else { NextState::Idle };
            app.dispatcher.finish_attempt(queue, owner, next, head);
            let used = batch.as_ref().map_or(0, |batch| batch.messages.len());
            // Another worker took some of the messages. Surplus tokens are discarded: reused later, they would ignore a pause that the
            // provider requested from another worker meanwhile.
            tokens.split_off(used.min(tokens.len())).into_iter().for_each(Token::spend);
            if let Some(batch) = batch {
                send(&app, batch, permits, tokens);
            }
        }
        Err(error) => {
            tracing::warn!(project = %queue.project, channel = queue.channel.slug(), lane = queue.lane.as_str(), %error, "cannot begin messages; retrying");
            let at = Instant::now() + RETRY_DELAY.mul_f64(1.0 + rand::random::<f64>());
            app.dispatcher.finish_attempt(queue, owner, NextState::BackOffUntil(at), None);
        }
    }
}

enum Admitted {
    /// With a token for each permit if the account has a limit.
    Now(Vec<Permit>, Vec<Token>),
    Later(Instant),
    Nothing,
}

/// If the account has a limit, takes tokens for the due messages and drops the permits without one. Tokens are not taken in advance:
/// a worker with unspent tokens does not ask Redis, and would miss a pause requested by the provider.
async fn admit(app: &App, queue: Queue, mut permits: Vec<Permit>) -> Result<Admitted, StoreError> {
    let Some(limit) = app.channels.limit(app, (queue.project, queue.channel)).await? else {
        return Ok(Admitted::Now(permits, Vec::new()));
    };
    let due = count(&app.store.connection().await?, queue, permits.len(), app.clock.now()).await?;
    if due == 0 {
        return Ok(Admitted::Nothing);
    }
    permits.truncate(due);
    let tokens = tokens(&limit, queue, permits.len()).await;
    if tokens.is_empty() {
        metrics::counter!(Metric::MessagesLimited, "how" => "waited").increment(1);
        let again = limit.again_at(queue.lane == Lane::Direct).unwrap_or_else(Instant::now);
        return Ok(Admitted::Later(again.min(Instant::now() + MAX_BACK_OFF)));
    }
    permits.truncate(tokens.len());
    Ok(Admitted::Now(permits, tokens))
}

async fn tokens(limit: &Limit, queue: Queue, max: usize) -> Vec<Token> {
    let urgent = queue.lane == Lane::Direct;
    // The bucket was empty a moment ago.
    if limit.again_at(urgent).is_some() { Vec::new() } else { limit.take(urgent, max).await }
}

/// Begins up to `max` messages. They are committed on return.
async fn begin(app: &App, queue: Queue, max: usize, from: Option<Timestamp>) -> Result<Begun, StoreError> {
    for mode in [LockMode::Shared, LockMode::Exclusive] {
        if let Some(begun) = begin_under(app, queue, (max, from), mode).await? {
            return Ok(begun);
        }
    }
    Ok(Begun::default())
}

/// Returns `None` if users were merged, so that the campaign must be locked exclusively.
async fn begin_under(
    app: &App,
    queue: Queue,
    (max, from): (usize, Option<Timestamp>),
    mode: LockMode,
) -> Result<Option<Begun>, StoreError> {
    let since = machine_now();
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await?;
    let now = app.clock.now();
    let want = Want { queue, max, from, with_lapsed: app.outage.may_take_over() };
    let taken = take(&tx, want, now).await?;
    let (has_more, head) = (taken.has_more, taken.first_due);
    let Some(messages) = messages_of(&tx, queue, &taken, mode, now).await? else { return Ok(None) };
    if messages.is_empty() {
        tx.commit().await?;
        return Ok(Some(Begun { batch: None, has_more, head }));
    }
    let lease_end = now.checked_add(app.config.lease).unwrap_or(now);
    let chunk = NewChunk {
        campaign: taken.campaign,
        ..NewChunk::begun(queue, messages.iter().map(|message| message.id).collect(), lease_end)
    };
    let (chunks, loaded) = tokio::try_join!(
        send_chunks::insert(&tx, std::slice::from_ref(&chunk), now),
        load(app, &tx, queue.project, messages)
    )?;
    tx.commit().await?;
    failpoint::hit("delivery.after_claim");
    let chunk = chunks.first().copied().unwrap_or_default();
    Ok(Some(Begun { batch: Some(Batch { queue, chunk, messages: loaded, since }), has_more, head }))
}

/// Reads the messages that were taken, and inserts those of campaign recipients. Returns `None` if the campaign must be locked
/// exclusively.
async fn messages_of(
    tx: &Transaction<'_>,
    queue: Queue,
    taken: &Taken,
    mode: LockMode,
    now: Timestamp,
) -> Result<Option<Vec<Claimed>>, StoreError> {
    let mut messages = Vec::new();
    // First, because an erasure locks users before messages.
    if let Some(sending) = taken.sending.as_ref().filter(|_| !taken.audience.is_empty()) {
        let users: Vec<Uuid> = taken.audience.iter().flat_map(|part| part.users.iter().copied()).collect();
        // An erasure either waits for these rows and removes them, or its users are not found below.
        removals::edition(tx).await?;
        let named: Vec<PersonKey> = users.iter().map(|user| (queue.project, *user)).collect();
        removals::lock(tx, &[], &removals::pending(tx, &named).await?).await?;
        recipients::lock(tx, sending, mode).await?;
        let people = recipient::load(tx, queue.project, &users).await?;
        let user = |id: Uuid| people.get(&id).map(|person| person.id);
        match recipients::insert(tx, queue, (sending, &taken.audience), user, mode, now).await? {
            recipients::Begun::Messages(new) => messages.extend(new),
            recipients::Begun::NeedsExclusive => return Ok(None),
        }
    }
    if !taken.in_doubt.is_empty() {
        in_doubt(tx, queue.project, &taken.in_doubt, now).await?;
    }
    let wanted: BTreeMap<Uuid, bool> =
        taken.messages.iter().map(|id| (*id, false)).chain(taken.in_doubt.iter().map(|id| (*id, true))).collect();
    if !wanted.is_empty() {
        messages.extend(claim::load(tx, queue.project, &wanted).await?);
    }
    Ok(Some(messages))
}

/// Sends each message of a batch in a task of its own.
pub fn send(app: &Arc<App>, batch: Batch, mut permits: Vec<Permit>, mut tokens: Vec<Token>) {
    let Batch { queue, chunk, messages, since } = batch;
    for (position, mut loaded) in messages.into_iter().enumerate() {
        let mut hop = traced::begin(&mut loaded.message, since);
        let (mut permit, token) = (permits.pop(), tokens.pop());
        let member =
            Member { queue, campaign: loaded.message.sending.map(|s| (s.campaign, s.occurrence)), chunk, position };
        let app = app.clone();
        app.tasks.clone().spawn(async move {
            let settled = attempt(&app, &loaded, token).await;
            // Not needed while the outcome waits to be written.
            drop(loaded);
            if let Some(permit) = &mut permit {
                permit.call_ended();
            }
            traced::judged(&mut hop, &settled);
            app.settler.settle(member, settled).await;
            hop.end();
            drop(permit);
        });
    }
}
