//! Claiming a slice of messages together with all that is needed to send them, in one transaction, so that nothing is
//! claimed that could not be tried.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use deadpool_postgres::Transaction;
use serde_json::Value;
use shared::ids::ProjectId;
use shared::link::{self, About};
use shared::send::{Channel, Lane};
use shared::store::StoreError;
use shared::store::capped_sends;
use shared::store::messages;
use shared::store::messages::claim::{Claimed, claim, claim_locked};
use shared::store::messages::merged::{self, Other};
use shared::store::projects;
use shared::store::push_tokens::{self, PushToken};
use shared::store::suppressions;
use shared::store::users::recipient::{self, Recipient};
use shared::suppression::{Address, Reason};
use uuid::Uuid;

use crate::App;
use crate::channels::Sender;
use crate::frequency::Frequency;
use crate::render::PREFERENCES_URL;
use crate::settle::judge;
use crate::suppressed;
use crate::templates::Found;

/// What templates call the link by which its person takes themselves off the list.
pub const UNSUBSCRIBE_URL: &str = "unsubscribeUrl";

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
    /// Why the person is not written to, where that is so: as the ledger says it.
    pub suppressed: Option<&'static str>,
    /// The user's other message of the same sending is being claimed, so this one is decided on later.
    pub is_undecided: bool,
    /// The user, or the address, has been sent as many messages lately as the project allows.
    pub capped: bool,
    /// It is recorded as a send that counts against the frequency cap.
    pub counted: bool,
    /// Whether it is to be known if it was opened and what was clicked.
    pub tracked: bool,
}

/// What the project's rules and the suppression list say about a message.
#[derive(Clone, Copy, Default)]
struct Verdict {
    suppressed: Option<&'static str>,
    is_undecided: bool,
    capped: bool,
    counted: bool,
}

/// What becomes of rows that somebody holds just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    LeftOut,
    /// Whoever waits holds no others.
    WaitedFor,
}

/// Claims what is still to be sent of a project's messages; committed on return.
pub async fn claim_slice(
    app: &App,
    project: ProjectId,
    wanted: &[(Uuid, i32)],
    held: Held,
) -> Result<Vec<Loaded>, StoreError> {
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await?;
    let now = app.clock.now();
    let lease = now.checked_add(app.config.lease).unwrap_or(now);
    let claimed = match held {
        Held::LeftOut => claim(&tx, project, wanted, lease, now).await?,
        Held::WaitedFor => claim_locked(&tx, project, wanted, lease, now).await?,
    };
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
    let listed: Vec<Address> = claimed
        .iter()
        .filter_map(|m| Some(suppressed::addresses(m.channel, candidates(m).find_map(|id| people.get(&id))?)))
        .flatten()
        .collect();
    let listed = suppressions::reasons(&tx, project, &listed).await?;
    let tracks = claimed.iter().any(|m| m.channel == Channel::Email) && projects::tracks(&tx, project).await?;
    let recipient = |m: &Claimed| candidates(m).find_map(|id| people.get(&id));
    let subscribed = suppressed::subscribed(&tx, project, &claimed, recipient).await?;
    let others = merged::others(&tx, project, &claimed, |m| Some(recipient(m)?.id)).await?;
    let mut frequency = Frequency::load(&tx, project, &claimed, recipient, &senders, now).await?;
    let (mut verdicts, mut counted) = (HashMap::new(), Vec::new());
    for message in &claimed {
        let (Some(person), Some(sender)) = (recipient(message), senders.get(&message.channel)) else { continue };
        let reason = suppressed::reason(message, person, &listed).map(Reason::status_reason);
        let other = others.get(&message.id);
        let reason = reason
            .or_else(|| suppressed::by_group(message, person, &subscribed))
            .or_else(|| suppressed::as_anonymous(message, person, &sender.rules))
            .or_else(|| (other == Some(&Other::Sent)).then_some(suppressed::MERGED));
        if reason.is_none() && other == Some(&Other::Locked) {
            verdicts.insert(message.id, Verdict { is_undecided: true, ..Verdict::default() });
            continue;
        }
        // Of several in one slice only as many go out as the cap allows.
        let cap = sender.rules.cap.filter(|_| message.lane != Lane::Direct && reason.is_none());
        let verdict = match cap.map(|cap| frequency.admit(cap, project, message, person, now)) {
            None => Verdict { suppressed: reason, ..Verdict::default() },
            Some(None) => Verdict { capped: true, ..Verdict::default() },
            Some(Some(send)) => {
                counted.push((send, message.attempt));
                Verdict { counted: true, ..Verdict::default() }
            }
        };
        verdicts.insert(message.id, verdict);
    }
    capped_sends::record(&tx, project, &counted).await?;
    let tokens = devices(&tx, project, &claimed, &people).await?;
    tx.commit().await?;
    let load = |mut message: Claimed| {
        let sender = senders.get(&message.channel)?.clone();
        let recipient = candidates(&message).find_map(|id| people.get(&id)).cloned();
        let template = message.template_id.and_then(|id| templates.get(&id)).cloned();
        let devices = recipient.as_ref().filter(|_| message.channel == Channel::Push).and_then(|r| tokens.get(&r.id));
        let tokens = devices.cloned().unwrap_or_default();
        let Verdict { suppressed, is_undecided, capped, counted } =
            verdicts.get(&message.id).copied().unwrap_or_default();
        let (is_mail, template_found) =
            (message.channel == Channel::Email, template.as_ref().and_then(|t| t.as_ref().ok()));
        let names_preferences = match template_found {
            Some(template) => template.names_preferences,
            None => {
                let mut own = ["body", "url"].iter().filter_map(|part| message.content.get(part)?.as_str());
                own.any(|source| source.contains(PREFERENCES_URL))
            }
        };
        if is_mail || names_preferences {
            let user = recipient.as_ref().map_or(message.user_id, |person| person.id);
            let (group, channel) = (message.subscription_group_id, Some(message.channel));
            let about = About { project, message: message.id, user, group, channel };
            let (keys, base) = (&app.config.master_keys, &app.config.public_base_url);
            let unsubscribe = is_mail.then(|| (UNSUBSCRIBE_URL, link::unsubscribe(keys, base, about)));
            let preferences = names_preferences.then(|| (PREFERENCES_URL, link::preferences(keys, base, about)));
            if let Some(data) = message.data.as_object_mut() {
                let links = unsubscribe.into_iter().chain(preferences);
                data.extend(links.map(|(name, url)| (name.to_owned(), url.into())));
            }
        }
        let tracked =
            tracks && app.config.is_reachable && message.channel == Channel::Email && !judge::is_test(&message);
        Some(Loaded {
            message,
            recipient,
            template,
            sender,
            tokens,
            suppressed,
            is_undecided,
            capped,
            counted,
            tracked,
        })
    };
    Ok(claimed.into_iter().filter_map(load).collect())
}

/// Those of a project's messages that are still to be sent, or are just being claimed by others.
pub async fn standing(
    app: &App,
    project: ProjectId,
    wanted: &[(Uuid, i32)],
) -> Result<HashSet<(Uuid, i32)>, StoreError> {
    let db = app.store.connection().await?;
    Ok(messages::claim::standing(&db, project, wanted).await?.into_iter().collect())
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
