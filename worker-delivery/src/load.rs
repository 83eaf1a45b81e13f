//! Loads everything that a batch of messages needs to be sent. Independent queries share a round trip.

mod frequency;
pub mod suppressed;
pub mod templates;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use database::StoreError;
use deadpool_postgres::Transaction;
use domain::link::{self, LinkClaims};
use domain::message::{Channel, Lane};
use domain::recipient::Recipient;
use domain::suppression::{Address, Reason};
use kernel::ids::ProjectId;
use serde_json::Value;
use store_profiles::push_tokens::{self, PushToken};
use store_profiles::users::recipient;
use store_projects::projects;
use store_sending::capped_sends;
use store_sending::messages::claim::ClaimedMessage;
use store_sending::suppressions;
use uuid::Uuid;

use crate::App;
use crate::channels::ChannelSender;
use crate::render::PREFERENCES_URL;
use crate::settle::judge;
use frequency::Frequency;
use templates::CompiledTemplate;

/// Template variable that holds the unsubscribe link.
pub const UNSUBSCRIBE_URL: &str = "unsubscribeUrl";

/// A message and the data that it needs.
pub struct Loaded {
    pub message: ClaimedMessage,
    /// None if the user does not exist.
    pub recipient: Option<Recipient>,
    /// None if the message has its own content, or its template was deleted.
    pub template: Option<CompiledTemplate>,
    pub sender: Arc<ChannelSender>,
    /// Push tokens of the user; empty on other channels.
    pub tokens: Vec<PushToken>,
    /// Status reason if the message is suppressed.
    pub suppressed: Option<&'static str>,
    /// The frequency cap is reached.
    pub capped: bool,
    /// Recorded against the frequency cap.
    pub counted: bool,
    /// Whether opens and clicks are tracked.
    pub tracked: bool,
}

/// Data of a batch's users that was read earlier.
#[derive(Default)]
pub struct Preloaded {
    /// The users by each id of the messages; `None`: not read yet. Users of a campaign are read once, under its lock: of two recipients, one
    /// may be merged into the other afterwards.
    pub users: Option<HashMap<Uuid, Recipient>>,
    /// Messages whose users get another message of the same sending.
    pub superseded: HashSet<Uuid>,
}

/// Result of the project's rules and the suppression list for a message.
#[derive(Clone, Copy, Default)]
struct Eligibility {
    suppressed: Option<&'static str>,
    capped: bool,
    counted: bool,
}

/// Loads the data of one project's messages, in their order. Records sends that count against a frequency cap in the transaction.
pub async fn load(
    app: &App,
    tx: &Transaction<'_>,
    project: ProjectId,
    messages: Vec<ClaimedMessage>,
    preloaded: Preloaded,
) -> Result<Vec<Loaded>, StoreError> {
    let now = app.clock.now();
    let (users, template_ids): (BTreeSet<Uuid>, BTreeSet<Uuid>) =
        (messages.iter().flat_map(candidates).collect(), messages.iter().filter_map(|m| m.template_id).collect());
    let (users, template_ids): (Vec<Uuid>, Vec<Uuid>) =
        (users.into_iter().collect(), template_ids.into_iter().collect());
    let has_mail = messages.iter().any(|m| m.channel == Channel::Email);
    let tracks = async { if has_mail { projects::tracks(tx, project).await } else { Ok(false) } };
    let Preloaded { users: preloaded_users, superseded } = preloaded;
    let users_by_id = async {
        match preloaded_users {
            Some(preloaded_users) => Ok(preloaded_users),
            None => recipient::load(tx, project, &users).await,
        }
    };
    let (users_by_id, templates, senders, tracks) = tokio::try_join!(
        users_by_id,
        app.templates.load(tx, project, &template_ids),
        senders(app, tx, project, &messages),
        tracks
    )?;
    let recipient = |m: &ClaimedMessage| candidates(m).find_map(|id| users_by_id.get(&id));
    let listed: Vec<Address> =
        messages.iter().filter_map(|m| Some(suppressed::addresses(m.channel, recipient(m)?))).flatten().collect();
    let (listed, subscribed, tokens) = tokio::try_join!(
        suppressions::reasons(tx, project, &listed),
        suppressed::subscribed(tx, project, &messages, recipient),
        devices(tx, project, &messages, &users_by_id)
    )?;
    let mut frequency = Frequency::load(tx, project, &messages, recipient, &senders, now).await?;
    let (mut eligibility_by_id, mut counted) = (HashMap::new(), Vec::new());
    for message in &messages {
        let (Some(user), Some(sender)) = (recipient(message), senders.get(&message.channel)) else { continue };
        let reason = suppressed::reason(message, user, &listed).map(Reason::status_reason);
        let reason = reason
            .or_else(|| suppressed::group_reason(message, user, &subscribed))
            .or_else(|| suppressed::anonymous_reason(message, user, &sender.rules))
            .or_else(|| superseded.contains(&message.id).then_some(suppressed::MERGED));
        // Messages of the same batch count too.
        let cap = sender.rules.cap.filter(|_| message.lane != Lane::Direct && reason.is_none());
        let eligibility = match cap.map(|cap| frequency.admit(cap, project, message, user, now)) {
            None => Eligibility { suppressed: reason, ..Eligibility::default() },
            Some(None) => Eligibility { capped: true, ..Eligibility::default() },
            Some(Some(send)) => {
                counted.push((send, message.attempt));
                Eligibility { counted: true, ..Eligibility::default() }
            }
        };
        eligibility_by_id.insert(message.id, eligibility);
    }
    capped_sends::record(tx, project, &counted).await?;
    let load = |message: ClaimedMessage| {
        let sender = senders.get(&message.channel)?.clone();
        let recipient = recipient(&message).cloned();
        let template = message.template_id.and_then(|id| templates.get(&id)).cloned();
        let devices = recipient.as_ref().filter(|_| message.channel == Channel::Push).and_then(|r| tokens.get(&r.id));
        let tokens = devices.cloned().unwrap_or_default();
        let Eligibility { suppressed, capped, counted } =
            eligibility_by_id.get(&message.id).copied().unwrap_or_default();
        let tracked =
            tracks && app.config.is_reachable && message.channel == Channel::Email && !judge::is_test(&message);
        let mut loaded = Loaded { message, recipient, template, sender, tokens, suppressed, capped, counted, tracked };
        add_links(app, &mut loaded);
        Some(loaded)
    };
    Ok(messages.into_iter().filter_map(load).collect())
}

/// Returns the sender of each channel of the messages.
async fn senders(
    app: &App,
    tx: &Transaction<'_>,
    project: ProjectId,
    messages: &[ClaimedMessage],
) -> Result<HashMap<Channel, Arc<ChannelSender>>, StoreError> {
    let mut senders: HashMap<Channel, Arc<ChannelSender>> = HashMap::new();
    for message in messages {
        if let Entry::Vacant(entry) = senders.entry(message.channel) {
            let key = (project, message.channel);
            entry.insert(app.channels.get(tx, &app.config.master_keys, &app.provider_context, key).await?);
        }
    }
    Ok(senders)
}

/// Adds the links that templates may use to the message's data.
fn add_links(app: &App, loaded: &mut Loaded) {
    let Loaded { message, recipient, template, .. } = loaded;
    let is_mail = message.channel == Channel::Email;
    let names_preferences = match template.as_ref().and_then(|t| t.as_ref().ok()) {
        Some(template) => template.names_preferences,
        None => {
            let mut own = ["body", "url"].iter().filter_map(|part| message.content.get(part)?.as_str());
            own.any(|source| source.contains(PREFERENCES_URL))
        }
    };
    if !is_mail && !names_preferences {
        return;
    }
    let user = recipient.as_ref().map_or(message.user_id, |user| user.id);
    let (group, channel) = (message.subscription_group_id, Some(message.channel));
    let about = LinkClaims { project: message.project, message: message.id, user, group, channel };
    let (keys, base) = (&app.config.master_keys, &app.config.public_base_url);
    let unsubscribe = is_mail.then(|| (UNSUBSCRIBE_URL, link::unsubscribe(keys, base, about)));
    let preferences = names_preferences.then(|| (PREFERENCES_URL, link::preferences(keys, base, about)));
    if let Some(data) = message.data.as_object_mut() {
        let links = unsubscribe.into_iter().chain(preferences);
        data.extend(links.map(|(name, url)| (name.to_owned(), url.into())));
    }
}

/// Push tokens by user.
async fn devices(
    tx: &Transaction<'_>,
    project: ProjectId,
    claimed: &[ClaimedMessage],
    users_by_id: &HashMap<Uuid, Recipient>,
) -> Result<HashMap<Uuid, Vec<PushToken>>, StoreError> {
    let pushes = claimed.iter().filter(|m| m.channel == Channel::Push);
    let mut user_ids: Vec<Uuid> =
        pushes.filter_map(|m| Some(candidates(m).find_map(|id| users_by_id.get(&id))?.id)).collect();
    user_ids.sort_unstable();
    user_ids.dedup();
    push_tokens::of_users(tx, project, &user_ids).await
}

/// User IDs to try: the row's, then the other candidates of a direct message that arrived before its user.
fn candidates(message: &ClaimedMessage) -> impl Iterator<Item = Uuid> {
    let others = message.content.get("userIds").and_then(Value::as_array).into_iter().flatten();
    let others: Vec<Uuid> = others.filter_map(|id| Uuid::try_parse(id.as_str()?).ok()).collect();
    std::iter::once(message.user_id).chain(others)
}
