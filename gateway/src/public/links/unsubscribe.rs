//! The page to unsubscribe from the message's group, if it has one, or from everything.

use std::time::Duration;

use domain::link::{self, LinkClaims};
use domain::subscription::Source;
use http::StatusCode;
use serde_json::json;
use store_profiles::subscription_groups;
use uuid::Uuid;

use super::page::{Escaped, invalid_link_page, page, too_many_requests_page, try_again_page};
use super::subscription_change::{self, ChangeError, SubscriptionChange};
use super::{LinkEvent, RepeatKey, find_user_ids, publish_and_wait, read_permit};
use crate::app::App;
use crate::http::query::Query;
use crate::http::respond::Reply;

/// Timeout of the lookup of the group's name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks for confirmation or, with a form, unsubscribes. The page's button or the mail program (RFC 8058) sends the form.
pub async fn handle(app: &App, form: Option<&Query>, token: &str) -> Reply {
    let Some(about) = link::read_unsubscribe(&app.master_keys, token) else { return invalid_link_page() };
    if form.is_none() && app.links.limit.take(&about.message).is_err() {
        return too_many_requests_page();
    }
    // Relative to the page's own URL, wherever that is.
    let preferences_link = format!(
        "<p><a href=\"{}\">Manage your preferences</a></p>",
        Escaped(&link::preferences(&app.master_keys, "..", about))
    );
    let Some(form) = form else { return confirmation_page(app, about, &preferences_link).await };
    let group = about.group.filter(|_| form.get("all") != Some("yes"));
    let outcome = match group {
        None => from_everything(app, about).await,
        Some(group) => {
            let change = SubscriptionChange { choices: vec![(group, false)], source: Source::Link, resubscribe: false };
            subscription_change::publish(app, about, change).await
        }
    };
    let done = "<p class=\"done\" role=\"status\">You will no longer receive these messages.</p>";
    match outcome {
        Ok(()) if group.is_none() => page(StatusCode::OK, "You are unsubscribed", done),
        Ok(()) => page(StatusCode::OK, "You are unsubscribed", &format!("{done}{preferences_link}")),
        Err(refused) => error_page(about, &refused),
    }
}

/// Returns the page that explains why a choice was not accepted.
pub fn error_page(about: LinkClaims, refused: &ChangeError) -> Reply {
    match refused {
        ChangeError::TooMany => too_many_requests_page(),
        ChangeError::Failed(error) => {
            tracing::warn!(project = %about.project, %error, "cannot publish a subscription change");
            try_again_page()
        }
    }
}

async fn confirmation_page(app: &App, about: LinkClaims, preferences_link: &str) -> Reply {
    let Some(group) = about.group else {
        let form = "<p>You will no longer receive these messages.</p><form method=\"post\"><button>Unsubscribe</button></form>";
        return page(StatusCode::OK, "Unsubscribe?", form);
    };
    let name = tokio::time::timeout(LOOKUP_TIMEOUT, group_name(app, about, group)).await.ok().flatten();
    let what = name.map_or("these messages".to_owned(), |name| format!("<strong>{}</strong>", Escaped(&name)));
    let content = format!(
        "<p>You will no longer receive {what}.</p><form method=\"post\"><button>Unsubscribe</button>\
         <button class=\"other\" name=\"all\" value=\"yes\">Unsubscribe from everything</button></form>{preferences_link}"
    );
    page(StatusCode::OK, "Unsubscribe?", &content)
}

async fn group_name(app: &App, about: LinkClaims, group: Uuid) -> Option<String> {
    let _permit = read_permit(app, about).await?;
    let db = app.store.connection().await.ok()?;
    Some(subscription_groups::get(&db, about.project, group).await.ok()??.name)
}

/// Publishes an unsubscription from everything. Each one counts, because the previous one may have been revoked since.
pub async fn from_everything(app: &App, about: LinkClaims) -> Result<(), ChangeError> {
    let change = async {
        // Only automations that wait for the event need the user's IDs.
        let user = find_user_ids(app, about).await;
        let mut data = json!({ "messageId": about.message, "userId": user.external_id, "source": "link" });
        if let Some(channel) = about.channel {
            data["channel"] = channel.as_str().into();
        }
        let detail = app.clock.now_ms().to_string();
        let repeat_key = RepeatKey { kind: "message.unsubscribed", message: about.message, detail: &detail };
        let event = LinkEvent::new(app, about.project, &repeat_key, data);
        publish_and_wait(app, about, user, event.item()).await
    };
    subscription_change::with_rate_limit(app, about, change).await
}
