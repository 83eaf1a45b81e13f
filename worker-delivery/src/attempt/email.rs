//! A mail: one address, one call.

use shared::failpoint;
use shared::store::messages::settle::Settled;
use shared::store::users::recipient::Recipient;

use super::{circumstances, source};
use crate::App;
use crate::address::{self, NoMailbox};
use crate::channels::Routes;
use crate::claim::Loaded;
use crate::provider::{Email, Outcome};
use crate::render::{self, Rendered};
use crate::settle::judge::{self, failed};

pub async fn attempt(app: &App, loaded: &Loaded, person: &Recipient) -> Settled {
    let Loaded { message, sender, .. } = loaded;
    let to = match address::mailbox(person.email.as_deref(), person.name.as_deref()) {
        Ok(to) => to,
        Err(NoMailbox::Missing) => return judge::address_missing(message, circumstances(app, loaded)),
        Err(NoMailbox::Invalid) => return failed(message, "invalid_address"),
    };
    let rendered = source(loaded).and_then(|source| {
        render::email(&source, message, person, app.clock.now()).map_err(|error| format!("render_failed: {error}"))
    });
    let Rendered { subject, html, text } = match rendered {
        Ok(rendered) => rendered,
        Err(why) => return failed(message, &why),
    };
    let email = Email { id: message.id, to, subject, html, text, date: message.created_at };
    let (outcome, provider, other_takes_over) = match &sender.routes {
        Routes::Email(routes) => {
            let route = routes.choose();
            let outcome = route.send(&email, judge::is_test(message)).await;
            (outcome, route.name(), routes.has_second() && route.is_open())
        }
        Routes::Unreadable(why) => (Outcome::Misconfigured(why.clone()), None, false),
        Routes::None | Routes::Push(_) => return failed(message, "channel_not_configured"),
    };
    failpoint::hit("delivery.after_send");
    sender.note(app, &outcome).await;
    let mut at = circumstances(app, loaded);
    at.try_again_now |= other_takes_over;
    Settled { provider, subject: Some(email.subject), ..judge::judge(message, &outcome, at) }
}
