//! `openapi.yaml` and the route table agree.

use std::collections::BTreeSet;

use gateway::router::BASE;
use gateway::routes::{self, ROUTES};
use http::Method;
use serde_json::Value;

use crate::document::in_braces;

const DOCUMENT: &str = include_str!("../../../openapi.yaml");

type Routes = BTreeSet<(String, String)>;

/// Returns the methods and paths, by the document's indentation.
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

fn routed() -> Routes {
    ROUTES.iter().map(|route| (route.method.to_owned(), in_braces(route.pattern))).collect()
}

#[test]
fn every_route_is_documented_and_nothing_else() {
    assert!(routed().len() >= 22, "{:?}", routed());
    assert_eq!(documented(), routed());
}

#[test]
fn every_documented_operation_has_a_route() {
    for (method, path) in documented() {
        let method: Method = method.parse().unwrap();
        let called = format!("{BASE}{}", path.replace("{id}", "7").replace("{run}", "8").replace("{delivery}", "9"));
        let found = routes::find(&method, &called).unwrap();
        let pattern = path.replace("{id}", ":id").replace("{run}", ":run").replace("{delivery}", ":delivery");
        assert_eq!(found.route.pattern, pattern, "{method} {called}");
    }
}

/// In `{ description: Text, more text }`, a comma ends the description. What follows becomes a key without a value. Examples may
/// contain nulls; `.ci/contract/examples.py` checks them against their schemas.
#[test]
fn no_description_is_cut_off_at_a_comma() {
    fn check(value: &Value, path: &str) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter().filter(|(name, _)| *name != "example") {
                    assert!(!value.is_null(), "{path}/{name}");
                    check(value, &format!("{path}/{name}"));
                }
            }
            Value::Array(items) => items.iter().for_each(|item| check(item, path)),
            _ => {}
        }
    }
    check(&serde_saphyr::from_str(DOCUMENT).unwrap(), "");
}
