//! The page to unsubscribe from the message's group, if it has one, or from everything.

use std::time::Duration;

use domain::link::{self, About};
use domain::subscription::Source;
use http::StatusCode;
use serde_json::json;
use store_profiles::subscription_groups;
use uuid::Uuid;

use super::choose::{self, Chosen, Refused};
use super::page::{Escaped, no_link, not_yet, page, too_many};
use super::{Repeated, Told, hand_over, named, read_permit};
use crate::app::App;
use crate::http::query::Query;
use crate::http::respond::Reply;

/// Timeout of the lookup of the group's name.
const LOOK: Duration = Duration::from_secs(1);

/// Asks for confirmation or, with a form, unsubscribes. The page's button or the mail program (RFC 8058) sends the form.
pub async fn answer(app: &App, form: Option<&Query>, token: &str) -> Reply {
    let Some(about) = link::read_unsubscribe(&app.master_keys, token) else { return no_link() };
    if form.is_none() && app.links.limit.take(&about.message).is_err() {
        return too_many();
    }
    // Relative to the page's own URL, wherever that is.
    let choose = format!(
        "<p><a href=\"{}\">Manage your preferences</a></p>",
        Escaped(&link::preferences(&app.master_keys, "..", about))
    );
    let Some(form) = form else { return asks(app, about, &choose).await };
    let group = about.group.filter(|_| form.get("all") != Some("yes"));
    let told = match group {
        None => tell(app, about).await,
        Some(group) => {
            let chosen = Chosen { choices: vec![(group, false)], source: Source::Link, resubscribe: false };
            choose::tell(app, about, chosen).await
        }
    };
    let done = "<p class=\"done\" role=\"status\">You will no longer receive these messages.</p>";
    match told {
        Ok(()) if group.is_none() => page(StatusCode::OK, "You are unsubscribed", done),
        Ok(()) => page(StatusCode::OK, "You are unsubscribed", &format!("{done}{choose}")),
        Err(refused) => refuses(about, &refused),
    }
}

/// Returns the page that explains why a choice was not accepted.
pub fn refuses(about: About, refused: &Refused) -> Reply {
    match refused {
        Refused::TooMany => too_many(),
        Refused::Failed(error) => {
            tracing::warn!(project = %about.project, %error, "cannot publish a subscription change");
            not_yet()
        }
    }
}

async fn asks(app: &App, about: About, choose: &str) -> Reply {
    let Some(group) = about.group else {
        let form =
            "<p>You will no longer receive these messages.</p><form method=\"post\"><button>Unsubscribe</button></form>";
        return page(StatusCode::OK, "Unsubscribe?", form);
    };
    let name = tokio::time::timeout(LOOK, name_of(app, about, group)).await.ok().flatten();
    let what = name.map_or("these messages".to_owned(), |name| format!("<strong>{}</strong>", Escaped(&name)));
    let content = format!(
        "<p>You will no longer receive {what}.</p><form method=\"post\"><button>Unsubscribe</button>\
         <button class=\"other\" name=\"all\" value=\"yes\">Unsubscribe from everything</button></form>{choose}"
    );
    page(StatusCode::OK, "Unsubscribe?", &content)
}

async fn name_of(app: &App, about: About, group: Uuid) -> Option<String> {
    let _permit = read_permit(app, about).await?;
    let db = app.store.connection().await.ok()?;
    Some(subscription_groups::get(&db, about.project, group).await.ok()??.name)
}

/// Publishes an unsubscription from everything. Each one counts, because the previous one may have been revoked since.
pub async fn tell(app: &App, about: About) -> Result<(), Refused> {
    let change = async {
        // Only automations that wait for the event need the user's IDs.
        let person = named(app, about).await;
        let mut data = json!({ "messageId": about.message, "userId": person.external_id, "source": "link" });
        if let Some(channel) = about.channel {
            data["channel"] = channel.as_str().into();
        }
        let detail = app.clock.now_ms().to_string();
        let repeated = Repeated { kind: "message.unsubscribed", message: about.message, detail: &detail };
        let told = Told::new(app, about.project, &repeated, data);
        hand_over(app, about, person, told.item()).await
    };
    choose::in_turn(app, about, change).await
}
