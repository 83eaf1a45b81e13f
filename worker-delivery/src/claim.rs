//! Claiming a slice of messages together with all that is needed to send them, in one transaction, so that nothing is
//! claimed that could not be tried.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use deadpool_postgres::Transaction;
use serde_json::Value;
use shared::ids::ProjectId;
use shared::send::Channel;
use shared::store::StoreError;
use shared::store::messages::claim::{Claimed, claim};
use shared::store::push_tokens::{self, PushToken};
use shared::store::users::recipient::{self, Recipient};
use uuid::Uuid;

use crate::App;
use crate::channels::Sender;
use crate::templates::Found;

/// A claimed message and what it needs.
pub struct Loaded {
    pub message: Claimed,
    /// None: there is no such person.
    pub recipient: Option<Recipient>,
    /// None where the message brings its own content, or its template is gone.
    pub template: Option<Found>,
    pub sender: Arc<Sender>,
    /// The person's devices, where the message is for them.
    pub tokens: Vec<PushToken>,
}

/// Claims what is still to be sent of a project's messages; committed on return.
pub async fn claim_slice(app: &App, project: ProjectId, wanted: &[(Uuid, i32)]) -> Result<Vec<Loaded>, StoreError> {
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await?;
    let now = app.clock.now();
    let claimed = claim(&tx, project, wanted, now.checked_add(app.config.lease).unwrap_or(now), now).await?;
    if claimed.is_empty() {
        return Ok(Vec::new());
    }
    let mut users: Vec<Uuid> = claimed.iter().flat_map(candidates).collect();
    users.sort_unstable();
    users.dedup();
    let people = recipient::load(&tx, project, &users).await?;
    let mut templates: Vec<Uuid> = claimed.iter().filter_map(|m| m.template_id).collect();
    templates.sort_unstable();
    templates.dedup();
    let templates = app.templates.load(&tx, project, &templates).await?;
    let mut senders: HashMap<Channel, Arc<Sender>> = HashMap::new();
    for message in &claimed {
        if let Entry::Vacant(place) = senders.entry(message.channel) {
            let key = (project, message.channel);
            place.insert(app.channels.get(&tx, &app.config.master_keys, &app.outside, key).await?);
        }
    }
    let tokens = devices(&tx, project, &claimed, &people).await?;
    tx.commit().await?;
    let load = |message: Claimed| {
        let sender = senders.get(&message.channel)?.clone();
        let recipient = candidates(&message).find_map(|id| people.get(&id)).cloned();
        let template = message.template_id.and_then(|id| templates.get(&id)).cloned();
        let devices = recipient.as_ref().filter(|_| message.channel == Channel::Push).and_then(|r| tokens.get(&r.id));
        let tokens = devices.cloned().unwrap_or_default();
        Some(Loaded { message, recipient, template, sender, tokens })
    };
    Ok(claimed.into_iter().filter_map(load).collect())
}

/// The devices of those who get a push, by person.
async fn devices(
    tx: &Transaction<'_>,
    project: ProjectId,
    claimed: &[Claimed],
    people: &HashMap<Uuid, Recipient>,
) -> Result<HashMap<Uuid, Vec<PushToken>>, StoreError> {
    let pushes = claimed.iter().filter(|m| m.channel == Channel::Push);
    let mut persons: Vec<Uuid> =
        pushes.filter_map(|m| Some(candidates(m).find_map(|id| people.get(&id))?.id)).collect();
    persons.sort_unstable();
    persons.dedup();
    push_tokens::of_people(tx, project, &persons).await
}

/// The ids that a message may be for: the row's own, and those that a direct message still had to choose from when it
/// came in before its user.
fn candidates(message: &Claimed) -> impl Iterator<Item = Uuid> {
    let others = message.content.get("userIds").and_then(Value::as_array).into_iter().flatten();
    let others: Vec<Uuid> = others.filter_map(|id| Uuid::try_parse(id.as_str()?).ok()).collect();
    std::iter::once(message.user_id).chain(others)
}
