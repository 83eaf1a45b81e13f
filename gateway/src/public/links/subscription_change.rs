//! Publishes the choices that users make behind a link.

use domain::link::LinkClaims;
use domain::subscription::Source;
use kernel::ids::{IdSpace, derived_update_id};
use uuid::Uuid;
use wire::event::{Body, Choice, IngestItem, Subscribe, id_bytes};

use super::{find_user_ids, publish_and_wait};
use crate::app::App;
use crate::http::error::ApiError;
use crate::ingest::ids;

/// Maximum changes through one link per minute.
const MAX_CHANGES_PER_MINUTE: u32 = 20;
const MINUTE_MS: i64 = 60_000;

/// A user's choices.
#[derive(Debug)]
pub struct SubscriptionChange {
    /// Subscription groups, and whether to subscribe to them.
    pub choices: Vec<(Uuid, bool)>,
    pub source: Source,
    /// Revokes an earlier unsubscription from everything.
    pub resubscribe: bool,
}

/// The reason why a choice was not accepted.
#[derive(Debug)]
pub enum ChangeError {
    TooMany,
    Failed(ApiError),
}

/// Publishes a choice. On return it is durable, and in most cases applied.
pub async fn publish(app: &App, about: LinkClaims, change: SubscriptionChange) -> Result<(), ChangeError> {
    let at_ms = app.clock.now_ms();
    let choice = |(group, subscribed): (Uuid, bool)| Choice { group_id: id_bytes(group), subscribed };
    let body = Subscribe {
        user_id: id_bytes(about.user),
        choices: change.choices.into_iter().map(choice).collect(),
        source: change.source.as_str().to_owned(),
        message_id: id_bytes(about.message),
        resubscribe: change.resubscribe,
    };
    let item = IngestItem {
        project_id: id_bytes(about.project.0),
        id: id_bytes(ids::of_update(about.project, IdSpace::Product, None, at_ms).row),
        received_ms: at_ms,
        timestamp_ms: at_ms,
        body: Some(Body::Subscribe(body)),
        ..IngestItem::default()
    };
    with_rate_limit(app, about, async { publish_and_wait(app, about, find_user_ids(app, about).await, item).await })
        .await
}

/// Runs a change within the limit of `MAX_CHANGES_PER_MINUTE` per link.
///
/// Users change choices back and forth, so unlike opens and clicks each one counts. The limit keeps one link from flooding the
/// stream. A failed change does not count towards it.
pub async fn with_rate_limit(
    app: &App,
    about: LinkClaims,
    change: impl Future<Output = Result<(), ApiError>>,
) -> Result<(), ChangeError> {
    let minute = app.clock.now_ms() / MINUTE_MS;
    let slot =
        |n: u32| derived_update_id(about.project, IdSpace::Product, &format!("chosen:{}:{minute}:{n}", about.message));
    let free = (0..MAX_CHANGES_PER_MINUTE).map(slot).find(|slot| !app.links.event_dedup.contains(*slot));
    let slot = free.ok_or(ChangeError::TooMany)?;
    app.links.event_dedup.insert(slot);
    change.await.map_err(|error| {
        app.links.event_dedup.remove(slot);
        ChangeError::Failed(error)
    })
}
