//! Simulates an automation for a user without sending, storing or calling anything.

mod input;
mod ride;

use std::collections::{BTreeSet, HashMap, HashSet};

use automation::journey::{Person, Program};
use database::StoreError;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Map;
use store_profiles::segments::person::past::Past;
use store_profiles::segments::{evaluate, person};
use store_profiles::users::read;
use store_profiles::users::user_ref::UserRef;
use store_projects::projects;
use store_sending::automations;
use uuid::Uuid;

use super::{path_params, runs};
use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, ok};
use crate::resources::segments::evaluate::{AT_MOST, evaluation_permit, failed};
use crate::resources::{id_type, rendering};
use ride::{EffectView, Ride};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SimulationView {
    /// Whether the trigger filter and the entry rules admit the user.
    admitted: bool,
    status: Option<&'static str>,
    reason: Option<String>,
    converted: bool,
    path: Vec<runs::MarkView>,
    /// Effects that a real run would have.
    effects: Vec<EffectView>,
}

/// `POST /automations/:id/simulate`
pub async fn simulate(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "automation")?;
    let id_type = id_type::of(&cx.query()?)?;
    let asked = input::simulation(&cx.read_json(body::MAX_BYTES).await?)?;
    let permit = evaluation_permit(cx).await?;
    let mut connection = cx.database().await?;
    let db = connection.transaction().await.map_err(StoreError::from)?;
    evaluate::limit(&db, AT_MOST).await?;
    let automation = automations::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("automation"))?;
    let program = Program::compile(&automation.definition).map_err(ApiError::Internal)?;
    let now = cx.app.clock.now();
    let rules = program.person_rules();
    let segments = evaluate::definitions(&db, cx.project, &rules::segments(rules)).await?;
    let (person, past): (Person, Past) = match &asked.user_id {
        Some(named) => {
            let user = read::find_readable(&db, cx.project, UserRef::new(named, id_type)).await?;
            let user = user.ok_or_else(|| ApiError::invalid("userId", "no such user in this project"))?;
            let past = Past::load(&db, cx.project, user.id, (rules, &segments), now).await.map_err(failed)?;
            (person::load(&db, cx.project, user, (rules, &segments), now).await.map_err(failed)?.into(), past)
        }
        None => (nobody(now), Past::of_nobody(rules, &segments)),
    };
    let timezone = projects::timezone(&db, cx.project).await?;
    drop(db);
    drop((connection, permit));
    let thought_through = move || {
        let mut ride = Ride::new(&program, asked, (person, past), timezone, now);
        ride.note_trigger(&automation.definition);
        let admitted = ride.is_admitted();
        if admitted {
            ride.run();
        }
        let Ride { state, marks, effects, .. } = ride;
        SimulationView {
            admitted,
            status: admitted.then(|| state.status.as_str()),
            reason: state.reason,
            converted: state.converted_at.is_some(),
            path: runs::way(marks, Some(&automation.definition), &HashMap::new()),
            effects,
        }
    };
    ok(&rendering::rendered(cx, thought_through).await?)
}

/// Returns a user without any data.
fn nobody(now: Timestamp) -> Person {
    Person {
        id: Uuid::nil(),
        external_id: None,
        anonymous_id: None,
        email: None,
        name: None,
        properties: Map::new(),
        created_at: now,
        last_seen_at: now,
        platforms: BTreeSet::new(),
        counted: Vec::new(),
        segments: HashSet::new(),
        segments_change_at: None,
    }
}
