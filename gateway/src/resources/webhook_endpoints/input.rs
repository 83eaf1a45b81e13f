//! Validates webhook endpoints in request bodies.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use domain::webhook::{ALL_TYPES, TYPES};
use http::Uri;
use http_client::{OutboundError, OutboundPolicy};
use jiff::Timestamp;
use serde_json::{Map, Value};
use store_projects::webhook_endpoints::Endpoint;
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};

const URL: Text = Text::line(2_048);
const DESCRIPTION: Text = Text::line_or_empty(500);
const READ_ONLY: &[&str] = &["id", "disabledReason", "disabledAt", "failingSince", "createdAt", "updatedAt"];
/// Time limit for resolving a host. An `https` URL whose host is not resolved by then is accepted, since every call
/// resolves it again.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads a new endpoint. `url` and `events` are required.
pub fn new_endpoint(body: &Map<String, Value>, id: Uuid, now: Timestamp) -> Result<Endpoint, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.not_null(&["description", "enabled"]);
    let url = fields.required_text("url", &URL);
    check_url(&fields, url);
    let types = types(&mut fields);
    if types.is_none() && (!fields.has("events") || fields.is_null("events")) {
        fields.problem("events", "is required");
    }
    let endpoint = Endpoint {
        id,
        url: url.to_owned(),
        description: fields.text("description", &DESCRIPTION).unwrap_or_default().to_owned(),
        types: types.unwrap_or_default(),
        enabled: fields.boolean("enabled").unwrap_or(true),
        disabled_reason: None,
        disabled_at: None,
        failing_since: None,
        created_at: now,
        updated_at: now,
    };
    fields.finish()?;
    Ok(endpoint)
}

/// Applies the fields in the request to an endpoint. Enabling it or changing its URL resets `failing_since`.
pub fn changed_endpoint(
    body: &Map<String, Value>,
    mut endpoint: Endpoint,
    now: Timestamp,
) -> Result<Endpoint, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.not_null(&["url", "description", "events", "enabled"]);
    let (url_before, was_enabled) = (endpoint.url.clone(), endpoint.enabled);
    if let Some(url) = fields.text("url", &URL) {
        check_url(&fields, url);
        url.clone_into(&mut endpoint.url);
    }
    if let Some(description) = fields.text("description", &DESCRIPTION) {
        description.clone_into(&mut endpoint.description);
    }
    if let Some(types) = types(&mut fields) {
        endpoint.types = types;
    }
    if let Some(enabled) = fields.boolean("enabled") {
        if enabled {
            (endpoint.disabled_reason, endpoint.disabled_at) = (None, None);
        } else if endpoint.enabled {
            endpoint.disabled_at = Some(now);
        }
        endpoint.enabled = enabled;
    }
    fields.finish()?;
    if endpoint.url != url_before || (endpoint.enabled && !was_enabled) {
        endpoint.failing_since = None;
    }
    endpoint.updated_at = now;
    Ok(endpoint)
}

fn check_url(fields: &Fields<'_>, text: &str) {
    let is_plain = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("https" | "http"))
            && uri.authority().is_some_and(|a| !a.as_str().contains('@') && !a.host().is_empty())
    };
    if !text.is_empty() && !text.parse::<Uri>().is_ok_and(|uri| is_plain(&uri)) {
        fields.problem("url", "must be an https:// URL without credentials");
    }
}

/// Reads event types without duplicates, in the order of `TYPES`. If `*` is among them, returns it alone.
fn types(fields: &mut Fields<'_>) -> Option<Vec<String>> {
    let given = fields.array("events", 1..=TYPES.len() + 1)?;
    let mut found = Vec::with_capacity(given.len());
    for element in &given {
        let Some(text) = element.text(&Text::line(100)) else { continue };
        if text != ALL_TYPES && !TYPES.contains(&text) {
            element.problem(format!("must be `*`, or one of {}", TYPES.join(", ")));
        }
        found.push(text);
    }
    if found.contains(&ALL_TYPES) {
        return Some(vec![ALL_TYPES.to_owned()]);
    }
    Some(TYPES.into_iter().filter(|name| found.contains(name)).map(str::to_owned).collect())
}

/// Rejects a URL that may not be called. Every call checks it again; this check only gives earlier feedback.
pub async fn vet(url: &str, outbound: &OutboundPolicy) -> Result<(), ApiError> {
    let refused = |why: &str| Err(ApiError::invalid("url", why));
    let Ok(uri) = url.parse::<Uri>() else { return refused("must be an https:// URL") };
    let (host, is_plain) = (uri.host().unwrap_or_default(), uri.scheme_str() == Some("http"));
    let port = uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    if is_plain {
        let allowed = tokio::time::timeout(RESOLVE_TIMEOUT, outbound.allows_plain(host, port)).await;
        return match allowed {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => {
                refused("must be an https:// URL; http:// is allowed only for addresses that OUTBOUND_ALLOW exempts")
            }
            Ok(Err(_)) | Err(_) => refused(
                "must be an https:// URL; http:// is allowed only for addresses that OUTBOUND_ALLOW exempts, and this host cannot be resolved",
            ),
        };
    }
    if let Some(ip) = literal(host) {
        return if outbound.allows(ip) {
            Ok(())
        } else {
            refused("is an address that may not be called; the operator can exempt ranges with OUTBOUND_ALLOW")
        };
    }
    match tokio::time::timeout(RESOLVE_TIMEOUT, outbound.resolve(host, port)).await {
        Ok(Err(OutboundError::Refused(..))) => {
            refused("is at an address that may not be called; the operator can exempt ranges with OUTBOUND_ALLOW")
        }
        _ => Ok(()),
    }
}

fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let lower = host.trim_end_matches('.').to_ascii_lowercase();
    let is_local = lower == "localhost" || lower.ends_with(".localhost");
    bare.parse().ok().or_else(|| is_local.then(|| Ipv4Addr::LOCALHOST.into()))
}

#[cfg(test)]
mod tests {
    use kernel::env::Env;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn new(value: Value) -> Result<Endpoint, Vec<String>> {
        let named = |e: ApiError| e.details().iter().map(|p| p.field.clone()).collect();
        new_endpoint(value.as_object().unwrap(), Uuid::nil(), at(1)).map_err(named)
    }

    #[test]
    fn all_invalid_fields_are_reported() {
        let url = "https://example.com/hook";
        for (value, fields) in [
            (json!({}), &["url", "events"][..]),
            (json!({"url": "ftp://example.com", "events": ["*"]}), &["url"]),
            (json!({"url": "https://u:p@example.com", "events": ["*"]}), &["url"]),
            (json!({"url": "/hook", "events": ["*"]}), &["url"]),
            (json!({"url": format!("https://example.com/{}", "x".repeat(2_040)), "events": ["*"]}), &["url"]),
            (json!({"url": url, "events": []}), &["events"]),
            (json!({"url": url, "events": null}), &["events"]),
            (json!({"url": url, "events": ["message.sent", "message.queued", 5]}), &["events[1]", "events[2]"]),
            (json!({"url": url, "events": ["*"], "enabled": 1, "descriptoin": ""}), &["enabled", "descriptoin"]),
        ] {
            assert_eq!(new(value.clone()).unwrap_err(), fields, "{value}");
        }
    }

    #[test]
    fn event_types_are_deduplicated_and_wildcard_replaces_all() {
        let types = |events: Value| new(json!({"url": "https://example.com", "events": events})).unwrap().types;
        let events = json!(["automation.entered", "message.sent", "message.sent"]);
        assert_eq!(types(events), ["message.sent", "automation.entered"]);
        assert_eq!(types(json!(["message.sent", "*"])), ["*"]);
    }

    #[test]
    fn enabling_an_endpoint_resets_its_failures() {
        let made = new(json!({"url": "https://example.com", "events": ["*"]})).unwrap();
        let disabled = Endpoint {
            enabled: false,
            disabled_reason: Some("gone".to_owned()),
            disabled_at: Some(at(2)),
            failing_since: Some(at(1)),
            ..made.clone()
        };
        let change = |endpoint: &Endpoint, value: Value| {
            changed_endpoint(value.as_object().unwrap(), endpoint.clone(), at(9)).unwrap()
        };
        let described = change(&disabled, json!({"description": "d"}));
        assert_eq!((described.enabled, described.disabled_reason.as_deref()), (false, Some("gone")));
        assert_eq!(described.failing_since, Some(at(1)));
        assert_eq!(change(&disabled, json!({"url": "https://example.org"})).failing_since, None);
        let enabled = change(&disabled, json!({"enabled": true}));
        assert_eq!(enabled, Endpoint { updated_at: at(9), ..made.clone() });
        let paused = change(&made, json!({"enabled": false}));
        assert_eq!((paused.disabled_at, paused.disabled_reason), (Some(at(9)), None));
    }

    #[tokio::test]
    async fn forbidden_urls_are_rejected() {
        let exempting = OutboundPolicy::from_env(&Env::from_pairs([("OUTBOUND_ALLOW", "127.0.0.0/8")])).unwrap();
        let none = OutboundPolicy::default();
        for (url, policy, allowed) in [
            ("https://8.8.8.8/hook", &none, true),
            ("http://8.8.8.8/hook", &none, false),
            ("http://8.8.8.8/hook", &exempting, false),
            ("https://127.0.0.1/hook", &none, false),
            ("https://localhost/hook", &none, false),
            ("https://[::ffff:10.0.0.1]/hook", &exempting, false),
            ("https://169.254.169.254/latest", &exempting, false),
            ("http://127.0.0.1:9000/hook", &none, false),
            ("http://127.0.0.1:9000/hook", &exempting, true),
            ("https://127.0.0.1:9000/hook", &exempting, true),
        ] {
            assert_eq!(vet(url, policy).await.is_ok(), allowed, "{url}");
        }
    }
}
