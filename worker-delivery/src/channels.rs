//! Caches the providers and sending rules of the projects' channels, each built from one version of its settings.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use database::StoreError;
use database::changes::{self, Topic};
use deadpool_postgres::GenericClient;
use domain::message::{Channel, Lane, Queue};
use jiff::tz::TimeZone;
use kernel::ids::ProjectId;
use rules::sending_rules::{FrequencyCap, QuietHours};
use secrets::MasterKeys;
use secrets::vapid::VapidKeys;
use serde_json::Value;
use store_projects::channels::ChannelSettings;
use store_projects::{channels, projects, vapid_keys};
use store_sending::send_chunks;
use tokio::time::Instant;

use crate::App;
use crate::limits::{self, Limit};
use crate::provider_context::ProviderContext;
use crate::routes::Route;
use crate::routes::email::EmailRoutes;
use crate::routes::push::PushRoutes;
use providers::push::Push;
use providers::sms::{self, SmsConfig, SmsProvider};
use providers::stub::Stub;
use providers::{Email, Outcome};

/// How often a working channel clears its displayed error.
const CLEAR_INTERVAL: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(500);

/// One channel in one version of its settings.
pub struct ChannelSender {
    pub project: ProjectId,
    pub channel: Channel,
    pub routes: Routes,
    pub rules: Rules,
    version: i64,
    /// The settings have changed.
    superseded: AtomicBool,
    cleared: Mutex<Option<Instant>>,
}

/// The rules for messages of automations and campaigns.
pub struct Rules {
    pub quiet: Option<QuietHours>,
    pub cap: Option<FrequencyCap>,
    /// Users without an external ID are sent no email and no SMS.
    pub known_users_only: bool,
    /// The project's timezone.
    pub timezone: TimeZone,
}

impl Default for Rules {
    fn default() -> Self {
        Self { quiet: None, cap: None, known_users_only: false, timezone: TimeZone::UTC }
    }
}

/// Providers of a channel.
pub enum Routes {
    /// The settings name no provider.
    None,
    /// The settings cannot be read.
    Unreadable(String),
    Email(Box<EmailRoutes>),
    Push(Box<PushRoutes>),
    Sms(Box<Route<SmsProvider>>),
    /// The ledger's database.
    InApp,
}

impl Routes {
    fn from_settings(
        channel: Channel,
        settings: &ChannelSettings,
        vapid: Option<&VapidKeys>,
        context: &ProviderContext,
    ) -> Self {
        match channel {
            Channel::Email => {
                EmailRoutes::from_settings(settings, context).map_or(Self::None, |r| Self::Email(Box::new(r)))
            }
            Channel::Push => Self::Push(Box::new(PushRoutes::from_settings(settings, vapid, context))),
            Channel::InApp => Self::InApp,
            Channel::Sms => {
                let config = SmsConfig::from_settings(settings, &context.provider_urls.sms);
                let client = |config| sms::Client::new(config, context.http.clone(), context.clock.clone());
                let route = |config: Result<SmsConfig, String>| {
                    let per_second = limits::per_second(settings, "smsRateLimit");
                    let limit = config.as_ref().ok().and_then(|c| context.limits.of(&c.account(), per_second));
                    Route::new(config.map(|config| SmsProvider::Http(Box::new(client(config))))).with_limit(limit)
                };
                config.map_or(Self::None, |config| Self::Sms(Box::new(route(config))))
            }
        }
    }
}

impl ChannelSender {
    fn new(project: ProjectId, channel: Channel, version: i64, routes: Routes, rules: Rules) -> Self {
        let (superseded, cleared) = (AtomicBool::new(false), Mutex::default());
        Self { project, channel, routes, rules, version, superseded, cleared }
    }

    pub fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Relaxed)
    }

    fn serves_browsers(&self) -> bool {
        matches!(&self.routes, Routes::Push(routes) if routes.serves_browsers())
    }

    /// Returns the rate limit of the provider that would be called now.
    fn limit(&self) -> Option<Limit> {
        let limit = match &self.routes {
            Routes::Email(routes) => routes.choose().limit(),
            Routes::Push(routes) => routes.limit(),
            Routes::Sms(route) => route.limit(),
            Routes::None | Routes::Unreadable(_) | Routes::InApp => None,
        };
        limit.cloned()
    }

    /// The provider deduplicates by message ID, so a repeated call is safe.
    pub fn is_idempotent(&self) -> bool {
        match &self.routes {
            Routes::Email(routes) => routes.is_idempotent(),
            Routes::InApp => true,
            Routes::None | Routes::Unreadable(_) | Routes::Push(_) | Routes::Sms(_) => false,
        }
    }

    /// Records the provider's error about the channel's settings, or clears it. `recipient` is removed from the text, because the text
    /// is kept after the user's erasure. Errors are only logged.
    pub async fn record_error(&self, app: &App, outcome: &Outcome, recipient: &str) {
        let error = match outcome {
            Outcome::Misconfigured(why) => {
                *self.cleared() = None;
                Some(without(why, recipient))
            }
            Outcome::Accepted(_) => {
                let mut cleared = self.cleared();
                if cleared.is_some_and(|at| at.elapsed() < CLEAR_INTERVAL) {
                    return;
                }
                *cleared = Some(Instant::now());
                None
            }
            _ => return,
        };
        let written = async {
            let db = app.store.connection().await?;
            channels::set_error(&db, self.project, self.channel, self.version, error.as_deref(), app.clock.now()).await
        };
        if let Err(error) = written.await {
            tracing::warn!(project = %self.project, %error, "cannot record the state of a channel");
        }
    }

    fn cleared(&self) -> MutexGuard<'_, Option<Instant>> {
        self.cleared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Replaces a recipient in a provider's text, ignoring ASCII case.
fn without(text: &str, recipient: &str) -> String {
    let (lower, recipient) = (text.to_ascii_lowercase(), recipient.to_ascii_lowercase());
    if recipient.is_empty() {
        return text.to_owned();
    }
    let (mut kept, mut end) = (String::new(), 0);
    for (at, found) in lower.match_indices(&recipient) {
        kept.push_str(&text[end..at]);
        kept.push_str("(recipient)");
        end = at + found.len();
    }
    kept + &text[end..]
}

type Key = (ProjectId, Channel);

#[derive(Default)]
pub struct Channels {
    senders: Mutex<HashMap<Key, Arc<ChannelSender>>>,
    /// Counts invalidations: a sender whose settings were read before one is not cached.
    generation: AtomicU64,
    /// Replaces all mail providers, in tests.
    stub: Option<Stub<Email>>,
    /// Replaces all push providers, in tests.
    push_stub: Option<Stub<Push>>,
}

impl Channels {
    pub fn with_stub(stub: Stub<Email>) -> Self {
        Self { stub: Some(stub), ..Self::default() }
    }

    pub fn with_push_stub(stub: Stub<Push>) -> Self {
        Self { push_stub: Some(stub), ..Self::default() }
    }

    /// Returns the sender for the current settings.
    pub async fn get(
        &self,
        db: &impl GenericClient,
        keys: &MasterKeys,
        context: &ProviderContext,
        (project, channel): Key,
    ) -> Result<Arc<ChannelSender>, StoreError> {
        let generation = self.generation.load(Ordering::SeqCst);
        let settings = match channels::get(db, keys, project, channel).await {
            Ok(settings) => settings.unwrap_or_default(),
            // Encrypted under another master key: only this channel fails, with the reason.
            Err(StoreError::Corrupt(why)) => {
                return Ok(Arc::new(ChannelSender::new(
                    project,
                    channel,
                    -1,
                    Routes::Unreadable(why),
                    Rules::default(),
                )));
            }
            Err(error) => return Err(error),
        };
        let cached = self.senders().get(&(project, channel)).filter(|s| s.version == settings.version).cloned();
        // The project's VAPID keys are created on first use, possibly after the sender was cached.
        let vapid = match (channel, &cached) {
            (Channel::Push, None) => vapid(db, keys, project).await?,
            (Channel::Push, Some(sender)) if !sender.serves_browsers() => vapid(db, keys, project).await?,
            _ => None,
        };
        if let Some(sender) = cached.filter(|_| vapid.is_none()) {
            return Ok(sender);
        }
        let routes = match (channel, &self.stub, &self.push_stub) {
            (Channel::Email, Some(stub), _) => Routes::Email(Box::new(EmailRoutes::stub(stub.clone()))),
            (Channel::Push, _, Some(stub)) => Routes::Push(Box::new(PushRoutes::stub(stub.clone()))),
            _ => Routes::from_settings(channel, &settings, vapid.as_ref(), context),
        };
        let rules = rules(db, project, &settings).await?;
        let sender = Arc::new(ChannelSender::new(project, channel, settings.version, routes, rules));
        let mut senders = self.senders();
        if self.generation.load(Ordering::SeqCst) != generation {
            return Ok(sender);
        }
        if let Some(old) = senders.insert((project, channel), sender.clone()) {
            old.superseded.store(true, Ordering::Relaxed);
        }
        Ok(sender)
    }

    /// Returns the rate limit of a channel, from its cached settings.
    pub async fn limit(&self, app: &App, key: Key) -> Result<Option<Limit>, StoreError> {
        if key.1 == Channel::InApp {
            return Ok(None);
        }
        let cached = self.senders().get(&key).cloned();
        let sender = match cached {
            Some(sender) => sender,
            None => {
                self.get(&app.store.connection().await?, &app.config.master_keys, &app.provider_context, key).await?
            }
        };
        Ok(sender.limit())
    }

    fn senders(&self) -> MutexGuard<'_, HashMap<Key, Arc<ChannelSender>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, key: Key) {
        self.forget_where(|of, _| *of == key);
    }

    /// Invalidates senders that use an old timezone of the project.
    fn forget_timezone(&self, project: ProjectId, timezone: &TimeZone) {
        let is_old = |rules: &Rules| rules.quiet.is_some() && rules.timezone != *timezone;
        self.forget_where(|key, sender| key.0 == project && is_old(&sender.rules));
    }

    fn forget_where(&self, matches: impl Fn(&Key, &ChannelSender) -> bool) {
        let mut senders = self.senders();
        self.generation.fetch_add(1, Ordering::SeqCst);
        for (_, sender) in senders.extract_if(|key, sender| matches(key, sender)) {
            sender.superseded.store(true, Ordering::Relaxed);
        }
    }

    fn reap(&self) {
        for sender in self.senders().values() {
            if let Routes::Email(routes) = &sender.routes {
                routes.reap();
            }
        }
    }
}

async fn rules(db: &impl GenericClient, project: ProjectId, settings: &ChannelSettings) -> Result<Rules, StoreError> {
    let quiet = settings.settings.get("quietHours").and_then(QuietHours::from_value);
    let cap = settings.settings.get("frequencyCap").and_then(FrequencyCap::from_value);
    let timezone = if quiet.is_some() { projects::timezone(db, project).await? } else { TimeZone::UTC };
    let known_users_only = settings.settings.get("knownUsersOnly").and_then(Value::as_bool).unwrap_or(false);
    Ok(Rules { quiet, cap, known_users_only, timezone })
}

/// Returns a project's VAPID keys. If they cannot be decrypted, only browsers are not served.
async fn vapid(
    db: &impl GenericClient,
    keys: &MasterKeys,
    project: ProjectId,
) -> Result<Option<VapidKeys>, StoreError> {
    match vapid_keys::get(db, keys, project).await {
        Err(StoreError::Corrupt(why)) => {
            tracing::error!(%project, "{why}");
            Ok(None)
        }
        found => found,
    }
}

/// Watches for changed settings until shutdown. Messages held because of invalid settings are due at once after a change.
pub async fn watch(app: Arc<App>) {
    let mut seen = None;
    loop {
        // The first poll records the current positions; later ones invalidate changed settings.
        match poll_once(&app, seen).await {
            Ok(newest) => seen = Some(newest),
            Err(error) => tracing::debug!(%error, "cannot poll for changed channels"),
        }
        app.channels.reap();
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

/// Positions in the changes of channels and projects.
#[derive(Clone, Copy)]
struct ChangePositions {
    channels: i64,
    projects: i64,
}

async fn poll_once(app: &App, seen: Option<ChangePositions>) -> Result<ChangePositions, StoreError> {
    let db = app.store.connection().await?;
    let [of_channels, of_projects] = changes::current(&db, &[Topic::Channel, Topic::Project]).await?[..] else {
        return Err(StoreError::Corrupt("topics are missing".to_owned()));
    };
    let newest = ChangePositions { channels: of_channels, projects: of_projects };
    let Some(seen) = seen else { return Ok(newest) };
    if seen.projects < newest.projects {
        for (project, timezone) in projects::timezones_changed_after(&db, seen.projects).await? {
            app.channels.forget_timezone(project, &timezone);
        }
    }
    if seen.channels >= newest.channels {
        return Ok(newest);
    }
    for (project, channel) in channels::changed_after(&db, seen.channels).await? {
        app.channels.forget((project, channel));
        let released = send_chunks::release_held(&db, project, channel, app.due_by().held).await?;
        if released > 0 {
            tracing::info!(%project, channel = channel.slug(), released, "the channel was changed; releasing held messages");
            let owner = app.owners.of(&app.store, project).await?;
            for lane in Lane::ALL {
                app.dispatcher.ready(Queue { project, channel, lane }, owner);
            }
        }
    }
    Ok(newest)
}
