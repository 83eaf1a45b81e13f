//! Users.

pub mod change;
pub mod export;
pub mod import;
mod large_searches;
pub mod subscriptions;

use database::Connection;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;
use store_profiles::push_tokens::{self, PushToken};
use store_profiles::users::list::{self as users, UserFilter};
use store_profiles::users::read::{self, User};
use store_profiles::users::user_ref::UserRef;
use subscriptions::SubscriptionView;
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, ok};
use crate::resources::paging::NumberedPage;
use crate::resources::{id_type, path_params, search, time_format};

pub use large_searches::LargeSearches;
use large_searches::Search;

/// Error for a malformed internal ID.
pub(in crate::resources) const NOT_INTERNAL: &str = "must be a UUID when `idType` is `internal`";
/// Users last seen within this time are active.
const ACTIVE: SignedDuration = SignedDuration::from_hours(30 * 24);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::resources) struct UserView {
    id: Uuid,
    external_id: Option<String>,
    anonymous_id: Option<String>,
    email: Option<String>,
    name: Option<String>,
    properties: Value,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    last_seen_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        Self {
            id: user.id,
            external_id: user.external_id,
            anonymous_id: user.anonymous_id,
            email: user.email,
            name: user.name,
            properties: user.properties,
            created_at: user.created_at,
            last_seen_at: user.last_seen_at,
            updated_at: user.updated_at,
        }
    }
}

/// `GET /users`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let active = query.choice("filter", &[("active", true), ("inactive", false)])?;
    let since = cx.app.clock.now() - ACTIVE;
    let search = search::text(&query)?;
    let key = search.clone().map(|text| Search { project: cx.project, text, active });
    let is_many = key.as_ref().is_some_and(|key| cx.app.large_searches.contains(key));
    let filter = UserFilter { search, seen_since: active.map(|active| (active, since)), is_many };
    let mut db = cx.database().await?;
    let (mut users, total) = users::list(&mut db, cx.project, &filter, &page.start, page.rows()).await?;
    if let Some(key) = key.filter(|_| total.capped && !is_many) {
        cx.app.large_searches.insert(key);
    }
    let end = page.cut(&mut users, |user| (user.created_at, user.id));
    end.reply("users", users.into_iter().map(UserView::from), total)
}

/// A user with their devices and subscription preferences.
#[derive(Serialize)]
struct UserDetailView {
    #[serde(flatten)]
    user: UserView,
    devices: Vec<DeviceView>,
    subscriptions: Vec<SubscriptionView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceView {
    id: Uuid,
    platform: &'static str,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    /// Time of the last registration.
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

impl From<PushToken> for DeviceView {
    fn from(token: PushToken) -> Self {
        Self {
            id: token.id,
            platform: token.platform.as_str(),
            created_at: token.created_at,
            updated_at: token.updated_at,
        }
    }
}

/// `GET /users/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::text(segment, "user")?;
    let id_type = id_type::of(&cx.query()?)?;
    let db = cx.database().await?;
    let user = read::find_readable(&db, cx.project, UserRef::new(&id, id_type)).await?;
    user_reply(cx, db, user).await
}

async fn user_reply(cx: &Context<'_>, db: Connection, user: Option<User>) -> Result<Reply, ApiError> {
    let user = user.ok_or_else(|| ApiError::no_such("user"))?;
    let devices = push_tokens::of_user(&db, cx.project, user.id).await?;
    let subscriptions = subscriptions::of(cx, &db, user.id).await?;
    let devices = devices.into_iter().map(DeviceView::from).collect();
    ok(&UserDetailView { user: user.into(), devices, subscriptions })
}
