//! Publishes the choices that users make behind a link.

use domain::link::About;
use domain::subscription::Source;
use kernel::ids::{IdSpace, derived_update_id};
use uuid::Uuid;
use wire::event::{Body, Choice, IngestItem, Subscribe, id_bytes};

use super::{hand_over, named};
use crate::app::App;
use crate::http::error::ApiError;
use crate::ingest::ids;

/// Maximum changes through one link per minute.
const OFTEN: u32 = 20;
const MINUTE_MS: i64 = 60_000;

/// A user's choices.
#[derive(Debug)]
pub struct Chosen {
    /// Subscription groups, and whether to subscribe to them.
    pub choices: Vec<(Uuid, bool)>,
    pub source: Source,
    /// Revokes an earlier unsubscription from everything.
    pub resubscribe: bool,
}

/// The reason why a choice was not accepted.
#[derive(Debug)]
pub enum Refused {
    TooMany,
    Failed(ApiError),
}

/// Publishes a choice. On return it is durable, and in most cases applied.
pub async fn tell(app: &App, about: About, chosen: Chosen) -> Result<(), Refused> {
    let at_ms = app.clock.now_ms();
    let choice = |(group, subscribed): (Uuid, bool)| Choice { group_id: id_bytes(group), subscribed };
    let body = Subscribe {
        user_id: id_bytes(about.user),
        choices: chosen.choices.into_iter().map(choice).collect(),
        source: chosen.source.as_str().to_owned(),
        message_id: id_bytes(about.message),
        resubscribe: chosen.resubscribe,
    };
    let item = IngestItem {
        project_id: id_bytes(about.project.0),
        id: id_bytes(ids::of_update(about.project, IdSpace::Product, None, at_ms).row),
        received_ms: at_ms,
        timestamp_ms: at_ms,
        body: Some(Body::Subscribe(body)),
        ..IngestItem::default()
    };
    in_turn(app, about, async { hand_over(app, about, named(app, about).await, item).await }).await
}

/// Runs a change within the limit of `MAX_CHANGES_PER_MINUTE` per link.
///
/// Users change choices back and forth, so unlike opens and clicks each one counts. The limit keeps one link from flooding the
/// stream. A failed change does not count towards it.
pub async fn in_turn(
    app: &App,
    about: About,
    change: impl Future<Output = Result<(), ApiError>>,
) -> Result<(), Refused> {
    let minute = app.clock.now_ms() / MINUTE_MS;
    let turn =
        |n: u32| derived_update_id(about.project, IdSpace::Product, &format!("chosen:{}:{minute}:{n}", about.message));
    let free = (0..OFTEN).map(turn).find(|turn| !app.links.told.was_told(*turn));
    let turn = free.ok_or(Refused::TooMany)?;
    app.links.told.note(turn);
    change.await.map_err(|error| {
        app.links.told.forget(turn);
        Refused::Failed(error)
    })
}
