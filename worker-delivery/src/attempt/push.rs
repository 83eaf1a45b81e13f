//! Attempts a push: one call for each of the user's devices, all concurrent.

use domain::recipient::Recipient;
use futures_util::future::join_all;
use kernel::failpoint;
use serde_json::{Value, json};
use store_profiles::push_tokens::{self, PushToken};
use store_sending::messages::claim::ClaimedMessage;
use store_sending::messages::settle::Settled;
use tokio::time::Instant;
use uuid::Uuid;

use super::{settle_context, source};
use crate::App;
use crate::channels::Routes;
use crate::limits::Token;
use crate::load::Loaded;
use crate::render::plain::{self, Plain};
use crate::routes::Call;
use crate::routes::push::PushRoute;
use crate::settle::devices::{self, DeviceResult};
use crate::settle::judge::{self, failed};
use providers::push::Push;
use providers::{Outcome, TOO_LARGE};

/// Maximum devices called for one message.
const MAX_DEVICES: usize = 100;

pub async fn attempt(app: &App, loaded: &Loaded, user: &Recipient, admitted: Option<Token>) -> Settled {
    let Loaded { message, sender, tokens, .. } = loaded;
    let at = settle_context(app, loaded);
    if tokens.is_empty() {
        return judge::token_missing(message, at);
    }
    let rendered = source(loaded).and_then(|source| {
        plain::render(&source, message, user, app.clock.now()).map_err(|error| format!("render_failed: {error}"))
    });
    let Plain { title, body, url } = match rendered {
        Ok(rendered) => rendered,
        Err(why) => return failed(message, &why),
    };
    let routes = match &sender.routes {
        Routes::Push(routes) => routes,
        Routes::Unreadable(why) => return judge::judge(message, &Outcome::Misconfigured(why.clone()), at),
        Routes::None | Routes::Email(_) | Routes::Sms(_) | Routes::InApp => {
            return failed(message, "channel_not_configured");
        }
    };
    let push = |token: &PushToken| Push {
        id: message.id,
        title: title.clone(),
        body: body.clone(),
        url: url.clone(),
        platform: token.platform,
        token: token.token.clone(),
    };
    if push(&tokens[0]).is_too_large() {
        return Settled { subject: Some(title), ..failed(message, TOO_LARGE) };
    }
    let served =
        tokens.iter().take(MAX_DEVICES).filter_map(|token| Some((token, routes.choose(token.platform, &token.token)?)));
    let calls = admit(message, served, admitted).await.into_iter().map(|(token, route, call)| async move {
        let outcome = match call {
            Ok(call) => route.send(&push(token), call).await,
            Err(limited) => limited,
        };
        DeviceResult { token, provider: route.name(), outcome }
    });
    let results: Vec<DeviceResult<'_>> = join_all(calls).await;
    failpoint::hit("delivery.after_push_sent");
    let Some(decisive) = devices::decisive(&results) else { return failed(message, "channel_not_configured") };
    for result in &results {
        sender.record_error(app, &result.outcome, &result.token.token).await;
    }
    forget_gone(app, message.project, &results).await;
    Settled {
        provider: decisive.provider,
        subject: Some(title),
        devices: Some(devices_json(&results)),
        ..judge::judge(message, &decisive.outcome, at)
    }
}

type Ready<'a> = (&'a PushToken, PushRoute<'a>, Result<Call, Outcome>);

/// Adds rate tokens to the calls, one device after another. Without a token for the first device no call is made, and the whole
/// message is deferred. Once one device has its token the others wait longer, because they would not be called again.
async fn admit<'a>(
    message: &ClaimedMessage,
    served: impl Iterator<Item = (&'a PushToken, PushRoute<'a>)>,
    mut admitted: Option<Token>,
) -> Vec<Ready<'a>> {
    let (mut ready, begun): (Vec<Ready<'a>>, _) = (Vec::new(), Instant::now());
    for (token, route) in served {
        let given = admitted.take_if(|token| route.limit().is_some_and(|limit| limit.is_of(token)));
        let call = Call::of(message, given);
        // With the circuit open, take no token.
        if route.is_open() && !call.ignore_circuit {
            ready.push((token, route, Ok(call)));
            continue;
        }
        let call = route.admit(if ready.is_empty() { call } else { call.following(begun) }).await;
        let is_deferred = call.is_err() && ready.is_empty();
        ready.push((token, route, call));
        if is_deferred {
            break;
        }
    }
    ready
}

/// Removes expired push tokens, unless they were registered again after they were read.
async fn forget_gone(app: &App, project: kernel::ids::ProjectId, results: &[DeviceResult<'_>]) {
    let gone = results.iter().filter(|r| matches!(r.outcome, Outcome::Gone(_)));
    let gone: Vec<(Uuid, jiff::Timestamp)> = gone.map(|r| (r.token.id, r.token.updated_at)).collect();
    if gone.is_empty() {
        return;
    }
    let removed = async { push_tokens::remove_gone(&app.store.connection().await?, project, &gone).await };
    if let Err(error) = removed.await {
        tracing::warn!(%project, %error, "cannot remove {} expired push tokens; the next push retries", gone.len());
    }
}

/// Returns the results for the ledger, without push tokens.
fn devices_json(results: &[DeviceResult<'_>]) -> Value {
    let device = |result: &DeviceResult<'_>| {
        let text = judge::clean(result.outcome.text());
        let mut device = json!({
            "platform": result.token.platform.as_str(), "provider": result.provider, "outcome": result.outcome.name(),
        });
        let field = if matches!(result.outcome, Outcome::Accepted(_)) { "providerMessageId" } else { "reason" };
        device[field] = text.into();
        device
    };
    results.iter().map(device).collect()
}
