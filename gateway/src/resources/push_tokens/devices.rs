//! The devices of all users of a project.

use domain::push_token::Platform;
use jiff::Timestamp;
use serde::Serialize;
use store_profiles::push_tokens::{self, DeviceFilter, PushToken};
use store_profiles::users::read::{self as users, UserSummary};
use store_profiles::users::user_ref::UserRef;
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::Reply;
use crate::resources::paging::NumberedPage;
use crate::resources::{id_type, time_format};

/// A device without its token, which would allow others to send to it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceView {
    id: Uuid,
    platform: &'static str,
    user_id: Option<String>,
    anonymous_id: Option<String>,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    updated_at: Timestamp,
}

impl DeviceView {
    fn new(device: &PushToken, user: Option<&UserSummary>) -> Self {
        Self {
            id: device.id,
            platform: device.platform.as_str(),
            user_id: user.and_then(|user| user.external_id.clone()),
            anonymous_id: user.and_then(|user| user.anonymous_id.clone()),
            created_at: device.created_at,
            updated_at: device.updated_at,
        }
    }
}

/// `GET /push-tokens/devices`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let platform = query.choice("platform", &Platform::ALL.map(|platform| (platform.as_str(), platform)))?;
    let id_type = id_type::of(&query)?;
    let db = cx.database().await?;
    let user_id = match query.get("userId").or(query.get("user_id")) {
        // An unknown user has no devices.
        Some(user) => {
            let user = UserRef::new(user, id_type);
            Some(users::find_readable_id(&db, cx.project, user).await?.unwrap_or_default())
        }
        None => None,
    };
    let filter = DeviceFilter { platform, user_id };
    let mut devices = push_tokens::list(&db, cx.project, &filter, &page.start, page.rows()).await?;
    let end = page.cut(&mut devices, |device| (device.created_at, device.id));
    let total = push_tokens::total(&db, cx.project, &filter).await?;
    let ids: Vec<Uuid> = devices.iter().map(|device| device.user_id).collect();
    let users = users::summaries(&db, cx.project, &ids).await?;
    end.reply("devices", devices.iter().map(|device| DeviceView::new(device, users.get(&device.user_id))), total)
}
