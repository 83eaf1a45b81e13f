//! Funnel of an automation.

use std::collections::BTreeMap;

use automation::{Definition, Step};
use serde::Serialize;
use store_sending::automations;
use store_sending::runs::counts::{self, Count};
use uuid::Uuid;

use super::path_params;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, ok};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportView {
    automation_id: Uuid,
    /// Version whose steps are listed; the other counts cover all versions.
    version: i32,
    entered: i64,
    waiting: i64,
    frozen: i64,
    completed: i64,
    exited: i64,
    failed: i64,
    converted: i64,
    steps: Vec<StepView>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct StepView {
    step: String,
    #[serde(rename = "type")]
    kind: &'static str,
    name: Option<String>,
    entered: i64,
    waiting: i64,
    outcomes: BTreeMap<String, i64>,
    arms: BTreeMap<String, i64>,
}

/// `GET /automations/:id/report`
pub async fn report(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "automation")?;
    let requested_version = cx.query()?.integer("version", 1..=i64::from(i32::MAX))?;
    let db = cx.database().await?;
    let automation = automations::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("automation"))?;
    let version = requested_version.map_or(automation.version, |version| i32::try_from(version).unwrap_or(i32::MAX));
    let definition = if version == automation.version {
        automation.definition
    } else {
        let found = automations::get_version(&db, cx.project, id, version).await?;
        found.ok_or_else(|| ApiError::no_such("version of this automation"))?
    };
    let counts = counts::all(&db, cx.project, id).await?;
    let counts::ActiveRuns { runs: under_way, frozen } = counts::under_way(&db, cx.project, id).await?;
    let run_count = |did: &str| counts.iter().filter(|c| c.step.is_empty() && c.did == did).map(|c| c.count).sum();
    ok(&ReportView {
        automation_id: id,
        version,
        entered: run_count("entered"),
        waiting: under_way,
        frozen,
        completed: run_count("completed"),
        exited: run_count("exited"),
        failed: run_count("failed"),
        converted: run_count("converted"),
        steps: steps(&definition, version, &counts),
    })
}

fn steps(definition: &Definition, version: i32, counts: &[Count]) -> Vec<StepView> {
    let view = |(path, step): (String, &Step)| {
        let of_step: Vec<&Count> = counts.iter().filter(|c| c.version == version && c.step == path).collect();
        let (mut outcomes, mut arms) = (BTreeMap::new(), BTreeMap::new());
        for count in &of_step {
            *outcomes.entry(count.did.clone()).or_default() += count.count;
            if !count.arm.is_empty() {
                *arms.entry(count.arm.clone()).or_default() += count.count;
            }
        }
        let Passage { entered, waiting } = passage(step.action.type_name(), &outcomes);
        StepView {
            kind: step.action.type_name(),
            name: step.name.clone(),
            step: path,
            entered,
            waiting,
            outcomes,
            arms,
        }
    };
    definition.all_steps().into_iter().map(view).collect()
}

/// Number of runs that entered a step, and number of runs still waiting there.
#[derive(Debug, PartialEq, Eq)]
struct Passage {
    entered: i64,
    waiting: i64,
}

/// Derives the passage from the outcomes recorded at a step.
fn passage(kind: &str, outcomes: &BTreeMap<String, i64>) -> Passage {
    let sum = |names: &[&str]| names.iter().filter_map(|name| outcomes.get(*name)).sum::<i64>();
    let waited = sum(&["waited", "called"]);
    let left = sum(&["went_on", "answered", "failed", "exited"]);
    let (entered, waiting) = match kind {
        "WAIT_FOR_EVENT" => (waited, waited - left - sum(&["took"])),
        "WAIT" | "WAIT_UNTIL" | "WEBHOOK" => (waited + sum(&["passed", "skipped"]), waited - left),
        "EXIT" => (sum(&["exited"]), 0),
        _ => (outcomes.iter().filter(|(did, _)| *did != "exited").map(|(_, count)| count).sum(), 0),
    };
    Passage { entered, waiting: waiting.max(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_entered_and_did_not_leave_are_waiting() {
        for (kind, outcomes, (entered, waiting)) in [
            ("WAIT", vec![("waited", 5), ("went_on", 2), ("exited", 1), ("passed", 3)], (8, 2)),
            ("WAIT_FOR_EVENT", vec![("waited", 5), ("took", 3), ("froze", 1)], (5, 2)),
            ("WEBHOOK", vec![("called", 5), ("answered", 3), ("failed", 1)], (5, 1)),
            ("SEND_EMAIL", vec![("sent", 5), ("skipped", 1), ("exited", 1)], (6, 0)),
            ("BRANCH", vec![("took", 5)], (5, 0)),
            ("EXIT", vec![("exited", 5)], (5, 0)),
        ] {
            let outcomes = outcomes.into_iter().map(|(did, count)| (did.to_owned(), count)).collect();
            assert_eq!(passage(kind, &outcomes), Passage { entered, waiting }, "{kind}");
        }
    }
}
