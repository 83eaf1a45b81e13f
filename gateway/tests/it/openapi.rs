//! `openapi.yaml` and the router say the same.

use std::collections::BTreeSet;

use gateway::router::{self, BASE};
use http::Method;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../openapi.yaml");
const ROUTER: &str = include_str!("../../src/router.rs");

type Routes = BTreeSet<(String, String)>;

/// Methods and addresses, by the document's indentation.
fn documented() -> Routes {
    let mut routes = Routes::new();
    let mut path = "";
    let paths = DOCUMENT.lines().skip_while(|l| *l != "paths:").skip(1);
    for line in paths.take_while(|l| l.is_empty() || l.starts_with(' ')) {
        let name = line.trim_end_matches(':').trim();
        if line.starts_with("  /") {
            path = name;
        } else if line.starts_with("    ") && !line.starts_with("     ") && name != "parameters" {
            routes.insert((name.to_uppercase(), path.to_owned()));
        }
    }
    routes
}

/// The lines of the router's one match: `("GET", ["events", id]) … => …`.
fn routed() -> Routes {
    let arm = |line: &str| {
        let (method, rest) = line.trim().strip_prefix("(\"")?.split_once("\", [")?;
        let (segments, rest) = rest.split_once("])")?;
        let path: String = segments
            .split(',')
            .map(str::trim)
            .map(|s| {
                s.strip_prefix('"').map_or_else(|| format!("/{{{s}}}"), |s| format!("/{}", s.trim_end_matches('"')))
            })
            .collect();
        rest.contains("=> Route::").then(|| (method.to_owned(), path))
    };
    ROUTER.lines().filter_map(arm).collect()
}

#[test]
fn every_route_is_documented_and_nothing_else() {
    assert!(routed().len() >= 22, "{:?}", routed());
    assert_eq!(documented(), routed());
}

#[test]
fn every_documented_operation_is_answered() {
    for (method, path) in documented() {
        let method: Method = method.parse().unwrap();
        let called = format!("{BASE}{}", path.replace("{id}", "7").replace("{run}", "8").replace("{delivery}", "9"));
        let route = router::route(&method, &called).unwrap();
        let pattern = path.replace("{id}", ":id").replace("{run}", ":run").replace("{delivery}", ":delivery");
        assert_eq!(route.pattern(), pattern, "{method} {called}");
    }
}

/// In `{ description: Text, more text }`, a comma ends the description. What follows becomes a key without a value.
#[test]
fn no_description_is_cut_off_at_a_comma() {
    fn check(value: &Value, path: &str) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    assert!(!value.is_null() || path.ends_with("/example"), "{path}/{name}");
                    check(value, &format!("{path}/{name}"));
                }
            }
            Value::Array(items) => items.iter().for_each(|item| check(item, path)),
            _ => {}
        }
    }
    check(&serde_saphyr::from_str(DOCUMENT).unwrap(), "");
}
