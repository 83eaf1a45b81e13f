//! Tests for `/messages`.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull;
use domain::message::Channel;
use futures_util::StreamExt;
use kernel::ids;
use serde_json::{Value, json};
use store_profiles::users::user_ref::{IdType, UserRef};
use uuid::Uuid;
use wire::event::uuid;
use wire::send::{DirectMessage, SendChunk};

use crate::fixture::{Gateway, texts};
use crate::rows::Rows;
use crate::setup::Tenant;

/// Takes the queued messages of the direct mail lane; each is returned once.
async fn queued(gateway: &Gateway) -> Vec<DirectMessage> {
    queued_by(gateway, Channel::Email).await
}

pub async fn queued_by(gateway: &Gateway, channel: Channel) -> Vec<DirectMessage> {
    let stream = gateway.bus.jetstream.get_stream(gateway.bus.names.send_stream()).await.unwrap();
    let filter_subject = gateway.bus.names.send(channel);
    let name = format!("test-{}", channel.slug());
    let config = pull::Config { durable_name: Some(name.clone()), filter_subject, ..pull::Config::default() };
    let consumer = stream.get_or_create_consumer(&name, config).await.unwrap();
    let mut messages = consumer.fetch().max_messages(100).messages().await.unwrap();
    let mut found = Vec::new();
    while let Some(message) = messages.next().await {
        let message = message.unwrap();
        found.extend(SendChunk::decode_checked(message.payload.clone()).unwrap().direct);
        message.double_ack().await.unwrap();
    }
    found
}

fn mail(user: &str) -> Value {
    json!({"userId": user, "channel": "EMAIL", "subject": "Hi", "body": "<p>{{ user.name }}</p>"})
}

async fn send_with(gateway: &Gateway, project: &Tenant, header: (&str, &str), body: &Value) -> (u16, Value) {
    let response = gateway.send("POST", "/messages", &project.secret, &[header], body.to_string()).await;
    (response.status, response.body)
}

/// Inserts a message row as worker-delivery does.
pub async fn row(gateway: &Gateway, project: &Tenant, id: Uuid, user: Uuid, status: &str, channel: &str) {
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, status_reason, subject, attempt, ambiguous, \
               provider, created_at, sent_at, updated_at) \
               VALUES ($1, $2, $3, $5, 'direct', $4, 'why', 'Hi', 2, 1, 'smtp', now(), now(), now())";
    gateway.sql.execute(sql, &[&project.id, &id, &user, &status, &channel]).await.unwrap();
    let sql = "INSERT INTO message_count (project_id, lane, count) VALUES ($1, 0, 1) \
               ON CONFLICT (project_id, lane) DO UPDATE SET count = message_count.count + 1";
    gateway.sql.execute(sql, &[&project.id]).await.unwrap();
}

/// Makes the project's only `Idempotency-Key` two days old; returns the ID of its first use.
pub async fn used_two_days_ago(gateway: &Gateway, project: &Tenant) -> Uuid {
    let used = ids::fresh(gateway.app.clock.now_ms() - 2 * 86_400_000);
    let sql = "UPDATE client_id SET event_id = $2 WHERE project_id = $1";
    assert_eq!(gateway.sql.execute(sql, &[&project.id, &used]).await.unwrap(), 1);
    used
}

#[tokio::test]
async fn accepted_message_is_in_the_stream() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let body = gateway.post(&project, "/messages", &mail("u1")).await.expect(202);
    assert_eq!(body, json!({"id": body["id"], "status": "queued"}));
    let internal = Uuid::from_u128(5).to_string();
    let nested =
        json!({"user_id": internal, "channel": "email", "content": {"title": "T", "body": "B"}, "data": {"a": 1}});
    gateway.post(&project, "/messages", &nested).await.expect(202);

    let messages = queued(&gateway).await;
    assert_eq!(messages.len(), 2);
    let first = &messages[0];
    let id = uuid("id", &first.message_id).unwrap();
    assert_eq!((json!(id), uuid("project", &first.project_id).unwrap()), (body["id"].clone(), project.id.0));
    assert_eq!((id.get_version_num(), ids::time_ms(id)), (7, first.accepted_ms));
    let content: Value = serde_json::from_slice(&first.content).unwrap();
    assert_eq!(content, json!({"subject": "Hi", "body": "<p>{{ user.name }}</p>"}));
    let users: Vec<Uuid> = messages[1].user_ids.iter().map(|u| uuid("user", u).unwrap()).collect();
    assert_eq!(users, UserRef::new(&internal, IdType::Either).candidates(project.id));
    assert_eq!((&messages[1].data[..], messages[1].channel.as_str()), (&b"{\"a\":1}"[..], "EMAIL"));
}

#[tokio::test]
async fn mjml_is_compiled_and_returned_as_written() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let mjml = "<!-- hi --><mjml><mj-body><mj-section><mj-column><mj-text>Hi {{ user.name }}</mj-text></mj-column></mj-section></mj-body></mjml>";
    let mail = json!({"userId": "u1", "channel": "EMAIL", "subject": "Hi", "body": mjml});
    gateway.post(&project, "/messages", &mail).await.expect(202);
    let content: Value = serde_json::from_slice(&queued(&gateway).await[0].content).unwrap();
    let html = content["compiled"].as_str().unwrap();
    assert!(content["body"] == mjml && html.contains("Hi {{ user.name }}") && !html.contains("<mj-"), "{html}");

    // In other channels, MJML is ordinary text.
    let news = json!({"userId": "u1", "channel": "IN_APP", "subject": "Hi", "body": mjml});
    gateway.post(&project, "/messages", &news).await.expect(202);
    let content: Value = serde_json::from_slice(&queued_by(&gateway, Channel::InApp).await[0].content).unwrap();
    assert_eq!(content, json!({"subject": "Hi", "body": mjml}));

    let include = "<mjml>\n<mj-body><mj-include path=\"/etc/passwd\" /></mj-body></mjml>";
    let large = mjml.replace("Hi {{", &format!("{} {{{{", "x".repeat(300_000)));
    for (content, why) in [(include, "line 2, column 10: mj-include"), (large.as_str(), "content, its compiled HTML")] {
        let flat = json!({"userId": "u1", "channel": "EMAIL", "subject": "s", "body": content});
        let nested = json!({"userId": "u1", "channel": "EMAIL", "content": {"title": "s", "body": content}});
        for (mail, field) in [(flat, "body"), (nested, "content.body")] {
            let refused = gateway.post(&project, "/messages", &mail).await;
            assert_eq!((refused.status, refused.fields()), (422, vec![field]), "{}", refused.body);
            let said = refused.body["details"][0]["message"].as_str().unwrap();
            assert!(said.starts_with(why), "{said}");
        }
    }
    assert!(queued(&gateway).await.is_empty());
}

#[tokio::test]
async fn push_is_published_on_its_channels_lane() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let push = json!({"user_id": "u1", "channel": "push", "content": {"title": "T", "body": "B"}});
    gateway.post(&project, "/messages", &push).await.expect(202);
    let messages = queued_by(&gateway, Channel::Push).await;
    assert_eq!((messages.len(), messages[0].channel.as_str()), (1, "PUSH"));
    let content = json!({"title": "T", "body": "B", "url": "/orders/{{ id }}"});
    gateway
        .post(&project, "/messages", &json!({"user_id": "u1", "channel": "push", "content": content}))
        .await
        .expect(202);
    let messages = queued_by(&gateway, Channel::Push).await;
    let queued: Value = serde_json::from_slice(&messages[0].content).unwrap();
    assert_eq!(queued, json!({"subject": "T", "body": "B", "url": "/orders/{{ id }}"}));
    for (channel, url) in [("push", "javascript:x"), ("email", "/orders/1")] {
        let content = json!({"title": "T", "body": "B", "url": url});
        let message = json!({"user_id": "u1", "channel": channel, "content": content});
        let refused = gateway.post(&project, "/messages", &message).await;
        assert_eq!((refused.status, refused.fields()), (422, vec!["content.url"]), "{}", refused.body);
    }
}

#[tokio::test]
async fn repeated_idempotency_key_returns_the_same_message() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let key = ("idempotency-key", "reset-1");
    let (status, first) = send_with(&gateway, &project, key, &mail("u1")).await;
    assert_eq!(status, 202);
    assert_eq!(send_with(&gateway, &project, key, &mail("u1")).await.1["id"], first["id"]);
    assert_ne!(send_with(&gateway, &other, key, &mail("u1")).await.1["id"], first["id"]);
    assert_ne!(send_with(&gateway, &project, ("idempotency-key", "reset-2"), &mail("u1")).await.1["id"], first["id"]);
    let long = "k".repeat(201);
    let (status, body) = send_with(&gateway, &project, ("idempotency-key", &long), &mail("u1")).await;
    assert_eq!((status, &body["details"][0]["field"]), (422, &json!("Idempotency-Key")));
}

#[tokio::test]
async fn idempotency_key_of_a_deleted_message_sends_nothing() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let key = ("idempotency-key", "reset-1");
    let first = send_with(&gateway, &project, key, &mail("u1")).await.1;
    // The message has no row yet and may not have reached the stream.
    assert_eq!(send_with(&gateway, &project, key, &mail("u1")).await, (202, first));
    assert_eq!(queued(&gateway).await.len(), 2);

    let used = used_two_days_ago(&gateway, &project).await;
    let (status, body) = send_with(&gateway, &project, key, &mail("u1")).await;
    assert_eq!(status, 409, "{body}");
    row(&gateway, &project, used, Uuid::from_u128(1), "sent", "EMAIL").await;
    let (status, body) = send_with(&gateway, &project, key, &mail("u1")).await;
    assert_eq!((status, &body["id"], &body["status"]), (202, &json!(used), &json!("sent")));
    assert!(queued(&gateway).await.is_empty());
}

#[tokio::test]
async fn template_must_exist_and_match_the_channel() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let mut made = Vec::new();
    for (owner, channel) in [(&project, "EMAIL"), (&project, "PUSH"), (&other, "EMAIL")] {
        let new = json!({"name": "n", "channel": channel, "body": "b"});
        made.push(gateway.post(owner, "/templates", &new).await.expect(201)["id"].clone());
    }
    let with = |id: &Value| json!({"userId": "u1", "channel": "EMAIL", "templateId": id});
    gateway.post(&project, "/messages", &with(&made[0])).await.expect(202);
    for id in [&made[1], &made[2], &json!(Uuid::from_u128(1)), &json!("x")] {
        let response = gateway.post(&project, "/messages", &with(id)).await;
        assert_eq!(response.status, 422, "{id}");
        assert!(response.fields().contains(&"templateId"), "{}", response.body);
    }
    let messages = queued(&gateway).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(
        (json!(uuid("t", &messages[0].template_id).unwrap()), &messages[0].content[..]),
        (made[0].clone(), &b"{}"[..])
    );
}

#[tokio::test]
async fn unsendable_messages_are_rejected() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    for (field, value) in [
        ("channel", json!("FAX")),
        ("subject", json!("a\r\nBcc: x@y.z")),
        ("body", json!("{% if %}")),
        ("userId", json!("")),
        ("to", json!("a@b.c")),
    ] {
        let mut body = mail("u1");
        body[field] = value;
        let response = gateway.post(&project, "/messages", &body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
    assert!(queued(&gateway).await.is_empty());
}

#[tokio::test]
async fn waiting_returns_the_outcome_or_times_out() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let started = Instant::now();
    let (status, body) = send_with(&gateway, &project, ("prefer", "wait=1"), &mail("u1")).await;
    assert_eq!((status, &body["status"]), (202, &json!("queued")));
    assert!((Duration::from_millis(900)..Duration::from_secs(5)).contains(&started.elapsed()));

    let waiting = async { send_with(&gateway, &project, ("prefer", "wait=10"), &mail("u1")).await };
    let settling = async {
        let id = testkit::eventually(Duration::from_secs(10), async || {
            let messages = queued(&gateway).await;
            messages.last().map(|m| uuid("id", &m.message_id).unwrap()).filter(|id| json!(id) != body["id"]).ok_or(())
        });
        row(&gateway, &project, id.await, Uuid::from_u128(1), "failed", "EMAIL").await;
    };
    let ((status, outcome), ()) = tokio::join!(waiting, settling);
    assert_eq!((status, &outcome["status"], &outcome["statusReason"]), (202, &json!("failed"), &json!("why")));
}

#[tokio::test]
async fn messages_are_listed_and_filtered() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let known = rows.user("u1", None, None, 0).await;
    let merged = rows.visitor("a1", Some(known)).await;
    let second = rows.user("u2", None, None, 0).await;
    let now = gateway.app.clock.now_ms();
    let made: Vec<Uuid> = (0..4).map(|i| ids::fresh(now + i)).collect();
    row(&gateway, &project, made[0], merged, "sent", "EMAIL").await;
    row(&gateway, &project, made[1], known, "failed", "EMAIL").await;
    row(&gateway, &project, made[2], second, "sent", "PUSH").await;
    row(&gateway, &project, made[3], Uuid::from_u128(3), "failed", "EMAIL").await;
    for (query, expected) in [
        ("", &[3, 2, 1, 0][..]),
        ("userId=u1", &[1, 0]),
        ("userId=unknown", &[]),
        ("channel=email", &[3, 1, 0]),
        ("channel=PUSH", &[2]),
        ("status=sent", &[2, 0]),
        ("userId=u1&status=sent", &[0]),
    ] {
        let body = gateway.get(&project, &format!("/messages?{query}")).await.expect(200);
        let expected: Vec<String> = expected.iter().map(|i| made[*i].to_string()).collect();
        assert_eq!(
            (texts(&body["messages"], "id"), &body["total"]),
            (expected.clone(), &json!(expected.len())),
            "{query}"
        );
    }
    let pages = gateway.pages(&project, "/messages?limit=3", "messages", "id").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);

    let path = format!("/messages/{}", made[0]);
    let shown = gateway.get(&project, &path).await.expect(200);
    let expected = json!({
        "id": made[0], "status": "sent", "statusReason": "why", "userId": "u1", "anonymousId": "a1", "channel": "EMAIL",
        "subject": "Hi", "body": null, "content": null, "templateId": null, "automationId": null, "runId": null, "attempts": 2, "ambiguousAttempts": 1,
        "provider": "smtp", "providerMessageId": null, "createdAt": shown["createdAt"], "sentAt": shown["sentAt"],
        "deliveredAt": null, "openedAt": null, "clickedAt": null, "failedAt": null, "bouncedAt": null, "complainedAt": null,
    });
    assert_eq!(shown, expected);
    assert!(shown["sentAt"].as_str().unwrap().ends_with('Z'));
    // Content that was sent without a template is returned in the form in which it was sent.
    let sql = r#"UPDATE message SET subject = NULL, content = '{"subject": "T", "body": "B"}' WHERE id = ANY($1)"#;
    gateway.sql.execute(sql, &[&vec![made[1], made[2]]]).await.unwrap();
    for (id, content) in [(made[1], json!(null)), (made[2], json!({"title": "T", "body": "B"}))] {
        let direct = gateway.get(&project, &format!("/messages/{id}")).await.expect(200);
        assert_eq!((&direct["subject"], &direct["body"], &direct["content"]), (&json!("T"), &json!("B"), &content));
    }
    for path in [path.as_str(), "/messages/x"] {
        assert_eq!(gateway.get(&other, path).await.status, 404);
    }
    for (query, field) in [("channel=fax", "channel"), ("status=gone", "status"), ("page=0", "page")] {
        let response = gateway.get(&project, &format!("/messages?{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
}
