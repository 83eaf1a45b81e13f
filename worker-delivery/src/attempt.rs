//! One message from its claim to its end: rendered, sent, judged.

mod email;
pub mod push;

use std::future::Future;
use std::sync::Arc;

use shared::metric_name::MESSAGES_AMBIGUOUS;
use shared::send::Channel;
use shared::store::messages::claim::Claimed;
use shared::store::messages::settle::Settled;

use crate::App;
use crate::claim::Loaded;
use crate::render::Source;
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
    let Loaded { message, recipient, sender, .. } = &loaded;
    if message.lapsed {
        tracing::warn!(project = %message.project, message_id = %message.id, "its last call was never settled");
        metrics::counter!(MESSAGES_AMBIGUOUS).increment(1);
    }
    let at = circumstances(&app, &loaded);
    if !sender.repeats_safely() && !judge::may_be_sent(message, at) {
        return failed(message, "outcome_unknown: not sent again");
    }
    let Some(person) = recipient else { return judge::user_unknown(message, at) };
    let settled = match message.channel {
        Channel::Email => email::attempt(&app, &loaded, person).await,
        Channel::Push => push::attempt(&app, &loaded, person).await,
        Channel::InApp | Channel::Sms => failed(message, "channel_not_supported"),
    };
    Settled { user_id: (person.id != message.user_id).then_some(person.id), ..settled }
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
