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
use store_profiles::date_due::plan::{self, Dated, Plan};
use store_profiles::date_due::{self, Note};
use store_profiles::users::removals::{edition, outlast};
use uuid::Uuid;

use crate::App;
use crate::tick::{Found, TickError};

/// Maximum number of automations in one poll.
const AUTOMATIONS: i64 = 10;
/// Maximum number of users evaluated in one transaction.
const PEOPLE: i64 = 2_000;
/// Maximum number of dates removed in one transaction.
const CLEARED: i64 = 5_000;

/// Processes one slice of each pending automation.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    let asked = plan::asked(&app.store.connection().await?, AUTOMATIONS).await?;
    let mut found = Found::Nothing;
    for (project, automation) in asked {
        found = found.and(slice(&app, project, automation).await?);
    }
    Ok(found)
}

async fn slice(app: &App, project: ProjectId, automation: Uuid) -> Result<Found, TickError> {
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    // Either an erasure was announced earlier, and its users are skipped, or it waits for the end of this transaction.
    edition(&tx).await?;
    let Some(plan) = plan::take(&tx, project, automation).await? else { return Ok(Found::Nothing) };
    match &plan.trigger {
        Some(_) if plan.done_to.is_none() => {
            tx.rollback().await.map_err(StoreError::from)?;
            // Later recording transactions know the automation and store the dates they change. The slices see the
            // changes of earlier ones.
            outlast(&db).await?;
            plan::begun(&db, &plan).await?;
            return Ok(Found::More);
        }
        Some(trigger) => {
            let to = plan::bound(&tx, project, plan.done_to, PEOPLE).await?;
            note(app, &tx, &plan, trigger, to).await?;
            plan::done(&tx, &plan, to).await?;
        }
        None => {
            if plan::clear(&tx, &plan, CLEARED).await? < CLEARED as u64 {
                plan::done(&tx, &plan, None).await?;
            }
        }
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(Found::More)
}

/// Stores the dates of a slice, without locking its users.
///
/// Repeats until a pass finds no changes. A concurrent change is either seen by the next pass, or waits for this
/// transaction's rows and replaces them.
async fn note(
    app: &App,
    tx: &Transaction<'_>,
    plan: &Plan,
    trigger: &DateTrigger,
    to: Option<Uuid>,
) -> Result<(), StoreError> {
    let mut known: HashMap<Uuid, Dated> = HashMap::new();
    loop {
        let people = plan::people(tx, plan, trigger.key(), to).await?;
        let mut notes = Vec::new();
        for person in &people {
            if known.remove(&person.id).as_ref() != Some(person) {
                notes.push(of_person(plan, trigger, person, app.ingest_stream.partitions));
            }
        }
        let gone = known.into_keys().map(|user_id| never(plan, user_id));
        notes.extend(gone);
        if notes.is_empty() {
            return Ok(());
        }
        notes.sort_unstable_by_key(|note| note.user_id);
        date_due::note(tx, &notes, app.now()).await?;
        known = people.into_iter().map(|person| (person.id, person)).collect();
    }
}

fn never(plan: &Plan, user_id: Uuid) -> Note {
    let Plan { project, automation, .. } = *plan;
    Note { project, automation, user_id, partition: 0, due_at: None, came: None }
}

fn of_person(plan: &Plan, trigger: &DateTrigger, person: &Dated, partitions: u16) -> Note {
    let never = never(plan, person.id);
    let Some(key) = UserKey::of(person.external_id.as_deref(), person.anonymous_id.as_deref()) else { return never };
    let zone = journey::timezone_of(&person.properties);
    let zone = zone.unwrap_or_else(|| TimeZone::get(&plan.timezone).unwrap_or(TimeZone::UTC));
    let after = person.last_at.map_or(plan.since, |last| last.max(plan.since));
    let due_at = journey::next_coming(trigger, &person.properties, &zone, after).map(|coming| coming.at);
    Note { partition: key.partition(plan.project, partitions) as i16, due_at, ..never }
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
    fn a_date_is_noted_by_the_persons_clock_behind_the_one_that_came_last() {
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
            done_to: None,
            timezone: "Europe/Oslo".to_owned(),
        };
        let person = |properties: serde_json::Value, last_at: Option<&str>| Dated {
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
            let note = of_person(&plan, &trigger, &person(properties.clone(), last_at), 8);
            assert_eq!(note.due_at, expected.map(at), "{properties} {last_at:?}");
        }
        let nobody = Dated { external_id: None, ..person(oslo, None) };
        assert_eq!(of_person(&plan, &trigger, &nobody, 8).due_at, None);
    }
}
