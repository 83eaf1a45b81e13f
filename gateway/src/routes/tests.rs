use std::collections::BTreeSet;

use super::*;
use crate::router::BASE;

#[test]
fn path_resolves_to_its_route() {
    let table = [
        ("POST", "/events", "/events", ["", ""]),
        ("POST", "/events/", "/events", ["", ""]),
        ("POST", "/events/batch", "/events/batch", ["", ""]),
        ("POST", "/users/identify", "/users/identify", ["", ""]),
        ("GET", "/events", "/events", ["", ""]),
        ("HEAD", "/events", "/events", ["", ""]),
        ("GET", "/events/e1", "/events/:id", ["e1", ""]),
        ("GET", "/users", "/users", ["", ""]),
        ("GET", "/events/%62atch", "/events/:id", ["%62atch", ""]),
        ("DELETE", "/events/e1", "/events/:id", ["e1", ""]),
        ("GET", "/users/u%2F1", "/users/:id", ["u%2F1", ""]),
        ("GET", "/users/%69dentify", "/users/:id", ["%69dentify", ""]),
        ("POST", "/users/import", "/users/import", ["", ""]),
        ("GET", "/users/import", "/users/import", ["", ""]),
        ("GET", "/users/import/i", "/users/import/:id", ["i", ""]),
        ("GET", "/users/export", "/users/export", ["", ""]),
        ("GET", "/users/%69mport", "/users/:id", ["%69mport", ""]),
        ("GET", "/events/export", "/events/export", ["", ""]),
        ("PUT", "/users/u", "/users/:id", ["u", ""]),
        ("DELETE", "/users/u", "/users/:id", ["u", ""]),
        ("GET", "/users/u/subscriptions", "/users/:id/subscriptions", ["u", ""]),
        ("PUT", "/users/u/subscriptions", "/users/:id/subscriptions", ["u", ""]),
        ("GET", "/templates", "/templates", ["", ""]),
        ("POST", "/templates", "/templates", ["", ""]),
        ("GET", "/templates/t", "/templates/:id", ["t", ""]),
        ("PUT", "/templates/t", "/templates/:id", ["t", ""]),
        ("DELETE", "/templates/t", "/templates/:id", ["t", ""]),
        ("POST", "/templates/t/preview", "/templates/:id/preview", ["t", ""]),
        ("GET", "/automations", "/automations", ["", ""]),
        ("POST", "/automations", "/automations", ["", ""]),
        ("GET", "/automations/a", "/automations/:id", ["a", ""]),
        ("PUT", "/automations/a", "/automations/:id", ["a", ""]),
        ("DELETE", "/automations/a", "/automations/:id", ["a", ""]),
        ("GET", "/automations/a/report", "/automations/:id/report", ["a", ""]),
        ("GET", "/automations/a/runs", "/automations/:id/runs", ["a", ""]),
        ("GET", "/automations/a/runs/b", "/automations/:id/runs/:run", ["a", "b"]),
        ("POST", "/automations/a/simulate", "/automations/:id/simulate", ["a", ""]),
        ("GET", "/segments", "/segments", ["", ""]),
        ("POST", "/segments", "/segments", ["", ""]),
        ("POST", "/segments/estimate", "/segments/estimate", ["", ""]),
        ("GET", "/segments/s", "/segments/:id", ["s", ""]),
        ("PUT", "/segments/s", "/segments/:id", ["s", ""]),
        ("DELETE", "/segments/s", "/segments/:id", ["s", ""]),
        ("GET", "/segments/s/users", "/segments/:id/users", ["s", ""]),
        ("POST", "/segments/s/members", "/segments/:id/members", ["s", ""]),
        ("GET", "/segments/s/explain", "/segments/:id/explain", ["s", ""]),
        ("GET", "/segments/s/report", "/segments/:id/report", ["s", ""]),
        ("GET", "/campaigns", "/campaigns", ["", ""]),
        ("POST", "/campaigns", "/campaigns", ["", ""]),
        ("GET", "/campaigns/c", "/campaigns/:id", ["c", ""]),
        ("PUT", "/campaigns/c", "/campaigns/:id", ["c", ""]),
        ("DELETE", "/campaigns/c", "/campaigns/:id", ["c", ""]),
        ("POST", "/campaigns/c/send", "/campaigns/:id/send", ["c", ""]),
        ("POST", "/campaigns/c/pause", "/campaigns/:id/pause", ["c", ""]),
        ("POST", "/campaigns/c/resume", "/campaigns/:id/resume", ["c", ""]),
        ("POST", "/campaigns/c/cancel", "/campaigns/:id/cancel", ["c", ""]),
        ("POST", "/campaigns/c/test", "/campaigns/:id/test", ["c", ""]),
        ("GET", "/campaigns/c/report", "/campaigns/:id/report", ["c", ""]),
        ("GET", "/channels", "/channels", ["", ""]),
        ("PUT", "/channels", "/channels", ["", ""]),
        ("POST", "/channels/email/test", "/channels/:id/test", ["email", ""]),
        ("DELETE", "/suppressions", "/suppressions", ["", ""]),
        ("POST", "/messages", "/messages", ["", ""]),
        ("GET", "/messages", "/messages", ["", ""]),
        ("GET", "/messages/m", "/messages/:id", ["m", ""]),
        ("GET", "/news", "/news", ["", ""]),
        ("POST", "/news", "/news", ["", ""]),
        ("GET", "/news/n", "/news/:id", ["n", ""]),
        ("PUT", "/news/n", "/news/:id", ["n", ""]),
        ("DELETE", "/news/n", "/news/:id", ["n", ""]),
        ("GET", "/feed", "/feed", ["", ""]),
        ("GET", "/inbox", "/inbox", ["", ""]),
        ("GET", "/inbox/stream", "/inbox/stream", ["", ""]),
        ("POST", "/inbox/m/read", "/inbox/:id/read", ["m", ""]),
        ("POST", "/ai/generate", "/ai/generate", ["", ""]),
        ("POST", "/push-tokens", "/push-tokens", ["", ""]),
        ("DELETE", "/push-tokens", "/push-tokens", ["", ""]),
        ("GET", "/push-tokens", "/push-tokens", ["", ""]),
        ("GET", "/push-tokens/devices", "/push-tokens/devices", ["", ""]),
        ("POST", "/auth/login", "/auth/login", ["", ""]),
        ("GET", "/reports", "/reports", ["", ""]),
        ("POST", "/webhook/p", "/webhook/:id", ["p", ""]),
        ("GET", "/projects/p", "/projects/:id", ["p", ""]),
        ("GET", "/team/invites", "/team/invites", ["", ""]),
        ("PUT", "/team/m", "/team/:id", ["m", ""]),
        ("POST", "/webhook-endpoints/w/test", "/webhook-endpoints/:id/test", ["w", ""]),
        (
            "POST",
            "/webhook-endpoints/w/deliveries/d/resend",
            "/webhook-endpoints/:id/deliveries/:delivery/resend",
            ["w", "d"],
        ),
    ];
    for (method, path, pattern, params) in table {
        let path = format!("{BASE}{path}");
        let found = find(&method.parse().unwrap(), &path).unwrap();
        let expected_method = if method == "HEAD" { "GET" } else { method };
        assert_eq!(
            (found.route.method, found.route.pattern, found.params),
            (expected_method, pattern, params),
            "{method} {path}"
        );
    }
}

#[test]
fn unsupported_method_lists_the_allowed_ones() {
    for (method, path, allow) in [
        ("PATCH", "/events", "GET, HEAD, POST, OPTIONS"),
        ("PUT", "/events/batch", "POST, OPTIONS"),
        ("GET", "/events/batch", "POST, OPTIONS"),
        ("GET", "/users/identify", "POST, OPTIONS"),
        ("DELETE", "/users/import", "GET, HEAD, POST, OPTIONS"),
        ("PUT", "/users/export", "GET, HEAD, OPTIONS"),
        ("POST", "/users/u", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("DELETE", "/channels", "GET, HEAD, PUT, OPTIONS"),
        ("POST", "/templates/t", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("BREW", "/messages", "GET, HEAD, POST, OPTIONS"),
        ("PUT", "/team/invites", "GET, HEAD, POST, OPTIONS"),
    ] {
        let path = format!("{BASE}{path}");
        let no_route = find(&method.parse().unwrap(), &path).err();
        assert_eq!(no_route, Some(NoRoute::MethodNotAllowed(allow.to_owned())), "{method} {path}");
    }
}

#[test]
fn unknown_path_has_no_route() {
    for path in ["", "/", "/events", "/api/v1", "/api/v1/", "/api/v2/events", "/api/v1/nothing", "/api/v1//events"] {
        assert_eq!(find(&Method::GET, path).err(), Some(NoRoute::UnknownPath), "{path:?}");
    }
    assert_eq!(find(&Method::GET, "/api/v1/events/a/b/c/d/e").err(), Some(NoRoute::UnknownPath));
}

#[test]
fn access_of_ingest_is_public_and_of_reads_secret() {
    assert_eq!(access_of(&Method::POST, "/api/v1/events"), Some(Access::Public));
    assert_eq!(access_of(&Method::GET, "/api/v1/events"), Some(Access::Secret));
    assert_eq!(access_of(&Method::GET, "/api/v1/none"), None);
}

#[test]
fn each_route_is_unique_and_resolves() {
    let all: BTreeSet<_> = ROUTES.iter().map(|route| (route.method, route.pattern)).collect();
    assert_eq!(all.len(), ROUTES.len());
    for route in ROUTES {
        let path = format!("{BASE}{}", route.pattern.replace(':', "a-"));
        let found = find(&route.method.parse().unwrap(), &path).unwrap();
        assert!(std::ptr::eq(found.route, route), "{} {}", route.method, route.pattern);
        let given: Vec<_> = found.params.into_iter().filter_map(|param| param.strip_prefix("a-")).collect();
        assert_eq!(given, params(route), "{} {}", route.method, route.pattern);
    }
}

/// Returns the parameters in the pattern.
fn params(route: &Route) -> Vec<&'static str> {
    route.pattern.split('/').filter_map(|segment| segment.strip_prefix(':')).collect()
}

#[test]
fn handler_parameters_match_the_pattern() {
    for route in ROUTES {
        // The request context provides the project that the path names.
        let expected = if route.names_project { Vec::new() } else { params(route) };
        assert_eq!(route.params, expected, "{} {}", route.method, route.pattern);
    }
}

#[test]
fn project_named_in_the_path_is_the_requests_project() {
    for route in ROUTES {
        assert_eq!(
            route.names_project,
            route.pattern.starts_with("/projects/:id"),
            "{} {}",
            route.method,
            route.pattern
        );
    }
    let path = format!("{BASE}/projects/p/webhook-secret");
    assert_eq!(find(&Method::POST, &path).ok().and_then(|found| found.project()), Some("p"));
    assert_eq!(find(&Method::GET, "/api/v1/users/u").ok().and_then(|found| found.project()), None);
}

#[test]
fn route_options_apply_to_expected_routes() {
    let those = |differs: fn(&Route) -> bool| -> Vec<_> {
        ROUTES
            .iter()
            .filter(|route| differs(route))
            .map(|route| format!("{} {}", route.method, route.pattern))
            .collect()
    };
    let recorded = ["POST /events", "POST /events/batch", "POST /users/identify"];
    assert_eq!(those(|r| r.is_cacheable), recorded);
    let slow = ["POST /users/import", "POST /ai/generate"];
    assert_eq!(those(|r| r.timeout == Timeout::Own), [&recorded[..], &slow].concat());
    assert_eq!(those(|r| r.limit == Limit::Account), ["GET /api-keys", "DELETE /api-keys"]);
    let unknown = ["POST /auth/invites/accept", "POST /webhook/:id"];
    assert_eq!(those(|r| r.is_guessable), unknown);
    assert_eq!(those(|r| r.limit == Limit::AuthFailures), [&["POST /auth/login"], &unknown[..]].concat());
}

#[test]
fn open_methods_are_those_of_public_routes() {
    for (path, methods) in [
        ("/api/v1/events", vec!["POST"]),
        ("/api/v1/events/batch", vec!["POST"]),
        ("/api/v1/users/identify", vec!["POST"]),
        ("/api/v1/push-tokens", vec!["GET", "POST", "DELETE"]),
        ("/api/v1/feed", vec!["GET"]),
        ("/api/v1/inbox/stream", vec!["GET"]),
        ("/api/v1/users", vec![]),
        ("/api/v1/templates", vec![]),
        ("/api/v1/channels", vec![]),
    ] {
        assert_eq!(open_methods(path), methods, "{path}");
    }
}
