//! Push: the provider that serves a device's platform.

use domain::push_token::Platform;
use secrets::vapid::VapidKeys;
use store_projects::channels::ChannelSettings;

use super::{Call, Route, call_provider};
use crate::limits::{self, Limit};
use crate::provider_context::ProviderContext;
use providers::push::Push;
use providers::push_carrier::PushProvider;
use providers::push_mailbox::PushMailbox;
use providers::stub::Stub;
use providers::{Outcome, Provider, apns, fcm, onesignal, web_push};

pub struct PushRoutes {
    direct: Option<Route<PushProvider>>,
    gateway: Option<Route<PushProvider>>,
    third_party: Option<Route<PushProvider>>,
    web: Option<PushProvider>,
    /// For made-up test devices.
    mailbox: Option<Route<PushProvider>>,
}

/// The provider of one device.
pub enum PushRoute<'a> {
    Shared(&'a Route<PushProvider>),
    /// Each browser names its own push service, so there is no shared circuit.
    Web(&'a PushProvider),
}

impl PushRoutes {
    pub fn stub(stub: Stub<Push>) -> Self {
        let route = || Some(Route::new(Ok(PushProvider::Stub(stub.clone()))));
        Self {
            direct: route(),
            gateway: route(),
            third_party: route(),
            web: Some(PushProvider::Stub(stub.clone())),
            mailbox: None,
        }
    }

    pub fn from_settings(settings: &ChannelSettings, vapid: Option<&VapidKeys>, context: &ProviderContext) -> Self {
        let ProviderContext { http, provider_urls, clock, apns_tokens, limits } = context;
        let per_second = |field| limits::per_second(settings, field);
        let direct = apns::ApnsConfig::from_settings(settings, provider_urls.apns.as_ref()).map(|config| {
            let client = |config| apns::Client::new(config, apns_tokens.clone(), http, clock.clone());
            let account = config.as_ref().ok().map(apns::ApnsConfig::account);
            let limit = account.and_then(|names| limits.of(&names, per_second("iosPushRateLimit")));
            Route::new(config.map(|config| PushProvider::Apns(Box::new(client(config))))).with_limit(limit)
        });
        let gateway = settings.secret("pushGatewayServerKey").map(|key| {
            let config = fcm::FcmConfig::from_key(key, &provider_urls.fcm);
            let client = |config| fcm::Client::new(config, http.clone(), clock.clone());
            let account = config.as_ref().ok().map(fcm::FcmConfig::account);
            let limit = account.and_then(|names| limits.of(&names, per_second("pushGatewayRateLimit")));
            Route::new(config.map(|config| PushProvider::Fcm(Box::new(client(config))))).with_limit(limit)
        });
        let third_party = onesignal::OneSignalConfig::from_settings(
            settings,
            provider_urls.shared_push_app.as_ref(),
            &provider_urls.onesignal,
        );
        let third_party = third_party.map(|config| {
            let client = |config| onesignal::Client::new(config, http.clone(), clock.clone());
            let limit = config.as_ref().ok().and_then(|config| {
                // The operator configures the rate limit of the shared app.
                let is_shared = provider_urls.shared_push_app.as_ref() == Some(&config.app);
                let own = || per_second("pushProviderRateLimit");
                limits.of(&config.account(), if is_shared { provider_urls.shared_push_limit } else { own() })
            });
            Route::new(config.map(|config| PushProvider::OneSignal(Box::new(client(config))))).with_limit(limit)
        });
        let web = vapid.and_then(|keys| {
            let config = web_push::WebPushConfig::new(keys, provider_urls.vapid_subject.as_deref());
            let config = config.inspect_err(|error| tracing::error!("{error}")).ok()?;
            let client = web_push::Client::new(config, http.clone(), clock.clone());
            Some(PushProvider::WebPush(Box::new(client)))
        });
        let mailbox = provider_urls
            .push_mailbox
            .as_deref()
            .map(|dir| Route::new(Ok(PushProvider::Mailbox(PushMailbox::new(dir)))));
        Self { direct, gateway, third_party, web, mailbox }
    }

    pub fn serves_browsers(&self) -> bool {
        self.web.is_some()
    }

    /// Returns the rate limit of the only provider. With several providers, each call takes its own token.
    pub fn limit(&self) -> Option<&Limit> {
        let mut routes = [&self.direct, &self.gateway, &self.third_party].into_iter().flatten();
        let only = routes.next()?;
        if routes.next().is_some() { None } else { only.limit() }
    }

    /// Returns the provider of a device, if any. Subscriptions of the third-party provider go only to that provider.
    pub fn choose(&self, platform: Platform, token: &str) -> Option<PushRoute<'_>> {
        if let Some(mailbox) = self.mailbox.as_ref().filter(|_| PushMailbox::is_device(token)) {
            return Some(PushRoute::Shared(mailbox));
        }
        let [direct, gateway, third_party] = [&self.direct, &self.gateway, &self.third_party].map(Option::as_ref);
        match platform {
            Platform::Ios | Platform::Android if onesignal::is_subscription(token) => {
                third_party.map(PushRoute::Shared)
            }
            Platform::Ios => direct.or(third_party).or(gateway).map(PushRoute::Shared),
            Platform::Android => gateway.or(third_party).map(PushRoute::Shared),
            Platform::Web => self.web.as_ref().map(PushRoute::Web),
        }
    }
}

impl PushRoute<'_> {
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Shared(route) => route.name(),
            Self::Web(provider) => Some(provider.name()),
        }
    }

    /// Adds a rate token to a call, like [`Route::admit`].
    pub async fn admit(&self, call: Call) -> Result<Call, Outcome> {
        match self {
            Self::Shared(route) => route.admit(call).await,
            Self::Web(_) => Ok(call),
        }
    }

    /// Whether the settings are invalid or the circuit is open.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Shared(route) => route.is_open(),
            Self::Web(_) => false,
        }
    }

    pub fn limit(&self) -> Option<&Limit> {
        match self {
            Self::Shared(route) => route.limit(),
            Self::Web(_) => None,
        }
    }

    pub async fn send(&self, push: &Push, call: Call) -> Outcome {
        match self {
            Self::Shared(route) => route.send(push, call).await,
            Self::Web(provider) => call_provider(*provider, push, call.trace).await,
        }
    }
}
