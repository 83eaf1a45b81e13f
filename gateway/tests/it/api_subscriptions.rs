//! Tests for `/subscription-groups` and `/users/:id/subscriptions`.

use serde_json::{Value, json};
use uuid::Uuid;
use wire::event::{Body, Subscribe};

use crate::fixture::{Gateway, texts};
use crate::rows::Rows;
use crate::setup::Tenant;

/// Creates a group with further fields; returns its ID.
pub async fn group(gateway: &Gateway, project: &Tenant, name: &str, more: Value) -> Uuid {
    let mut new = json!({ "name": name });
    new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = gateway.post(project, "/subscription-groups", &new).await.expect(201);
    made["id"].as_str().unwrap().parse().unwrap()
}

/// Writes the row that recording a choice would write.
pub async fn chose(gateway: &Gateway, project: &Tenant, (user, group): (Uuid, Uuid), subscribed: bool) {
    let sql = "INSERT INTO subscription (project_id, user_id, group_id, subscribed, source, changed_at) \
               VALUES ($1, $2, $3, $4, 'page', '2026-01-01T00:00:00Z') \
               ON CONFLICT (project_id, user_id, group_id) DO UPDATE SET subscribed = excluded.subscribed";
    gateway.sql.execute(sql, &[&project.id, &user, &group, &subscribed]).await.unwrap();
}

/// Returns the group IDs of the choices, and whether each is subscribed.
pub fn choices(chosen: &Subscribe) -> Vec<(Uuid, bool)> {
    chosen.choices.iter().map(|c| (Uuid::from_slice(&c.group_id).unwrap(), c.subscribed)).collect()
}

#[tokio::test]
async fn group_can_be_created_read_updated_and_deleted() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let new =
        json!({"name": "Weekly digest", "description": "On Mondays", "defaultSubscribed": false, "public": false});
    let made = gateway.post(&project, "/subscription-groups", &new).await.expect(201);
    for (field, value) in new.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    let path = format!("/subscription-groups/{}", made["id"].as_str().unwrap());
    assert_eq!(gateway.get(&project, &path).await.expect(200), made);
    group(&gateway, &project, "Product news", json!({})).await;
    let listed = gateway.get(&project, "/subscription-groups").await.expect(200);
    assert_eq!(texts(&listed["groups"], "name"), ["Weekly digest", "Product news"]);

    let renamed = gateway.put(&project, &path, &json!({"name": "Digest", "description": null})).await.expect(200);
    assert_eq!(
        (&renamed["name"], &renamed["description"], &renamed["public"]),
        (&json!("Digest"), &json!(""), &json!(false))
    );
    // `PUT` accepts the representation that `GET` returns.
    assert_eq!(gateway.put(&project, &path, &renamed).await.expect(200)["name"], "Digest");
    for (body, field) in
        [(json!({"name": ""}), "name"), (json!({"public": 1}), "public"), (json!({"channel": "EMAIL"}), "channel")]
    {
        let response = gateway.put(&project, &path, &body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }

    // A group of another project is reported as missing.
    for response in [
        gateway.get(&other, &path).await,
        gateway.put(&other, &path, &json!({"name": "mine"})).await,
        gateway.delete(&other, &path).await,
        gateway.get(&project, "/subscription-groups/x").await,
    ] {
        assert_eq!(
            (response.status, &response.body["message"]),
            (404, &json!("no such subscription group in this project")),
            "{path}"
        );
    }
    assert_eq!(gateway.send("GET", "/subscription-groups", &project.public, &[], "").await.status, 403);

    let id: Uuid = made["id"].as_str().unwrap().parse().unwrap();
    chose(&gateway, &project, (Uuid::from_u128(7), id), true).await;
    assert_eq!(gateway.delete(&project, &path).await.expect(200), json!({"deleted": true}));
    assert_eq!(gateway.get(&project, &path).await.status, 404);
    assert_eq!(gateway.delete(&project, &path).await.status, 404);
    let listed = gateway.get(&project, "/subscription-groups").await.expect(200);
    assert_eq!(texts(&listed["groups"], "name"), ["Product news"]);
    let (sql, of) = ("SELECT action FROM audit_log WHERE resource_id = $1 ORDER BY id", id.to_string());
    let log: Vec<String> = gateway.sql.query(sql, &[&of]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(
        (log.len(), log[0].as_str(), log.last().unwrap().as_str()),
        (4, "subscription_group.created", "subscription_group.deleted")
    );
}

#[tokio::test]
async fn groups_per_project_are_limited() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    for n in 0..50 {
        group(&gateway, &project, &format!("g{n}"), json!({})).await;
    }
    let refused = gateway.post(&project, "/subscription-groups", &json!({"name": "one more"})).await;
    assert_eq!(refused.status, 409);
    assert!(refused.body["message"].as_str().unwrap().contains("at most 50"), "{}", refused.body);
    group(&gateway, &other, "first", json!({})).await;
}

#[tokio::test]
async fn group_in_use_cannot_be_deleted() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let (id, foreign) =
        (group(&gateway, &project, "News", json!({})).await, group(&gateway, &other, "News", json!({})).await);
    let path = format!("/subscription-groups/{id}");
    let template = json!({"name": "n", "channel": "EMAIL", "body": "b"});
    let template = gateway.post(&project, "/templates", &template).await.expect(201)["id"].clone();
    let segment =
        gateway.post(&project, "/segments", &json!({"name": "s", "rules": []})).await.expect(201)["id"].clone();

    let campaign = |group: Value| json!({"name": "Sale", "channel": "EMAIL", "segmentId": segment, "templateId": template, "subscriptionGroupId": group});
    for wrong in [json!(foreign), json!("x"), json!(7)] {
        let response = gateway.post(&project, "/campaigns", &campaign(wrong)).await;
        assert_eq!((response.status, response.fields()), (422, vec!["subscriptionGroupId"]), "{}", response.body);
    }
    let made = gateway.post(&project, "/campaigns", &campaign(json!(id))).await.expect(201);
    assert_eq!(made["subscriptionGroupId"], json!(id));
    let refused = gateway.delete(&project, &path).await;
    assert!(refused.status == 409 && refused.body["message"].as_str().unwrap().contains("Sale"), "{}", refused.body);
    let of_campaign = format!("/campaigns/{}", made["id"].as_str().unwrap());
    let freed = gateway.put(&project, &of_campaign, &json!({"subscriptionGroupId": null})).await.expect(200);
    assert_eq!(freed["subscriptionGroupId"], json!(null));

    let automation = |group: Value| {
        let step = json!({"type": "SEND_EMAIL", "templateId": template, "subscriptionGroupId": group});
        let steps = json!([{"type": "SPLIT", "branches": [{"weight": 1, "steps": [step]}, {"weight": 1, "steps": [{"type": "EXIT"}]}]}]);
        json!({"name": "Welcome", "triggerType": "EVENT", "triggerEvent": "e", "active": true, "steps": steps})
    };
    for wrong in [json!(foreign), json!("x"), json!(7)] {
        let response = gateway.post(&project, "/automations", &automation(wrong)).await;
        let field = "steps[0].branches[0].steps[0].subscriptionGroupId";
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{}", response.body);
    }
    let made = gateway.post(&project, "/automations", &automation(json!(id))).await.expect(201);
    assert_eq!(made["steps"][0]["branches"][0]["steps"][0]["subscriptionGroupId"], json!(id));
    let refused = gateway.delete(&project, &path).await;
    assert!(refused.status == 409 && refused.body["message"].as_str().unwrap().contains("Welcome"), "{}", refused.body);
    let of_automation = format!("/automations/{}", made["id"].as_str().unwrap());
    gateway.put(&project, &of_automation, &json!({"active": false})).await.expect(200);
    gateway.delete(&project, &path).await.expect(200);
    // Reactivating the automation requires removing the group.
    let response = gateway.put(&project, &of_automation, &json!({"active": true})).await;
    assert_eq!(response.status, 422, "{}", response.body);
    // A step without a group is unchanged.
    let without = gateway.post(&project, "/automations", &automation(json!(null))).await.expect(201);
    assert!(without["steps"][0]["branches"][0]["steps"][0].get("subscriptionGroupId").is_none());
}

#[tokio::test]
async fn subscription_preferences_are_changed_through_events() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let ann = Rows { gateway: &gateway, project: project.id }.user("ann", None, None, 9).await;
    let news = group(&gateway, &project, "News", json!({})).await;
    let digest = group(&gateway, &project, "Digest", json!({"defaultSubscribed": false})).await;
    let foreign = group(&gateway, &other, "News", json!({})).await;
    gateway.applied_up_to(1_000).await;
    chose(&gateway, &project, (ann, digest), true).await;

    let shown = gateway.get(&project, "/users/ann/subscriptions").await.expect(200);
    let expected = json!({ "groups": [
        { "id": news, "name": "News", "subscribed": true, "source": null, "changedAt": null },
        { "id": digest, "name": "Digest", "subscribed": true, "source": "page", "changedAt": "2026-01-01T00:00:00.000Z" },
    ] });
    assert_eq!(shown, expected);
    let person = gateway.get(&project, "/users/ann").await.expect(200);
    assert_eq!(person["subscriptions"], expected["groups"]);
    // `PUT` accepts the representation that `GET` returns, and ignores its subscriptions.
    gateway.put(&project, "/users/ann", &json!({"subscriptions": []})).await.expect(200);
    assert!(gateway.items().await.iter().all(|item| !matches!(item.body, Some(Body::Subscribe(_)))));
    let before = gateway.items().await.len();

    for (body, field) in [
        (json!({}), "groups"),
        (json!({"groups": null}), "groups"),
        (json!({"groups": "all"}), "groups"),
        (json!({"groups": [7]}), "groups[0]"),
        (json!({"groups": [{"subscribed": true}]}), "groups[0].id"),
        (json!({"groups": [{"id": news}]}), "groups[0].subscribed"),
        (json!({"groups": [{"id": news, "subscribed": "no"}]}), "groups[0].subscribed"),
        (json!({"groups": [{"id": foreign, "subscribed": true}]}), "groups[0].id"),
        (json!({"groups": [{"id": "x", "subscribed": true}]}), "groups[0].id"),
        (json!({"groups": [{"id": news, "subscribed": true, "since": 1}]}), "groups[0].since"),
    ] {
        let response = gateway.put(&project, "/users/ann/subscriptions", &body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{body}");
    }
    for path in ["/users/unknown/subscriptions", "/users/%ff/subscriptions"] {
        assert_eq!(gateway.get(&project, path).await.status, 404);
        assert_eq!(gateway.put(&project, path, &json!({"groups": []})).await.status, 404);
    }
    let public = gateway.send("GET", "/users/ann/subscriptions", &project.public, &[], "").await;
    assert_eq!(public.status, 403);
    assert_eq!(gateway.items().await.len(), before);

    // A choice that is already stored is no change; the others go to the user's partition.
    let wanted = json!({"groups": [{"id": digest, "subscribed": true}, {"id": news, "subscribed": true}, {"id": news, "subscribed": false}]});
    assert_eq!(gateway.put(&project, "/users/ann/subscriptions", &wanted).await.expect(200), expected);
    let items = &gateway.items().await[before..];
    let Some(Body::Subscribe(chosen)) = &items[0].body else { panic!("{items:?}") };
    assert_eq!((items.len(), items[0].user_id.as_deref(), chosen.source.as_str()), (1, Some("ann"), "api"));
    assert_eq!(
        (choices(chosen), &chosen.user_id[..], chosen.resubscribe),
        (vec![(news, false)], &ann.as_bytes()[..], false)
    );
    // `PUT` accepts the representation that `GET` returns.
    gateway.put(&project, "/users/ann/subscriptions", &expected).await.expect(200);
}
