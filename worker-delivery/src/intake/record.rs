//! Records a group of direct messages, and sends those that are begun with it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use database::{StoreError, Transaction, time_partitions};
use domain::message::{Lane, Queue};
use kernel::backoff::Backoff;
use kernel::clock::machine_now;
use kernel::failpoint;
use kernel::ids::{self, OwnerId, ProjectId};
use kernel::metric_name::Metric;
use store_profiles::users::record::ProjectUserId;
use store_profiles::users::{recipient, removals};
use store_projects::project_removals;
use store_sending::erasures;
use store_sending::messages::claim::ClaimedMessage;
use store_sending::messages::insert::{self, NewMessage, any_lane};
use store_sending::send_chunks::{self, NewChunk};
use uuid::Uuid;
use wire::send::DirectMessage;

use super::{Candidate, Group};
use crate::App;
use crate::dispatch::Permit;
use crate::dispatch::batch::{self, Batch};
use crate::dispatch::lease::Lease;
use crate::dispatch::slots::Tenant;
use crate::load::{Loaded, Preloaded, load};

/// Reason for refusing a message whose partition was dropped. Whether it was sent before is unknown.
const EXPIRED: &str = "the message is older than the retention period";
/// Delay between attempts to load the data that begun messages need.
const LOAD_RETRY_DELAY: Backoff =
    Backoff { initial: std::time::Duration::from_millis(100), factor: 2, max: std::time::Duration::from_secs(2) };

/// Begun messages of one queue, without the data that they need.
pub struct BegunMessages {
    queue: Queue,
    lease: Lease,
    messages: Vec<ClaimedMessage>,
    permits: Vec<Permit>,
    since: SystemTime,
}

/// Records the messages of a group and begins those for which there are free slots. Moves messages that can never be recorded to the
/// group's refused ones.
pub async fn record(app: &App, group: &mut Group) -> Result<Vec<BegunMessages>, StoreError> {
    drop_messages_of_deleted_projects(app, group).await?;
    if group.direct.is_empty() {
        return Ok(Vec::new());
    }
    let (candidates, direct): (Vec<Candidate>, Vec<DirectMessage>) =
        std::mem::take(&mut group.direct).into_iter().unzip();
    match insert(app, &candidates).await {
        Err(error) if error.is_data_error() || error.is_missing_partition() => {
            record_each(app, candidates.into_iter().zip(direct), group).await
        }
        result => result,
    }
}

async fn drop_messages_of_deleted_projects(app: &App, group: &mut Group) -> Result<(), StoreError> {
    let projects: BTreeSet<ProjectId> = group.direct.iter().map(|(c, _)| c.row.project).collect();
    if projects.is_empty() {
        return Ok(());
    }
    let db = app.store.connection().await?;
    let removed = project_removals::among(&db, &projects.into_iter().collect::<Vec<_>>()).await?;
    let before = group.direct.len();
    group.direct.retain(|(c, _)| !removed.contains(&c.row.project));
    let dropped = (before - group.direct.len()) as u64;
    if dropped > 0 {
        metrics::counter!(Metric::DroppedForDeletedProjects, "what" => "message").increment(dropped);
    }
    Ok(())
}

/// Records messages one by one.
async fn record_each(
    app: &App,
    messages: impl Iterator<Item = (Candidate, DirectMessage)>,
    group: &mut Group,
) -> Result<Vec<BegunMessages>, StoreError> {
    // Read before the inserts: the messages of a partition created in between must not count as expired.
    let newest_end = time_partitions::newest_end(&app.store.connection().await?, "message").await?;
    let mut begun = Vec::new();
    for (candidate, direct) in messages {
        let is_past = newest_end.is_some_and(|end| ids::time_ms(candidate.row.id) < end);
        match insert(app, std::slice::from_ref(&candidate)).await {
            Ok(new) => begun.extend(new),
            Err(error) if error.is_data_error() => group.refuse(direct, error.to_string()),
            Err(error) if error.is_missing_partition() && is_past => group.refuse(direct, EXPIRED.to_owned()),
            Err(error) => return Err(error),
        }
    }
    Ok(begun)
}

/// Writes rows and chunks in one transaction. Skips messages whose users were erased after acceptance: an erasure either waits for
/// these rows and removes them, or is visible here. Skips messages already recorded.
async fn insert(app: &App, candidates: &[Candidate]) -> Result<Vec<BegunMessages>, StoreError> {
    let since = machine_now();
    let projects: BTreeSet<ProjectId> = candidates.iter().map(|c| c.row.project).collect();
    let owners = app.owners.of_all(&app.store, &projects).await?;
    let limited = limited(app, candidates).await?;
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await?;
    let rows = rows(&tx, candidates).await?;
    let new = insert::insert_rows(&tx, any_lane(), &rows).await?;
    let mut queues: BTreeMap<Queue, BTreeMap<Uuid, &NewMessage>> = BTreeMap::new();
    for row in rows.iter().filter(|row| new.contains(&row.id)) {
        queues.entry(row.queue()).or_default().insert(row.id, row);
    }
    let (now, lease_start_ms) = (app.clock.now(), app.clock.monotonic_ms());
    let (mut begun, mut waiting, mut chunks) = (Vec::new(), Vec::new(), Vec::new());
    for (queue, rows) in queues {
        let owner = owners.get(&queue.project).copied().unwrap_or_else(|| queue.project.into());
        let mut rows: Vec<&NewMessage> = rows.into_values().collect();
        let permits = permits(app, queue, owner, &limited, rows.len());
        let rest = rows.split_off(permits.len());
        if !rows.is_empty() {
            chunks.push(NewChunk::begun(queue, rows.iter().map(|row| row.id).collect(), app.lease()));
            let messages = rows.into_iter().map(claimed).collect();
            begun.push((chunks.len() - 1, queue, messages, permits));
        }
        if !rest.is_empty() {
            chunks.push(NewChunk::due(queue, rest.iter().map(|row| row.id).collect(), now));
            waiting.push((queue, owner));
        }
    }
    let ids = send_chunks::insert(&tx, &chunks, now).await?;
    let leased = begun.into_iter().map(|(at, queue, messages, permits): (usize, _, _, _)| {
        let chunk = ids.get(at).copied().unwrap_or_default();
        BegunMessages {
            queue,
            lease: app.leases.add(chunk, lease_start_ms, app.config.lease),
            messages,
            permits,
            since,
        }
    });
    let begun: Vec<BegunMessages> = leased.collect();
    let first = begun.first().map(|begun| (begun.queue.project, &begun.lease));
    let committed = tx.commit().await;
    drop(db);
    batch::confirm(app, committed, first).await?;
    waiting.into_iter().for_each(|(queue, owner)| app.dispatcher.ready(queue, owner));
    Ok(begun)
}

/// Takes slots for messages of a queue; none while others of the queue wait, or if the account has a limit.
fn permits(app: &App, queue: Queue, owner: OwnerId, limited: &BTreeSet<Queue>, max: usize) -> Vec<Permit> {
    if app.shutdown.is_cancelled() || limited.contains(&queue) || app.dispatcher.is_tracked(queue) {
        return Vec::new();
    }
    app.dispatcher.take(Lane::Direct, Tenant { owner, project: queue.project, channel: queue.channel }, max)
}

/// Returns the queues whose account has a limit.
async fn limited(app: &App, candidates: &[Candidate]) -> Result<BTreeSet<Queue>, StoreError> {
    let queues: BTreeSet<Queue> = candidates.iter().map(|c| c.row.queue()).collect();
    let mut limited = BTreeSet::new();
    for queue in queues {
        if app.channels.limit(app, (queue.project, queue.channel)).await?.is_some() {
            limited.insert(queue);
        }
    }
    Ok(limited)
}

/// Returns the rows of messages whose users were not erased since, resolved to users.
async fn rows(tx: &Transaction<'_>, candidates: &[Candidate]) -> Result<Vec<NewMessage>, StoreError> {
    removals::generation(tx).await?;
    let named: Vec<ProjectUserId> =
        candidates.iter().flat_map(|c| c.users.iter().map(|id| (c.row.project, *id))).collect();
    removals::lock(tx, &[], &removals::pending(tx, &named).await?).await?;
    let erased = erasures::erased_at(tx, &named).await?;
    let is_erased =
        |c: &Candidate, id: &Uuid| erased.get(&(c.row.project, *id)).is_some_and(|at| c.row.created_at <= *at);
    let kept: Vec<&Candidate> = candidates.iter().filter(|c| !c.users.iter().any(|id| is_erased(c, id))).collect();
    let mut by_project: BTreeMap<ProjectId, Vec<Uuid>> = BTreeMap::new();
    for candidate in &kept {
        by_project.entry(candidate.row.project).or_default().extend(&candidate.users);
    }
    let mut users_by_id: HashMap<ProjectUserId, Uuid> = HashMap::new();
    for (project, ids) in by_project {
        let found = recipient::load(tx, project, &ids).await?;
        users_by_id.extend(found.into_iter().map(|(requested_id, user)| ((project, requested_id), user.id)));
    }
    let resolved = |c: &Candidate| c.clone().resolved(|id| users_by_id.get(&(c.row.project, id)).copied());
    Ok(kept.into_iter().map(resolved).collect())
}

/// Returns a message just recorded, for its first attempt.
fn claimed(row: &NewMessage) -> ClaimedMessage {
    ClaimedMessage {
        project: row.project,
        id: row.id,
        user_id: row.user_id,
        channel: row.channel,
        lane: row.lane,
        sending: None,
        template_id: row.template_id,
        subscription_group_id: row.subscription_group_id,
        content: row.content.clone(),
        data: row.data.clone(),
        attempt: 1,
        failures: 0,
        ambiguous: 0,
        lapsed: false,
        created_at: row.created_at,
        released_at: row.created_at,
        trace: row.trace,
    }
}

/// Loads the data that begun messages need, and sends them.
pub async fn send(app: Arc<App>, begun: BegunMessages) {
    failpoint::hit("delivery.after_direct_begun");
    let BegunMessages { queue, lease, messages, permits, since } = begun;
    let mut failures = 0;
    let loaded = loop {
        match load_all(&app, queue.project, messages.clone()).await {
            Ok(loaded) => break loaded,
            Err(error) => {
                failures += 1;
                // Leaves the other half of the lease for the calls.
                if !lease.is_fresh(app.clock.monotonic_ms()) {
                    // When the lease ends, another worker takes these messages over and counts them as ambiguous, although they were
                    // not sent.
                    tracing::warn!(project = %queue.project, %error, "cannot load the data of {} messages", messages.len());
                    return;
                }
                tokio::time::sleep(LOAD_RETRY_DELAY.delay(failures, rand::random())).await;
            }
        }
    };
    batch::send(&app, Batch { queue, lease, messages: loaded, since }, permits, Vec::new());
}

async fn load_all(app: &App, project: ProjectId, messages: Vec<ClaimedMessage>) -> Result<Vec<Loaded>, StoreError> {
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await?;
    let loaded = load(app, &tx, project, messages, Preloaded::default()).await?;
    tx.commit().await?;
    Ok(loaded)
}
