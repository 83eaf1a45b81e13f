use super::*;

const ADDRESSES: [Address; 9] = [
    address("GET", "/things"),
    address("PATCH", "/things"),
    address("GET", "/things/:id"),
    address("DELETE", "/things/:id"),
    address("POST", "/things/export"),
    address("GET", "/things/:id/parts/:part"),
    address("GET", "/words/:id"),
    address("GET", "/words/:id/parts"),
    address("POST", "/words/export"),
];

const fn address(method: &'static str, pattern: &'static str) -> Address {
    Address { method, pattern }
}

fn find<'p>(method: &str, path: &'p str) -> Result<(usize, Params<'p>), Miss> {
    Router::new(ADDRESSES, &["words"]).find(&method.parse().unwrap(), path)
}

fn other(allow: &str) -> Miss {
    Miss::Method(allow.to_owned())
}

#[test]
fn routes_are_numbered_as_they_come() {
    assert_eq!(find("GET", "/api/v1/things"), Ok((0, ["", ""])));
    assert_eq!(find("HEAD", "/api/v1/things/"), Ok((0, ["", ""])));
    assert_eq!(find("DELETE", "/api/v1/things/a%2Fb"), Ok((3, ["a%2Fb", ""])));
    assert_eq!(find("GET", "/api/v1/things/a/parts/b"), Ok((5, ["a", "b"])));
}

#[test]
fn a_literal_segment_wins_by_whichever_methods() {
    assert_eq!(find("POST", "/api/v1/things/export"), Ok((4, ["", ""])));
    assert_eq!(find("GET", "/api/v1/things/export"), Err(other("POST, OPTIONS")));
    assert_eq!(find("GET", "/api/v1/things/%65xport"), Ok((2, ["%65xport", ""])));
}

#[test]
fn only_ids_of_the_callers_own_are_told_from_operations_further_on() {
    assert_eq!(find("GET", "/api/v1/things/export/parts/b"), Ok((5, ["export", "b"])));
    assert_eq!(find("GET", "/api/v1/words/export/parts"), Err(Miss::Path));
    assert_eq!(find("GET", "/api/v1/words/exports/parts"), Ok((7, ["exports", ""])));
}

#[test]
fn other_methods_are_told_in_one_order() {
    assert_eq!(find("OPTIONS", "/api/v1/things"), Err(other("GET, HEAD, PATCH, OPTIONS")));
    assert_eq!(find("BREW", "/api/v1/things/a"), Err(other("GET, HEAD, DELETE, OPTIONS")));
    assert_eq!(find("HEAD", "/api/v1/words/export"), Err(other("POST, OPTIONS")));
}

#[test]
fn nothing_is_found_elsewhere() {
    for path in ["", "/", "/things", "/api/v1", "/api/v1/", "/api/v1/thing", "/api/v1//things", "/api/v1/things//"] {
        assert_eq!(find("GET", path), Err(Miss::Path), "{path:?}");
    }
    assert_eq!(find("GET", "/api/v1/things/a/b/c/d/e"), Err(Miss::Path));
}

#[test]
#[should_panic(expected = "defined twice")]
fn an_address_is_there_once() {
    Router::new([address("GET", "/things"), address("GET", "/things")], &[]);
}

#[test]
#[should_panic(expected = "/:id")]
fn an_address_begins_with_a_literal_segment() {
    Router::new([address("GET", "/:id")], &[]);
}
