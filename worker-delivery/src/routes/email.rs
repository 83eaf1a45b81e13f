//! Mail: the configured provider, or the fallback provider while the primary one is down.

use store_projects::channels::ChannelSettings;

use super::Route;
use crate::limits::{self, Limit, Limits};
use crate::provider_context::ProviderContext;
use providers::stub::Stub;
use providers::{Email, MailProvider, resend, smtp};

pub struct EmailRoutes {
    primary: Route<MailProvider>,
    fallback: Option<Route<MailProvider>>,
}

impl EmailRoutes {
    pub fn stub(stub: Stub<Email>) -> Self {
        Self { primary: Route::new(Ok(MailProvider::Stub(stub))), fallback: None }
    }

    /// Returns `None` if the settings name no provider.
    pub fn from_settings(settings: &ChannelSettings, context: &ProviderContext) -> Option<Self> {
        let name = |field| settings.text(field).map(str::trim).filter(|n| !n.is_empty()).map(str::to_ascii_uppercase);
        let primary = match name("emailProvider") {
            Some(name) => name,
            None if settings.text("smtpHost").is_some() => "SMTP".to_owned(),
            None if settings.secret("mailproviderApiKey").is_some() => "MAILPROVIDER".to_owned(),
            None => return None,
        };
        let fallback = name("emailFallback").filter(|fallback| *fallback != primary);
        let route = |name: &str| {
            let provider = provider(name, settings, context);
            let limit = provider.as_ref().ok().and_then(|provider| limit(provider, settings, &context.limits));
            Route::new(provider).with_limit(limit)
        };
        Some(Self { primary: route(&primary), fallback: fallback.map(|name| route(&name)) })
    }

    /// Returns the primary provider, or the fallback while only the primary is unavailable.
    pub fn choose(&self) -> &Route<MailProvider> {
        match &self.fallback {
            Some(fallback) if self.primary.is_open() && !fallback.is_open() => fallback,
            _ => &self.primary,
        }
    }

    /// Whether a fallback provider is configured.
    pub fn has_fallback(&self) -> bool {
        self.fallback.is_some()
    }

    /// Whether a repeated call is safe: a provider deduplicates by message ID, and no fallback could get the repeat.
    pub fn is_idempotent(&self) -> bool {
        self.primary.is_idempotent() && self.fallback.is_none()
    }

    pub fn reap(&self) {
        self.primary.reap();
        if let Some(fallback) = &self.fallback {
            fallback.reap();
        }
    }
}

fn limit(provider: &MailProvider, settings: &ChannelSettings, limits: &Limits) -> Option<Limit> {
    let per_second = |field| limits::per_second(settings, field);
    match provider {
        MailProvider::Smtp(client) => limits.of(&client.account(), per_second("smtpRateLimit")),
        MailProvider::Http(client) => limits.of(&client.account(), per_second("mailproviderRateLimit")),
        MailProvider::Stub(_) => None,
    }
}

fn provider(name: &str, settings: &ChannelSettings, context: &ProviderContext) -> Result<MailProvider, String> {
    match name {
        "SMTP" => {
            let smtp = smtp::SmtpConfig::from_settings(settings)?;
            Ok(MailProvider::Smtp(Box::new(smtp::Client::new(smtp, &context.http))))
        }
        "MAILPROVIDER" => {
            let mail = resend::MailHttpConfig::from_settings(settings, &context.provider_urls.mail)?;
            let client = resend::Client::new(mail, context.http.clone(), context.clock.clone());
            Ok(MailProvider::Http(Box::new(client)))
        }
        other => Err(format!("the provider {other:?} is not supported; allowed: MAILPROVIDER, SMTP")),
    }
}
