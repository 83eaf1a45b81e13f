//! Another project's IDs in a query string: no parameter reveals anything about that project.

use super::{fill, ids_of};
use crate::document::operations;
use crate::fixture::Gateway;
use crate::login::Login;
use store_projects::members::Role;

/// Texts that occur only in the project that `fill` filled.
const ITS_OWN: [&str; 2] = ["u@example.com", "grace@example.com"];

#[tokio::test]
async fn foreign_ids_in_a_query_reveal_nothing() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    fill(&gateway, &project).await;
    let (admin, eve) = (gateway.log_in(&project, Role::Admin).await, gateway.log_in(&other, Role::Admin).await);
    let ids = ids_of(&gateway, &project).await;
    let ask = async |login: &Login, path: &str| gateway.call_as(login, "GET", path).send("").await;
    let (mut wrong, mut tried, mut found) = (Vec::new(), 0, 0);
    for operation in operations().iter().filter(|o| o.method == "GET" && !o.has_id()) {
        let required = operation.query.iter().fold(String::new(), |query, name| query + &format!("&{name}=u"));
        let asked = operation.parameters.iter().filter(|p| p["in"] == "query");
        for parameter in asked.map(|p| p["name"].as_str().unwrap()) {
            for id in &ids {
                let path = format!("{}?{parameter}={id}{required}", operation.path);
                let response = ask(&eve, &path).await;
                tried += 1;
                let of_another = |text: &str| {
                    ids.iter().any(|other| other != id && text.contains(other.as_str()))
                        || ITS_OWN.iter().any(|own| text.contains(own))
                };
                if response.status >= 500 || of_another(&response.text) {
                    wrong.push(format!("{path}: {} {}", response.status, response.text));
                }
                found += usize::from(of_another(&ask(&admin, &path).await.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    // The project's own admin finds them.
    assert!(tried >= 500 && found >= 50, "{found} of {tried}");
}
