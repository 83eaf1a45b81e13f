//! Attempts an SMS: one number, one call.

use domain::recipient::Recipient;
use domain::suppression::international;
use kernel::failpoint;
use serde_json::Value;
use store_sending::messages::settle::Settled;

use super::{settle_context, source};
use crate::App;
use crate::channels::Routes;
use crate::limits::Token;
use crate::load::Loaded;
use crate::load::suppressed;
use crate::render::plain::{self, Plain};
use crate::routes::Call;
use crate::settle::judge::{self, failed};
use providers::sms::{Sms, segments};
use providers::{Outcome, TOO_LARGE};

/// The user property with the phone number.
const PHONE: &str = "phone";
/// Maximum characters of a text, a limit of the provider.
const MAX_TEXT: usize = 1_600;

pub async fn attempt(app: &App, loaded: &Loaded, user: &Recipient, token: Option<Token>) -> Settled {
    let Loaded { message, sender, .. } = loaded;
    let at = settle_context(app, loaded);
    let to = match (judge::test_address(message), user.properties.get(PHONE)) {
        (Some(to), _) => international(to),
        (None, None | Some(Value::Null)) => return judge::address_missing(message, at),
        (None, Some(Value::String(text))) if text.trim().is_empty() => return judge::address_missing(message, at),
        (None, Some(phone)) => phone.as_str().and_then(international),
    };
    let Some(to) = to else {
        return failed(message, "invalid_address: the property phone is not a number such as +15551234567");
    };
    let rendered = source(loaded).and_then(|source| {
        plain::render(&source, message, user, app.clock.now()).map_err(|error| format!("render_failed: {error}"))
    });
    // An SMS has no title: without a body, the title is the text.
    let text = match rendered {
        Ok(Plain { title, body, .. }) if body.trim().is_empty() => title,
        Ok(Plain { body, .. }) => body,
        Err(why) => return failed(message, &why),
    };
    if text.trim().is_empty() {
        return failed(message, "empty: an SMS needs a text");
    }
    if text.chars().count() > MAX_TEXT {
        return failed(message, TOO_LARGE);
    }
    let segments = i32::try_from(segments::count(&text)).unwrap_or(i32::MAX);
    let sms = Sms { id: message.id, to, text };
    let (outcome, provider) = match &sender.routes {
        Routes::Sms(route) => (route.send(&sms, Call::of(message, token)).await, route.name()),
        Routes::Unreadable(why) => (Outcome::Misconfigured(why.clone()), None),
        Routes::None | Routes::Email(_) | Routes::Push(_) | Routes::InApp => {
            return failed(message, "channel_not_configured");
        }
    };
    failpoint::hit("delivery.after_sms_sent");
    sender.record_error(app, &outcome, &sms.to).await;
    if !judge::is_test(message) {
        suppressed::suppress_address(app, message, &sms.to, &outcome).await;
    }
    let sent = matches!(outcome, Outcome::Accepted(_)).then_some(segments);
    Settled { provider, segments: sent, address: Some(sms.to), ..judge::judge(message, &outcome, at) }
}
