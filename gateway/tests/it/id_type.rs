//! `idType`: selects the user if the external ID of one user is the internal ID of another.

use domain::message::Channel;
use domain::push_token;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::event::{Body, uuid};

use crate::api_inbox::{deliver, proof};
use crate::api_messages::queued_by;
use crate::document::all_operations;
use crate::fixture::{Gateway, texts};
use crate::rows::Rows;
use crate::setup::Tenant;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// Ann, and a user whose external ID is Ann's internal ID.
struct Shadowed {
    gateway: Gateway,
    project: Tenant,
    ann: Uuid,
    shadow: Uuid,
}

impl Shadowed {
    async fn start() -> Self {
        let gateway = Gateway::start().await;
        let project = gateway.project().await;
        let rows = Rows { gateway: &gateway, project: project.id };
        let ann = rows.user("ann", None, Some("Ann"), 60).await;
        let shadow = rows.user(&ann.to_string(), None, Some("Shadow"), 30).await;
        gateway.applied_up_to(100).await;
        Self { gateway, project, ann, shadow }
    }

    fn rows(&self) -> Rows<'_> {
        Rows { gateway: &self.gateway, project: self.project.id }
    }

    /// Returns, for each query string, the internal and external ID of the user that Ann's internal ID selects.
    fn named(&self) -> [(&'static str, Uuid, String); 3] {
        let shadow = |query| (query, self.shadow, self.ann.to_string());
        [("idType=internal", self.ann, "ann".to_owned()), shadow("idType=external"), shadow("")]
    }

    async fn get(&self, path: &str) -> Value {
        self.gateway.get(&self.project, path).await.expect(200)
    }

    async fn created(&self, path: &str, body: Value) -> String {
        let made = self.gateway.post(&self.project, path, &body).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    }

    /// Returns the users of the only message queued since the last call.
    async fn queued(&self) -> Vec<Uuid> {
        let messages = queued_by(&self.gateway, Channel::Email).await;
        assert_eq!(messages.len(), 1);
        messages[0].user_ids.iter().map(|id| uuid("user", id).unwrap()).collect()
    }
}

#[tokio::test]
async fn internal_id_selects_the_user_to_change_and_erase() {
    let s = Shadowed::start().await;
    let group = s.created("/subscription-groups", json!({"name": "g"})).await;
    let choice = json!({"groups": [{"id": group, "subscribed": false}]});
    let path = format!("/users/{}", s.ann);
    for (query, user, external_id) in s.named() {
        let before = s.gateway.items().await.len();
        s.gateway.put(&s.project, &format!("{path}?{query}"), &json!({"name": "New"})).await.expect(200);
        s.gateway.put(&s.project, &format!("{path}/subscriptions?{query}"), &choice).await.expect(200);
        let deleted = s.gateway.delete(&s.project, &format!("{path}?{query}")).await.expect(200);
        assert_eq!(deleted, json!({"deleted": true}));
        let mut items = s.gateway.items().await;
        items.sort_by_key(|item| item.row_id().unwrap());
        let items = items.split_off(before);
        assert!(items.iter().all(|item| item.user_id.as_deref() == Some(&*external_id)), "{query}: {items:?}");
        assert_eq!(items.len(), 3, "{query}");
        let Some(Body::Subscribe(subscribe)) = &items[1].body else { panic!("{:?}", items[1]) };
        let Some(Body::Erase(erase)) = &items[2].body else { panic!("{:?}", items[2]) };
        for id in [&subscribe.user_id, &erase.user_id] {
            assert_eq!(uuid("user", id).unwrap(), user, "{query}");
        }
    }
}

#[tokio::test]
async fn only_the_requested_id_type_is_looked_up() {
    let s = Shadowed::start().await;
    let visitor = s.rows().visitor("a1", None).await;
    for (query, user, external_id) in s.named() {
        let shown = s.get(&format!("/users/{}?{query}", s.ann)).await;
        assert_eq!((&shown["id"], &shown["externalId"]), (&json!(user), &json!(external_id)), "{query}");
    }
    for (id, query) in [
        ("ann".to_owned(), "idType=internal"),
        ("a1".to_owned(), "idType=internal"),
        ("a1".to_owned(), "idType=external"),
        (s.shadow.to_string(), "idType=external"),
        (visitor.to_string(), "idType=external"),
    ] {
        for below in ["", "/subscriptions"] {
            let path = format!("/users/{id}{below}?{query}");
            assert_eq!(s.gateway.get(&s.project, &path).await.status, 404, "{path}");
        }
        let deleted = s.gateway.delete(&s.project, &format!("/users/{id}?{query}")).await;
        assert_eq!(deleted.status, 404, "{id} {query}");
    }
    assert_eq!(s.get("/users/ann?idType=external").await["id"], json!(s.ann));
    assert_eq!(s.get(&format!("/users/{visitor}?id_type=internal")).await["anonymousId"], "a1");
    assert!(s.gateway.items().await.is_empty());
}

#[tokio::test]
async fn lists_honor_id_type() {
    let s = Shadowed::start().await;
    let steps = json!([{"type": "WAIT", "delay": 60}]);
    let new = json!({"name": "a", "triggerType": "EVENT", "triggerEvent": "e", "steps": steps});
    let automation: Uuid = s.created("/automations", new).await.parse().unwrap();
    for (n, user) in [(1, s.ann), (2, s.shadow)] {
        s.rows().event(user, "e", 0).await;
        deliver(&s.gateway, &s.project, user, &user.to_string()).await;
        let device = "INSERT INTO push_token (project_id, id, user_id, platform, token, created_at, updated_at) \
                      VALUES ($1, $2, $3, 'IOS', $4, now(), now())";
        let token = format!("t{n}");
        let id = push_token::id(s.project.id, &token);
        s.gateway.sql.execute(device, &[&s.project.id, &id, &user, &token]).await.unwrap();
        let run = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, partition, context, \
                   started_at, updated_at) VALUES ($1, $2, $3, 1, $4, 'waiting', 'steps[0]', 0, '{}', now(), now())";
        s.gateway.sql.execute(run, &[&s.project.id, &Uuid::from_u128(n), &automation, &user]).await.unwrap();
    }
    for (query, user, external_id) in s.named() {
        for (path, list) in [
            ("/events?user", "events"),
            ("/messages?userId", "messages"),
            ("/push-tokens/devices?userId", "devices"),
            (format!("/automations/{automation}/runs?userId").as_str(), "runs"),
        ] {
            let found = s.get(&format!("{path}={}&{query}", s.ann)).await;
            assert_eq!(texts(&found[list], "userId"), [external_id.as_str()], "{path} {query}");
        }
        // The export consists of one line.
        let exported = s.get(&format!("/events/export?user={}&{query}", s.ann)).await;
        assert_eq!(exported["userId"], json!(external_id), "{query}");
        let inbox = s.get(&format!("/inbox?user_id={}&{query}", s.ann)).await;
        assert_eq!(texts(&inbox["items"], "title"), [user.to_string()], "{query}");
        let item = inbox["items"][0]["id"].as_str().unwrap();
        for (other, named, _) in s.named() {
            let read = format!("/inbox/{item}/read?user_id={}&{other}", s.ann);
            let response = s.gateway.post(&s.project, &read, &json!({})).await;
            assert_eq!(response.status, if named == user { 200 } else { 404 }, "{query} {other}");
        }
    }
    for path in ["/events?user=ann", "/messages?userId=ann", "/push-tokens/devices?userId=ann"] {
        let found = s.get(&format!("{path}&idType=internal")).await;
        let list = ["events", "messages", "devices"].into_iter().find_map(|name| found[name].as_array());
        assert!(list.unwrap().is_empty(), "{path}");
    }
}

#[tokio::test]
async fn users_in_a_body_are_matched_by_id_type() {
    let s = Shadowed::start().await;
    let template = json!({"name": "t", "channel": "EMAIL", "subject": "s", "body": "{{ user.name }}"});
    let template = s.created("/templates", template).await;
    let segment = s.created("/segments", json!({"name": "l", "rules": []})).await;
    let campaign = json!({"name": "c", "channel": "EMAIL", "segmentId": segment, "templateId": template});
    let campaign = s.created("/campaigns", campaign).await;
    let post = async |path: String, body: Value, status| s.gateway.post(&s.project, &path, &body).await.expect(status);
    for (query, user, external_id) in s.named() {
        let preview = post(format!("/templates/{template}/preview?{query}"), json!({"userId": s.ann}), 200).await;
        assert!(preview["body"].as_str().unwrap().contains(if user == s.ann { "Ann" } else { "Shadow" }), "{preview}");
        post(format!("/campaigns/{campaign}/test?{query}"), json!({"userIds": [s.ann]}), 202).await;
        assert_eq!(s.queued().await, [user], "{query}");
        let members = format!("/segments/{segment}/members?{query}");
        post(members.clone(), json!({"add": [s.ann]}), 200).await;
        let listed = s.get(&format!("/segments/{segment}/users")).await;
        assert_eq!(texts(&listed["users"], "externalId"), [external_id.as_str()], "{query}");
        let explained = s.get(&format!("/segments/{segment}/explain?user_id={}&{query}", s.ann)).await;
        assert_eq!((&explained["id"], &explained["matches"]), (&json!(user), &json!(true)), "{query}");
        assert_eq!(post(members, json!({"remove": [s.ann]}), 200).await["removed"], 1, "{query}");
        let suppression = json!({"channel": "PUSH", "userId": s.ann});
        let made = post(format!("/suppressions?{query}"), suppression.clone(), 201).await;
        assert_eq!(made["userId"], json!(external_id), "{query}");
        let path = format!("/suppressions?{query}");
        let body = suppression.to_string();
        s.gateway.send("DELETE", &path, &s.project.secret, &JSON, body).await.expect(200);
    }
    let mail = json!({"userId": s.ann, "channel": "EMAIL", "subject": "Hi", "body": "b"});
    for (query, users) in
        [("idType=internal", vec![s.ann]), ("idType=external", vec![s.shadow]), ("", vec![s.shadow, s.ann])]
    {
        post(format!("/messages?{query}"), mail.clone(), 202).await;
        assert_eq!(s.queued().await, users, "{query}");
    }
}

#[tokio::test]
async fn id_of_the_other_type_is_rejected_in_a_body() {
    let s = Shadowed::start().await;
    let steps = json!([{"type": "WAIT", "delay": 60}]);
    let new = json!({"name": "a", "triggerType": "EVENT", "triggerEvent": "e", "steps": steps});
    let automation = s.created("/automations", new).await;
    for (path, body) in [
        ("/messages", json!({"userId": "ann", "channel": "EMAIL", "subject": "s", "body": "b"})),
        ("/channels/email/test", json!({"userId": "ann"})),
        ("/suppressions", json!({"userId": "ann", "channel": "PUSH"})),
        (format!("/automations/{automation}/simulate").as_str(), json!({"userId": "ann"})),
    ] {
        let response = s.gateway.post(&s.project, &format!("{path}?idType=internal"), &body).await;
        assert_eq!((response.status, response.fields()), (422, vec!["userId"]), "{path}: {}", response.body);
    }
    let simulate = format!("/automations/{automation}/simulate?idType=external");
    s.gateway.post(&s.project, &simulate, &json!({"userId": "ann"})).await.expect(200);
    for path in ["/inbox", "/inbox/stream"] {
        let response = s.gateway.get(&s.project, &format!("{path}?user_id=ann&idType=internal")).await;
        assert_eq!((response.status, response.fields()), (422, vec!["user_id"]), "{path}");
    }
    // A public key's proof covers an external ID.
    let hash = proof(&s.gateway, &s.project, &s.ann.to_string()).await;
    let path = format!("/inbox?user_id={}&user_hash={hash}", s.ann);
    let ask = async |query| s.gateway.send("GET", &format!("{path}&{query}"), &s.project.public, &[], "").await;
    let response = ask("idType=internal").await;
    assert_eq!((response.status, response.fields()), (422, vec!["idType"]), "{}", response.body);
    ask("idType=external").await.expect(200);
}

#[tokio::test]
async fn unknown_id_types_are_rejected_everywhere() {
    let s = Shadowed::start().await;
    let mut tried = 0;
    for operation in all_operations().iter().filter(|operation| operation.takes("idType")) {
        let id = if operation.path.starts_with("/channels") { "email".to_owned() } else { s.ann.to_string() };
        for value in ["anonymous", "Internal", ""] {
            let path = format!("{}?user_id=ann&idType={value}", operation.at(&id));
            let body = if operation.method == "GET" { "" } else { "{}" };
            let response = s.gateway.send(&operation.method, &path, &s.project.secret, &JSON, body).await;
            let what = format!("{} {path}: {}", operation.method, response.body);
            assert_eq!((response.status, response.fields()), (422, vec!["idType"]), "{what}");
            let message = &response.body["details"][0]["message"];
            assert_eq!(message, "must be one of `internal`, `external`", "{what}");
        }
        tried += 1;
    }
    assert_eq!(tried, 22);
    assert!(s.gateway.items().await.is_empty());
}
