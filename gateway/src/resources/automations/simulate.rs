//! Simulates an automation for a user without sending, storing or calling anything.

mod input;
mod simulated_run;

use std::collections::{BTreeSet, HashMap, HashSet};

use automation::journey::{Program, RunUser};
use database::StoreError;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Map;
use store_profiles::segments::user_facts::past::Past;
use store_profiles::segments::{evaluate, user_facts};
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
use crate::resources::segments::evaluate::{EVALUATION_TIMEOUT, evaluation_error, evaluation_permit};
use crate::resources::{id_type, rendering};
use simulated_run::{EffectView, SimulatedRun};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SimulationView {
    /// Whether the trigger filter and the entry rules admit the user.
    admitted: bool,
    status: Option<&'static str>,
    reason: Option<String>,
    converted: bool,
    path: Vec<runs::HistoryEntryView>,
    /// Effects that a real run would have.
    effects: Vec<EffectView>,
}

/// `POST /automations/:id/simulate`
pub async fn simulate(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "automation")?;
    let id_type = id_type::of(&cx.query()?)?;
    let request = input::simulation(&cx.read_json(body::MAX_BYTES).await?)?;
    let permit = evaluation_permit(cx).await?;
    let mut connection = cx.database().await?;
    let db = connection.transaction().await.map_err(StoreError::from)?;
    evaluate::set_timeout(&db, EVALUATION_TIMEOUT).await?;
    let automation = automations::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("automation"))?;
    let program = Program::compile(&automation.definition).map_err(ApiError::Internal)?;
    let now = cx.app.clock.now();
    let rules = program.user_rules();
    let segments = evaluate::definitions(&db, cx.project, &rules::segments(rules)).await?;
    let (person, past): (RunUser, Past) = match &request.user_id {
        Some(named) => {
            let user = read::find_readable(&db, cx.project, UserRef::new(named, id_type)).await?;
            let user = user.ok_or_else(|| ApiError::invalid("userId", "no such user in this project"))?;
            let past = Past::load(&db, cx.project, user.id, (rules, &segments), now).await.map_err(evaluation_error)?;
            (
                user_facts::load(&db, cx.project, user, (rules, &segments), now)
                    .await
                    .map_err(evaluation_error)?
                    .into(),
                past,
            )
        }
        None => (empty_user(now), Past::of_unknown_user(rules, &segments)),
    };
    let timezone = projects::timezone(&db, cx.project).await?;
    drop(db);
    drop((connection, permit));
    let simulate_run = move || {
        let mut simulated_run = SimulatedRun::new(&program, request, (person, past), timezone, now);
        simulated_run.record_trigger(&automation.definition);
        let admitted = simulated_run.is_admitted();
        if admitted {
            simulated_run.run();
        }
        let SimulatedRun { state, marks, effects, .. } = simulated_run;
        SimulationView {
            admitted,
            status: admitted.then(|| state.status.as_str()),
            reason: state.reason,
            converted: state.converted_at.is_some(),
            path: runs::history(marks, Some(&automation.definition), &HashMap::new()),
            effects,
        }
    };
    ok(&rendering::rendered(cx, simulate_run).await?)
}

/// Returns a user without any data.
fn empty_user(now: Timestamp) -> RunUser {
    RunUser {
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
