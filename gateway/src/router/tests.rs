use super::*;

const ENDPOINTS: [Endpoint; 9] = [
    endpoint("GET", "/things"),
    endpoint("PATCH", "/things"),
    endpoint("GET", "/things/:id"),
    endpoint("DELETE", "/things/:id"),
    endpoint("POST", "/things/export"),
    endpoint("GET", "/things/:id/parts/:part"),
    endpoint("GET", "/words/:id"),
    endpoint("GET", "/words/:id/parts"),
    endpoint("POST", "/words/export"),
];

const fn endpoint(method: &'static str, pattern: &'static str) -> Endpoint {
    Endpoint { method, pattern }
}

fn find<'p>(method: &str, path: &'p str) -> Result<(usize, Params<'p>), NoRoute> {
    Router::new(ENDPOINTS, &["words"]).find(&method.parse().unwrap(), path)
}

fn other(allow: &str) -> NoRoute {
    NoRoute::MethodNotAllowed(allow.to_owned())
}

#[test]
fn routes_are_numbered_in_order() {
    assert_eq!(find("GET", "/api/v1/things"), Ok((0, ["", ""])));
    assert_eq!(find("HEAD", "/api/v1/things/"), Ok((0, ["", ""])));
    assert_eq!(find("DELETE", "/api/v1/things/a%2Fb"), Ok((3, ["a%2Fb", ""])));
    assert_eq!(find("GET", "/api/v1/things/a/parts/b"), Ok((5, ["a", "b"])));
}

#[test]
fn literal_segment_takes_precedence_for_every_method() {
    assert_eq!(find("POST", "/api/v1/things/export"), Ok((4, ["", ""])));
    assert_eq!(find("GET", "/api/v1/things/export"), Err(other("POST, OPTIONS")));
    assert_eq!(find("GET", "/api/v1/things/%65xport"), Ok((2, ["%65xport", ""])));
}

#[test]
fn only_caller_chosen_ids_exclude_literal_segments() {
    assert_eq!(find("GET", "/api/v1/things/export/parts/b"), Ok((5, ["export", "b"])));
    assert_eq!(find("GET", "/api/v1/words/export/parts"), Err(NoRoute::UnknownPath));
    assert_eq!(find("GET", "/api/v1/words/exports/parts"), Ok((7, ["exports", ""])));
}

#[test]
fn allowed_methods_are_listed_in_fixed_order() {
    assert_eq!(find("OPTIONS", "/api/v1/things"), Err(other("GET, HEAD, PATCH, OPTIONS")));
    assert_eq!(find("BREW", "/api/v1/things/a"), Err(other("GET, HEAD, DELETE, OPTIONS")));
    assert_eq!(find("HEAD", "/api/v1/words/export"), Err(other("POST, OPTIONS")));
}

#[test]
fn unknown_path_matches_no_pattern() {
    for path in ["", "/", "/things", "/api/v1", "/api/v1/", "/api/v1/thing", "/api/v1//things", "/api/v1/things//"] {
        assert_eq!(find("GET", path), Err(NoRoute::UnknownPath), "{path:?}");
    }
    assert_eq!(find("GET", "/api/v1/things/a/b/c/d/e"), Err(NoRoute::UnknownPath));
}

#[test]
#[should_panic(expected = "defined twice")]
fn duplicate_endpoint_panics() {
    Router::new([endpoint("GET", "/things"), endpoint("GET", "/things")], &[]);
}

#[test]
#[should_panic(expected = "/:id")]
fn pattern_must_begin_with_a_literal_segment() {
    Router::new([endpoint("GET", "/:id")], &[]);
}
