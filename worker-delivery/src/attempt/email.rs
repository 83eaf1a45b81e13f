//! Attempts a mail: one address, one call.

use domain::link::TrackingClaims;
use domain::message::Lane;
use domain::recipient::Recipient;
use domain::suppression::Address;
use kernel::failpoint;
use serde_json::Value;
use store_sending::messages::settle::Settled;

use super::{settle_context, source};
use crate::App;
use crate::channels::Routes;
use crate::limits::Token;
use crate::load::suppressed;
use crate::load::{Loaded, UNSUBSCRIBE_URL};
use crate::render::tracked::{Links, tracked};
use crate::render::{self, Rendered};
use crate::routes::Call;
use crate::settle::judge::{self, failed};
use providers::address::{self, NoMailbox};
use providers::{Email, Outcome};

pub async fn attempt(app: &App, loaded: &Loaded, user: &Recipient, token: Option<Token>) -> Settled {
    let Loaded { message, sender, .. } = loaded;
    let own = judge::test_address(message).or(user.email.as_deref());
    let to = match address::mailbox(own, user.name.as_deref()) {
        Ok(to) => to,
        Err(NoMailbox::Missing) => return judge::address_missing(message, settle_context(app, loaded)),
        Err(NoMailbox::Invalid) => return failed(message, "invalid_address"),
    };
    let rendered = source(loaded).and_then(|source| {
        render::email(&source, message, user, app.clock.now()).map_err(|error| format!("render_failed: {error}"))
    });
    let Rendered { subject, mut html, text } = match rendered {
        Ok(rendered) => rendered,
        Err(why) => return failed(message, &why),
    };
    let address = Address::email(to.email.as_ref()).text;
    if loaded.tracked {
        let sent = TrackingClaims { project: message.project, message: message.id };
        html = tracked(&html, &Links::new(&app.config.master_keys, &app.config.public_base_url, sent));
    }
    // One-click unsubscription (RFC 8058), except for direct messages, which the user requested.
    let link = message.data.get(UNSUBSCRIBE_URL).and_then(Value::as_str).map(str::to_owned);
    let unsubscribe = link.filter(|_| message.lane != Lane::Direct);
    let email = Email { id: message.id, to, subject, html, text, date: message.released_at, unsubscribe };
    let (outcome, provider, fallback_takes_over) = match &sender.routes {
        Routes::Email(routes) => {
            let route = routes.choose();
            let outcome = route.send(&email, Call::of(message, token)).await;
            (outcome, route.name(), routes.has_fallback() && route.is_open())
        }
        Routes::Unreadable(why) => (Outcome::Misconfigured(why.clone()), None, false),
        Routes::None | Routes::Push(_) | Routes::Sms(_) | Routes::InApp => {
            return failed(message, "channel_not_configured");
        }
    };
    failpoint::hit("delivery.after_email_sent");
    sender.record_error(app, &outcome, &address).await;
    if !judge::is_test(message) {
        suppressed::suppress_address(app, message, &address, &outcome).await;
    }
    let mut at = settle_context(app, loaded);
    at.try_again_now |= fallback_takes_over;
    let subject = Some(email.subject);
    Settled { provider, subject, address: Some(address), ..judge::judge(message, &outcome, at) }
}
