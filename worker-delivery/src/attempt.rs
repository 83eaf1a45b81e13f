//! One message from its claim to its end: rendered, sent, judged.

mod email;
mod in_app;
pub mod push;
mod sms;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use jiff::Timestamp;
use serde_json::Value;
use shared::metric_name::Metric;
use shared::send::{Channel, DeliveryState, Lane};
use shared::store::messages::claim::Claimed;
use shared::store::messages::settle::Settled;
use shared::store::users::recipient::Recipient;

use crate::App;
use crate::channels::Rules;
use crate::limits::Token;
use crate::load::Loaded;
use crate::render::Source;
use crate::settle::judge::{self, Circumstances, failed};

/// Attempts one message. A panic over it fails this message alone.
pub async fn attempt(app: &App, loaded: &Loaded, token: Option<Token>) -> Settled {
    let settled = AssertUnwindSafe(run(app, loaded, token)).catch_unwind().await.unwrap_or_else(|_| {
        let message = &loaded.message;
        tracing::error!(project = %message.project, message_id = %message.id, "attempting a message panicked");
        failed(message, "internal_error: the message could not be worked on")
    });
    Settled { counted: loaded.counted, ..settled }
}

async fn run(app: &App, loaded: &Loaded, token: Option<Token>) -> Settled {
    let Loaded { message, recipient, sender, .. } = loaded;
    if message.lapsed {
        tracing::warn!(project = %message.project, message_id = %message.id, "its last call was never settled");
        metrics::counter!(Metric::MessagesAmbiguous).increment(1);
        metrics::counter!(Metric::LeasesLapsed).increment(1);
    }
    let at = circumstances(app, loaded);
    if !sender.repeats_safely() && !judge::may_be_sent(message, at) {
        return failed(message, "outcome_unknown: not sent again");
    }
    let nobody;
    let person = match recipient {
        Some(person) => person,
        // An address is all that a test needs.
        None if judge::test_address(message).is_some() => {
            nobody = Recipient::nobody(message.user_id, message.created_at);
            &nobody
        }
        None => return judge::user_unknown(message, at),
    };
    if let Some(reason) = loaded.suppressed.filter(|_| !judge::is_test(message)) {
        return judge::known(message, DeliveryState::Suppressed, Some(reason));
    }
    if loaded.capped {
        return judge::known(message, DeliveryState::Suppressed, Some("frequency_cap"));
    }
    if let Some(until) = quiet_until(&sender.rules, message, person, at.now) {
        return judge::quiet(message, until, at);
    }
    // Boxed, because otherwise the future of every message has the size of the largest channel's.
    let settled = match message.channel {
        Channel::Email => Box::pin(email::attempt(app, loaded, person, token)).await,
        Channel::Push => Box::pin(push::attempt(app, loaded, person, token)).await,
        Channel::InApp => Box::pin(in_app::attempt(app, loaded, person)).await,
        Channel::Sms => Box::pin(sms::attempt(app, loaded, person, token)).await,
    };
    Settled { user_id: (person.id != message.user_id).then_some(person.id), ..settled }
}

/// Until when nobody is woken by what they did not ask for. What waits in an inbox wakes nobody.
fn quiet_until(rules: &Rules, message: &Claimed, person: &Recipient, now: Timestamp) -> Option<Timestamp> {
    if message.lane == Lane::Direct || message.channel == Channel::InApp {
        return None;
    }
    let own = person.properties.get("timezone").and_then(Value::as_str);
    rules.quiet.as_ref()?.until(now, own, &rules.timezone)
}

fn circumstances(app: &App, loaded: &Loaded) -> Circumstances {
    Circumstances {
        now: app.clock.now(),
        random: rand::random(),
        unknown_retries: app.config.unknown_retries,
        try_again_now: loaded.sender.is_superseded(),
        repeats_safely: loaded.sender.repeats_safely(),
    }
}

/// What the message is made of; the error is the reason of its failure.
fn source(loaded: &Loaded) -> Result<Source<'_>, String> {
    let Loaded { message, template, .. } = loaded;
    match (message.template_id, template) {
        (None, _) => Ok(Source::Own),
        (Some(_), None) => Err("template_not_found".to_owned()),
        (Some(_), Some(Err(error))) => Err(format!("render_failed: {error}")),
        (Some(_), Some(Ok(template))) => Ok(Source::Template(template)),
    }
}
