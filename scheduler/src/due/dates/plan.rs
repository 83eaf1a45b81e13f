//! Computes the next dates of all users after an automation that dates start was created, changed or activated.
//!
//! Afterwards, recording keeps them current as profiles change.

use std::collections::HashMap;
use std::sync::Arc;

use automation::DateTrigger;
use automation::journey;
use database::{StoreError, Transaction};
use jiff::tz::TimeZone;
use kernel::ids::{ProjectId, UserKey};
use store_profiles::date_due::plan::{self, DatedUser, Plan};
use store_profiles::date_due::{self, DateState};
use store_profiles::users::removals::{generation, wait_for_recorders};
use uuid::Uuid;

use crate::App;
use crate::tick::{PollResult, TickError};

/// Maximum number of automations in one poll.
const MAX_AUTOMATIONS: i64 = 10;
/// Maximum number of users evaluated in one transaction.
const MAX_USERS: i64 = 2_000;
/// Maximum number of dates removed in one transaction.
const MAX_CLEARED: i64 = 5_000;

/// Processes one slice of each pending automation.
pub async fn tick(app: Arc<App>) -> Result<PollResult, TickError> {
    let pending = plan::pending(&app.store.connection().await?, MAX_AUTOMATIONS).await?;
    let mut found = PollResult::Idle;
    for (project, automation) in pending {
        found = found.and(slice(&app, project, automation).await?);
    }
    Ok(found)
}

async fn slice(app: &App, project: ProjectId, automation: Uuid) -> Result<PollResult, TickError> {
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    // Either an erasure was announced earlier, and its users are skipped, or it waits for the end of this transaction.
    generation(&tx).await?;
    let Some(plan) = plan::lock(&tx, project, automation).await? else { return Ok(PollResult::Idle) };
    match &plan.trigger {
        Some(_) if plan.scanned_to.is_none() => {
            tx.rollback().await.map_err(StoreError::from)?;
            // Later recording transactions know the automation and store the dates they change. The slices see the
            // changes of earlier ones.
            wait_for_recorders(&db).await?;
            plan::mark_started(&db, &plan).await?;
            return Ok(PollResult::HasMore);
        }
        Some(trigger) => {
            let to = plan::slice_end(&tx, project, plan.scanned_to, MAX_USERS).await?;
            store_dates(app, &tx, &plan, trigger, to).await?;
            plan::record_progress(&tx, &plan, to).await?;
        }
        None => {
            if plan::clear(&tx, &plan, MAX_CLEARED).await? < MAX_CLEARED as u64 {
                plan::record_progress(&tx, &plan, None).await?;
            }
        }
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(PollResult::HasMore)
}

/// Stores the dates of a slice, without locking its users.
///
/// Repeats until a pass finds no changes. A concurrent change is either seen by the next pass, or waits for this
/// transaction's rows and replaces them.
async fn store_dates(
    app: &App,
    tx: &Transaction<'_>,
    plan: &Plan,
    trigger: &DateTrigger,
    to: Option<Uuid>,
) -> Result<(), StoreError> {
    let mut seen: HashMap<Uuid, DatedUser> = HashMap::new();
    loop {
        let users = plan::users(tx, plan, trigger.key(), to).await?;
        let mut notes = Vec::new();
        for user in &users {
            if seen.remove(&user.id).as_ref() != Some(user) {
                notes.push(next_date(plan, trigger, user, app.ingest_stream.partitions));
            }
        }
        let gone = seen.into_keys().map(|user_id| no_date(plan, user_id));
        notes.extend(gone);
        if notes.is_empty() {
            return Ok(());
        }
        notes.sort_unstable_by_key(|note| note.user_id);
        date_due::store(tx, &notes, app.now()).await?;
        seen = users.into_iter().map(|user| (user.id, user)).collect();
    }
}

fn no_date(plan: &Plan, user_id: Uuid) -> DateState {
    let Plan { project, automation, .. } = *plan;
    DateState { project, automation, user_id, partition: 0, due_at: None, handled_at: None }
}

fn next_date(plan: &Plan, trigger: &DateTrigger, user: &DatedUser, partitions: u16) -> DateState {
    let none = no_date(plan, user.id);
    let Some(key) = UserKey::of(user.external_id.as_deref(), user.anonymous_id.as_deref()) else { return none };
    let zone = journey::timezone_of(&user.properties);
    let zone = zone.unwrap_or_else(|| TimeZone::get(&plan.timezone).unwrap_or(TimeZone::UTC));
    let after = user.last_at.map_or(plan.since, |last| last.max(plan.since));
    let due_at = journey::next_occurrence(trigger, &user.properties, &zone, after).map(|coming| coming.at);
    DateState { partition: key.partition(plan.project, partitions) as i16, due_at, ..none }
}

#[cfg(test)]
mod tests {
    use automation::Repeat;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn next_date_uses_user_timezone_and_follows_last_date() {
        let trigger = DateTrigger {
            property: "birthday".to_owned(),
            offset: 0.0,
            time: Some("09:00".to_owned()),
            repeat: Repeat::Yearly,
        };
        let plan = Plan {
            project: ProjectId(Uuid::from_u128(1)),
            automation: Uuid::from_u128(2),
            trigger: None,
            since: at("2026-06-01T00:00:00Z"),
            scanned_to: None,
            timezone: "Europe/Oslo".to_owned(),
        };
        let user = |properties: serde_json::Value, last_at: Option<&str>| DatedUser {
            id: Uuid::from_u128(3),
            external_id: Some("u".to_owned()),
            anonymous_id: None,
            properties: properties.as_object().cloned().unwrap(),
            last_at: last_at.map(at),
        };
        let oslo = json!({"birthday": "1990-06-01"});
        let tokyo = json!({"birthday": "1990-06-02", "timezone": "Asia/Tokyo"});
        for (properties, last_at, expected) in [
            (&oslo, None, Some("2026-06-01T07:00:00Z")),
            (&oslo, Some("2026-06-01T07:00:00Z"), Some("2027-06-01T07:00:00Z")),
            (&oslo, Some("2025-06-01T07:00:00Z"), Some("2026-06-01T07:00:00Z")),
            (&tokyo, None, Some("2026-06-02T00:00:00Z")),
            (&json!({"birthday": "soon"}), None, None),
            (&json!({}), None, None),
        ] {
            let note = next_date(&plan, &trigger, &user(properties.clone(), last_at), 8);
            assert_eq!(note.due_at, expected.map(at), "{properties} {last_at:?}");
        }
        let unnamed = DatedUser { external_id: None, ..user(oslo, None) };
        assert_eq!(next_date(&plan, &trigger, &unnamed, 8).due_at, None);
    }
}
