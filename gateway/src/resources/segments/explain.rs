//! Explains why a user is or is not in a segment.

use database::StoreError;
use rules::eval::{self, Facts};
use serde::Serialize;
use serde_json::Value;
use store_profiles::segments::{SegmentType, evaluate, user_facts};
use store_profiles::users::read;
use store_profiles::users::user_ref::UserRef;
use uuid::Uuid;

use super::evaluate::{EVALUATION_TIMEOUT, evaluation_error, evaluation_permit};
use super::found;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, ok};
use crate::resources::id_type;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainView {
    id: Uuid,
    user_id: Option<String>,
    matches: bool,
    rules: Vec<Value>,
}

/// `GET /segments/:id/explain`
pub async fn explain(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let id_type = id_type::of(&query)?;
    let segment = found(cx, segment).await?;
    let named = query.get("user_id").or_else(|| query.get("userId"));
    let named = named.ok_or_else(|| ApiError::invalid("user_id", "is required: an external or internal ID"))?;
    let named = UserRef::new(named, id_type);
    let _permit = evaluation_permit(cx).await?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    evaluate::set_timeout(&tx, EVALUATION_TIMEOUT).await?;
    let user = read::find_readable(&tx, cx.project, named).await?.ok_or_else(|| ApiError::no_such("user"))?;
    let now = cx.app.clock.now();
    let rules = segment.parsed_rules()?;
    let definitions = evaluate::definitions(&tx, cx.project, &[segment.id].into()).await?;
    let person =
        user_facts::load(&tx, cx.project, user, (&rules, &definitions), now).await.map_err(evaluation_error)?;
    let matches = match segment.segment_type {
        SegmentType::Rules => eval::holds(&rules, &person, now),
        SegmentType::Manual => person.is_member(segment.id),
    };
    let rules = eval::explain(&rules, &segment.rules, &person, now);
    ok(&ExplainView { id: person.user.id, user_id: person.user.external_id.clone(), matches, rules })
}
