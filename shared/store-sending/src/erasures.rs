//! Erasures of users: a row for each of their IDs, which excludes items accepted before the erasure, and the removal of
//! the users' data.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use crate::campaigns::counts::{self, Counts};
use crate::messages;
use crate::{capped_sends, webhook_deliveries};
use database::StoreError;
use database::by_project::{self, ByProject};
use database::months::{self, Month};
use kernel::ids::{self as id_times, ProjectId, unproven};
use store_profiles::events::counters::QuarterHourCount;
use store_profiles::push_tokens;
use store_profiles::users::record::ProjectUserId;
use store_profiles::users::removals;
use store_profiles::users::seen::SeenDeltas;

/// Maximum number of rows removed at once; the statements contain this number. More are removed in slices.
pub const SLICE: i64 = 5_000;
/// Incomplete erasures of one project that the scheduler completes before it continues with the next project.
pub const BATCH: i64 = 500;
/// Statements that remove rows with a user's `user_id`. Rows that need more work have their own statements.
const OWNED: [&str; 12] = [
    "DELETE FROM subscription WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM segment_member WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM segment_membership WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM segment_start WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM dead_item WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM run_listener WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM webhook_call WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM date_due WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM inbox WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM inbox_owner WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM campaign_click WHERE project_id = $1 AND user_id = ANY($2)",
    "DELETE FROM bounce_streak WHERE project_id = $1 AND user_id = ANY($2)",
];

/// The times of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erased {
    /// When it was accepted: items accepted until then no longer count for the user.
    pub accepted: Timestamp,
    /// When it was applied: data derived for the user until then is removed.
    pub applied: Timestamp,
}

/// Records that these IDs were erased. If they were before, the later times apply.
pub async fn record(
    tx: &Transaction<'_>,
    project: ProjectId,
    ids: &[Uuid],
    erased: Erased,
    is_incomplete: bool,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO erasure (project_id, user_id, erased_at, applied_at, has_left) \
               SELECT $1, i, $3, $4, $5 FROM unnest($2::uuid[]) AS i ORDER BY i \
               ON CONFLICT (project_id, user_id) DO UPDATE SET erased_at = greatest(erasure.erased_at, excluded.erased_at), \
               applied_at = excluded.applied_at, has_left = erasure.has_left OR excluded.has_left";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &ids, &erased.accepted, &erased.applied, &is_incomplete])
        .await?;
    Ok(())
}

/// Returns when the latest erasure was accepted: items accepted after that need no check of individual erasures.
pub async fn latest(db: &impl GenericClient) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT max(erased_at) AS latest FROM erasure";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[]).await?.try_get("latest")?)
}

/// Returns when the latest erasure that was accepted up to `until` was accepted.
pub async fn latest_until(db: &impl GenericClient, until: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT max(erased_at) AS latest FROM erasure WHERE erased_at <= $1";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[&until]).await?.try_get("latest")?)
}

/// Returns when these users were erased. Omits users who were not.
pub async fn erased_at(
    db: &impl GenericClient,
    users: &[ProjectUserId],
) -> Result<HashMap<ProjectUserId, Timestamp>, StoreError> {
    let sql = ByProject::new(
        "SELECT e.project_id, e.user_id, e.erased_at FROM unnest($1::uuid[], $2::uuid[]) AS v(p, i) JOIN erasure e \
         ON e.project_id = v.p AND e.user_id = v.i",
        &["v.p"],
    );
    let read = async |statement: Statement, part: &[ProjectUserId]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().copied().unzip();
        Ok(db.query(&statement, &[&projects, &ids]).await?)
    };
    let rows = by_project::each(db, users, |user| user.0, sql, read).await?;
    rows.iter()
        .flatten()
        .map(|row| Ok(((row.try_get("project_id")?, row.try_get("user_id")?), row.try_get("erased_at")?)))
        .collect()
}

/// Keeps these users from being erased until the transaction ends. Waits for their erasures in progress. Returns when
/// each of them was last erased, if ever. Call it before locking rows.
pub async fn block(
    tx: &Transaction<'_>,
    project: ProjectId,
    users: &[Uuid],
) -> Result<HashMap<Uuid, Timestamp>, StoreError> {
    removals::generation(tx).await?;
    let sql = "SELECT user_id, applied_at, is_pending FROM erasure WHERE project_id = $1 AND user_id = ANY($2)";
    let statement = tx.prepare_cached(sql).await?;
    let mut rows = tx.query(&statement, &[&project, &users]).await?;
    let mut pending: Vec<ProjectUserId> = Vec::new();
    for row in &rows {
        if row.try_get("is_pending")? {
            pending.push((project, row.try_get("user_id")?));
        }
    }
    if !pending.is_empty() {
        removals::lock(tx, &[], &pending).await?;
        rows = tx.query(&statement, &[&project, &users]).await?;
    }
    rows.iter().map(|row| Ok((row.try_get("user_id")?, row.try_get("applied_at")?))).collect()
}

/// Returns those of these users whose data is still being removed, with the time of the erasure: data accepted until
/// then must not be shown.
pub async fn under_way(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Timestamp>, StoreError> {
    let sql = "SELECT user_id, erased_at FROM erasure WHERE project_id = $1 AND user_id = ANY($2) AND has_left";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &ids]).await?;
    rows.iter().map(|row| Ok((row.try_get("user_id")?, row.try_get("erased_at")?))).collect()
}

/// Takes the lock on a project's incomplete erasures for this connection, until [`end`]. Returns false if another
/// connection holds it.
pub async fn begin(db: &impl GenericClient, project: ProjectId) -> Result<bool, StoreError> {
    let sql = "SELECT pg_try_advisory_lock(hashtextextended($1::text, 0)) AS is_locked";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_one(&statement, &[&lock_name(project)]).await?.try_get("is_locked")?)
}

/// Releases the lock of [`begin`].
pub async fn end(db: &impl GenericClient, project: ProjectId) -> Result<(), StoreError> {
    let statement = db.prepare_cached("SELECT pg_advisory_unlock(hashtextextended($1::text, 0))").await?;
    db.execute(&statement, &[&lock_name(project)]).await?;
    Ok(())
}

fn lock_name(project: ProjectId) -> String {
    format!("erasures {}", project.0)
}

/// Returns the projects with incomplete erasures.
pub async fn incomplete_projects(db: &impl GenericClient) -> Result<Vec<ProjectId>, StoreError> {
    let sql = "SELECT DISTINCT project_id FROM erasure WHERE has_left";
    db.query(&db.prepare_cached(sql).await?, &[]).await?.iter().map(|row| Ok(row.try_get("project_id")?)).collect()
}

/// Returns up to [`BATCH`] IDs of a project whose erasures are incomplete, the oldest erasure first.
pub async fn incomplete(db: &impl GenericClient, project: ProjectId) -> Result<Vec<(Uuid, Erased)>, StoreError> {
    let sql = "SELECT user_id, erased_at, applied_at FROM erasure WHERE project_id = $1 AND has_left \
               ORDER BY erased_at, user_id LIMIT $2";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &BATCH]).await?;
    let erased = |row: &Row| {
        Ok((
            row.try_get("user_id")?,
            Erased { accepted: row.try_get("erased_at")?, applied: row.try_get("applied_at")? },
        ))
    };
    rows.iter().map(erased).collect()
}

/// Returns which of these IDs have events or messages in a month, including events sent under them without proof.
pub async fn with_rows(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
    month: Month,
) -> Result<HashSet<Uuid>, StoreError> {
    let within = month.condition("id");
    let sql = format!(
        "SELECT v.i AS id FROM unnest($2::uuid[], $3::uuid[]) AS v (i, u) CROSS JOIN LATERAL \
         (SELECT 1 AS one FROM events WHERE project_id = $1 AND user_id IN (v.i, v.u) AND {within} LIMIT 1) AS found \
         UNION SELECT v.i AS id FROM unnest($2::uuid[]) AS v (i) CROSS JOIN LATERAL \
         (SELECT 1 AS one FROM message WHERE project_id = $1 AND user_id = v.i AND {within} LIMIT 1) AS found"
    );
    let without_proof: Vec<Uuid> = ids.iter().copied().map(unproven).collect();
    let rows = db.query(&month.prepare(db, &sql).await?, &[&project, &ids, &without_proof]).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Returns whether these IDs have events or messages in any of these months. Releases the locks on their partitions.
pub async fn have_rows(
    tx: &Transaction<'_>,
    project: ProjectId,
    ids: &[Uuid],
    months: &[Month],
) -> Result<bool, StoreError> {
    for month in months {
        months::set_savepoint(tx).await?;
        let found = with_rows(tx, project, ids, *month).await?;
        months::release_locks(tx).await?;
        if !found.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the months in which users may have events or messages, oldest first.
pub async fn months(db: &impl GenericClient) -> Result<Vec<Month>, StoreError> {
    let mut all = months::of_table(db, "events").await?;
    all.extend(months::of_table(db, "message").await?);
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Marks erasures as complete, except those of users who were erased again meanwhile. Returns how many it marked.
pub async fn mark_complete(
    db: &impl GenericClient,
    project: ProjectId,
    erased: &[(Uuid, Erased)],
) -> Result<u64, StoreError> {
    let ids: Vec<Uuid> = erased.iter().map(|(id, _)| *id).collect();
    let (accepted, applied): (Vec<Timestamp>, Vec<Timestamp>) =
        erased.iter().map(|(_, at)| (at.accepted, at.applied)).unzip();
    let sql = "WITH done AS (SELECT e.user_id FROM unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[]) AS v (i, a, p) \
               JOIN erasure e ON e.project_id = $1 AND e.user_id = v.i WHERE e.has_left AND e.erased_at = v.a AND e.applied_at = v.p \
               ORDER BY e.user_id FOR UPDATE OF e) \
               UPDATE erasure e SET has_left = false FROM done WHERE e.project_id = $1 AND e.user_id = done.user_id";
    Ok(db.execute(&db.prepare_cached(sql).await?, &[&project, &ids, &accepted, &applied]).await?)
}

/// Deletes complete erasures accepted before a time from which no item can still be queued. Keeps those since the
/// oldest queued audience ([`block`]).
pub async fn forget(db: &impl GenericClient, before: Timestamp) -> Result<u64, StoreError> {
    let oldest = "SELECT min(created_at) AS oldest FROM send_chunk WHERE is_audience";
    let oldest: Option<Timestamp> = db.query_one(oldest, &[]).await?.try_get("oldest")?;
    let sql = "DELETE FROM erasure WHERE erased_at < $1 AND applied_at < coalesce($2::timestamptz, 'infinity') AND NOT has_left AND NOT is_pending";
    Ok(db.execute(sql, &[&before, &oldest]).await?)
}

/// Removes the users' own rows and their dependent rows: search rows, runs with their timers, and devices. Returns the
/// changes of the counts of users by the day they were last seen.
pub async fn remove_users(tx: &Transaction<'_>, project: ProjectId, ids: &[Uuid]) -> Result<SeenDeltas, StoreError> {
    let mut moves = SeenDeltas::default();
    let sql = "DELETE FROM users WHERE project_id = $1 AND id = ANY($2) \
               RETURNING seen_day, merged_into IS NULL AS is_counted";
    for row in tx.query(&tx.prepare_cached(sql).await?, &[&project, &ids]).await? {
        let is_counted: bool = row.try_get("is_counted")?;
        moves.add(project, row.try_get("seen_day")?, -i64::from(is_counted));
    }
    for sql in [
        "DELETE FROM user_search WHERE project_id = $1 AND id = ANY($2)",
        "WITH gone AS (DELETE FROM run WHERE project_id = $1 AND user_id = ANY($2) RETURNING id) \
         DELETE FROM timer t USING gone WHERE t.project_id = $1 AND t.run_id = gone.id",
        // A link that no other user clicked may be personal, with a name or a token in it.
        "DELETE FROM campaign_link l USING (SELECT DISTINCT campaign_id, link FROM campaign_click WHERE project_id = $1 AND user_id = ANY($2)) g \
         WHERE l.project_id = $1 AND l.campaign_id = g.campaign_id AND l.link = g.link AND NOT EXISTS (SELECT FROM campaign_click c \
         WHERE c.project_id = $1 AND c.campaign_id = l.campaign_id AND c.link = l.link AND NOT c.user_id = ANY($2))",
    ] {
        tx.execute(&tx.prepare_cached(sql).await?, &[&project, &ids]).await?;
    }
    push_tokens::remove_all(tx, project, ids).await?;
    for sql in OWNED {
        tx.execute(&tx.prepare_cached(sql).await?, &[&project, &ids]).await?;
    }
    Ok(moves)
}

/// The result of removing a slice.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Counts to subtract from the counters.
    pub events: Vec<QuarterHourCount>,
    pub messages: i64,
    /// Whether more rows remain.
    pub has_more: bool,
}

/// Removes up to [`SLICE`] events and [`SLICE`] messages of these users in one month.
///
/// Events: received before the erasure. Messages: direct ones created before it, and all others created before it was
/// applied (all, while `applied` is `None`). Webhook deliveries, cap counts and clicks of removed messages are removed,
/// too. Client IDs of removed events may be used again.
pub async fn remove_slice(
    tx: &Transaction<'_>,
    project: ProjectId,
    ids: &[Uuid],
    (at, applied): (Timestamp, Option<Timestamp>),
    month: Month,
) -> Result<Removed, StoreError> {
    let within = month.condition("id");
    // Includes events that were sent without proof.
    let senders: Vec<Uuid> = ids.iter().copied().chain(ids.iter().copied().map(unproven)).collect();
    let bound = format!(
        "SELECT id FROM events WHERE project_id = $1 AND user_id = ANY($2) AND received_at <= $3 AND {within} \
         ORDER BY id OFFSET 5000 LIMIT 1"
    );
    let row = tx.query_opt(&month.prepare(tx, &bound).await?, &[&project, &senders, &at]).await?;
    let until: Option<Uuid> = row.map(|row| row.try_get("id")).transpose()?;
    let sql = format!(
        "WITH gone AS (DELETE FROM events WHERE project_id = $1 AND user_id = ANY($2) AND received_at <= $3 \
         AND id < $4 AND {within} RETURNING client_id, name, received_at), names AS (DELETE FROM client_id \
         USING gone g WHERE project_id = $1 AND id = g.client_id AND substr(id::text, 15, 1) <> '8') \
         SELECT date_bin('15 minutes', received_at, 'epoch') AS quarter, name, count(*) AS total FROM gone \
         GROUP BY 1, 2"
    );
    let last = until.unwrap_or(Uuid::max());
    let rows = tx.query(&month.prepare(tx, &sql).await?, &[&project, &senders, &at, &last]).await?;
    let events: Vec<QuarterHourCount> = rows.iter().map(QuarterHourCount::of).collect::<Result<_, _>>()?;

    let bound = format!(
        "SELECT id FROM message WHERE project_id = $1 AND user_id = ANY($2) AND \
         CASE WHEN lane = 'direct' THEN created_at <= $3 ELSE $4::timestamptz IS NULL OR created_at < $4 END \
         AND {within} ORDER BY id OFFSET 5000 LIMIT 1"
    );
    let row = tx.query_opt(&month.prepare(tx, &bound).await?, &[&project, &ids, &at, &applied]).await?;
    let until_message: Option<Uuid> = row.map(|row| row.try_get("id")).transpose()?;
    let sql = format!(
        "DELETE FROM message WHERE project_id = $1 AND user_id = ANY($2) AND \
         CASE WHEN lane = 'direct' THEN created_at <= $3 ELSE $4::timestamptz IS NULL OR created_at < $4 END \
         AND {within} AND id < $5 RETURNING id, campaign_id, occurrence, variant, status"
    );
    let last = until_message.unwrap_or(Uuid::max());
    let rows = tx.query(&month.prepare(tx, &sql).await?, &[&project, &ids, &at, &applied, &last]).await?;
    let mut counted = Counts::default();
    for row in &rows {
        if let Some(of) =
            row.try_get::<_, Option<Uuid>>("campaign_id")?.zip(row.try_get::<_, Option<i32>>("occurrence")?)
        {
            counted.add(of, row.try_get("variant")?, messages::status(row.try_get("status")?)?, -1);
        }
    }
    counts::add(tx, project, &counted).await?;
    let messages: Vec<Uuid> = rows.iter().map(|row| row.try_get("id")).collect::<Result<_, _>>()?;
    let campaigns: Vec<Option<Uuid>> = rows.iter().map(|row| row.try_get("campaign_id")).collect::<Result<_, _>>()?;
    // After the messages: a transaction that settles one, or records a click in it, has committed by now, or finds it
    // gone.
    webhook_deliveries::erase(tx, project, ids, (applied, &messages)).await?;
    capped_sends::erase(tx, project, &messages).await?;
    remove_clicks(tx, project, (&messages, &campaigns)).await?;
    Ok(Removed { events, messages: messages.len() as i64, has_more: until.is_some() || until_message.is_some() })
}

/// Removes the clicks in messages that were just removed, each with its campaign, and the links that no other user
/// clicked: they may be personal.
async fn remove_clicks(
    tx: &Transaction<'_>,
    project: ProjectId,
    (messages, campaigns): (&[Uuid], &[Option<Uuid>]),
) -> Result<(), StoreError> {
    if campaigns.iter().all(Option::is_none) {
        return Ok(());
    }
    let sql = "DELETE FROM campaign_click c USING unnest($2::uuid[], $3::uuid[]) AS m (campaign, id) \
               WHERE c.project_id = $1 AND c.campaign_id = m.campaign AND c.message_id = m.id RETURNING c.campaign_id, c.link";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&project, &campaigns, &messages]).await?;
    let campaigns: Vec<Uuid> = rows.iter().map(|row| row.try_get("campaign_id")).collect::<Result<_, _>>()?;
    let links: Vec<Uuid> = rows.iter().map(|row| row.try_get("link")).collect::<Result<_, _>>()?;
    if !links.is_empty() {
        let sql = "DELETE FROM campaign_link l USING (SELECT DISTINCT * FROM unnest($2::uuid[], $3::uuid[])) AS g (campaign, link) \
                   WHERE l.project_id = $1 AND l.campaign_id = g.campaign AND l.link = g.link AND NOT EXISTS (SELECT FROM campaign_click c \
                   WHERE c.project_id = $1 AND c.campaign_id = l.campaign_id AND c.link = l.link)";
        tx.execute(&tx.prepare_cached(sql).await?, &[&project, &campaigns, &links]).await?;
    }
    Ok(())
}

/// Returns those of these IDs that have events received after `at`, and when the first was.
pub async fn active_since(
    tx: &Transaction<'_>,
    project: ProjectId,
    ids: &[Uuid],
    at: Timestamp,
) -> Result<Vec<(Uuid, Timestamp)>, StoreError> {
    // An accepted event's ID is at most this old. Not cached: a custom plan prunes earlier partitions.
    let first = id_times::lower_bound(at.as_millisecond() - id_times::CLIENT_ID_PAST_MS);
    let sql = "SELECT user_id, min(received_at) AS first_at FROM events WHERE project_id = $1 AND user_id = ANY($2) \
               AND received_at > $3 AND id >= $4 GROUP BY user_id";
    let rows = tx.query(sql, &[&project, &ids, &at, &first]).await?;
    rows.iter().map(|row| Ok((row.try_get("user_id")?, row.try_get("first_at")?))).collect()
}
