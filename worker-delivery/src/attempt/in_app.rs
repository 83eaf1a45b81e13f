//! Attempts an in-app message: a row in the user's inbox, and a hint to the clients that watch it.

use std::time::Duration;

use bytes::Bytes;
use database::StoreError;
use domain::recipient::Recipient;
use kernel::failpoint;
use store_sending::inbox::{self, NewInboxItem};
use store_sending::messages::settle::Settled;

use super::{settle_context, source};
use crate::App;
use crate::load::Loaded;
use crate::render::plain::{self, Plain};
use crate::settle::judge::{self, failed};
use providers::{Outcome, TOO_LARGE};

/// Maximum bytes of title and body as rendered: apps load many messages at once.
const MAX_CONTENT: usize = 64 * 1024;
/// Name in the ledger.
const PROVIDER: &str = "inbox";
/// Delay after a database error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

pub async fn attempt(app: &App, loaded: &Loaded, user: &Recipient) -> Settled {
    let Loaded { message, .. } = loaded;
    let at = settle_context(app, loaded);
    let rendered = source(loaded).and_then(|source| {
        plain::render(&source, message, user, app.clock.now()).map_err(|error| format!("render_failed: {error}"))
    });
    let Plain { title, body, .. } = match rendered {
        Ok(rendered) => rendered,
        Err(why) => return failed(message, &why),
    };
    if title.len() + body.len() > MAX_CONTENT {
        return Settled { subject: Some(title), ..failed(message, TOO_LARGE) };
    }
    let arrival = NewInboxItem { id: message.id, user_id: user.id, title: &title, body: &body };
    let put = async { inbox::put(&app.store.connection().await?, message.project, arrival, app.clock.now()).await };
    let settled = match put.await {
        Ok(true) => {
            failpoint::hit("delivery.after_in_app_put");
            publish_hint(app, loaded, user).await;
            judge::judge(message, &Outcome::Accepted(message.id.to_string()), at)
        }
        // Erased since the message was claimed.
        Ok(false) => return judge::user_unknown(message, at),
        Err(error) => judge::judge(message, &outcome(&error), at),
    };
    Settled { provider: Some(PROVIDER), subject: Some(title), ..settled }
}

/// Database outages do not count as failures of the message.
fn outcome(error: &StoreError) -> Outcome {
    if error.is_data_error() {
        return Outcome::Rejected(error.to_string());
    }
    Outcome::Held { after: RETRY_DELAY, why: error.to_string() }
}

/// Publishes a hint to the clients that watch the inbox. They also poll, so it may be lost.
async fn publish_hint(app: &App, loaded: &Loaded, user: &Recipient) {
    if app.bus.is_connected() {
        let subject = app.bus.names.inbox(loaded.message.project, user.id);
        let _ = app.bus.client.publish(subject, Bytes::new()).await;
    }
}
