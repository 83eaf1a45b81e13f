//! The users of a segment: estimates, lists, and changes of manual segments.

use std::collections::HashMap;

use database::StoreError;
use rules::change::ChangeKind;
use serde::Serialize;
use serde_json::{Map, Value, json};
use store_profiles::segments::{self, SegmentType, dirty, evaluate, follow, members};
use uuid::Uuid;

use super::super::audit_log;
use super::super::users::UserView;
use super::evaluate::{Count, count_of, evaluation_error, evaluation_permit, limit_statements};
use super::{dependencies, found, input, locked};
use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::http::respond::{Reply, ok};
use crate::resources::paging::NumberedPage;
use crate::resources::{id_type, path_params};

/// Maximum number of users to add, and to remove, per request.
const CHANGES_MAX: usize = 10_000;
const USER: Text = Text::line(200);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EstimateView {
    estimated_count: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<Vec<UserView>>,
}

/// `POST /segments/estimate`
pub async fn estimate(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let (rules, sample) = input::estimate(&body)?;
    let _permit = evaluation_permit(cx).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    dependencies::check_references(cx, &tx, body.get("rules").unwrap_or(&Value::Null)).await?;
    limit_statements(&tx).await?;
    let selection = evaluate::satisfying(&tx, cx.project, &rules, cx.app.clock.now()).await?;
    let estimated_count = evaluate::count(&tx, &selection).await.map_err(evaluation_error)?;
    let users = match sample {
        0 => None,
        sample => Some(evaluate::page(&tx, &selection, &evaluate::FIRST_PAGE, sample).await.map_err(evaluation_error)?),
    };
    let users = users.map(|users| users.into_iter().map(UserView::from).collect());
    ok(&EstimateView { estimated_count, users })
}

/// `GET /segments/:id/users`
pub async fn list_users(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let segment = found(cx, segment).await?;
    let _permit = evaluation_permit(cx).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    limit_statements(&tx).await?;
    let selection = evaluate::members(&tx, cx.project, segment.id, cx.app.clock.now()).await?;
    let mut users = evaluate::page(&tx, &selection, &page.start, page.rows()).await.map_err(evaluation_error)?;
    let end = page.cut(&mut users, |user| (user.created_at, user.id));
    let total = evaluate::count_capped(&tx, &selection).await.map_err(evaluation_error)?;
    end.reply("users", users.into_iter().map(UserView::from), total)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MembersView {
    added: u64,
    removed: u64,
    /// IDs in `add` that match no user.
    not_found: Vec<String>,
    #[serde(flatten)]
    count: Count,
}

/// `POST /segments/:id/members`
pub async fn change_members(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "segment")?;
    let id_type = id_type::of(&cx.query()?)?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let MemberChanges { add, remove } = changes(&body)?;
    let now = cx.app.clock.now();
    let (added, removed, not_found) = {
        let mut db = cx.database().await?;
        let tx = db.transaction().await.map_err(StoreError::from)?;
        let found = segments::get(&tx, cx.project, id).await?;
        if found.is_some_and(|segment| segment.segment_type == SegmentType::Rules) {
            // The segment may become a manual one, which needs the segment change lock.
            segments::begin_change(&tx).await?;
        }
        let mut segment = locked(cx, &tx, id).await?;
        let was_of_rules = segment.segment_type == SegmentType::Rules;
        if was_of_rules {
            if segment.rules.as_array().is_some_and(|rules| !rules.is_empty()) {
                let reason =
                    "this segment's members follow from its rules; create a segment without rules to add members";
                return Err(ApiError::Conflict(reason.to_owned()));
            }
            // A rules segment without rules becomes a manual one.
            segment.segment_type = SegmentType::Manual;
        }
        segment.updated_at = now;
        segments::update(&tx, cx.project, &segment).await?;
        if was_of_rules {
            follow::rules_changed(&tx, cx.project, id, now).await?;
        }
        let known = members::find(&tx, cx.project, &add, id_type).await?;
        let gone = members::find(&tx, cx.project, &remove, id_type).await?;
        let removed = members::remove(&tx, cx.project, id, &ids(&gone)).await?;
        let added = members::add(&tx, cx.project, id, &ids(&known), now).await?;
        let changed: Vec<Uuid> = known.values().chain(gone.values()).copied().collect();
        dirty::mark(&tx, cx.project, &ChangeKind::Segment(id), &changed, now).await?;
        let details = json!({ "added": added, "removed": removed });
        audit_log::record(cx, &tx, "segment.members_changed", (id, &segment.name), details).await?;
        tx.commit().await.map_err(StoreError::from)?;
        let unknown = add.iter().filter(|text| !known.contains_key(**text)).map(|text| (*text).to_owned());
        (added, removed, unknown.collect())
    };
    let count = count_of(cx, id).await?;
    ok(&MembersView { added, removed, not_found, count })
}

fn ids(found: &HashMap<String, Uuid>) -> Vec<Uuid> {
    found.values().copied().collect()
}

/// The users to add to and remove from a manual segment.
struct MemberChanges<'a> {
    add: Vec<&'a str>,
    remove: Vec<&'a str>,
}

fn changes(body: &Map<String, Value>) -> Result<MemberChanges<'_>, ApiError> {
    let mut fields = Fields::of(body);
    fields.not_null(&["add", "remove"]);
    let mut ids = |name| {
        let items = fields.array(name, 0..=CHANGES_MAX).unwrap_or_default();
        items.iter().filter_map(|item| item.text(&USER)).collect::<Vec<_>>()
    };
    let (add, remove) = (ids("add"), ids("remove"));
    if !fields.has("add") && !fields.has("remove") {
        fields.problem("add", "is required, or `remove`: arrays of external or internal IDs");
    }
    fields.finish()?;
    Ok(MemberChanges { add, remove })
}
