//! Outcomes of attempts.

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::by_id::{self, Lock};
use super::counts;
use crate::ids::{self, ProjectId};
use crate::rule::look::Look;
use crate::send::{DeliveryState, is_dead_letter, reason_code};
use crate::store::StoreError;
use crate::store::campaigns::counts::{self as campaign_counts, Counts};
use crate::store::months::{self, Month};
use crate::store::webhook_deliveries::tell;

/// How the reason of a message begins that waits until its channel's settings are mended.
pub const HELD: &str = "channel_misconfigured";

/// The end of one attempt: the outcome, or when to try again.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    pub project: ProjectId,
    pub id: Uuid,
    /// The attempt's number.
    pub attempt: i32,
    /// [`DeliveryState::Queued`] where the message is to be tried again.
    pub status: DeliveryState,
    /// A code, and after a colon the details: `rejected: 550 no such user`.
    pub reason: Option<String>,
    /// When it is tried again; none where the outcome is known.
    pub due_at: Option<Timestamp>,
    /// To be added to the failures that count against the limit.
    pub failures: i32,
    /// To be added to the calls of which the outcome was never learned.
    pub ambiguous: i32,
    /// Whom the message turned out to be for, where that is not who the row says.
    pub user_id: Option<Uuid>,
    /// As rendered.
    pub subject: Option<String>,
    pub provider: Option<&'static str>,
    pub provider_message_id: Option<String>,
    /// Of a push: an array of what came of each device.
    pub devices: Option<Value>,
    /// Of an SMS that was sent.
    pub segments: Option<i32>,
    /// Where it was sent to, normalised.
    pub address: Option<String>,
    /// It is recorded as a send that counts against the frequency cap.
    pub counted: bool,
}

impl Settled {
    /// The end of the attempt of that number, of which nothing more is known.
    pub fn new(project: ProjectId, id: Uuid, attempt: i32, status: DeliveryState) -> Self {
        Self {
            project,
            id,
            attempt,
            status,
            reason: None,
            due_at: None,
            failures: 0,
            ambiguous: 0,
            user_id: None,
            subject: None,
            provider: None,
            provider_message_id: None,
            devices: None,
            segments: None,
            address: None,
            counted: false,
        }
    }

    /// Whether its send no longer counts against the frequency cap: the message did not go out. A call without an answer may
    /// have sent it.
    pub fn frees_cap(&self) -> bool {
        self.counted && self.status != DeliveryState::Sent && self.ambiguous == 0
    }

    /// Whether it holds no text of others, of which the database might refuse one.
    pub fn is_bare(&self) -> bool {
        let code_only = self.reason.as_deref().is_none_or(|r| !r.contains(':'));
        code_only
            && self.subject.is_none()
            && self.provider_message_id.is_none()
            && self.devices.is_none()
            && self.address.is_none()
    }

    /// The same end without the texts of others: of the reason, its code.
    #[must_use]
    pub fn into_bare(self) -> Self {
        let reason = self.reason.map(|reason| reason_code(&reason).to_owned());
        Self { reason, subject: None, provider_message_id: None, devices: None, address: None, ..self }
    }
}

/// Writes outcomes of one project's messages, counts what they came to, and marks whose they are where a followed segment looks at messages;
/// returns the ids of the messages that are still to be sent after it.
///
/// The caller has locked the begun chunks that hold the messages, in the same transaction. Each month is a statement of its own.
pub async fn settle(
    tx: &impl GenericClient,
    project: ProjectId,
    settled: &[&Settled],
    now: Timestamp,
) -> Result<Vec<Uuid>, StoreError> {
    let (mut queued, mut moved) = (Vec::new(), Counts::default());
    for (month, settled) in months::split(settled, |s| s.id) {
        for row in settle_in(tx, project, month, &settled, now).await? {
            let (before, after) = (super::status(row.try_get(1)?)?, super::status(row.try_get(2)?)?);
            if after == DeliveryState::Queued {
                queued.push(row.try_get(0)?);
            }
            if let Some(of) = row.try_get::<_, Option<Uuid>>(3)?.zip(row.try_get::<_, Option<i32>>(4)?)
                && before != after
            {
                moved.step(of, row.try_get(5)?, (before, after), 1);
            }
        }
    }
    campaign_counts::add(tx, project, &moved).await?;
    Ok(queued)
}

async fn settle_in(
    tx: &impl GenericClient,
    project: ProjectId,
    month: Month,
    settled: &[&Settled],
    now: Timestamp,
) -> Result<Vec<Row>, StoreError> {
    let messages: Vec<Uuid> = settled.iter().map(|s| s.id).collect();
    let (first, last) = (messages.iter().min(), messages.iter().max());
    let attempts: Vec<i32> = settled.iter().map(|s| s.attempt).collect();
    let statuses: Vec<&str> = settled.iter().map(|s| s.status.as_str()).collect();
    let reasons: Vec<Option<&str>> = settled.iter().map(|s| s.reason.as_deref()).collect();
    let failures: Vec<i32> = settled.iter().map(|s| s.failures).collect();
    let ambiguous: Vec<i32> = settled.iter().map(|s| s.ambiguous).collect();
    let users: Vec<Option<Uuid>> = settled.iter().map(|s| s.user_id).collect();
    let subjects: Vec<Option<&str>> = settled.iter().map(|s| s.subject.as_deref()).collect();
    let providers: Vec<Option<&str>> = settled.iter().map(|s| s.provider).collect();
    let provider_ids: Vec<Option<&str>> = settled.iter().map(|s| s.provider_message_id.as_deref()).collect();
    let is_dead = |s: &&Settled| s.status == DeliveryState::Failed && s.reason.as_deref().is_some_and(is_dead_letter);
    let dead: Vec<bool> = settled.iter().map(is_dead).collect();
    let addresses: Vec<Option<&str>> = settled.iter().map(|s| s.address.as_deref()).collect();
    let segments: Vec<Option<i32>> = settled.iter().map(|s| s.segments).collect();
    let devices: Vec<Option<&Value>> = settled.iter().map(|s| s.devices.as_ref()).collect();
    let events: Vec<Uuid> = settled.iter().map(|_| ids::fresh(now.as_millisecond())).collect();
    // A receipt may have come before the outcome: then the state that it reported stays, and the rest is written.
    // Locked in the order of ids: two of these that took rows in any order would deadlock.
    // Endpoints are notified by the same statement: a project without any pays for one look into their index.
    let ends = "(SELECT DISTINCT ON (id) * FROM unnest($2::uuid[], $3::int[], $4::text[], $5::text[], \
                $6::int[], $7::int[], $8::uuid[], $9::text[], $10::text[], $11::text[], $15::jsonb[], $18::boolean[], $19::int[], \
                $20::text[], $21::uuid[]) AS e (id, attempt, status, status_reason, failures, ambiguous, user_id, subject, provider, \
                provider_message_id, devices, dead, segments, address, event) ORDER BY id) AS w";
    let set = "status = CASE WHEN m.status = 'queued' THEN excluded.status ELSE m.status END, \
               status_reason = CASE WHEN m.status = 'queued' THEN excluded.status_reason ELSE m.status_reason END, \
               attempt = excluded.attempt, dead = m.status = 'queued' AND excluded.dead AND NOT m.content @> '{\"test\": true}', \
               failures = m.failures + excluded.failures, ambiguous = m.ambiguous + excluded.ambiguous, user_id = excluded.user_id, \
               subject = coalesce(excluded.subject, m.subject), provider = coalesce(excluded.provider, m.provider), \
               provider_message_id = coalesce(excluded.provider_message_id, m.provider_message_id), \
               devices = coalesce(excluded.devices, m.devices), segments = coalesce(excluded.segments, m.segments), \
               address = coalesce(excluded.address, m.address), \
               sent_at = CASE WHEN excluded.status = 'sent' THEN $14 ELSE m.sent_at END, \
               failed_at = CASE WHEN excluded.status = 'failed' AND m.status = 'queued' THEN $14 ELSE m.failed_at END, updated_at = $14";
    let sql = format!(
        "WITH ends AS (SELECT m.project_id, m.id, coalesce(w.user_id, m.user_id) AS user_id, m.channel, m.lane, w.status, m.created_at, \
               m.updated_at, w.attempt, w.status_reason, w.failures, w.ambiguous, w.subject, w.provider, w.provider_message_id, \
               w.devices, w.dead, w.segments, w.address, w.event, m.status AS before FROM {looked_up}), \
               written AS ({change} RETURNING m.id, m.status AS after, m.campaign_id, m.occurrence, m.variant, m.template_id, m.automation_id, \
               m.run_id, m.provider, m.provider_message_id), \
               moved AS (SELECT m.*, e.channel, e.user_id, e.status, e.before, e.status_reason AS reason, \
               e.status = 'failed' OR e.failures > 0 AS failed, \
               e.status = 'sent' OR (e.status <> 'queued' AND e.before = 'queued') AS counts, e.event FROM written m JOIN ends e ON e.id = m.id), \
               counted AS (INSERT INTO message_status_count AS s (project_id, at, channel, status, lane, count) \
               SELECT $1, $16, channel, status, $17, count(*) FROM moved WHERE counts GROUP BY channel, status ORDER BY channel, status \
               ON CONFLICT (project_id, at, channel, status, lane) DO UPDATE SET count = s.count + excluded.count), \
               told AS (INSERT INTO campaign_outcome AS o (project_id, campaign_id, sent, failed, failed_in_row, reason) \
               SELECT $1, campaign_id, count(*) FILTER (WHERE NOT failed), count(*) FILTER (WHERE failed), \
               CASE WHEN bool_and(failed) THEN count(*) ELSE 0 END, max(split_part(reason, ':', 1)) FILTER (WHERE failed) \
               FROM moved WHERE campaign_id IS NOT NULL AND (status = 'sent' OR failed) GROUP BY campaign_id ORDER BY campaign_id \
               ON CONFLICT (project_id, campaign_id) DO UPDATE SET sent = o.sent + excluded.sent, failed = o.failed + excluded.failed, \
               failed_in_row = excluded.failed_in_row + CASE WHEN excluded.sent > 0 THEN 0 ELSE o.failed_in_row END, \
               reason = coalesce(excluded.reason, o.reason)), \
               marked AS (INSERT INTO segment_dirty (project_id, id, look, people) SELECT $1, $22, $23, array_agg(DISTINCT user_id) FROM moved \
               WHERE counts AND EXISTS (SELECT FROM segment_watch WHERE project_id = $1 AND looks_at @> ARRAY[$23::text]) HAVING count(*) > 0), \
               hooked AS (INSERT INTO webhook_delivery ({columns}) \
               SELECT $1, w.id, m.event, 'message.' || m.status, m.user_id, {data}, $14, $14, $14 FROM moved m {asking} {person} \
               WHERE m.counts AND m.status IN ('sent', 'failed', 'suppressed') \
               AND EXISTS (SELECT FROM webhook_endpoint WHERE project_id = $1 AND enabled)) \
               SELECT id, before, after, campaign_id, occurrence, variant FROM moved",
        looked_up = by_id::look_up(month, ends, by_id::KEPT, "m.id BETWEEN $12 AND $13", Lock::Wait),
        change = by_id::change(
            month,
            "ends",
            ", attempt, status_reason, failures, ambiguous, subject, provider, provider_message_id, devices, dead, segments, address",
            set,
        ),
        columns = tell::COLUMNS,
        data = tell::message_data("m.reason", "NULL::text"),
        asking = tell::asking("$1", "'message.' || m.status"),
        person = tell::person("$1", "m.user_id"),
    );
    let statement = month.prepare(tx, &sql).await?;
    let rows = tx
        .query(
            &statement,
            &[
                &project,
                &messages,
                &attempts,
                &statuses,
                &reasons,
                &failures,
                &ambiguous,
                &users,
                &subjects,
                &providers,
                &provider_ids,
                &first,
                &last,
                &now,
                &devices,
                &counts::quarter(now),
                &counts::any_lane(),
                &dead,
                &segments,
                &addresses,
                &events,
                &ids::fresh(now.as_millisecond()),
                &Look::Messages.text(),
            ],
        )
        .await?;
    Ok(rows)
}

/// Counts the last attempts of these messages as calls whose outcome is unknown. Messages that are not queued any more are left alone.
pub async fn in_doubt(
    tx: &impl GenericClient,
    project: ProjectId,
    messages: &[Uuid],
    now: Timestamp,
) -> Result<(), StoreError> {
    let set = "ambiguous = m.ambiguous + 1, attempt = m.attempt + 1, updated_at = $5";
    for (month, ids) in months::split(messages, |id| *id) {
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let queued = "m.id BETWEEN $3 AND $4 AND m.status = 'queued'";
        let found = by_id::look_up(month, &by_id::wanted("$2"), by_id::KEPT, queued, Lock::Wait);
        let sql = by_id::change(month, &format!("(SELECT m.* FROM {found}) AS lost"), "", set);
        tx.execute(&month.prepare(tx, &sql).await?, &[&project, &ids, &first, &last, &now]).await?;
    }
    Ok(())
}

/// Cancels queued messages of campaigns. The values tell whether a call was under way whose outcome is unknown.
pub async fn cancel(
    tx: &impl GenericClient,
    project: ProjectId,
    messages: &BTreeMap<Uuid, bool>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let rows: Vec<(Uuid, bool)> = messages.iter().map(|(id, begun)| (*id, *begun)).collect();
    let mut moved = Counts::default();
    for (month, rows) in months::split(&rows, |row| row.0) {
        let (ids, begun): (Vec<Uuid>, Vec<bool>) = rows.into_iter().unzip();
        let (first, last) = (ids.first(), ids.last());
        let wanted = "unnest($2::uuid[], $3::boolean[]) AS w (id, begun)";
        let queued = "m.id BETWEEN $4 AND $5 AND m.status = 'queued'";
        let rows = format!(
            "(SELECT m.*, w.begun::int AS ambiguous FROM {}) AS waiting",
            by_id::look_up(month, wanted, by_id::KEPT, queued, Lock::Wait)
        );
        let set = "status = 'cancelled', status_reason = 'campaign_cancelled', ambiguous = m.ambiguous + excluded.ambiguous, updated_at = $6";
        let sql = by_id::change(month, &rows, ", ambiguous", set) + " RETURNING m.campaign_id, m.occurrence, m.variant";
        for row in tx.query(&month.prepare(tx, &sql).await?, &[&project, &ids, &begun, &first, &last, &now]).await? {
            if let Some(of) = row.try_get::<_, Option<Uuid>>(0)?.zip(row.try_get::<_, Option<i32>>(1)?) {
                moved.step(of, row.try_get(2)?, (DeliveryState::Queued, DeliveryState::Cancelled), 1);
            }
        }
    }
    campaign_counts::add(tx, project, &moved).await
}
