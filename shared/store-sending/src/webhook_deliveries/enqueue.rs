//! Queues webhook deliveries in the transaction of the event: one row for each subscribed endpoint, in one statement.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use database::StoreError;
use database::by_project::{self, ByProject};
use database::months::{self, Month};
use domain::message::DeliveryState;
use domain::webhook::TEST;
use kernel::ids::{self, ProjectId};

/// An event of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageEvent {
    pub message: Uuid,
    pub kind: &'static str,
    pub at: Timestamp,
    pub reason: Option<String>,
    /// The URL of a clicked link.
    pub url: Option<String>,
}

/// Returns the event type for a message's final state; `None` if endpoints are not notified of it.
pub(crate) fn event_type(status: DeliveryState) -> Option<&'static str> {
    match status {
        DeliveryState::Sent => Some("message.sent"),
        DeliveryState::Failed => Some("message.failed"),
        DeliveryState::Suppressed => Some("message.suppressed"),
        _ => None,
    }
}

/// Returns whether a project has an enabled endpoint.
pub(crate) async fn has_endpoints(tx: &Transaction<'_>, project: ProjectId) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM webhook_endpoint WHERE project_id = $1 AND enabled) AS is_there";
    Ok(tx.query_one(&tx.prepare_cached(sql).await?, &[&project]).await?.try_get("is_there")?)
}

/// Queues deliveries about a project's messages. Ignores messages that no longer exist. Returns the number of
/// deliveries.
pub async fn for_messages(
    tx: &Transaction<'_>,
    project: ProjectId,
    events: &[MessageEvent],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut queued = 0;
    for (month, events) in months::split_existing(tx, "message", events, |n| n.message).await? {
        queued += for_month(tx, project, month, &events, now).await?;
    }
    Ok(queued)
}

async fn for_month(
    tx: &Transaction<'_>,
    project: ProjectId,
    month: Month,
    events: &[MessageEvent],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let messages: Vec<Uuid> = events.iter().map(|n| n.message).collect();
    let (first, last) = (messages.iter().min(), messages.iter().max());
    let ids: Vec<Uuid> = events.iter().map(|_| ids::fresh(now.as_millisecond())).collect();
    let kinds: Vec<&str> = events.iter().map(|n| n.kind).collect();
    let times: Vec<Timestamp> = events.iter().map(|n| n.at).collect();
    let reasons: Vec<Option<&str>> = events.iter().map(|n| n.reason.as_deref()).collect();
    let urls: Vec<Option<&str>> = events.iter().map(|n| n.url.as_deref()).collect();
    let within = month.condition("m.id");
    // `LIMIT` forces a lookup of the user by key for each row.
    let sql = format!(
        "INSERT INTO webhook_delivery (project_id, endpoint_id, id, type, user_id, data, happened_at, due_at, \
         created_at) SELECT $1, w.id, m.news, m.kind, m.user_id, jsonb_build_object('messageId', m.id, 'userId', \
         p.external_id, 'anonymousId', CASE WHEN p.external_id IS NULL THEN p.anonymous_id END, 'channel', m.channel, \
         'reason', m.reason, 'url', m.url, 'templateId', m.template_id, 'campaignId', m.campaign_id, 'automationId', \
         m.automation_id, 'runId', m.run_id, 'provider', m.provider, 'providerMessageId', m.provider_message_id), \
         m.at, $10, $10 FROM (SELECT w.news, w.kind, w.at, w.reason, w.url, m.* \
         FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::timestamptz[], $6::text[], $7::text[]) AS w (news, id, \
         kind, at, reason, url) CROSS JOIN LATERAL (SELECT m.id, m.user_id, m.channel, m.template_id, m.campaign_id, \
         m.automation_id, m.run_id, m.provider, m.provider_message_id FROM message m WHERE m.project_id = $1 \
         AND m.id = w.id AND {within} AND m.id BETWEEN $8 AND $9 OFFSET 0) AS m) AS m JOIN webhook_endpoint w \
         ON w.project_id = $1 AND w.enabled AND w.types && ARRAY['*', m.kind] LEFT JOIN LATERAL \
         (SELECT t.external_id, t.anonymous_id FROM users u JOIN users t ON t.project_id = u.project_id \
         AND t.id = coalesce(u.merged_into, u.id) WHERE u.project_id = $1 AND u.id = m.user_id LIMIT 1) AS p ON true"
    );
    let statement = month.prepare(tx, &sql).await?;
    let queued = tx
        .execute(&statement, &[&project, &ids, &messages, &kinds, &times, &reasons, &urls, &first, &last, &now])
        .await?;
    Ok(queued)
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvent {
    pub project: ProjectId,
    pub kind: &'static str,
    pub run: Uuid,
    pub automation: Uuid,
    pub version: i32,
    pub user_id: Uuid,
    pub at: Timestamp,
    pub reason: Option<String>,
}

/// Queues deliveries about runs. Returns the number of deliveries.
pub async fn for_runs(db: &impl GenericClient, events: &[&RunEvent], now: Timestamp) -> Result<u64, StoreError> {
    fn column<'a, T>(events: &[&'a RunEvent], of: impl Fn(&'a RunEvent) -> T) -> Vec<T> {
        events.iter().map(|n| of(n)).collect()
    }
    let sql = ByProject::new(
        "INSERT INTO webhook_delivery (project_id, endpoint_id, id, type, user_id, data, happened_at, due_at, \
         created_at) SELECT v.project, w.id, v.id, v.kind, v.user_id, jsonb_build_object('runId', v.run, \
         'automationId', v.automation, 'automationVersion', v.version, 'userId', p.external_id, 'anonymousId', \
         CASE WHEN p.external_id IS NULL THEN p.anonymous_id END, 'reason', v.reason), v.at, $10, $10 \
         FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::uuid[], $6::int[], $7::uuid[], \
         $8::timestamptz[], $9::text[]) AS v (project, id, kind, run, automation, version, user_id, at, reason) \
         JOIN webhook_endpoint w ON w.project_id = v.project AND w.enabled AND w.types && ARRAY['*', v.kind] \
         LEFT JOIN LATERAL (SELECT t.external_id, t.anonymous_id FROM users u JOIN users t \
         ON t.project_id = u.project_id AND t.id = coalesce(u.merged_into, u.id) WHERE u.project_id = v.project \
         AND u.id = v.user_id LIMIT 1) AS p ON true",
        &["v.project"],
    );
    let enqueue = async |statement: Statement, part: &[&RunEvent]| {
        let ids: Vec<Uuid> = part.iter().map(|_| ids::fresh(now.as_millisecond())).collect();
        let columns: [&(dyn ToSql + Sync); 10] = [
            &column(part, |n| n.project),
            &ids,
            &column(part, |n| n.kind),
            &column(part, |n| n.run),
            &column(part, |n| n.automation),
            &column(part, |n| n.version),
            &column(part, |n| n.user_id),
            &column(part, |n| n.at),
            &column(part, |n| n.reason.as_deref()),
            &now,
        ];
        Ok(db.execute(&statement, &columns).await?)
    };
    Ok(by_project::each(db, events, |event| event.project, sql, enqueue).await?.into_iter().sum())
}

/// Queues a test delivery to an endpoint.
pub async fn test(
    tx: &Transaction<'_>,
    project: ProjectId,
    endpoint: Uuid,
    id: Uuid,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO webhook_delivery (project_id, endpoint_id, id, type, user_id, data, happened_at, due_at, \
               created_at) VALUES ($1, $2, $3, $4, NULL, jsonb_build_object('endpointId', $2::uuid), $5, $5, $5)";
    tx.execute(sql, &[&project, &endpoint, &id, &TEST, &now]).await?;
    Ok(())
}
