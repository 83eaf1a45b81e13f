//! Tests for `/suppressions` and the page on which recipients unsubscribe.

use domain::link::{self, LinkClaims};
use domain::message::Channel;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::event::Body;

use crate::fixture::{Gateway, texts};
use crate::http::Call;
use crate::rows::Rows;
use crate::setup::{Tenant, master_keys};

#[tokio::test]
async fn addresses_can_be_suppressed_and_removed() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let new = json!({"address": " Ann@Example.com", "note": "asked by phone"});
    let made = gateway.post(&project, "/suppressions", &new).await.expect(201);
    assert_eq!(
        (&made["channel"], &made["address"], &made["reason"], &made["userId"]),
        (&json!("EMAIL"), &json!("ann@example.com"), &json!("manual"), &json!(null))
    );
    // Repeating the request changes nothing.
    let again = gateway.post(&project, "/suppressions", &json!({"address": "ann@example.com"})).await.expect(201);
    assert_eq!(again, made);
    let unsubscribed = json!({"address": "ann@example.com", "reason": "unsubscribed"});
    gateway.post(&project, "/suppressions", &unsubscribed).await.expect(201);
    gateway.post(&project, "/suppressions", &json!({"channel": "SMS", "address": "+1 555 123-4567"})).await.expect(201);
    Rows { gateway: &gateway, project: project.id }.user("ann", None, None, 9).await;
    let user = json!({"channel": "PUSH", "userId": "ann"});
    let user = gateway.post(&project, "/suppressions", &user).await.expect(201);
    assert_eq!((&user["userId"], &user["address"]), (&json!("ann"), &json!(null)));

    let list = gateway.get(&project, "/suppressions").await.expect(200);
    assert_eq!((&list["total"], &list["suppressions"][0]), (&json!(4), &user));
    assert_eq!(gateway.pages(&project, "/suppressions?limit=3", "suppressions", "reason").await.concat().len(), 4);
    for (query, count) in [
        ("channel=SMS", 1),
        ("reason=unsubscribed", 1),
        ("address=ANN@example.com", 2),
        ("address=%2B1-555-1234567", 1),
        ("channel=PUSH&reason=bounced", 0),
    ] {
        let found = gateway.get(&project, &format!("/suppressions?{query}")).await.expect(200);
        assert_eq!(texts(&found["suppressions"], "id").len(), count, "{query}");
    }
    assert_eq!(gateway.get(&other, "/suppressions").await.expect(200)["total"], 0);

    let remove = async |of: &Tenant, body: Value| {
        let json = [("content-type", "application/json")];
        gateway.send("DELETE", "/suppressions", &of.secret, &json, body.to_string()).await
    };
    // A suppression of another project is reported as missing.
    assert_eq!(remove(&other, json!({"id": made["id"]})).await.status, 404);
    assert_eq!(remove(&project, json!({"id": made["id"]})).await.expect(200), json!({"deleted": true}));
    assert_eq!(remove(&project, json!({"id": made["id"]})).await.status, 404);
    assert_eq!(remove(&project, json!({"address": "ANN@example.com"})).await.status, 200, "for any reason");
    assert_eq!(remove(&project, json!({"channel": "PUSH", "userId": "ann"})).await.status, 200);
    assert_eq!(texts(&gateway.get(&project, "/suppressions").await.expect(200)["suppressions"], "channel"), ["SMS"]);
    for (body, field) in
        [(json!({}), "address"), (json!({"address": "x"}), "address"), (json!({"userId": "unknown"}), "userId")]
    {
        for response in [gateway.post(&project, "/suppressions", &body).await, remove(&project, body.clone()).await] {
            assert_eq!((response.status, response.fields()), (422, vec![field]), "{body}");
        }
    }
}

#[tokio::test]
async fn every_spelling_of_a_domain_matches_the_same_address() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let punycode = json!({"address": "Ann@xn--bcher-kva.example"});
    let made = gateway.post(&project, "/suppressions", &punycode).await.expect(201);
    assert_eq!(made["address"], "ann@bücher.example");
    // As earlier versions stored it.
    let sql = "INSERT INTO suppression (project_id, channel, address, reason, id, note, created_at) \
               VALUES ($1, 'EMAIL', 'ann@xn--bcher-kva.example', 'bounced', gen_random_uuid(), '', now())";
    gateway.sql.execute(sql, &[&project.id]).await.unwrap();
    for address in ["ann@b%C3%BCcher.example", "ANN@XN--BCHER-KVA.example"] {
        let found = gateway.get(&project, &format!("/suppressions?address={address}")).await.expect(200);
        assert_eq!(found["total"], 2, "{address}");
    }
    let body = json!({"address": "ann@ｂüｃｈｅｒ.example"}).to_string();
    let json = [("content-type", "application/json")];
    gateway.send("DELETE", "/suppressions", &project.secret, &json, body).await.expect(200);
    assert_eq!(gateway.get(&project, "/suppressions").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn unsubscribing_requires_a_post_and_a_valid_link() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let ann = Rows { gateway: &gateway, project: project.id }.user("ann", None, None, 9).await;
    let about = LinkClaims {
        project: project.id,
        message: Uuid::from_u128(7),
        user: ann,
        group: None,
        channel: Some(Channel::Sms),
    };
    let path = link::unsubscribe(&master_keys(), "", about);
    let call = async |method: &str, path: &str, body: &'static str| {
        let form = ("content-type", "application/x-www-form-urlencoded");
        Call::new(gateway.address(), method, path).header(form.0, form.1).send(body).await
    };
    // Link scanners request the page with these methods.
    for method in ["GET", "HEAD"] {
        let page = call(method, &path, "").await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(page.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    }
    assert!(call("GET", &path, "").await.text.contains("<form method=\"post\">"));
    let mut forged = path.clone();
    let last = forged.pop().unwrap();
    forged.push(if last == 'A' { 'Q' } else { 'A' });
    for wrong in ["/unsubscribe/", "/unsubscribe/x", &forged] {
        assert_eq!(call("POST", wrong, "").await.status, 404, "{wrong}");
    }
    assert_eq!(call("DELETE", &path, "").await.status, 405);
    assert!(gateway.items().await.is_empty());

    // One-click unsubscription, as mail clients send it.
    let page = call("POST", &path, "List-Unsubscribe=One-Click").await;
    assert!(page.status == 200 && page.text.contains("You are unsubscribed"), "{page:?}");
    let items = gateway.items().await;
    let Some(Body::Webhook(webhook)) = &items[0].body else { panic!("{items:?}") };
    let data: Value = serde_json::from_slice(&webhook.data).unwrap();
    assert_eq!(
        (items.len(), webhook.kind.as_str(), items[0].user_id.as_deref()),
        (1, "message.unsubscribed", Some("ann"))
    );
    assert_eq!((&data["messageId"], &data["channel"]), (&json!(about.message), &json!("SMS")));
}
