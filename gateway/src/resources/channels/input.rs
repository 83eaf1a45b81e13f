//! Validates changes of the channel configuration, from one table of fields.

mod kind;

use domain::message::Channel;
use http_client::OutboundPolicy;
use rules::sending_rules::zone;
use rules::time::Span;
use rules::time::time_of_day;
use serde_json::{Map, Value, json};
use store_projects::channels::ChannelSettings;

use crate::http::error::ApiError;
use crate::http::fields::{Element, Fields, Text};
use kind::{Kind, checked};

struct Field {
    name: &'static str,
    channel: Channel,
    secret: bool,
    kind: Kind,
}

const fn setting(name: &'static str, channel: Channel, kind: Kind) -> Field {
    Field { name, channel, secret: false, kind }
}

const fn secret(name: &'static str, channel: Channel, kind: Kind) -> Field {
    Field { name, channel, secret: true, kind }
}

const FIELDS: &[Field] = &[
    setting("emailProvider", Channel::Email, Kind::OneOf(&["MAILPROVIDER", "SMTP"])),
    setting("emailFallback", Channel::Email, Kind::OneOf(&["MAILPROVIDER", "SMTP"])),
    secret("mailproviderApiKey", Channel::Email, Kind::Line(1_000)),
    setting("mailproviderFromEmail", Channel::Email, Kind::Email),
    setting("emailFromName", Channel::Email, Kind::Line(200)),
    setting("smtpHost", Channel::Email, Kind::Host),
    setting("smtpPort", Channel::Email, Kind::Port),
    setting("smtpUsername", Channel::Email, Kind::Line(320)),
    secret("smtpPassword", Channel::Email, Kind::Line(1_000)),
    setting("smtpSecurity", Channel::Email, Kind::OneOf(&["none", "starttls", "tls"])),
    setting("smtpRateLimit", Channel::Email, Kind::RateLimit),
    setting("mailproviderRateLimit", Channel::Email, Kind::RateLimit),
    // A server key, or the JSON of a service account.
    secret("pushGatewayServerKey", Channel::Push, Kind::Text(10_000)),
    setting("iosPushKeyId", Channel::Push, Kind::TenCharacters),
    setting("iosPushTeamId", Channel::Push, Kind::TenCharacters),
    secret("iosPushPrivateKey", Channel::Push, Kind::PrivateKey),
    setting("iosPushBundleId", Channel::Push, Kind::Line(255)),
    setting("iosPushEnvironment", Channel::Push, Kind::OneOf(&["production", "sandbox"])),
    setting("pushProviderAppId", Channel::Push, Kind::Line(200)),
    secret("pushProviderRestKey", Channel::Push, Kind::Line(1_000)),
    setting("iosPushRateLimit", Channel::Push, Kind::RateLimit),
    setting("pushGatewayRateLimit", Channel::Push, Kind::RateLimit),
    setting("pushProviderRateLimit", Channel::Push, Kind::RateLimit),
    setting("smsAccountId", Channel::Sms, Kind::Line(200)),
    secret("smsAuthToken", Channel::Sms, Kind::Line(1_000)),
    setting("smsFromNumber", Channel::Sms, Kind::PhoneNumber),
    setting("smsRateLimit", Channel::Sms, Kind::RateLimit),
];

/// Settings that determine where a secret is sent, and as which account.
///
/// Changing one of them clears the secret. Other secrets go to addresses that only the operator sets, or
/// (`iosPushPrivateKey`) are never sent.
const DESTINATIONS: &[(&str, &[&str])] = &[
    ("smtpPassword", &["smtpHost", "smtpPort", "smtpSecurity", "smtpUsername"]),
    ("pushProviderRestKey", &["pushProviderAppId"]),
    ("smsAuthToken", &["smsAccountId"]),
];

type Reader = fn(&Element<'_>) -> Option<Value>;
/// Settings that apply to all channels; each channel stores a copy.
const RULES: [(&str, Reader); 3] =
    [("quietHours", quiet_hours), ("frequencyCap", frequency_cap), ("knownUsersOnly", known_users_only)];
/// Maximum value of `frequencyCap.max`.
const CAP_MAX: i64 = 1_000_000;
/// Fields of the response that a request may not set.
const READ_ONLY: &[&str] = &["email", "push", "sms", "inApp"];

/// A field and its new value.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub channel: Channel,
    name: &'static str,
    secret: bool,
    /// `None` clears the field.
    value: Option<Value>,
}

impl Change {
    /// Returns the field's name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// Reads the fields in the request.
pub fn changes(body: &Map<String, Value>, outbound: &OutboundPolicy) -> Result<Vec<Change>, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    let mut changes = Vec::new();
    for Field { name, channel, secret, kind } in FIELDS {
        let Some(element) = fields.element(name) else { continue };
        let clears = element.value().is_null() || element.value() == "";
        let value = if clears { None } else { checked(&element, *kind, outbound) };
        changes.push(Change { channel: *channel, name, secret: *secret, value });
    }
    for (name, read) in RULES {
        let Some(element) = fields.element(name) else { continue };
        let clears = element.value().is_null() || element.value() == "";
        let value = if clears { None } else { read(&element) };
        let change = |channel| Change { channel, name, secret: false, value: value.clone() };
        changes.extend(Channel::ALL.map(change));
    }
    fields.finish()?;
    Ok(changes)
}

/// Reads `{ start, end, timezone }`: two times of day, and `user` or an IANA time zone name.
fn quiet_hours(element: &Element<'_>) -> Option<Value> {
    let mut fields = element.object()?;
    let mut times = Vec::new();
    for name in ["start", "end"] {
        let text = fields.required_text(name, &Text::line(5));
        if !text.is_empty() && time_of_day(text).is_none() {
            fields.problem(name, "must be a time of day such as 22:00");
        }
        times.push(text);
    }
    if times[0] == times[1] && time_of_day(times[0]).is_some() {
        fields.problem("end", "must differ from start");
    }
    let timezone = fields.text("timezone", &Text::line(100)).unwrap_or("user");
    if zone(timezone).is_none() {
        fields.problem("timezone", "must be `user`, or an IANA name such as Europe/Berlin");
    }
    fields.done();
    Some(json!({ "start": times[0], "end": times[1], "timezone": timezone }))
}

/// Reads `{ max, within }`.
fn frequency_cap(element: &Element<'_>) -> Option<Value> {
    let mut fields = element.object()?;
    let max = fields.required_integer("max", 0..=CAP_MAX).unwrap_or_default();
    let within = fields.required_text("within", &Text::line(20));
    if !within.is_empty() && Span::parse(within).is_none() {
        fields.problem("within", format!("must be {}", Span::ALLOWED));
    }
    fields.done();
    Some(json!({ "max": max, "within": within }))
}

fn known_users_only(element: &Element<'_>) -> Option<Value> {
    element.boolean().map(Value::from)
}

/// Names of the fields whose values changed, and of the secrets cleared implicitly.
#[derive(Debug, Default, PartialEq)]
pub struct Applied {
    pub changed: Vec<&'static str>,
    pub cleared: Vec<&'static str>,
}

/// Applies changes to a channel's settings.
///
/// If the destination of a secret changes and the request does not set the secret, it is cleared: otherwise a caller
/// could obtain it by pointing the channel at their own server.
pub fn apply(settings: &mut ChannelSettings, changes: Vec<Change>) -> Applied {
    let before = settings.clone();
    let mut named = Vec::new();
    for Change { name, secret, value, .. } in changes {
        named.push(name);
        match (secret, value) {
            (false, Some(value)) => {
                settings.settings.insert(name.to_owned(), value);
            }
            (true, Some(value)) => {
                settings.secrets.insert(name.to_owned(), value.as_str().unwrap_or_default().to_owned());
            }
            (false, None) => {
                settings.settings.remove(name);
            }
            (true, None) => {
                settings.secrets.remove(name);
            }
        }
    }
    let mut cleared = Vec::new();
    for (secret, destination) in DESTINATIONS {
        let moved = destination.iter().any(|field| before.settings.get(*field) != settings.settings.get(*field));
        if moved && !named.contains(secret) && settings.secrets.remove(*secret).is_some() {
            cleared.push(*secret);
        }
    }
    let differs = |name: &str| {
        before.settings.get(name) != settings.settings.get(name)
            || before.secrets.get(name) != settings.secrets.get(name)
    };
    named.retain(|name| differs(name));
    Applied { changed: named, cleared }
}

#[cfg(test)]
mod tests;
