//! Messages of a campaign, written when they are sent.
//!
//! A message's ID is derived from the occurrence and the user, so a user has at most one message of each occurrence. If
//! a user was merged into another since the occurrence began, one may have been sent under the earlier ID, or both may
//! have one that awaits a retry. Two workers could begin both at once, one of them with data from before the merge. So
//! workers share a lock on the campaign whenever they begin its messages, retries included, and a worker that finds
//! such users starts again with an exclusive lock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use deadpool_postgres::Transaction;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::claim::{CampaignOccurrence, ClaimedMessage};
use super::insert;
use crate::campaigns::counts::{self, Counts};
use crate::send_chunks::Share;
use crate::send_chunks::begin::{Recipients, SendingRow};
use database::StoreError;
use database::months::Month;
use domain::message::{DeliveryState, Queue};
use kernel::clock::from_ms;
use kernel::ids::ProjectId;

/// How long after its time a merge may be committed, because its item was delayed in the stream.
const MERGE_DELAY: SignedDuration = SignedDuration::from_hours(24);

/// Whether other transactions may begin messages of the campaign at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    Shared,
    Exclusive,
}

/// Result of [`insert`].
#[derive(Debug)]
pub enum BeginResult {
    Messages(Vec<ClaimedMessage>),
    /// Some users were merged: the transaction must be rolled back and repeated under [`LockMode::Exclusive`].
    NeedsExclusive,
}

/// Locks the campaign until the transaction ends. Call it before reading the users of its messages.
pub async fn lock(tx: &Transaction<'_>, campaign: Uuid, mode: LockMode) -> Result<(), StoreError> {
    let sql = match mode {
        LockMode::Shared => "SELECT pg_advisory_xact_lock_shared(hashtextextended($1::text, 1))",
        LockMode::Exclusive => "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 1))",
    };
    tx.query(&tx.prepare_cached(sql).await?, &[&format!("recipients {campaign}")]).await?;
    Ok(())
}

/// Writes the messages to these users, who were read under the lock. `user` resolves a recipient's ID to the current
/// user. Users who no longer exist, and those who already have a message of the occurrence, get none.
pub async fn insert(
    tx: &Transaction<'_>,
    queue: Queue,
    (row, recipients): (&SendingRow, &[Recipients]),
    user: impl Fn(Uuid) -> Option<Uuid>,
    mode: LockMode,
    now: Timestamp,
) -> Result<BeginResult, StoreError> {
    let started_ms = row.started_at.as_millisecond();
    let sending = CampaignOccurrence { campaign: row.campaign, occurrence: row.occurrence, started_ms };
    let of = (row.campaign, row.occurrence);
    let (mut wanted, mut counts): (BTreeMap<Uuid, &Share>, Counts) = (BTreeMap::new(), Counts::default());
    for Recipients { share, users, .. } in recipients {
        for id in users {
            match user(*id) {
                None => counts.add(of, share.variant.as_deref(), DeliveryState::Queued, -1),
                Some(user) if wanted.contains_key(&user) => skip(&mut counts, of, share),
                Some(user) => drop(wanted.insert(user, share)),
            }
        }
    }
    let users: Vec<Uuid> = wanted.keys().copied().collect();
    let merged = merged_since(tx, queue.project, &users, row.started_at).await?;
    if !merged.is_empty() {
        if mode == LockMode::Shared {
            return Ok(BeginResult::NeedsExclusive);
        }
        let others: Vec<(Uuid, Uuid)> =
            merged.iter().flat_map(|(user, ids)| ids.iter().map(|id| (*user, *id))).collect();
        for user in find_others(tx, queue.project, &sending, &others, &[], OtherMessages::Served).await? {
            if let Some(share) = wanted.remove(&user) {
                skip(&mut counts, of, share);
            }
        }
    }
    let messages = write(tx, queue, (row, &sending), &wanted, now).await?;
    let new: HashSet<Uuid> = messages.iter().map(|message| message.user_id).collect();
    for (user, share) in wanted {
        if !new.contains(&user) {
            skip(&mut counts, of, share);
        }
    }
    counts::add(tx, queue.project, &counts).await?;
    Ok(BeginResult::Messages(messages))
}

/// Counts a recipient whose user has another message of the occurrence.
fn skip(counts: &mut Counts, of: (Uuid, i32), share: &Share) {
    counts.step(of, share.variant.as_deref(), (DeliveryState::Queued, DeliveryState::Suppressed), 1);
}

/// Returns the users into whom others were merged since a time, with the IDs of the merged ones.
async fn merged_since(
    tx: &Transaction<'_>,
    project: ProjectId,
    users: &[Uuid],
    since: Timestamp,
) -> Result<HashMap<Uuid, Vec<Uuid>>, StoreError> {
    let since = since.checked_sub(MERGE_DELAY).unwrap_or(since);
    let sql = "SELECT w.id AS into_id, u.id FROM unnest($2::uuid[]) AS w (id) CROSS JOIN LATERAL (SELECT id FROM users \
               WHERE project_id = $1 AND merged_into = w.id AND merged_at >= $3 OFFSET 0) AS u";
    let mut merged: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    for row in tx.query(&tx.prepare_cached(sql).await?, &[&project, &users, &since]).await? {
        merged.entry(row.try_get("into_id")?).or_default().push(row.try_get("id")?);
    }
    Ok(merged)
}

/// Returns the retried messages of an occurrence that must not be sent, because their users were or may have been sent
/// another: they were merged with other recipients after both messages had begun.
///
/// Each message is given with its user, read under the lock. Returns `None` if some users were merged, so that the
/// transaction must be repeated with [`LockMode::Exclusive`].
pub async fn superseded(
    tx: &Transaction<'_>,
    project: ProjectId,
    retried: &[(&ClaimedMessage, Uuid)],
    mode: LockMode,
) -> Result<Option<HashSet<Uuid>>, StoreError> {
    let Some(sending) = retried.first().and_then(|(message, _)| message.sending) else {
        return Ok(Some(HashSet::new()));
    };
    let users: Vec<Uuid> = retried.iter().map(|(_, user)| *user).collect::<BTreeSet<_>>().into_iter().collect();
    let merged = merged_since(tx, project, &users, from_ms(sending.started_ms)).await?;
    if merged.is_empty() {
        return Ok(Some(HashSet::new()));
    }
    if mode == LockMode::Shared {
        return Ok(None);
    }
    let (chosen, mut superseded) = choose(retried);
    let others = |user: Uuid| merged.get(&user).into_iter().flatten().copied().chain([user]);
    let pairs: Vec<(Uuid, Uuid)> = chosen
        .iter()
        .filter(|(user, _)| merged.contains_key(user))
        .flat_map(|(user, message)| others(*user).map(|id| (*message, id)))
        .collect();
    let batch: Vec<Uuid> = retried.iter().map(|(message, _)| message.id).collect();
    superseded.extend(find_others(tx, project, &sending, &pairs, &batch, OtherMessages::Sent).await?);
    Ok(Some(superseded))
}

/// Chooses one message per user: preferably one that may have been sent before, otherwise the user's own. Returns the
/// remaining ones as well.
fn choose(retried: &[(&ClaimedMessage, Uuid)]) -> (HashMap<Uuid, Uuid>, HashSet<Uuid>) {
    let mut ranked: Vec<_> =
        retried.iter().map(|(m, user)| (m.ambiguous == 0, m.user_id != *user, m.id, *user)).collect();
    ranked.sort_unstable();
    let (mut chosen, mut others_of_user) = (HashMap::new(), HashSet::new());
    for (_, _, message, user) in ranked {
        if *chosen.entry(user).or_insert(message) != message {
            others_of_user.insert(message);
        }
    }
    (chosen, others_of_user)
}

/// Which messages to merged users [`find_others`] returns.
#[derive(Clone, Copy)]
enum OtherMessages {
    /// Messages that were or may have been sent, and queued ones.
    Served,
    /// Messages that were or may have been sent, and begun ones: a worker is sending them, or its lease has ended. One
    /// that awaits its own retry supersedes nothing: that retry will find this one.
    Sent,
}

/// Finds an occurrence's messages to the users on the right of each pair, except those in `except`.
/// Returns the left sides of the pairs that match.
async fn find_others(
    tx: &Transaction<'_>,
    project: ProjectId,
    sending: &CampaignOccurrence,
    pairs: &[(Uuid, Uuid)],
    except: &[Uuid],
    wanted: OtherMessages,
) -> Result<Vec<Uuid>, StoreError> {
    let (left, users): (Vec<Uuid>, Vec<Uuid>) = pairs.iter().copied().unzip();
    let month = Month::at(sending.started_ms);
    let within = month.condition("m.id");
    // The IDs are those of the occurrence: its start time, and the MD5 of its key and the user.
    let sql = match wanted {
        OtherMessages::Served => format!(
            "SELECT DISTINCT w.of FROM (SELECT v.l AS of, (lpad(to_hex($4::bigint), 12, \
             '0') || '7' || substr(md5($5::text || v.u::text), 1, 3) || '8' || substr(md5($5::text || v.u::text), 4, \
             15))::uuid AS id FROM unnest($2::uuid[], $3::uuid[]) AS v (l, u)) AS w CROSS JOIN LATERAL (SELECT m.id \
             FROM message m WHERE m.project_id = $1 AND m.id = w.id AND {within} AND m.id <> ALL($6) \
             AND ((m.status NOT IN ('queued', 'failed', 'suppressed', 'cancelled') OR m.ambiguous > m.forgiven \
             OR m.sent_at IS NOT NULL) OR m.status = 'queued') OFFSET 0) AS m"
        ),
        OtherMessages::Sent => format!(
            "SELECT DISTINCT w.of FROM (SELECT v.l AS of, (lpad(to_hex($4::bigint), 12, \
             '0') || '7' || substr(md5($5::text || v.u::text), 1, 3) || '8' || substr(md5($5::text || v.u::text), 4, \
             15))::uuid AS id FROM unnest($2::uuid[], $3::uuid[]) AS v (l, u)) AS w CROSS JOIN LATERAL (SELECT m.id \
             FROM message m WHERE m.project_id = $1 AND m.id = w.id AND {within} AND m.id <> ALL($6) \
             AND ((m.status NOT IN ('queued', 'failed', 'suppressed', 'cancelled') OR m.ambiguous > m.forgiven \
             OR m.sent_at IS NOT NULL) OR m.status = 'queued' AND EXISTS (SELECT FROM send_chunk c \
             WHERE c.project_id = $1 AND c.campaign_id = m.campaign_id AND c.is_begun \
             AND get_bit(c.done, array_position(c.members, m.id) - 1) = 0)) OFFSET 0) AS m"
        ),
    };
    let statement = month.prepare(tx, &sql).await?;
    let rows = tx.query(&statement, &[&project, &left, &users, &sending.started_ms, &sending.key(), &except]).await?;
    rows.iter().map(|row| Ok(row.try_get("of")?)).collect()
}

async fn write(
    tx: &Transaction<'_>,
    queue: Queue,
    (row, sending): (&SendingRow, &CampaignOccurrence),
    wanted: &BTreeMap<Uuid, &Share>,
    now: Timestamp,
) -> Result<Vec<ClaimedMessage>, StoreError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let users: Vec<Uuid> = wanted.keys().copied().collect();
    let template = |share: &Share| match share.variant {
        // The template may have changed since the audience was queued.
        None => row.template_id.or(share.template_id),
        Some(_) => share.template_id,
    };
    let templates: Vec<Option<Uuid>> = wanted.values().map(|share| template(share)).collect();
    let variants: Vec<Option<&str>> = wanted.values().map(|share| share.variant.as_deref()).collect();
    let data = json!({ "campaign": { "id": row.campaign, "name": row.name } });
    // The ID: the occurrence's start time, and the MD5 of its key and the user.
    let sql = "WITH new AS (INSERT INTO message (project_id, id, user_id, channel, lane, status, template_id, data, \
               campaign_id, occurrence, variant, subscription_group_id, released_at, created_at, updated_at) \
               SELECT $1, (lpad(to_hex($13::bigint), 12, '0') || '7' || substr(md5($14::text || u::text), 1, \
               3) || '8' || substr(md5($14::text || u::text), 4, 15))::uuid, u, $2, $3, 'queued', t, $4, $5, $6, v, \
               $7, $8, $8, $8 FROM unnest($9::uuid[], $10::uuid[], $11::text[]) AS w (u, t, v) ORDER BY 2 \
               ON CONFLICT (project_id, id) DO NOTHING RETURNING id, user_id), \
               counted AS (INSERT INTO message_count (project_id, lane, count) SELECT $1, $12, count(*) \
               FROM new HAVING count(*) > 0 ON CONFLICT (project_id, lane) DO UPDATE \
               SET count = message_count.count + excluded.count) SELECT id, user_id FROM new";
    let rows = tx
        .query(
            &tx.prepare_cached(sql).await?,
            &[
                &queue.project,
                &queue.channel.as_str(),
                &queue.lane.as_str(),
                &data,
                &row.campaign,
                &row.occurrence,
                &row.subscription_group_id,
                &now,
                &users,
                &templates,
                &variants,
                &insert::any_lane(),
                &sending.started_ms,
                &sending.key(),
            ],
        )
        .await?;
    let template_of: HashMap<Uuid, Option<Uuid>> = users.iter().copied().zip(templates.iter().copied()).collect();
    let message = |found: &tokio_postgres::Row| {
        let (id, user_id): (Uuid, Uuid) = (found.try_get("id")?, found.try_get("user_id")?);
        Ok(ClaimedMessage {
            project: queue.project,
            id,
            user_id,
            channel: queue.channel,
            lane: queue.lane,
            sending: Some(*sending),
            template_id: template_of.get(&user_id).copied().flatten(),
            subscription_group_id: row.subscription_group_id,
            content: Value::Object(serde_json::Map::new()),
            data: data.clone(),
            attempt: 1,
            failures: 0,
            ambiguous: 0,
            lapsed: false,
            created_at: now,
            released_at: now,
            trace: None,
        })
    };
    rows.iter().map(message).collect()
}
