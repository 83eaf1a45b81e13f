//! One batch of a queue: begun, sent, settled.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use database::{StoreError, Transaction};
use domain::message::{Lane, Queue};
use domain::recipient::Recipient;
use jiff::Timestamp;
use kernel::backoff::Backoff;
use kernel::clock::machine_now;
use kernel::failpoint;
use kernel::ids::{OwnerId, ProjectId};
use kernel::metric_name::Metric;
use store_profiles::users::recipient;
use store_sending::erasures;
use store_sending::messages::claim::{self, ClaimedMessage};
use store_sending::messages::recipients::{self, LockMode};
use store_sending::messages::settle::count_ambiguous;
use store_sending::send_chunks::begin::{Recipients, TakeRequest, TakenMembers, count, take};
use store_sending::send_chunks::{self, NewChunk};
use tokio::time::Instant;
use uuid::Uuid;

use super::lease::Lease;
use super::{Dispatcher, Grant, NextState, Permit};
use crate::App;
use crate::attempt::attempt;
use crate::limits::{Limit, Token};
use crate::load::{Loaded, Preloaded, load};
use crate::settle::Member;
use crate::traced;

/// Delay after a failed claim; doubled at most by jitter.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Delay between attempts to find out whether a commit took effect.
const LOOK_UP_DELAY: Backoff = Backoff { initial: Duration::from_millis(50), factor: 2, max: Duration::from_secs(1) };
/// Upper limit on the delay after which a queue without tokens is tried again: the account's limit may have changed meanwhile.
const MAX_BACK_OFF: Duration = Duration::from_secs(1);

/// Messages that are begun: their chunk is committed.
pub struct Batch {
    pub queue: Queue,
    pub lease: Lease,
    pub messages: Vec<Loaded>,
    /// When the claim started, for traces.
    pub since: SystemTime,
}

/// Result of a transaction that begins messages.
#[derive(Default)]
struct BeginResult {
    batch: Option<Batch>,
    has_more: bool,
    head: Option<Timestamp>,
}

/// Begins as many messages as there are permits and tokens for, reports the queue's next state, and sends the messages.
pub async fn run(app: Arc<App>, grant: Grant) {
    let Grant { queue, owner, permits, from } = grant;
    let report = EndReport { dispatcher: &app.dispatcher, queue, owner, end: None };
    let begun = match admit(&app, queue, permits, from).await {
        Ok(Admitted::Now(permits, tokens)) => {
            begin(&app, queue, permits.len(), from).await.map(|begun| (begun, permits, tokens))
        }
        Ok(Admitted::Later(at)) => return report.send(0, NextState::BackOffUntil(at), None),
        Ok(Admitted::Nothing) => return report.send(0, NextState::Idle, None),
        Err(error) => Err(error),
    };
    match begun {
        Ok((BeginResult { batch, has_more, head }, permits, mut tokens)) => {
            let next = if has_more { NextState::Ready } else { NextState::Idle };
            let used = batch.as_ref().map_or(0, |batch| batch.messages.len());
            report.send(used, next, head);
            // Another worker took some of the messages. Surplus tokens are discarded: reused later, they would ignore a pause that the
            // provider requested from another worker meanwhile.
            tokens.split_off(used.min(tokens.len())).into_iter().for_each(Token::spend);
            if let Some(batch) = batch {
                send(&app, batch, permits, tokens);
            }
        }
        Err(error) => {
            tracing::warn!(project = %queue.project, channel = queue.channel.slug(), lane = queue.lane.as_str(), %error, "cannot begin messages; retrying");
        }
    }
}

/// Reports the end of an attempt to begin a batch. Dropped without [`Self::send`], after an error or a panic, it lets the queue back off.
struct EndReport<'a> {
    dispatcher: &'a Dispatcher,
    queue: Queue,
    owner: OwnerId,
    end: Option<(usize, NextState, Option<Timestamp>)>,
}

impl EndReport<'_> {
    fn send(mut self, begun: usize, next: NextState, head: Option<Timestamp>) {
        self.end = Some((begun, next, head));
    }
}

impl Drop for EndReport<'_> {
    fn drop(&mut self) {
        let (begun, next, head) = self.end.take().unwrap_or_else(|| {
            let delay = RETRY_DELAY.mul_f64(1.0 + rand::random::<f64>());
            (0, NextState::BackOffUntil(Instant::now() + delay), None)
        });
        self.dispatcher.finish_attempt(self.queue, self.owner, begun, next, head);
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
async fn admit(
    app: &App,
    queue: Queue,
    mut permits: Vec<Permit>,
    from: Option<Timestamp>,
) -> Result<Admitted, StoreError> {
    let Some(limit) = app.channels.limit(app, (queue.project, queue.channel)).await? else {
        return Ok(Admitted::Now(permits, Vec::new()));
    };
    let own = app.leases.ended(app.clock.monotonic_ms());
    let want = want(app, queue, (permits.len(), from), &own);
    let due = count(&app.store.connection().await?, want, app.due_by()).await?;
    if due == 0 {
        return Ok(Admitted::Nothing);
    }
    permits.truncate(due);
    let tokens = tokens(&limit, queue, permits.len()).await;
    if tokens.is_empty() {
        metrics::counter!(Metric::MessagesLimited, "how" => "waited").increment(1);
        let again = limit.retry_at(queue.lane == Lane::Direct).unwrap_or_else(Instant::now);
        return Ok(Admitted::Later(again.min(Instant::now() + MAX_BACK_OFF)));
    }
    permits.truncate(tokens.len());
    Ok(Admitted::Now(permits, tokens))
}

/// Excludes `own`, the chunks that this worker is still sending, from takeover.
fn want<'a>(app: &App, queue: Queue, (max, from): (usize, Option<Timestamp>), own: &'a [Uuid]) -> TakeRequest<'a> {
    TakeRequest { queue, max, from, take_over: app.takeovers.are_allowed().then_some(own) }
}

async fn tokens(limit: &Limit, queue: Queue, max: usize) -> Vec<Token> {
    let urgent = queue.lane == Lane::Direct;
    // The bucket was empty a moment ago.
    if limit.retry_at(urgent).is_some() { Vec::new() } else { limit.take(urgent, max).await }
}

/// Begins up to `max` messages. They are committed on return.
async fn begin(app: &App, queue: Queue, max: usize, from: Option<Timestamp>) -> Result<BeginResult, StoreError> {
    for mode in [LockMode::Shared, LockMode::Exclusive] {
        if let Some(begun) = begin_under(app, queue, (max, from), mode).await? {
            return Ok(begun);
        }
    }
    Ok(BeginResult::default())
}

/// Returns `None` if users were merged, so that the campaign must be locked exclusively.
async fn begin_under(
    app: &App,
    queue: Queue,
    (max, from): (usize, Option<Timestamp>),
    mode: LockMode,
) -> Result<Option<BeginResult>, StoreError> {
    let since = machine_now();
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await?;
    let due = app.due_by();
    let now = due.now;
    let own = app.leases.ended(app.clock.monotonic_ms());
    let taken = take(&tx, want(app, queue, (max, from), &own), due).await?;
    let (has_more, head) = (taken.has_more, taken.first_due);
    let Some((messages, preloaded)) = messages_of(&tx, queue, &taken, mode, now).await? else { return Ok(None) };
    if messages.is_empty() {
        tx.commit().await?;
        return Ok(Some(BeginResult { batch: None, has_more, head }));
    }
    let (ids, lease_start_ms) = (messages.iter().map(|message| message.id).collect(), app.clock.monotonic_ms());
    let chunk = NewChunk { campaign: taken.campaign, ..NewChunk::begun(queue, ids, app.lease()) };
    let (chunks, loaded) = tokio::try_join!(
        send_chunks::insert(&tx, std::slice::from_ref(&chunk), now),
        load(app, &tx, queue.project, messages, preloaded)
    )?;
    let lease = app.leases.add(chunks.first().copied().unwrap_or_default(), lease_start_ms, app.config.lease);
    let committed = tx.commit().await;
    drop(db);
    confirm(app, committed, Some((queue.project, &lease))).await?;
    failpoint::hit("delivery.after_claim");
    Ok(Some(BeginResult { batch: Some(Batch { queue, lease, messages: loaded, since }), has_more, head }))
}

/// Confirms the commit of a transaction that begins messages. If its answer was lost, looks for the chunk until half of its lease is over:
/// as long as the messages can still be sent in time, none of them must become ambiguous. The caller holds no connection meanwhile.
pub async fn confirm(
    app: &App,
    committed: Result<(), impl Into<StoreError>>,
    chunk: Option<(ProjectId, &Lease)>,
) -> Result<(), StoreError> {
    let Err(error) = committed.map_err(Into::into) else { return Ok(()) };
    let Some((project, lease)) = chunk.filter(|_| error.is_unavailable()) else { return Err(error) };
    let mut failures = 0;
    while lease.is_fresh(app.clock.monotonic_ms()) && !app.shutdown.is_cancelled() {
        let found = async { send_chunks::exists(&app.store.connection().await?, project, lease.chunk()).await };
        match found.await {
            Ok(true) => return Ok(()),
            Ok(false) => break,
            Err(_) => failures += 1,
        }
        tokio::time::sleep(LOOK_UP_DELAY.delay(failures, rand::random())).await;
    }
    Err(error)
}

/// Reads the messages that were taken, and inserts those of campaign recipients. Returns `None` if the campaign must be locked
/// exclusively.
async fn messages_of(
    tx: &Transaction<'_>,
    queue: Queue,
    taken: &TakenMembers,
    mode: LockMode,
    now: Timestamp,
) -> Result<Option<(Vec<ClaimedMessage>, Preloaded)>, StoreError> {
    let Some((campaign, _)) = taken.campaign else {
        return Ok(Some((recorded(tx, queue, taken, now).await?, Preloaded::default())));
    };
    let new = taken.sending.as_ref().filter(|_| !taken.audience.is_empty());
    // First, because an erasure locks users before messages.
    let erased = if new.is_some() { erased(tx, queue, &taken.audience).await? } else { HashSet::new() };
    recipients::lock(tx, campaign, mode).await?;
    // Before counters: receipts and erasures lock messages first too.
    let mut messages = recorded(tx, queue, taken, now).await?;
    let mut users: BTreeSet<Uuid> = messages.iter().map(|message| message.user_id).collect();
    users.extend(taken.audience.iter().flat_map(|part| part.users.iter().copied()));
    let mut users_by_id = recipient::load(tx, queue.project, &users.into_iter().collect::<Vec<_>>()).await?;
    let retried: Vec<(&ClaimedMessage, Uuid)> =
        messages.iter().filter_map(|message| Some((message, users_by_id.get(&message.user_id)?.id))).collect();
    let Some(superseded) = recipients::superseded(tx, queue.project, &retried, mode).await? else { return Ok(None) };
    if let Some(sending) = new {
        let user = |id: Uuid| users_by_id.get(&id).filter(|_| !erased.contains(&id)).map(|user| user.id);
        match recipients::insert(tx, queue, (sending, &taken.audience), user, mode, now).await? {
            recipients::BeginResult::Messages(new) => messages.extend(new),
            recipients::BeginResult::NeedsExclusive => return Ok(None),
        }
    }
    // New messages are addressed to the surviving users of merges.
    let surviving_users: Vec<Recipient> =
        users_by_id.iter().filter(|(id, user)| **id != user.id).map(|(_, p)| p.clone()).collect();
    users_by_id.extend(surviving_users.into_iter().map(|user| (user.id, user)));
    Ok(Some((messages, Preloaded { users: Some(users_by_id), superseded })))
}

/// Returns the recipients who were erased after they had been found. An erasure that follows waits for their rows and removes them.
async fn erased(tx: &Transaction<'_>, queue: Queue, audience: &[Recipients]) -> Result<HashSet<Uuid>, StoreError> {
    let users: Vec<Uuid> = audience.iter().flat_map(|part| part.users.iter().copied()).collect();
    let erased_at = erasures::block(tx, queue.project, &users).await?;
    let is_erased = |user: &Uuid, part: &Recipients| erased_at.get(user).is_some_and(|at| *at >= part.found_at);
    let erased = audience.iter().flat_map(|part| part.users.iter().filter(move |user| is_erased(user, part)));
    Ok(erased.copied().collect())
}

/// Reads the messages that have a row already. Counts the calls of those in doubt.
async fn recorded(
    tx: &Transaction<'_>,
    queue: Queue,
    taken: &TakenMembers,
    now: Timestamp,
) -> Result<Vec<ClaimedMessage>, StoreError> {
    if !taken.in_doubt.is_empty() {
        count_ambiguous(tx, queue.project, &taken.in_doubt, now).await?;
    }
    let wanted: BTreeMap<Uuid, bool> =
        taken.messages.iter().map(|id| (*id, false)).chain(taken.in_doubt.iter().map(|id| (*id, true))).collect();
    if wanted.is_empty() { Ok(Vec::new()) } else { claim::load(tx, queue.project, &wanted).await }
}

/// Sends each message of a batch in a task of its own.
pub fn send(app: &Arc<App>, batch: Batch, mut permits: Vec<Permit>, mut tokens: Vec<Token>) {
    let Batch { queue, lease, messages, since } = batch;
    let chunk = lease.chunk();
    let lease = Arc::new(lease);
    for (position, mut loaded) in messages.into_iter().enumerate() {
        let mut hop = traced::begin(&mut loaded.message, since);
        let (mut permit, token) = (permits.pop(), tokens.pop());
        let member =
            Member { queue, campaign: loaded.message.sending.map(|s| (s.campaign, s.occurrence)), chunk, position };
        let (app, lease) = (app.clone(), lease.clone());
        app.tasks.clone().spawn(async move {
            let settled = attempt(&app, &loaded, token, &lease).await;
            // Not needed while the outcome waits to be written.
            drop(loaded);
            if let Some(permit) = &mut permit {
                permit.call_ended();
            }
            traced::record_outcome(&mut hop, &settled);
            app.settler.settle(member, settled).await;
            hop.end();
            drop((permit, lease));
        });
    }
}

#[cfg(test)]
mod tests {
    use domain::message::Channel;

    use super::super::Step;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn queue_whose_batch_panicked_backs_off_and_is_retried() {
        let dispatcher = Dispatcher::new(8, &[Channel::Push]);
        let (project, owner) = (ProjectId(Uuid::from_u128(1)), OwnerId(Uuid::from_u128(2)));
        let queue = Queue { project, channel: Channel::Push, lane: Lane::Direct };
        dispatcher.ready(queue, owner);
        assert!(matches!(dispatcher.step(Instant::now()), Step::Begin(_)));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _report = EndReport { dispatcher: &dispatcher, queue, owner, end: None };
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert!(matches!(dispatcher.step(Instant::now()), Step::Wait(Some(_))));
        tokio::time::advance(2 * RETRY_DELAY).await;
        assert!(matches!(dispatcher.step(Instant::now()), Step::Begin(_)));
    }
}
