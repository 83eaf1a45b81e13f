//! Parameters in paths and query strings.

use super::{World, Wrong, named};
use crate::document::{Operation, operations};

fn with_query(path: &str, query: &str) -> String {
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

#[tokio::test]
async fn parameters_of_paths_and_query_strings() {
    let world = World::new().await;
    what_is_no_id_names_nothing(&world).await;
    pages_have_bounds_and_cursors_are_those_of_their_list(&world).await;
    choices_are_named_and_what_is_no_query_string_is_a_bad_request(&world).await;
}

async fn what_is_no_id_names_nothing(world: &World) {
    let mut wrong = Wrong::default();
    let long = "x".repeat(5_000);
    for operation in operations().into_iter().filter(Operation::has_id) {
        let body = operation.example.clone().map_or_else(|| "{}".to_owned(), |example| example.to_string());
        for id in ["7", "00000000-0000-0000-0000-000000000000", "%00", "%ff", "%zz", "%F0%9F%98%80", "..", "'", &long] {
            let path = operation.at(id);
            let query = operation.query.iter().map(|name| format!("?{name}=u")).collect::<Vec<_>>().concat();
            let answer =
                world.send_to(&operation.method, &format!("{path}{query}"), operation.access, &[], body.clone()).await;
            let told = format!("{} {}", operation.method, operation.at(&id.chars().take(40).collect::<String>()));
            wrong.refused(&[404], &told, &answer);
        }
    }
    wrong.none();
}

async fn pages_have_bounds_and_cursors_are_those_of_their_list(world: &World) {
    let mut wrong = Wrong::default();
    for operation in operations().into_iter().filter(|o| o.method == "GET") {
        let path = world.path(&operation);
        for (name, values) in [
            ("page", &["0", "-1", "x", "1.5", "", "1e3", "99999999999999999999"][..]),
            ("limit", &["0", "-1", "101", "x", "", "20%20"]),
            ("cursor", &["7", "x", "_", "%F0%9F%98%80", "99999999999999999999_x"]),
        ] {
            for value in values.iter().filter(|_| operation.takes(name)) {
                let called = with_query(&path, &format!("{name}={value}"));
                let answer = world.send_to("GET", &called, operation.access, &[], "").await;
                wrong.refused(&[422], &format!("GET {called}"), &answer);
                wrong.note(named(&answer) == [name], &format!("GET {called}"), &answer);
            }
        }
        if operation.takes("page") {
            let answer =
                world.send_to("GET", &with_query(&path, "page=101&limit=100"), operation.access, &[], "").await;
            wrong.refused(&[422], &format!("GET {path} too deep"), &answer);
            let answer =
                world.send_to("GET", &with_query(&path, "page=100&limit=100"), operation.access, &[], "").await;
            wrong.note(answer.status == 200, &format!("GET {path} at the last page"), &answer);
        }
    }
    wrong.none();
}

async fn choices_are_named_and_what_is_no_query_string_is_a_bad_request(world: &World) {
    let mut wrong = Wrong::default();
    for operation in operations().into_iter().filter(|o| o.method == "GET" && o.success == 200) {
        let path = world.path(&operation);
        let query = operation.parameters.iter().filter(|p| p["in"] == "query");
        for parameter in query.clone().filter(|p| p["schema"]["enum"].is_array() || p["schema"]["type"] == "boolean") {
            let name = parameter["name"].as_str().unwrap();
            let called = with_query(&path, &format!("{name}=no-such-choice"));
            let answer = world.send_to("GET", &called, operation.access, &[], "").await;
            wrong.refused(&[422], &format!("GET {called}"), &answer);
            wrong.note(named(&answer) == [name], &format!("GET {called}"), &answer);
        }
        if let Some(parameter) = query.clone().next() {
            let name = parameter["name"].as_str().unwrap();
            for broken in ["%", "%2", "%zz", "%ff", "%00"] {
                let called = with_query(&path, &format!("{name}={broken}"));
                let answer = world.send_to("GET", &called, operation.access, &[], "").await;
                wrong.refused(&[400], &format!("GET {called}"), &answer);
            }
            // Unknown parameters are ignored, because caches and trackers add them.
            let answer = world.send_to("GET", &with_query(&path, "noSuchParameter=1"), operation.access, &[], "").await;
            wrong.note(answer.status == 200, &format!("GET {path} with an unknown parameter"), &answer);
        }
    }
    wrong.none();
}
