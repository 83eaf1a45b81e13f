//! Changes by sessions and keys are recorded in the audit log, in the transaction that makes them.

use serde_json::{Value, json};
use store_projects::members::Role;
use testkit::eventually;

use crate::fixture::{Gateway, texts};
use crate::login::Login;
use crate::rows::Rows;
use crate::setup::secs;

/// Returns the actions of the log, oldest first, with the names of their resources.
async fn lines(gateway: &Gateway, admin: &Login) -> Vec<(String, String)> {
    let log = gateway.get_as(admin, "/audit-log?limit=100").await.expect(200);
    let (actions, names) = (texts(&log["entries"], "action"), texts(&log["entries"], "resourceName"));
    actions.into_iter().zip(names).rev().collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[tokio::test]
async fn changes_of_campaigns_and_segments_are_recorded() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let made = async |path: &str, body: Value| gateway.post_as(&admin, path, &body).await.expect(201)["id"].clone();
    let segment = made("/segments", json!({"name": "List"})).await;
    let members = format!("/segments/{}/members", segment.as_str().unwrap());
    let rows = Rows { gateway: &gateway, project: project.id };
    rows.user("ann", None, None, 60).await;
    gateway.post_as(&admin, &members, &json!({"add": ["ann"]})).await.expect(200);
    let template = made("/templates", json!({"name": "Mail", "channel": "EMAIL", "body": "b"})).await;
    let sale = json!({"name": "Sale", "channel": "EMAIL", "segmentId": segment, "templateId": template});
    let sale = format!("/campaigns/{}", made("/campaigns", sale).await.as_str().unwrap());
    gateway.put_as(&admin, &sale, &json!({"name": "Big sale"})).await.expect(200);
    gateway.post_as(&admin, &format!("{sale}/test"), &json!({"to": ["a@b.c"]})).await.expect(202);
    for action in ["send", "pause", "resume", "cancel"] {
        gateway.post_as(&admin, &format!("{sale}/{action}"), &json!({})).await.expect(200);
    }
    // A refused request is not recorded.
    assert_eq!(gateway.post_as(&admin, &format!("{sale}/send"), &json!({})).await.status, 409);
    gateway.delete_as(&admin, &sale).await.expect(200);
    let expected = [
        ("segment.created", "List"),
        ("segment.members_changed", "List"),
        ("template.created", "Mail"),
        ("campaign.created", "Sale"),
        ("campaign.updated", "Big sale"),
        ("campaign.tested", "Big sale"),
        ("campaign.sent", "Big sale"),
        ("campaign.paused", "Big sale"),
        ("campaign.resumed", "Big sale"),
        ("campaign.cancelled", "Big sale"),
        ("campaign.deleted", "Big sale"),
    ];
    assert_eq!(lines(&gateway, &admin).await, pairs(&expected));
    let log = gateway.get_as(&admin, "/audit-log?action=campaign.paused").await.expect(200);
    assert_eq!(log["entries"][0]["details"], json!({"status": {"from": "SENDING", "to": "PAUSED"}}));
    let log = gateway.get_as(&admin, "/audit-log?action=segment.members_changed").await.expect(200);
    assert_eq!(log["entries"][0]["details"], json!({"added": 1, "removed": 0}));
}

#[tokio::test]
async fn changes_of_users_and_messages_are_recorded() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let ann = rows.user("ann", Some("ann@example.com"), Some("Ann"), 60).await;
    let event = rows.event(ann, "bought", 1_000).await;
    let mail = json!({"userId": "ann", "channel": "EMAIL", "subject": "Hi", "body": "a secret"});
    // Changes by secret keys are as frequent as events and are not recorded, except for deletions.
    gateway.post(&project, "/messages", &mail).await.expect(202);
    assert_eq!(lines(&gateway, &admin).await, []);
    let sent = gateway.post_as(&admin, "/messages", &mail).await.expect(202);
    gateway.delete_as(&admin, &format!("/events/{event}")).await.expect(200);
    // No worker applies the change here, so the request gets no response. It is recorded all the same.
    let noted = async |count: usize| {
        eventually(secs(5), async || match lines(&gateway, &admin).await.len() {
            found if found == count => Ok(()),
            found => Err(found),
        })
        .await;
    };
    let change = json!({"name": "Anna", "properties": {"plan": "pro"}});
    tokio::select! {
        response = gateway.put_as(&admin, "/users/ann", &change) => panic!("{response:?}"),
        () = noted(3) => {}
    }
    tokio::select! {
        response = gateway.delete(&project, "/users/ann") => panic!("{response:?}"),
        () = noted(4) => {}
    }
    let expected = [("message.sent", ""), ("event.deleted", ""), ("user.updated", ""), ("user.deleted", "")];
    assert_eq!(lines(&gateway, &admin).await, pairs(&expected));
    let log = gateway.get_as(&admin, "/audit-log").await.expect(200);
    let [deleted, updated, _, message] = [0, 1, 2, 3].map(|line: usize| log["entries"][line].clone());
    assert_eq!((&deleted["actor"]["type"], &deleted["resourceId"]), (&json!("api_key"), &json!(ann)));
    assert_eq!(updated["details"], json!({"fields": ["name", "plan"]}));
    assert_eq!((&message["resourceId"], &message["details"]["channel"]), (&sent["id"], &json!("EMAIL")));
    let text = log.to_string();
    assert!(!text.contains("secret") && !text.contains("ann@example.com"), "{text}");
}
