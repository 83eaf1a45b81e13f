//! Headers of every response: request ID, rate limit, and CORS.

use gateway::router::Access;

use super::{Failures, World};
use crate::document::operations;

#[tokio::test]
async fn every_response_has_the_required_headers() {
    let world = World::new().await;
    let mut wrong = Failures::default();
    // A body that every operation refuses, so that nothing changes.
    for operation in operations().into_iter().filter(|o| o.method == "GET" || o.body.is_some()) {
        let body = if operation.method == "GET" { "" } else { "[]" };
        let headers = [("x-request-id", "sweep-1"), ("origin", "https://shop.example")];
        let response = world.send_with(&operation, &headers, body).await;
        let label = format!("{} {}", operation.method, operation.path);
        let is = |name: &str, expected: Option<&str>| response.header(name) == expected;
        wrong.check(is("x-request-id", Some("sweep-1")), &format!("{label}: X-Request-Id"), &response);
        let json = response.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
        let other = response.status == 200 && !operation.answers_json;
        wrong.check(json || other, &format!("{label}: Content-Type {:?}", response.header("content-type")), &response);
        let open = operation.access == Access::Public;
        wrong.check(
            is("access-control-allow-origin", open.then_some("*")),
            &format!("{label}: open to browsers"),
            &response,
        );
        wrong.check(is("access-control-allow-credentials", None), &format!("{label}: credentials"), &response);
        // Listing and revoking keys does not count against the project's limit.
        let is_exempt = operation.path == "/api-keys" && ["GET", "DELETE"].contains(&operation.method.as_str());
        let limited = !is_exempt && !matches!(operation.access, Access::Anyone | Access::Session);
        for name in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
            let number = response.header(name).map(|value| value.parse::<u32>().is_ok());
            // A webhook is limited only after its signature is verified.
            let right =
                number == Some(true) || (!limited && number.is_none()) || operation.path.starts_with("/webhook/");
            wrong.check(right, &format!("{label}: {name}"), &response);
        }
    }
    wrong.none();
}
