//! The inbox: a user's in-app messages, listed by page or streamed as they arrive.

mod stream;
mod streams;

use database::{GenericClient, StoreError};
use domain::message::DeliveryState;
use domain::webhook;
use jiff::Timestamp;
use serde::Serialize;
use store_profiles::users::read as users;
use store_profiles::users::user_ref::{IdType, UserRef};
use store_sending::inbox::{self, InboxFilter, InboxItem};
use store_sending::messages::receipts::{self, Receipt};
use store_sending::webhook_deliveries::enqueue::{self, MessageEvent};
use uuid::Uuid;

use crate::auth::identity::{IdentityProof, VerifiedIdentity};
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::fields::Text;
use crate::http::query::Query;
use crate::http::respond::{Reply, ok};
use crate::resources::paging::{NumberedPage, PageView};
use crate::resources::users::NOT_INTERNAL;
use crate::resources::{id_type, path_params, time_format};

pub use stream::stream;
pub use streams::InboxStreams;

const USER: Text = Text::line(200);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ItemView {
    id: Uuid,
    title: String,
    body: String,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::maybe_time")]
    read_at: Option<Timestamp>,
}

impl From<InboxItem> for ItemView {
    fn from(InboxItem { id, title, body, created_at, read_at }: InboxItem) -> Self {
        Self { id, title, body, created_at, read_at }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListView {
    items: Vec<ItemView>,
    /// Counted up to 10,000.
    unread: i64,
    #[serde(flatten)]
    page: PageView,
}

/// The user whose inbox is requested.
struct InboxUser {
    user: String,
    id_type: IdType,
    /// The proof of the user's identity, if the caller needs one.
    proven: Option<VerifiedIdentity>,
}

/// Determines whose inbox is requested.
///
/// A public key requires proof of the user's identity even if the project does not require it elsewhere, since the key
/// can be read from any page and user IDs can be guessed.
async fn inbox_user(cx: &Context<'_>, query: &Query) -> Result<InboxUser, ApiError> {
    let get = |names: [&str; 2]| names.into_iter().find_map(|name| query.get(name)).map(str::to_owned);
    if get(["user_token", "userToken"]).is_some() {
        return Err(ApiError::invalid(
            "user_token",
            "must be sent in the X-User-Token header, because URLs are logged",
        ));
    }
    let user = get(["user_id", "userId"]);
    let user = user.ok_or_else(|| ApiError::invalid("user_id", "is required: the user whose inbox to read"))?;
    if !USER.allows(&user) {
        return Err(ApiError::invalid("user_id", "must have 1 to 200 characters, none of them control characters"));
    }
    let mut id_type = id_type::of(query)?;
    if !UserRef::new(&user, id_type).is_well_formed() {
        return Err(ApiError::invalid("user_id", NOT_INTERNAL));
    }
    let mut proven = None;
    if cx.caller.is_public() {
        if id_type == IdType::Internal {
            return Err(ApiError::invalid(
                "idType",
                "must be `external` with a public key, which can prove only external IDs",
            ));
        }
        // The proof does not cover another user whose internal ID equals the proven external ID.
        id_type = IdType::External;
        let user_hash = get(["user_hash", "userHash"]);
        let evidence = IdentityProof { user_hash: user_hash.as_deref(), user_token: None };
        proven = cx.required_identity_verifier().await?.check(Some(&user), evidence)?;
    }
    Ok(InboxUser { user, id_type, proven })
}

impl InboxUser {
    fn user(&self) -> UserRef<'_> {
        UserRef::new(&self.user, self.id_type)
    }
}

/// Returns all internal IDs of a user. For an unknown user, returns the IDs it would have, so the response does not
/// reveal whether the user exists.
async fn ids_of(
    db: &impl GenericClient,
    project: kernel::ids::ProjectId,
    user: UserRef<'_>,
) -> Result<Vec<Uuid>, StoreError> {
    match users::find_id(db, project, user).await? {
        Some(user) => users::all_ids(db, project, user).await,
        None => Ok(user.candidates(project)),
    }
}

/// `GET /inbox`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let page = NumberedPage::of(&query)?;
    let unread_only = query.boolean("unread")?.unwrap_or(false);
    let inbox_user = inbox_user(cx, &query).await?;
    let db = cx.database().await?;
    let filter = InboxFilter { user_ids: ids_of(&db, cx.project, inbox_user.user()).await?, unread_only };
    let mut items = inbox::list(&db, cx.project, &filter, &page.start, page.rows()).await?;
    let end = page.cut(&mut items, |item| (item.created_at, item.id));
    let total = inbox::total(&db, cx.project, &filter).await?;
    let unread = if unread_only {
        total.count
    } else {
        inbox::total(&db, cx.project, &InboxFilter { unread_only: true, ..filter }).await?.count
    };
    ok(&ListView { items: items.into_iter().map(ItemView::from).collect(), unread, page: end.view(total) })
}

/// `POST /inbox/:id/read`: marks a message as read, which also counts as opened.
pub async fn read(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let inbox_user = inbox_user(cx, &cx.query()?).await?;
    let id = path_params::id(segment, "message in this inbox")?;
    let now = cx.app.clock.now();
    let mut db = cx.database().await?;
    let ids = ids_of(&db, cx.project, inbox_user.user()).await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let read = inbox::mark_read(&tx, cx.project, id, &ids, now).await?;
    let item = read.ok_or_else(|| ApiError::no_such("message in this inbox"))?;
    let opened = Receipt { message: id, state: DeliveryState::Opened, at: now, reason: None, url: None };
    let applied = receipts::apply(&tx, cx.project, &[opened], now).await?;
    let news = applied.reached.into_iter().filter_map(|(message, state)| {
        Some(MessageEvent { message, kind: webhook::type_of(state)?, at: now, reason: None, url: None })
    });
    enqueue::for_messages(&tx, cx.project, &news.collect::<Vec<_>>(), now).await?;
    tx.commit().await.map_err(StoreError::from)?;
    streams::announce(&cx.app.bus, cx.project, &ids).await;
    ok(&ItemView::from(item))
}
