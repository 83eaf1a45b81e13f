//! The page by which people take themselves off.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use shared::event::IngestItem;
use shared::link::{self, About};
use shared::store::users::read as people;
use tokio::time::Instant;

use super::{Told, page, page_of_no_link};
use crate::app::App;
use crate::error::ApiError;
use crate::ingest::publish;
use crate::respond::Reply;

/// How long a page waits until what was asked for has been applied.
const WAIT: Duration = Duration::from_secs(3);
/// How long it looks for the name of its person.
const LOOK: Duration = Duration::from_secs(1);

/// Not confirmed, it only asks; confirmed, it unsubscribes: by the page's button or by the mail program's own (RFC 8058).
pub async fn answer(app: &App, confirmed: bool, token: &str) -> Reply {
    let Some(about) = link::read_unsubscribe(&app.master_keys, token) else { return page_of_no_link() };
    if !confirmed {
        let form =
            "<p>You will get no more of these messages.</p><form method=\"post\"><button>Unsubscribe</button></form>";
        return page(StatusCode::OK, "Unsubscribe?", form);
    }
    match tell(app, about).await {
        Ok(()) => page(StatusCode::OK, "You are unsubscribed", "<p>You will get no more of these messages.</p>"),
        Err(error) => {
            tracing::warn!(project = %about.project, %error, "an unsubscription cannot be taken");
            let later = "<p>Something is not working right now. Please try again in a moment.</p>";
            page(StatusCode::SERVICE_UNAVAILABLE, "Not yet", later).with("retry-after", "5")
        }
    }
}

/// Hands it to the stream, unless that was done just now.
async fn tell(app: &App, about: About) -> Result<(), ApiError> {
    let data = json!({ "messageId": about.message, "userId": null, "source": "link" });
    let mut told = Told::new(app, about.project, ("message.unsubscribed", about.message, ""), data);
    if app.told_by_links.was_told(told.once) {
        return Ok(());
    }
    let named = async {
        let db = app.store.connection().await.ok()?;
        people::shown(&db, about.project, &[about.user]).await.ok()?.remove(&about.user)
    };
    // Whom it is about is only needed by automations that wait for it.
    let person = tokio::time::timeout(LOOK, named).await.ok().flatten().unwrap_or_default();
    told.data["userId"] = json!(person.external_id);
    let item = IngestItem {
        anonymous_id: person.anonymous_id.filter(|_| person.external_id.is_none()),
        user_id: person.external_id,
        ..told.item()
    };
    let positions = if item.user_key().is_ok() {
        publish::one(&app.ingest, about.project, &item).await?
    } else {
        publish::keyed(&app.ingest, about.message, &item).await?
    };
    app.told_by_links.note(told.once);
    app.applied.wait(&app.store, &positions, Instant::now() + WAIT).await;
    Ok(())
}
