//! The providers of the projects' channels, each made from one version of its settings.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::GenericClient;
use shared::ids::ProjectId;
use shared::send::Channel;
use shared::store::changes::{self, Topic};
use shared::store::messages::settle;
use shared::store::{StoreError, channels};
use tokio::time::Instant;

use crate::App;
use crate::config::DeliveryConfig;
use crate::provider::stub::Stub;
use crate::provider::{Email, MailProvider, NoProvider, Outcome};

/// How long wrong settings are not tried again.
const PAUSE: Duration = Duration::from_secs(30);
/// How often a working channel makes sure that no error is shown.
const CLEARED: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(500);
/// Messages that are made due together.
const PORTION: usize = 1_000;

/// The provider of one channel in one version of its settings.
pub struct Sender {
    pub project: ProjectId,
    pub channel: Channel,
    pub provider: Result<MailProvider, NoProvider>,
    version: i64,
    /// The settings have changed since.
    superseded: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was wrong, and until when it is not tried again.
    paused: Option<(Instant, String)>,
    cleared: Option<Instant>,
}

impl Sender {
    /// One provider call, unless the settings were found wrong a moment ago.
    pub async fn send(&self, email: &Email) -> Outcome {
        let provider = match &self.provider {
            Ok(provider) => provider,
            Err(NoProvider::NotConfigured) => return Outcome::Rejected("channel_not_configured".to_owned()),
            Err(NoProvider::Misconfigured(why)) => return Outcome::Misconfigured(why.clone()),
        };
        if let Some((until, why)) = &self.state().paused
            && Instant::now() < *until
        {
            return Outcome::Misconfigured(why.clone());
        }
        let outcome = provider.send(email).await;
        if let Outcome::Misconfigured(why) = &outcome {
            self.state().paused = Some((Instant::now() + PAUSE, why.clone()));
        }
        outcome
    }

    pub fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Relaxed)
    }

    /// Shows in the channel what the provider said about its settings, or that all is well. Failing to is no reason
    /// to hold a message up.
    pub async fn note(&self, app: &App, outcome: &Outcome) {
        let error = match outcome {
            Outcome::Misconfigured(why) => {
                self.state().cleared = None;
                Some(why.as_str())
            }
            Outcome::Accepted(_) => {
                let mut state = self.state();
                if state.cleared.is_some_and(|at| at.elapsed() < CLEARED) {
                    return;
                }
                state.cleared = Some(Instant::now());
                None
            }
            _ => return,
        };
        let written = async {
            let db = app.store.connection().await?;
            channels::set_error(&db, self.project, self.channel, self.version, error, app.clock.now()).await
        };
        if let Err(error) = written.await {
            tracing::warn!(project = %self.project, %error, "cannot note the state of a channel");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Key = (ProjectId, Channel);

#[derive(Default)]
pub struct Channels {
    senders: Mutex<HashMap<Key, Arc<Sender>>>,
    /// In the place of every provider, in tests.
    stub: Option<Stub>,
}

impl Channels {
    pub fn with_stub(stub: Stub) -> Self {
        Self { stub: Some(stub), ..Self::default() }
    }

    /// The sender for the settings as they are now.
    pub async fn get(
        &self,
        db: &impl GenericClient,
        config: &DeliveryConfig,
        project: ProjectId,
        channel: Channel,
    ) -> Result<Arc<Sender>, StoreError> {
        let settings = match channels::get(db, &config.master_keys, project, channel).await {
            Ok(settings) => settings.unwrap_or_default(),
            // Sealed under another master key: everything else goes on, and this channel says what is wrong.
            Err(StoreError::Corrupt(why)) => {
                return Ok(Arc::new(sender(project, channel, -1, Err(NoProvider::Misconfigured(why)))));
            }
            Err(error) => return Err(error),
        };
        if let Some(sender) = self.senders().get(&(project, channel)).filter(|s| s.version == settings.version) {
            return Ok(sender.clone());
        }
        let provider = match &self.stub {
            Some(stub) => Ok(MailProvider::Stub(stub.clone())),
            None => MailProvider::from_settings(&settings, config),
        };
        let sender = Arc::new(sender(project, channel, settings.version, provider));
        if let Some(old) = self.senders().insert((project, channel), sender.clone()) {
            old.superseded.store(true, Ordering::Relaxed);
        }
        Ok(sender)
    }

    fn senders(&self) -> MutexGuard<'_, HashMap<Key, Arc<Sender>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, key: Key) {
        if let Some(sender) = self.senders().remove(&key) {
            sender.superseded.store(true, Ordering::Relaxed);
        }
    }

    fn reap(&self) {
        for sender in self.senders().values() {
            if let Ok(MailProvider::Smtp(client)) = &sender.provider {
                client.reap();
            }
        }
    }
}

fn sender(project: ProjectId, channel: Channel, version: i64, provider: Result<MailProvider, NoProvider>) -> Sender {
    let (superseded, state) = (AtomicBool::new(false), Mutex::default());
    Sender { project, channel, provider, version, superseded, state }
}

/// Watches for changed settings until the shutdown: what waited for them to be mended is due at once.
pub async fn watch(app: Arc<App>) {
    let mut seen = None;
    loop {
        // The first look comes before anything was sent with settings that may have changed since.
        match look(&app, seen).await {
            Ok(newest) => seen = Some(newest),
            Err(error) => tracing::debug!(%error, "cannot look for changed channels"),
        }
        app.channels.reap();
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

async fn look(app: &App, seen: Option<i64>) -> Result<i64, StoreError> {
    let mut db = app.store.connection().await?;
    let newest = changes::current(&db, &[Topic::Channel]).await?.first().copied().unwrap_or(0);
    let Some(seen) = seen.filter(|seen| *seen < newest) else { return Ok(newest) };
    for (project, channel) in channels::changed_after(&db, seen).await? {
        app.channels.forget((project, channel));
        let (now, mut released) = (app.clock.now(), 0);
        for portion in settle::held(&db, project, channel, now).await?.chunks(PORTION) {
            released += settle::release_held(&mut db, project, channel, portion, now).await?;
        }
        if released > 0 {
            tracing::info!(%project, channel = channel.slug(), released, "the channel was changed; sending what waited");
        }
    }
    Ok(newest)
}
