//! One message from its claim to its end: rendered, sent, judged.

use std::future::Future;
use std::sync::Arc;

use shared::failpoint;
use shared::metric_name::MESSAGES_AMBIGUOUS;
use shared::send::Channel;
use shared::store::messages::claim::Claimed;
use shared::store::messages::settle::Settled;

use crate::App;
use crate::address::{self, NoMailbox};
use crate::claim::Loaded;
use crate::provider::{Email, NoProvider};
use crate::render::{self, Rendered};
use crate::settle::judge::{self, Circumstances, failed};

/// Attempts one message in a task of its own, so that a panic over it costs no other.
pub async fn attempt(app: Arc<App>, loaded: Loaded) -> Settled {
    let message = loaded.message.clone();
    guarded(&message, run(app, loaded)).await
}

async fn guarded(message: &Claimed, work: impl Future<Output = Settled> + Send + 'static) -> Settled {
    match tokio::spawn(work).await {
        Ok(settled) => settled,
        Err(error) => {
            tracing::error!(project = %message.project, message_id = %message.id, "a message could not be worked on: {error}");
            failed(message, "internal_error: the message could not be worked on")
        }
    }
}

async fn run(app: Arc<App>, loaded: Loaded) -> Settled {
    let Loaded { message, recipient, template, sender } = &loaded;
    if message.lapsed {
        tracing::warn!(project = %message.project, message_id = %message.id, "its last call was never settled");
        metrics::counter!(MESSAGES_AMBIGUOUS).increment(1);
    }
    let at = circumstances(&app, false);
    if !judge::may_be_sent(message, at) {
        return failed(message, "outcome_unknown: not sent again");
    }
    if message.channel != Channel::Email {
        return failed(message, "channel_not_supported");
    }
    let Some(person) = recipient else { return judge::user_unknown(message, at) };
    let user_id = (person.id != message.user_id).then_some(person.id);
    let to = match address::mailbox(person.email.as_deref(), person.name.as_deref()) {
        Ok(to) => to,
        Err(NoMailbox::Missing) => return judge::address_missing(message, at),
        Err(NoMailbox::Invalid) => return failed(message, "invalid_address"),
    };
    let rendered = match (message.template_id, template) {
        (None, _) => render::from_content(message, person, at.now),
        (Some(_), None) => return failed(message, "template_not_found"),
        (Some(_), Some(Err(error))) => return failed(message, &format!("render_failed: {error}")),
        (Some(_), Some(Ok(template))) => render::from_template(template, message, person, at.now),
    };
    let rendered = match rendered {
        Ok(rendered) => rendered,
        Err(error) => return failed(message, &format!("render_failed: {error}")),
    };
    if sender.provider.as_ref().err() == Some(&NoProvider::NotConfigured) {
        return Settled { user_id, ..failed(message, "channel_not_configured") };
    }
    let Rendered { subject, html, text } = rendered;
    let email = Email { id: message.id, to, subject, html, text, date: message.created_at };
    let outcome = sender.send(&email).await;
    failpoint::hit("delivery.after_send");
    sender.note(&app, &outcome).await;
    let judged = judge::judge(message, &outcome, circumstances(&app, sender.is_superseded()));
    let provider = sender.provider.as_ref().ok().map(crate::provider::MailProvider::name);
    Settled { user_id, provider, subject: Some(email.subject), ..judged }
}

fn circumstances(app: &App, settings_changed: bool) -> Circumstances {
    Circumstances {
        now: app.clock.now(),
        random: rand::random(),
        unknown_retries: app.config.unknown_retries,
        settings_changed,
    }
}
