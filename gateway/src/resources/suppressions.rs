//! The suppression list: addresses and users that nothing is sent to, and why.

mod input;

use std::collections::HashMap;

use database::{StoreError, Transaction};
use domain::message::Channel;
use domain::suppression::{Address, Reason};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use store_profiles::users::read::{self as users, UserSummary};
use store_profiles::users::user_ref::{IdType, UserRef};
use store_sending::suppressions::{self, Suppression, SuppressionFilter};
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::respond::{Reply, created, deleted};
use crate::resources::paging::NumberedPage;
use crate::resources::{audit_log, id_type, time_format};
use input::SuppressionTarget;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SuppressionView {
    id: Uuid,
    channel: &'static str,
    /// `None` if the entry suppresses a user, whatever their address.
    address: Option<String>,
    user_id: Option<String>,
    reason: &'static str,
    message_id: Option<Uuid>,
    note: String,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
}

/// Returns the internal user ID if the entry suppresses a user.
fn suppressed_user_id(address: &Address) -> Option<Uuid> {
    Uuid::try_parse(&address.text).ok()
}

impl SuppressionView {
    fn new(of: Suppression, users: &HashMap<Uuid, UserSummary>) -> Self {
        let user = suppressed_user_id(&of.address);
        Self {
            id: of.id,
            channel: of.address.channel.as_str(),
            user_id: user.and_then(|id| Some(users.get(&id)?.external_id.clone().unwrap_or_else(|| id.to_string()))),
            address: user.is_none().then_some(of.address.text),
            reason: of.reason.as_str(),
            message_id: of.message_id,
            note: of.note,
            created_at: of.created_at,
        }
    }
}

/// `GET /suppressions`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let filter = filter(&query)?;
    let db = cx.database().await?;
    let mut found = suppressions::list(&db, cx.project, &filter, &page.start, page.rows()).await?;
    let end = page.cut(&mut found, |s| (s.created_at, s.id));
    let total = suppressions::total(&db, cx.project, &filter).await?;
    let ids: Vec<Uuid> = found.iter().filter_map(|s| suppressed_user_id(&s.address)).collect();
    let users = users::summaries(&db, cx.project, &ids).await?;
    end.reply("suppressions", found.into_iter().map(|s| SuppressionView::new(s, &users)), total)
}

fn filter(query: &Query) -> Result<SuppressionFilter, ApiError> {
    let channel = query.choice("channel", &Channel::ALL.map(|channel| (channel.as_str(), channel)))?;
    let reason = query.choice("reason", &Reason::ALL.map(|reason| (reason.as_str(), reason)))?;
    let spellings = query.get("address").map(input::spellings);
    Ok(SuppressionFilter { channel, reason, spellings })
}

/// `POST /suppressions`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let id_type = id_type::of(&cx.query()?)?;
    let input = input::new(&cx.read_json(body::MAX_BYTES).await?)?;
    let now = cx.app.clock.now();
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let address = address(cx, &tx, input.channel, (&input.target, id_type)).await?;
    let new = Suppression { note: input.note, ..Suppression::new(cx.project, address, input.reason, now) };
    if suppressions::put(&tx, cx.project, std::slice::from_ref(&new)).await? > 0 {
        let details = json!({ "channel": input.channel.as_str(), "reason": input.reason.as_str() });
        audit_log::record(cx, &tx, "suppression.created", (new.id, ""), details).await?;
    }
    let kept = suppressions::get(&tx, cx.project, new.id).await?.unwrap_or(new);
    let users =
        users::summaries(&tx, cx.project, &suppressed_user_id(&kept.address).into_iter().collect::<Vec<_>>()).await?;
    tx.commit().await.map_err(StoreError::from)?;
    created(&SuppressionView::new(kept, &users))
}

/// `DELETE /suppressions`
pub async fn delete(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let id_type = id_type::of(&cx.query()?)?;
    let input = input::removal(&cx.read_json(body::MAX_BYTES).await?)?;
    let missing = || ApiError::no_such("suppression");
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let (address, reason) = match &input.target {
        SuppressionTarget::Entry(id) => {
            let entry = suppressions::get(&tx, cx.project, *id).await?.ok_or_else(missing)?;
            (entry.address, Some(entry.reason))
        }
        target => (address(cx, &tx, input.channel, (target, id_type)).await?, input.reason),
    };
    if suppressions::remove(&tx, cx.project, &address, reason).await? == 0 {
        return Err(missing());
    }
    let details = json!({ "channel": address.channel.as_str(), "reason": reason.map(Reason::as_str) });
    match &input.target {
        SuppressionTarget::Entry(id) => audit_log::record(cx, &tx, "suppression.deleted", (*id, ""), details).await?,
        _ => audit_log::record_for_project(cx, &tx, "suppression.deleted", details).await?,
    }
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}

/// Resolves the address or user that an entry suppresses.
async fn address(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    channel: Channel,
    (target, id_type): (&SuppressionTarget, IdType),
) -> Result<Address, ApiError> {
    match target {
        SuppressionTarget::Address(address) => Ok(address.clone()),
        SuppressionTarget::User(user) => {
            // Retry once if the user is being merged: a merge moves existing entries but not later ones.
            for _ in 0..2 {
                let Some(id) = users::find_id(tx, cx.project, UserRef::new(user, id_type)).await? else { break };
                if users::lock_for_share(tx, cx.project, id).await? {
                    return Ok(Address::for_user(channel, id));
                }
            }
            Err(ApiError::invalid("userId", "no such user in this project"))
        }
        SuppressionTarget::Entry(_) => Err(ApiError::Internal("an entry ID is not an address".to_owned())),
    }
}
