//! Settles attempts.

use std::collections::BTreeMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::counts;
use crate::campaigns::counts::{self as campaign_counts, Counts, Occurrence};
use crate::campaigns::outcomes::{self, Outcomes};
use crate::webhook_deliveries::enqueue::{self, MessageEvent};
use database::months::{self, Month};
use database::{StoreError, by_project};
use domain::message::{Channel, DeliveryState, is_dead_letter, reason_code};
use kernel::ids::ProjectId;
use store_profiles::segments::dirty;

/// Prefix of the reason of a message that is held until its channel's settings are corrected.
pub const HELD_REASON: &str = "channel_misconfigured";

/// The end of one attempt: its outcome, or when to retry.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    pub project: ProjectId,
    pub id: Uuid,
    /// The attempt's number.
    pub attempt: i32,
    /// [`DeliveryState::Queued`] if the message is to be retried.
    pub status: DeliveryState,
    /// A code, optionally followed by a colon and details: `rejected: 550 no such user`.
    pub reason: Option<String>,
    /// When it is retried; `None` if the outcome is final.
    pub due_at: Option<Timestamp>,
    /// Number to add to the failures that count against the limit.
    pub failures: i32,
    /// Number to add to the calls with unknown outcome.
    pub ambiguous: i32,
    /// The actual recipient, if it is not the row's user.
    pub user_id: Option<Uuid>,
    /// The rendered subject.
    pub subject: Option<String>,
    pub provider: Option<&'static str>,
    pub provider_message_id: Option<String>,
    /// For a push message: an array with the result for each device.
    pub devices: Option<Value>,
    /// For an SMS that was sent.
    pub segments: Option<i32>,
    /// The address it was sent to, normalized.
    pub address: Option<String>,
    /// Whether it is recorded as a send that counts against the frequency cap.
    pub counted: bool,
    /// Whether an earlier call may have sent the message.
    pub was_ambiguous: bool,
}

impl Settled {
    /// Creates the result of an attempt without details.
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
            was_ambiguous: false,
        }
    }

    /// Returns whether its send no longer counts against the frequency cap, because the message was not sent. A call
    /// without a response, this one or an earlier one, may have sent it.
    pub fn frees_cap(&self) -> bool {
        self.counted && self.status != DeliveryState::Sent && self.ambiguous == 0 && !self.was_ambiguous
    }

    /// Returns whether it contains no external text, which the database might refuse.
    pub fn is_bare(&self) -> bool {
        let code_only = self.reason.as_deref().is_none_or(|r| !r.contains(':'));
        code_only
            && self.subject.is_none()
            && self.provider_message_id.is_none()
            && self.devices.is_none()
            && self.address.is_none()
    }

    /// Removes external text: keeps only the code of the reason.
    #[must_use]
    pub fn into_bare(self) -> Self {
        let reason = self.reason.map(|reason| reason_code(&reason).to_owned());
        Self { reason, subject: None, provider_message_id: None, devices: None, address: None, ..self }
    }
}

/// Writes the outcomes of one project's messages, and updates counts, campaign results, segments that depend on
/// messages, and webhook deliveries. Returns the IDs of messages that are still queued.
///
/// The caller has locked the begun chunks that hold the messages, in the same transaction. Each month is a separate
/// statement.
pub async fn settle(
    tx: &Transaction<'_>,
    project: ProjectId,
    settled: &[&Settled],
    now: Timestamp,
) -> Result<Vec<Uuid>, StoreError> {
    let (has_endpoints, written) =
        tokio::try_join!(enqueue::has_endpoints(tx, project), write(tx, project, settled, now))?;
    let (mut queued, mut users, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let (mut statuses, mut moved) = (BTreeMap::new(), Counts::default());
    let mut campaigns: BTreeMap<Uuid, Outcomes> = BTreeMap::new();
    for Written { settled, after, was_queued, user_id, channel, campaign, variant } in &written {
        let status = settled.status;
        if *after == DeliveryState::Queued {
            queued.push(settled.id);
        }
        if let Some(of) = campaign {
            if *was_queued && *after != DeliveryState::Queued {
                moved.step(*of, variant.as_deref(), (DeliveryState::Queued, *after), 1);
            }
            campaigns.entry(of.0).or_default().record(status, settled.failures > 0, settled.reason.as_deref());
        }
        if status == DeliveryState::Sent || (*was_queued && status != DeliveryState::Queued) {
            *statuses.entry((*channel, status.as_str())).or_default() += 1;
            users.push(*user_id);
            let kind = enqueue::event_type(status).filter(|_| has_endpoints);
            let reason = settled.reason.clone();
            events.extend(kind.map(|kind| MessageEvent { message: settled.id, kind, at: now, reason, url: None }));
        }
    }
    users.sort_unstable();
    users.dedup();
    tokio::try_join!(
        counts::add(tx, project, &statuses, now),
        outcomes::add(tx, project, &campaigns),
        campaign_counts::add(tx, project, &moved),
        dirty::mark_messages(tx, project, &users, now),
    )?;
    enqueue::for_messages(tx, project, &events, now).await?;
    Ok(queued)
}

/// A message whose outcome is written.
struct Written<'a> {
    settled: &'a Settled,
    after: DeliveryState,
    /// False if a receipt came before the outcome.
    was_queued: bool,
    user_id: Uuid,
    channel: Channel,
    campaign: Option<Occurrence>,
    variant: Option<String>,
}

async fn write<'a>(
    tx: &Transaction<'_>,
    project: ProjectId,
    settled: &[&'a Settled],
    now: Timestamp,
) -> Result<Vec<Written<'a>>, StoreError> {
    // In the order of IDs: two transactions that locked rows in different orders could deadlock.
    let by_id: BTreeMap<Uuid, &Settled> = settled.iter().map(|s| (s.id, *s)).collect();
    let ordered: Vec<&Settled> = by_id.values().copied().collect();
    let mut written = Vec::with_capacity(ordered.len());
    for (month, part) in months::split(&ordered, |s| s.id) {
        for row in write_in(tx, project, month, &part, now).await? {
            let Some(settled) = by_id.get(&row.try_get("id")?) else { continue };
            let after = super::status(row.try_get("status")?)?;
            let campaign =
                row.try_get::<_, Option<Uuid>>("campaign_id")?.zip(row.try_get::<_, Option<i32>>("occurrence")?);
            // A receipt may have reported a failure, too; the time shows which of the two is in the row.
            let was_queued =
                after == settled.status && (after != DeliveryState::Failed || row.try_get("failed_now")?);
            let (user_id, channel) = (row.try_get("user_id")?, super::channel(row.try_get("channel")?)?);
            let variant = row.try_get("variant")?;
            written.push(Written { settled, after, was_queued, user_id, channel, campaign, variant });
        }
    }
    Ok(written)
}

async fn write_in(
    tx: &Transaction<'_>,
    project: ProjectId,
    month: Month,
    settled: &[&Settled],
    now: Timestamp,
) -> Result<Vec<Row>, StoreError> {
    fn column<'a, T>(settled: &[&'a Settled], of: impl Fn(&'a Settled) -> T) -> Vec<T> {
        settled.iter().map(|s| of(s)).collect()
    }
    let is_dead = |s: &Settled| s.status == DeliveryState::Failed && s.reason.as_deref().is_some_and(is_dead_letter);
    let within = month.condition("m.id");
    // If a receipt came before the outcome, its state stays, and only the rest is written.
    let sql = if by_project::is_distributed() {
        format!(
            "UPDATE message AS m SET status = CASE WHEN m.status = 'queued' THEN excluded.status ELSE m.status END, \
             status_reason = CASE WHEN m.status = 'queued' THEN excluded.status_reason ELSE m.status_reason END, \
             attempt = excluded.attempt, dead = m.status = 'queued' AND excluded.dead \
             AND NOT m.content @> '{{\"test\": true}}', failures = m.failures + excluded.failures, \
             ambiguous = m.ambiguous + excluded.ambiguous, user_id = excluded.user_id, \
             subject = coalesce(excluded.subject, m.subject), provider = coalesce(excluded.provider, m.provider), \
             provider_message_id = coalesce(excluded.provider_message_id, m.provider_message_id), \
             devices = coalesce(excluded.devices, m.devices), segments = coalesce(excluded.segments, m.segments), \
             address = coalesce(excluded.address, m.address), sent_at = \
             CASE WHEN excluded.status = 'sent' THEN $2 ELSE m.sent_at END, failed_at = \
             CASE WHEN excluded.status = 'failed' AND m.status = 'queued' THEN $2 ELSE m.failed_at END, \
             updated_at = $2 FROM (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at, \
             attempt, status_reason, failures, ambiguous, subject, provider, provider_message_id, devices, dead, \
             segments, address FROM (SELECT m.project_id, m.id, coalesce(w.user_id, m.user_id) AS user_id, m.channel, \
             m.lane, w.status, m.created_at, m.updated_at, w.attempt, w.status_reason, w.failures, w.ambiguous, \
             w.subject, w.provider, w.provider_message_id, w.devices, w.dead, w.segments, w.address \
             FROM unnest($3::uuid[], $4::int[], $5::text[], $6::text[], $7::int[], $8::int[], $9::uuid[], \
             $10::text[], $11::text[], $12::text[], $13::jsonb[], $14::boolean[], $15::int[], $16::text[]) AS w (id, \
             attempt, status, status_reason, failures, ambiguous, user_id, subject, provider, provider_message_id, \
             devices, dead, segments, address) CROSS JOIN LATERAL \
             (SELECT m.project_id, m.id, m.user_id, m.channel, m.lane, m.created_at, m.updated_at FROM message m \
             WHERE m.project_id = $1 AND m.id = w.id AND {within} AND true OFFSET 0 \
             FOR UPDATE OF m) AS m) AS ends) AS excluded WHERE m.project_id = $1 AND m.id = excluded.id AND {within} \
             RETURNING m.id, m.status, m.user_id, m.channel, m.campaign_id, m.occurrence, m.variant, \
             m.failed_at IS NOT DISTINCT FROM $2 AS failed_now"
        )
    } else {
        format!(
            "INSERT INTO message AS m (project_id, id, user_id, channel, lane, status, created_at, updated_at, \
             attempt, status_reason, failures, ambiguous, subject, provider, provider_message_id, devices, dead, \
             segments, address) SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at, \
             attempt, status_reason, failures, ambiguous, subject, provider, provider_message_id, devices, dead, \
             segments, address FROM (SELECT m.project_id, m.id, coalesce(w.user_id, m.user_id) AS user_id, m.channel, \
             m.lane, w.status, m.created_at, m.updated_at, w.attempt, w.status_reason, w.failures, w.ambiguous, \
             w.subject, w.provider, w.provider_message_id, w.devices, w.dead, w.segments, w.address \
             FROM unnest($3::uuid[], $4::int[], $5::text[], $6::text[], $7::int[], $8::int[], $9::uuid[], \
             $10::text[], $11::text[], $12::text[], $13::jsonb[], $14::boolean[], $15::int[], $16::text[]) AS w (id, \
             attempt, status, status_reason, failures, ambiguous, user_id, subject, provider, provider_message_id, \
             devices, dead, segments, address) CROSS JOIN LATERAL \
             (SELECT m.project_id, m.id, m.user_id, m.channel, m.lane, m.created_at, m.updated_at FROM message m \
             WHERE m.project_id = $1 AND m.id = w.id AND {within} AND true OFFSET 0 FOR UPDATE OF m) AS m) AS ends \
             ON CONFLICT (project_id, id) DO UPDATE SET status = \
             CASE WHEN m.status = 'queued' THEN excluded.status ELSE m.status END, status_reason = \
             CASE WHEN m.status = 'queued' THEN excluded.status_reason ELSE m.status_reason END, \
             attempt = excluded.attempt, dead = m.status = 'queued' AND excluded.dead \
             AND NOT m.content @> '{{\"test\": true}}', failures = m.failures + excluded.failures, \
             ambiguous = m.ambiguous + excluded.ambiguous, user_id = excluded.user_id, \
             subject = coalesce(excluded.subject, m.subject), provider = coalesce(excluded.provider, m.provider), \
             provider_message_id = coalesce(excluded.provider_message_id, m.provider_message_id), \
             devices = coalesce(excluded.devices, m.devices), segments = coalesce(excluded.segments, m.segments), \
             address = coalesce(excluded.address, m.address), sent_at = \
             CASE WHEN excluded.status = 'sent' THEN $2 ELSE m.sent_at END, failed_at = \
             CASE WHEN excluded.status = 'failed' AND m.status = 'queued' THEN $2 ELSE m.failed_at END, \
             updated_at = $2 RETURNING m.id, m.status, m.user_id, m.channel, m.campaign_id, m.occurrence, m.variant, \
             m.failed_at IS NOT DISTINCT FROM $2 AS failed_now"
        )
    };
    let columns: [&(dyn ToSql + Sync); 16] = [
        &project,
        &now,
        &column(settled, |s| s.id),
        &column(settled, |s| s.attempt),
        &column(settled, |s| s.status.as_str()),
        &column(settled, |s| s.reason.as_deref()),
        &column(settled, |s| s.failures),
        &column(settled, |s| s.ambiguous),
        &column(settled, |s| s.user_id),
        &column(settled, |s| s.subject.as_deref()),
        &column(settled, |s| s.provider),
        &column(settled, |s| s.provider_message_id.as_deref()),
        &column(settled, |s| s.devices.as_ref()),
        &column(settled, is_dead),
        &column(settled, |s| s.segments),
        &column(settled, |s| s.address.as_deref()),
    ];
    Ok(tx.query(&month.prepare(tx, &sql).await?, &columns).await?)
}

/// Counts the last attempts of these messages as calls with unknown outcome. Ignores messages that are no longer
/// queued.
pub async fn count_ambiguous(
    tx: &impl GenericClient,
    project: ProjectId,
    messages: &[Uuid],
    now: Timestamp,
) -> Result<(), StoreError> {
    for (month, ids) in months::split(messages, |id| *id) {
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let within = month.condition("m.id");
        let sql = if by_project::is_distributed() {
            format!(
                "UPDATE message AS m SET ambiguous = m.ambiguous + 1, attempt = m.attempt + 1, updated_at = $5 FROM \
                 (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at FROM (SELECT m.* FROM \
                 (SELECT DISTINCT unnest($2::uuid[]) AS id ORDER BY 1) AS w CROSS JOIN LATERAL \
                 (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at FROM message m \
                 WHERE m.project_id = $1 AND m.id = w.id AND {within} AND m.id BETWEEN $3 AND $4 \
                 AND m.status = 'queued' OFFSET 0 FOR UPDATE OF m) AS m) AS lost) AS excluded WHERE m.project_id = $1 \
                 AND m.id = excluded.id AND {within}"
            )
        } else {
            format!(
                "INSERT INTO message AS m (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
                 SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at FROM (SELECT m.* FROM \
                 (SELECT DISTINCT unnest($2::uuid[]) AS id ORDER BY 1) AS w CROSS JOIN LATERAL \
                 (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at FROM message m \
                 WHERE m.project_id = $1 AND m.id = w.id AND {within} AND m.id BETWEEN $3 AND $4 \
                 AND m.status = 'queued' OFFSET 0 FOR UPDATE OF m) AS m) AS lost \
                 ON CONFLICT (project_id, id) DO UPDATE SET ambiguous = m.ambiguous + 1, attempt = m.attempt + 1, \
                 updated_at = $5"
            )
        };
        tx.execute(&month.prepare(tx, &sql).await?, &[&project, &ids, &first, &last, &now]).await?;
    }
    Ok(())
}

/// Cancels queued messages of campaigns, and counts them together with `moved`: counter rows are locked after all
/// messages. The values say whether a call with unknown outcome was in flight.
pub async fn cancel(
    tx: &impl GenericClient,
    project: ProjectId,
    messages: &BTreeMap<Uuid, bool>,
    mut moved: Counts,
    now: Timestamp,
) -> Result<(), StoreError> {
    let rows: Vec<(Uuid, bool)> = messages.iter().map(|(id, begun)| (*id, *begun)).collect();
    for (month, rows) in months::split(&rows, |row| row.0) {
        let (ids, begun): (Vec<Uuid>, Vec<bool>) = rows.into_iter().unzip();
        let (first, last) = (ids.first(), ids.last());
        let within = month.condition("m.id");
        let sql = if by_project::is_distributed() {
            format!(
                "UPDATE message AS m SET status = 'cancelled', status_reason = 'campaign_cancelled', \
                 ambiguous = m.ambiguous + excluded.ambiguous, attempt = m.attempt + excluded.ambiguous, \
                 updated_at = $6 FROM (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at, \
                 ambiguous FROM (SELECT m.*, w.begun::int AS ambiguous \
                 FROM unnest($2::uuid[], $3::boolean[]) AS w (id, begun) CROSS JOIN LATERAL \
                 (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at FROM message m \
                 WHERE m.project_id = $1 AND m.id = w.id AND {within} AND m.id BETWEEN $4 AND $5 \
                 AND m.status = 'queued' OFFSET 0 FOR UPDATE OF m) AS m) AS waiting) AS excluded \
                 WHERE m.project_id = $1 AND m.id = excluded.id AND {within} \
                 RETURNING m.campaign_id, m.occurrence, m.variant"
            )
        } else {
            format!(
                "INSERT INTO message AS m (project_id, id, user_id, channel, lane, status, created_at, updated_at, \
                 ambiguous) SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at, ambiguous \
                 FROM (SELECT m.*, w.begun::int AS ambiguous FROM unnest($2::uuid[], $3::boolean[]) AS w (id, begun) \
                 CROSS JOIN LATERAL (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at \
                 FROM message m WHERE m.project_id = $1 AND m.id = w.id AND {within} AND m.id BETWEEN $4 AND $5 \
                 AND m.status = 'queued' OFFSET 0 FOR UPDATE OF m) AS m) AS waiting \
                 ON CONFLICT (project_id, id) DO UPDATE SET status = 'cancelled', \
                 status_reason = 'campaign_cancelled', ambiguous = m.ambiguous + excluded.ambiguous, \
                 attempt = m.attempt + excluded.ambiguous, updated_at = $6 \
                 RETURNING m.campaign_id, m.occurrence, m.variant"
            )
        };
        for row in tx.query(&month.prepare(tx, &sql).await?, &[&project, &ids, &begun, &first, &last, &now]).await? {
            if let Some(of) =
                row.try_get::<_, Option<Uuid>>("campaign_id")?.zip(row.try_get::<_, Option<i32>>("occurrence")?)
            {
                moved.step(of, row.try_get("variant")?, (DeliveryState::Queued, DeliveryState::Cancelled), 1);
            }
        }
    }
    campaign_counts::add(tx, project, &moved).await
}
