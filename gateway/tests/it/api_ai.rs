//! Tests for `/ai/generate`.

use serde_json::{Value, json};
use testkit::TestAi;

use crate::fixture::Gateway;

async fn gateway_with(ai: &TestAi, more: &[(&str, &str)]) -> Gateway {
    let base_url = ai.base_url();
    let own = [("AI_BASE_URL", base_url.as_str()), ("AI_MODEL", "tiny"), ("AI_API_KEY", "hunter2")];
    Gateway::start_with(&[&own[..], more].concat()).await
}

fn generate_body() -> Value {
    json!({"channel": "PUSH", "context": "The cart is still full", "tone": "playful"})
}

#[tokio::test]
async fn text_is_generated_for_its_channel() {
    let ai = TestAi::start().await;
    let gateway = gateway_with(&ai, &[]).await;
    let project = gateway.project().await;
    ai.respond_with_completion(
        "```json\n{\"title\": \"Still there\", \"body\": \"Hi {{ user.name }}, your cart waits.\"}\n```",
    );
    let text = gateway.post(&project, "/ai/generate", &generate_body()).await.expect(200);
    assert_eq!(text, json!({"title": "Still there", "body": "Hi {{ user.name }}, your cart waits."}));

    let long = json!({"title": "long ".repeat(30), "body": "longer ".repeat(80)});
    ai.respond_with_completion(&long.to_string());
    let text = gateway.post(&project, "/ai/generate", &generate_body()).await.expect(200);
    let count = |field: &str| text[field].as_str().unwrap().chars().count();
    assert!((60..=65).contains(&count("title")) && (230..=240).contains(&count("body")), "{text}");

    let requests = ai.requests();
    assert_eq!(requests[0].target, "POST /v1/chat/completions");
    assert_eq!(requests[0].authorization.as_deref(), Some("Bearer hunter2"));
    assert_eq!(
        (&requests[0].body["model"], &requests[0].body["messages"][0]["role"]),
        (&json!("tiny"), &json!("system"))
    );
    let wanted = requests[0].body["messages"][1]["content"].as_str().unwrap();
    assert!(wanted.contains("playful") && wanted.contains("The cart is still full"), "{wanted}");
}

#[tokio::test]
async fn provider_errors_are_passed_on() {
    let ai = TestAi::start().await;
    let gateway = gateway_with(&ai, &[("AI_TIMEOUT_SECONDS", "1")]).await;
    let project = gateway.project().await;
    let refused = async || gateway.post(&project, "/ai/generate", &generate_body()).await;
    ai.respond_with(401, r#"{"error": {"message": "Incorrect API key provided: hunter2"}}"#);
    ai.respond_with(429, r#"{"error": {"message": "You exceeded your quota"}}"#);
    ai.respond_with(200, "<html>");
    ai.respond_with_completion("I would rather not.");
    ai.respond_with(302, "");
    for words in [
        "401: Incorrect API key provided: …",
        "429: You exceeded your quota",
        "not a chat completion",
        "cannot be used",
        "302",
    ] {
        let response = refused().await;
        let message = response.body["message"].as_str().unwrap();
        assert!(response.status == 502 && message.contains(words), "{} {message}", response.status);
        assert!(!message.contains("hunter2"));
    }
    ai.never_respond();
    let response = refused().await;
    assert_eq!((response.status, response.body["error"].as_str()), (504, Some("Gateway Timeout")));
    drop(ai);
    assert_eq!(refused().await.status, 502);
}

#[tokio::test]
async fn each_project_has_its_own_limit() {
    let ai = TestAi::start().await;
    let gateway = gateway_with(&ai, &[("AI_RATE_PER_MINUTE", "1")]).await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    for _ in 0..2 {
        ai.respond_with_completion(r#"{"title": "a", "body": "b"}"#);
    }
    gateway.post(&project, "/ai/generate", &generate_body()).await.expect(200);
    let refused = gateway.post(&project, "/ai/generate", &generate_body()).await.expect(429);
    assert!(refused["message"].as_str().unwrap().contains("1 generated texts per minute"), "{refused}");
    gateway.post(&other, "/ai/generate", &generate_body()).await.expect(200);
}

#[tokio::test]
async fn missing_model_is_reported() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let response = gateway.post(&project, "/ai/generate", &generate_body()).await.expect(503);
    assert!(response["message"].as_str().unwrap().contains("AI_BASE_URL"), "{response}");
    for (body, fields) in [
        (json!({}), &["channel", "context"][..]),
        (json!({"channel": "FAX", "context": " "}), &["channel", "context"]),
        (json!({"channel": "sms", "context": "c".repeat(4_001), "tone": "", "x": 1}), &["context", "tone", "x"]),
    ] {
        let response = gateway.post(&project, "/ai/generate", &body).await;
        assert_eq!((response.status, response.fields()), (422, fields.to_vec()));
    }
    let json = [("content-type", "application/json")];
    let public = gateway.send("POST", "/ai/generate", &project.public, &json, generate_body().to_string()).await;
    assert_eq!(public.status, 403);
}
