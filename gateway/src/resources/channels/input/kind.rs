//! Value types of the channel configuration.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use http_client::OutboundPolicy;
use serde_json::Value;

use crate::http::fields::{Element, Text};

/// Allowed rate limits of a provider account, in calls per second.
const RATE_LIMITS: RangeInclusive<i64> = 1..=100_000;

/// Type of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One line with at most this many characters.
    Line(usize),
    /// Any text with at most this many characters.
    Text(usize),
    Email,
    Host,
    Port,
    /// Calls per second.
    RateLimit,
    OneOf(&'static [&'static str]),
    /// Exactly ten letters and digits.
    TenCharacters,
    PrivateKey,
    PhoneNumber,
}

/// Returns the value to store. Reports a problem and returns `None` if it is invalid.
pub(super) fn checked(element: &Element<'_>, kind: Kind, outbound: &OutboundPolicy) -> Option<Value> {
    if kind == Kind::Port {
        return element.integer(1..=65_535).map(Value::from);
    }
    if kind == Kind::RateLimit {
        return element.integer(RATE_LIMITS).map(Value::from);
    }
    let text = match kind {
        Kind::Line(max) => element.text(&Text::line(max))?,
        Kind::Text(max) => element.text(&Text::any(max))?,
        Kind::PrivateKey => element.text(&Text::any(10_000))?,
        _ => element.text(&Text::line(320))?.trim(),
    };
    let refusal = match kind {
        Kind::Line(_) | Kind::Text(_) | Kind::Port | Kind::RateLimit => None,
        Kind::Email => {
            (!domain::email::is_address(text)).then(|| "must be an email address such as news@example.com".to_owned())
        }
        Kind::Host => host_refusal(text, outbound),
        Kind::OneOf(names) => (!names.contains(&text)).then(|| format!("must be one of {}", names.join(", "))),
        Kind::TenCharacters => (text.len() != 10 || !text.bytes().all(|b| b.is_ascii_alphanumeric()))
            .then(|| "must be exactly 10 letters and digits".to_owned()),
        Kind::PrivateKey => (!is_pem_key(text)).then(|| "must be a private key in PEM format".to_owned()),
        Kind::PhoneNumber => (!is_sender(text)).then(|| {
            "must be a number such as +15551234567, or a sender name of at most 11 letters and digits".to_owned()
        }),
    };
    match refusal {
        Some(why) => {
            element.problem(why);
            None
        }
        None => Some(text.into()),
    }
}

/// Whether `label` is a valid label of a domain name. Letters of any script are allowed, for internationalized names.
fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Returns why a host is rejected, if it is. Every send resolves and checks the name again; this check only gives
/// earlier feedback.
fn host_refusal(host: &str, outbound: &OutboundPolicy) -> Option<String> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let lower = host.trim_end_matches('.').to_ascii_lowercase();
    let address = match bare.parse::<IpAddr>() {
        Ok(address) => Some(address),
        Err(_) if lower == "localhost" || lower.ends_with(".localhost") => Some(Ipv4Addr::LOCALHOST.into()),
        Err(_) => None,
    };
    match address {
        Some(address) if outbound.allows(address) => None,
        Some(_) => {
            Some("is an address that may not be called; the operator can exempt ranges with OUTBOUND_ALLOW".to_owned())
        }
        None if lower.len() <= 253 && lower.split('.').all(is_label) => None,
        None => Some("must be a host name such as smtp.example.com, or an IP address".to_owned()),
    }
}

fn is_pem_key(text: &str) -> bool {
    let text = text.trim();
    let begins = text.strip_prefix("-----BEGIN ").and_then(|rest| rest.split_once("-----"));
    let Some((label, rest)) = begins else { return false };
    let Some(inner) = rest.trim_end().strip_suffix(&format!("-----END {label}-----")) else { return false };
    label.ends_with("PRIVATE KEY")
        && !inner.trim().is_empty()
        && inner.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=\r\n \t".contains(&b))
}

/// Whether `text` is a number in international form, a short code, or an alphanumeric sender name.
fn is_sender(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let number = (3..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let named = text.len() <= 11 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ');
    number || named
}
