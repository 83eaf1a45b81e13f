//! Mail: by the provider of the settings, or by the second one while the first is down.

use shared::store::channels::ChannelSettings;

use super::Route;
use crate::limits::{self, Limit, Limits};
use crate::provider::stub::Stub;
use crate::provider::{Email, MailProvider, Outside, mail_http, smtp};

pub struct EmailRoutes {
    first: Route<MailProvider>,
    second: Option<Route<MailProvider>>,
}

impl EmailRoutes {
    pub fn stub(stub: Stub<Email>) -> Self {
        Self { first: Route::new(Ok(MailProvider::Stub(stub))), second: None }
    }

    /// None where the settings name no provider.
    pub fn from_settings(settings: &ChannelSettings, outside: &Outside) -> Option<Self> {
        let name = |field| settings.text(field).map(str::trim).filter(|n| !n.is_empty()).map(str::to_ascii_uppercase);
        let first = match name("emailProvider") {
            Some(name) => name,
            None if settings.text("smtpHost").is_some() => "SMTP".to_owned(),
            None if settings.secret("mailproviderApiKey").is_some() => "MAILPROVIDER".to_owned(),
            None => return None,
        };
        let second = name("emailFallback").filter(|second| *second != first);
        let route = |name: &str| {
            let provider = provider(name, settings, outside);
            let limit = provider.as_ref().ok().and_then(|provider| limit(provider, settings, &outside.limits));
            Route::new(provider).limited(limit)
        };
        Some(Self { first: route(&first), second: second.map(|name| route(&name)) })
    }

    /// The first provider, unless it is down and there is a second one that is not.
    pub fn choose(&self) -> &Route<MailProvider> {
        match &self.second {
            Some(second) if self.first.is_open() && !second.is_open() => second,
            _ => &self.first,
        }
    }

    /// Whether another provider can take what this one could not.
    pub fn has_second(&self) -> bool {
        self.second.is_some()
    }

    /// Whether a repeat reaches the provider that would recognise it.
    pub fn repeats_safely(&self) -> bool {
        self.first.repeats_safely() && self.second.is_none()
    }

    pub fn reap(&self) {
        self.first.reap();
        if let Some(second) = &self.second {
            second.reap();
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

fn provider(name: &str, settings: &ChannelSettings, outside: &Outside) -> Result<MailProvider, String> {
    match name {
        "SMTP" => {
            let smtp = smtp::SmtpConfig::from_settings(settings)?;
            Ok(MailProvider::Smtp(Box::new(smtp::Client::new(smtp, &outside.http))))
        }
        "MAILPROVIDER" => {
            let mail = mail_http::MailHttpConfig::from_settings(settings, &outside.addresses.mail)?;
            let client = mail_http::Client::new(mail, outside.http.clone(), outside.clock.clone());
            Ok(MailProvider::Http(Box::new(client)))
        }
        other => Err(format!("the provider {other:?} is not supported; allowed: MAILPROVIDER, SMTP")),
    }
}
