//! Headers of every response: request ID, rate limit, and CORS.

use gateway::router::Access;

use super::{World, Wrong};
use crate::document::operations;

#[tokio::test]
async fn every_answer_bears_what_it_has_to() {
    let world = World::new().await;
    let mut wrong = Wrong::default();
    // A body that every operation refuses, so that nothing changes.
    for operation in operations().into_iter().filter(|o| o.method == "GET" || o.body.is_some()) {
        let body = if operation.method == "GET" { "" } else { "[]" };
        let headers = [("x-request-id", "sweep-1"), ("origin", "https://shop.example")];
        let answer = world.send_with(&operation, &headers, body).await;
        let told = format!("{} {}", operation.method, operation.path);
        let is = |name: &str, expected: Option<&str>| answer.header(name) == expected;
        wrong.note(is("x-request-id", Some("sweep-1")), &format!("{told}: X-Request-Id"), &answer);
        let json = answer.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
        let other = answer.status == 200 && !operation.answers_json;
        wrong.note(json || other, &format!("{told}: Content-Type {:?}", answer.header("content-type")), &answer);
        let open = operation.access == Access::Public;
        wrong.note(
            is("access-control-allow-origin", open.then_some("*")),
            &format!("{told}: open to browsers"),
            &answer,
        );
        wrong.note(is("access-control-allow-credentials", None), &format!("{told}: credentials"), &answer);
        // Listing and revoking keys does not count against the project's limit.
        let is_exempt = operation.path == "/api-keys" && ["GET", "DELETE"].contains(&operation.method.as_str());
        let limited = !is_exempt && !matches!(operation.access, Access::Anyone | Access::Session);
        for name in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
            let number = answer.header(name).map(|value| value.parse::<u32>().is_ok());
            // A webhook is limited only after its signature is verified.
            let right =
                number == Some(true) || (!limited && number.is_none()) || operation.path.starts_with("/webhook/");
            wrong.note(right, &format!("{told}: {name}"), &answer);
        }
    }
    wrong.none();
}
