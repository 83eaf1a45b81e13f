//! Attempts a message: renders it, sends it, and judges the outcome.

mod email;
mod in_app;
mod push;
mod sms;

use std::panic::AssertUnwindSafe;

use domain::message::{Channel, DeliveryState, Lane};
use domain::recipient::Recipient;
use futures_util::FutureExt;
use jiff::Timestamp;
use kernel::metric_name::Metric;
use serde_json::Value;
use store_sending::messages::claim::ClaimedMessage;
use store_sending::messages::settle::Settled;

use crate::App;
use crate::channels::Rules;
use crate::dispatch::lease::Lease;
use crate::limits::Token;
use crate::load::Loaded;
use crate::render::Source;
use crate::settle::judge::{self, SettleContext, failed};

/// Attempts one message. A panic fails only this message.
pub async fn attempt(app: &App, loaded: &Loaded, token: Option<Token>, lease: &Lease) -> Settled {
    let settled = AssertUnwindSafe(run(app, loaded, token, lease)).catch_unwind().await.unwrap_or_else(|_| {
        let message = &loaded.message;
        tracing::error!(project = %message.project, message_id = %message.id, "attempting a message panicked");
        failed(message, "internal_error: the message could not be processed")
    });
    Settled { counted: loaded.counted, was_ambiguous: loaded.message.ambiguous > 0, ..settled }
}

async fn run(app: &App, loaded: &Loaded, token: Option<Token>, lease: &Lease) -> Settled {
    let Loaded { message, recipient, sender, .. } = loaded;
    if message.lapsed {
        tracing::warn!(project = %message.project, message_id = %message.id, "the lease of the message's last attempt ended; the outcome is unknown");
        metrics::counter!(Metric::MessagesAmbiguous).increment(1);
        metrics::counter!(Metric::LeasesExpired).increment(1);
    }
    let at = settle_context(app, loaded);
    if !sender.is_idempotent() && !judge::may_be_sent(message, at) {
        return failed(message, "outcome_unknown: not sent again");
    }
    let placeholder;
    let user = match recipient {
        Some(user) => user,
        // A test send needs no user, only an address.
        None if judge::test_address(message).is_some() => {
            placeholder = Recipient::without_profile(message.user_id, message.created_at);
            &placeholder
        }
        None => return judge::user_unknown(message, at),
    };
    if let Some(reason) = loaded.suppressed.filter(|_| !judge::is_test(message)) {
        return judge::with_status(message, DeliveryState::Suppressed, Some(reason));
    }
    if loaded.capped {
        return judge::with_status(message, DeliveryState::Suppressed, Some("frequency_cap"));
    }
    // A jump of the clock ends no quiet hours.
    let now = app.due_by().held;
    if let Some(until) = quiet_until(&sender.rules, message, user, now) {
        return judge::defer_for_quiet_hours(message, until, until.duration_since(now).unsigned_abs(), at);
    }
    // The process was suspended, or loading took long. After the lease ends, another worker may call.
    if !lease.allows_call(app.clock.monotonic_ms()) {
        tracing::warn!(project = %message.project, message_id = %message.id, "the message's lease ends too soon for a call; queueing it again");
        return judge::not_called(message, at);
    }
    // Boxed: otherwise every message's future has the size of the largest channel's.
    let settled = match message.channel {
        Channel::Email => Box::pin(email::attempt(app, loaded, user, token)).await,
        Channel::Push => Box::pin(push::attempt(app, loaded, user, token)).await,
        Channel::InApp => Box::pin(in_app::attempt(app, loaded, user)).await,
        Channel::Sms => Box::pin(sms::attempt(app, loaded, user, token)).await,
    };
    Settled { user_id: (user.id != message.user_id).then_some(user.id), ..settled }
}

/// Returns the end of the user's quiet hours, if they apply. Direct and in-app messages ignore them.
fn quiet_until(rules: &Rules, message: &ClaimedMessage, user: &Recipient, now: Timestamp) -> Option<Timestamp> {
    if message.lane == Lane::Direct || message.channel == Channel::InApp {
        return None;
    }
    let own = user.properties.get("timezone").and_then(Value::as_str);
    rules.quiet.as_ref()?.until(now, own, &rules.timezone)
}

fn settle_context(app: &App, loaded: &Loaded) -> SettleContext {
    SettleContext {
        due_by: app.due_by(),
        delays_from: app.due_clock.delays_from(),
        random: rand::random(),
        unknown_retries: app.config.unknown_retries,
        try_again_now: loaded.sender.is_superseded(),
        is_idempotent: loaded.sender.is_idempotent(),
    }
}

/// Returns the source of the message's content; the error is the status reason.
fn source(loaded: &Loaded) -> Result<Source<'_>, String> {
    let Loaded { message, template, .. } = loaded;
    match (message.template_id, template) {
        (None, _) => Ok(Source::Own),
        (Some(_), None) => Err("template_not_found".to_owned()),
        (Some(_), Some(Err(error))) => Err(format!("render_failed: {error}")),
        (Some(_), Some(Ok(template))) => Ok(Source::Template(template)),
    }
}
