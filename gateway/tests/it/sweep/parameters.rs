//! Parameters in paths and query strings.

use super::{Failures, World, named};
use crate::document::{Operation, operations};

fn with_query(path: &str, query: &str) -> String {
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

#[tokio::test]
async fn invalid_path_and_query_parameters_are_rejected() {
    let world = World::new().await;
    malformed_id_is_not_found(&world).await;
    page_and_cursor_parameters_are_validated(&world).await;
    invalid_choices_and_query_strings_are_rejected(&world).await;
}

async fn malformed_id_is_not_found(world: &World) {
    let mut wrong = Failures::default();
    let long = "x".repeat(5_000);
    for operation in operations().into_iter().filter(Operation::has_id) {
        let body = operation.example.clone().map_or_else(|| "{}".to_owned(), |example| example.to_string());
        for id in ["7", "00000000-0000-0000-0000-000000000000", "%00", "%ff", "%zz", "%F0%9F%98%80", "..", "'", &long] {
            let path = operation.at(id);
            let query = operation.query.iter().map(|name| format!("?{name}=u")).collect::<Vec<_>>().concat();
            let response =
                world.send_to(&operation.method, &format!("{path}{query}"), operation.access, &[], body.clone()).await;
            let label = format!("{} {}", operation.method, operation.at(&id.chars().take(40).collect::<String>()));
            wrong.refused(&[404], &label, &response);
        }
    }
    wrong.none();
}

async fn page_and_cursor_parameters_are_validated(world: &World) {
    let mut wrong = Failures::default();
    for operation in operations().into_iter().filter(|o| o.method == "GET") {
        let path = world.path(&operation);
        for (name, values) in [
            ("page", &["0", "-1", "x", "1.5", "", "1e3", "99999999999999999999"][..]),
            ("limit", &["0", "-1", "101", "x", "", "20%20"]),
            ("cursor", &["7", "x", "_", "%F0%9F%98%80", "99999999999999999999_x"]),
        ] {
            for value in values.iter().filter(|_| operation.takes(name)) {
                let called = with_query(&path, &format!("{name}={value}"));
                let response = world.send_to("GET", &called, operation.access, &[], "").await;
                wrong.refused(&[422], &format!("GET {called}"), &response);
                wrong.check(named(&response) == [name], &format!("GET {called}"), &response);
            }
        }
        if operation.takes("page") {
            let response =
                world.send_to("GET", &with_query(&path, "page=101&limit=100"), operation.access, &[], "").await;
            wrong.refused(&[422], &format!("GET {path} too deep"), &response);
            let response =
                world.send_to("GET", &with_query(&path, "page=100&limit=100"), operation.access, &[], "").await;
            wrong.check(response.status == 200, &format!("GET {path} at the last page"), &response);
        }
    }
    wrong.none();
}

async fn invalid_choices_and_query_strings_are_rejected(world: &World) {
    let mut wrong = Failures::default();
    for operation in operations().into_iter().filter(|o| o.method == "GET" && o.success == 200) {
        let path = world.path(&operation);
        let query = operation.parameters.iter().filter(|p| p["in"] == "query");
        for parameter in query.clone().filter(|p| p["schema"]["enum"].is_array() || p["schema"]["type"] == "boolean") {
            let name = parameter["name"].as_str().unwrap();
            let called = with_query(&path, &format!("{name}=no-such-choice"));
            let response = world.send_to("GET", &called, operation.access, &[], "").await;
            wrong.refused(&[422], &format!("GET {called}"), &response);
            wrong.check(named(&response) == [name], &format!("GET {called}"), &response);
        }
        if let Some(parameter) = query.clone().next() {
            let name = parameter["name"].as_str().unwrap();
            for broken in ["%", "%2", "%zz", "%ff", "%00"] {
                let called = with_query(&path, &format!("{name}={broken}"));
                let response = world.send_to("GET", &called, operation.access, &[], "").await;
                wrong.refused(&[400], &format!("GET {called}"), &response);
            }
            // Unknown parameters are ignored, because caches and trackers add them.
            let response =
                world.send_to("GET", &with_query(&path, "noSuchParameter=1"), operation.access, &[], "").await;
            wrong.check(response.status == 200, &format!("GET {path} with an unknown parameter"), &response);
        }
    }
    wrong.none();
}
