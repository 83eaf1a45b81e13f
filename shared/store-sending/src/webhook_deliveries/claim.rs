//! Claims and settles webhook deliveries. A claim has a lease, and a number that fences earlier claims.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::DeliveryStatus;
use database::StoreError;
use kernel::clock::rfc3339;
use kernel::ids::ProjectId;

/// A delivery that this process sends before its lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedDelivery {
    pub project: ProjectId,
    pub endpoint: Uuid,
    pub id: Uuid,
    pub kind: String,
    pub data: Value,
    pub happened_at: Timestamp,
    /// Number of this claim: a settlement with another number has no effect.
    pub attempt: i32,
    /// Failed calls since it was last resent manually.
    pub tries: i32,
}

impl ClaimedDelivery {
    /// Returns the request body: the same at every attempt.
    pub fn body(&self) -> String {
        body(&self.kind, self.happened_at, &self.data)
    }
}

/// Returns the request body: `{"data":…,"timestamp":…,"type":…}`.
pub fn body(kind: &str, happened_at: Timestamp, data: &Value) -> String {
    json!({ "type": kind, "timestamp": rfc3339(happened_at), "data": data }).to_string()
}

/// Claims up to `max` of an endpoint's due deliveries, earliest first, until `lease`.
pub async fn claim(
    db: &impl GenericClient,
    (project, endpoint): (ProjectId, Uuid),
    now: Timestamp,
    lease: Timestamp,
    max: i64,
) -> Result<Vec<ClaimedDelivery>, StoreError> {
    // Through an array, so that only the locked rows are read again.
    let sql = "WITH due AS (SELECT id FROM webhook_delivery WHERE project_id = $1 AND endpoint_id = $2 AND due_at <= $3 \
               ORDER BY due_at LIMIT $5 FOR UPDATE SKIP LOCKED) \
               UPDATE webhook_delivery SET attempt = attempt + 1, due_at = $4 \
               WHERE project_id = $1 AND endpoint_id = $2 AND id = ANY(ARRAY(SELECT id FROM due)) \
               RETURNING id, type, data, happened_at, attempt, tries";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&project, &endpoint, &now, &lease, &max]).await?;
    let claimed = |row: &Row| {
        Ok(ClaimedDelivery {
            project,
            endpoint,
            id: row.try_get("id")?,
            kind: row.try_get("type")?,
            data: row.try_get("data")?,
            happened_at: row.try_get("happened_at")?,
            attempt: row.try_get("attempt")?,
            tries: row.try_get("tries")?,
        })
    };
    rows.iter().map(claimed).collect()
}

/// The result of a call, as the log shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallAttempt {
    /// Start of the call: RFC 3339.
    pub at: String,
    pub duration_ms: i64,
    /// HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// Why it counts as failed.
    pub error: Option<String>,
    /// The first bytes of the response.
    pub response: Option<String>,
}

/// The consequence of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Delivered,
    Retry(Timestamp),
    Failed,
}

/// Maximum number of calls in the log of one delivery.
const MAX_LOGGED_CALLS: i32 = 50;

/// Writes the result of a call. Returns whether the delivery was still under its claim.
pub async fn settle(
    db: &impl GenericClient,
    of: &ClaimedDelivery,
    attempt: &CallAttempt,
    outcome: CallOutcome,
) -> Result<bool, StoreError> {
    let (status, due_at) = match outcome {
        CallOutcome::Delivered => (DeliveryStatus::Delivered, None),
        CallOutcome::Retry(at) => (DeliveryStatus::Pending, Some(at)),
        CallOutcome::Failed => (DeliveryStatus::Failed, None),
    };
    let failed = i32::from(outcome != CallOutcome::Delivered);
    let sql = "UPDATE webhook_delivery SET status = $5, due_at = $6, tries = tries + $7, \
               attempts = CASE WHEN jsonb_array_length(attempts) >= $8 THEN attempts - 0 ELSE attempts END || $9::jsonb \
               WHERE project_id = $1 AND endpoint_id = $2 AND id = $3 AND attempt = $4";
    let statement = db.prepare_cached(sql).await?;
    let written = db
        .execute(
            &statement,
            &[
                &of.project,
                &of.endpoint,
                &of.id,
                &of.attempt,
                &status.as_str(),
                &due_at,
                &failed,
                &MAX_LOGGED_CALLS,
                &json!([attempt]),
            ],
        )
        .await?;
    Ok(written > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_the_same_at_every_attempt() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let data = json!({"userId": "u", "channel": "EMAIL"});
        assert_eq!(
            body("message.sent", at, &data),
            r#"{"data":{"channel":"EMAIL","userId":"u"},"timestamp":"2023-11-14T22:13:20.000Z","type":"message.sent"}"#
        );
    }
}
