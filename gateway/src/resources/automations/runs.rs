//! Runs: each user's passage through an automation.

use std::collections::HashMap;

use automation::Definition;
use automation::journey::{LogEntry, RunStatus};
use domain::message::DeliveryState;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use store_profiles::users::read::{self as users, UserSummary};
use store_profiles::users::user_ref::UserRef;
use store_sending::automations;
use store_sending::messages::read as messages;
use store_sending::runs::read::{self, RunFilter, RunSummary};
use uuid::Uuid;

use super::{path_params, time_format};
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, ok};
use crate::resources::id_type;
use crate::resources::paging::{CursorPage, NumberedPage};

const STATUSES: &[(&str, RunStatus)] = &[
    ("waiting", RunStatus::Waiting),
    ("frozen", RunStatus::Frozen),
    ("completed", RunStatus::Completed),
    ("exited", RunStatus::Exited),
    ("failed", RunStatus::Failed),
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunView {
    id: Uuid,
    automation_id: Uuid,
    version: i32,
    user_id: Option<String>,
    anonymous_id: Option<String>,
    status: &'static str,
    reason: Option<String>,
    /// The step that the run waits at.
    step: Option<String>,
    #[serde(serialize_with = "time_format::maybe_time")]
    due_at: Option<Timestamp>,
    #[serde(serialize_with = "time_format::maybe_time")]
    converted_at: Option<Timestamp>,
    trigger: Value,
    #[serde(serialize_with = "time_format::time")]
    started_at: Timestamp,
    #[serde(serialize_with = "time_format::maybe_time")]
    ended_at: Option<Timestamp>,
}

impl RunView {
    fn new(run: RunSummary, users: &HashMap<Uuid, UserSummary>) -> Self {
        let user = users.get(&run.user_id).cloned().unwrap_or_default();
        Self {
            id: run.id,
            automation_id: run.automation,
            version: run.version,
            user_id: user.external_id,
            anonymous_id: user.anonymous_id,
            status: run.status.as_str(),
            reason: run.reason,
            step: Some(run.position).filter(|step| !step.is_empty() && !run.status.has_ended()),
            due_at: run.due_at,
            converted_at: run.converted_at,
            trigger: run.trigger,
            started_at: run.started_at,
            ended_at: run.ended_at,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunHistoryView {
    #[serde(flatten)]
    run: RunView,
    path: Vec<HistoryEntryView>,
}

/// One recorded outcome and the step it occurred at.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryEntryView {
    #[serde(serialize_with = "time_format::time")]
    at: Timestamp,
    step: Option<String>,
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    name: Option<String>,
    did: &'static str,
    arm: Option<String>,
    why: Option<String>,
    #[serde(serialize_with = "time_format::maybe_time")]
    until: Option<Timestamp>,
    message_id: Option<Uuid>,
    message_status: Option<&'static str>,
    message_status_reason: Option<String>,
}

/// Status and status reason of messages, by message ID.
pub(super) type MessageStatuses = HashMap<Uuid, (DeliveryState, Option<String>)>;

/// Returns the view of a run's history; `definition` is that of the run's version.
pub(super) fn history(
    marks: Vec<LogEntry>,
    definition: Option<&Definition>,
    states: &MessageStatuses,
) -> Vec<HistoryEntryView> {
    let steps: HashMap<String, _> = definition.map(Definition::all_steps).into_iter().flatten().collect();
    let view = |mark: LogEntry| {
        let step = steps.get(&mark.step);
        let state = mark.message_id.and_then(|id| states.get(&id));
        HistoryEntryView {
            at: mark.at,
            kind: step.map(|step| step.action.type_name()),
            name: step.and_then(|step| step.name.clone()),
            step: Some(mark.step).filter(|step| !step.is_empty()),
            did: mark.did.as_str(),
            arm: mark.arm,
            why: mark.why,
            until: mark.until,
            message_id: mark.message_id,
            message_status: state.map(|(status, _)| status.as_str()),
            message_status_reason: state.and_then(|(_, reason)| reason.clone()),
        }
    };
    marks.into_iter().map(view).collect()
}

/// `GET /automations/:id/runs`
pub async fn list(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "automation")?;
    let query = cx.query()?;
    let page = CursorPage::from(NumberedPage::of(&query)?);
    let status = query.choice("status", STATUSES)?;
    let id_type = id_type::of(&query)?;
    let db = cx.database().await?;
    automations::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("automation"))?;
    let user = match query.get("userId").or_else(|| query.get("user_id")) {
        None => None,
        Some(text) => Some(match users::find_readable_id(&db, cx.project, UserRef::new(text, id_type)).await? {
            Some(user) => users::all_ids(&db, cx.project, user).await?,
            None => Vec::new(),
        }),
    };
    let filter = RunFilter { status, user: user.as_deref() };
    let mut found = read::list(&db, cx.project, id, filter, page.after, page.rows()).await?;
    let end = page.cut(&mut found, |run| run.id);
    let ids: Vec<Uuid> = found.iter().map(|run| run.user_id).collect();
    let users = users::summaries(&db, cx.project, &ids).await?;
    end.reply("runs", found.into_iter().map(|run| RunView::new(run, &users)))
}

/// `GET /automations/:id/runs/:run`
pub async fn get(cx: &Context<'_>, segment: &str, run: &str) -> Result<Reply, ApiError> {
    let (id, run) = (path_params::id(segment, "automation")?, path_params::id(run, "run")?);
    let db = cx.database().await?;
    automations::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("automation"))?;
    let (run, marks) = read::get(&db, cx.project, id, run).await?.ok_or_else(|| ApiError::no_such("run"))?;
    let definition = automations::get_version(&db, cx.project, id, run.version).await?;
    let sent: Vec<Uuid> = marks.iter().filter_map(|mark| mark.message_id).collect();
    let states = messages::states(&db, cx.project, &sent).await?;
    let states = states.into_iter().map(|of| (of.id, (of.status, of.reason))).collect();
    let users = users::summaries(&db, cx.project, &[run.user_id]).await?;
    ok(&RunHistoryView { run: RunView::new(run, &users), path: history(marks, definition.as_ref(), &states) })
}
