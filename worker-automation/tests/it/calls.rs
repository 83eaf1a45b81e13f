//! Webhook steps against a server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use kernel::ids::ProjectId;
use secrets::MasterKeys;
use serde_json::json;
use sha2::Sha256;
use store_projects::projects::{self, ProjectSecrets, creators};
use testkit::{Fault, ProviderServer, Received, Reply};
use uuid::Uuid;

use crate::fixture::{Fixture, KEY, track};

/// Creates the project's row with these secrets.
async fn project_with(f: &Fixture, secrets: &ProjectSecrets) {
    let mut db = f.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    projects::insert(&tx, &MasterKeys::parse(KEY).unwrap(), f.project, "p", secrets, f.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
}

async fn project(f: &Fixture) {
    project_with(f, &ProjectSecrets::random()).await;
}

/// Returns the signature of a call with a key, in the format of the header.
fn signature(call: &Received, key: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(format!("{}.{}.", call.header("webhook-id"), call.header("webhook-timestamp")).as_bytes());
    mac.update(&call.body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Decodes the key of a signing secret.
fn key_of(secret: &str) -> Vec<u8> {
    STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap()
}

async fn automation(f: &Fixture, url: &str) -> Uuid {
    let hook = json!({"type": "WEBHOOK", "name": "crm", "url": url, "body": {"who": "{{ user.externalId }}"}});
    let rules = json!([{"field": "steps.crm.response.tier", "operator": "eq", "value": 3}]);
    let mail = |n: u128| json!({"type": "SEND_EMAIL", "templateId": Uuid::from_u128(n)});
    let branch = json!({"type": "BRANCH", "branches": [{"rules": rules, "steps": [mail(1)]}], "else": [mail(2)]});
    f.automation("e", "always", &[hook, branch]).await
}

const SENT: &str = "SELECT max(right(template_id::text, 1)::int)::bigint FROM message";

#[tokio::test]
async fn call_is_signed_and_retried_and_its_response_is_used() {
    let f = Fixture::start().await;
    let before = ProjectSecrets::random();
    let secrets = before.clone().with_rotated_signing(f.clock.now());
    project_with(&f, &secrets).await;
    let server = ProviderServer::start(|_: &Received| Reply::json(200, &json!({"tier": 3}))).await;
    server.fail_next(Fault::Respond(Reply::empty(503)));
    automation(&f, &format!("{}/crm", server.url())).await;
    f.publish(vec![track(&f, "u1", "e", json!({}))]).await;
    f.eventually("the run continued", SENT, 1).await;
    let received = server.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    for call in &received {
        assert_eq!(call.json(), json!({"who": "u1"}));
        let keys = [&secrets, &before].map(|of| key_of(of.signing.as_ref().unwrap().current()));
        let expected = keys.map(|key| signature(call, &key)).join(" ");
        assert_eq!(call.header("webhook-signature"), expected, "signed with the secret and the one that it replaced");
        let inbound = signature(call, secrets.webhook.as_bytes());
        assert!(!call.header("webhook-signature").contains(&inbound), "the receiver could forge inbound webhooks");
    }
    f.eventually(
        "no call or timer remains",
        "SELECT (SELECT count(*) FROM webhook_call) + (SELECT count(*) FROM timer)",
        0,
    )
    .await;
    f.stop().await;
}

#[tokio::test]
async fn a_project_without_a_signing_secret_gets_one_on_first_use() {
    let f = Fixture::start().await;
    project_with(&f, &ProjectSecrets { signing: None, ..ProjectSecrets::random() }).await;
    let server = ProviderServer::start(|_: &Received| Reply::json(200, &json!({"tier": 3}))).await;
    automation(&f, &format!("{}/crm", server.url())).await;
    f.publish(vec![track(&f, "u1", "e", json!({})), track(&f, "u2", "e", json!({}))]).await;
    f.eventually("both runs continued", "SELECT count(*) FROM message", 2).await;
    let db = f.store.connection().await.unwrap();
    let secrets = projects::secrets(&db, &MasterKeys::parse(KEY).unwrap(), f.project).await.unwrap().unwrap();
    let key = key_of(secrets.signing.unwrap().current());
    for call in server.received() {
        assert_eq!(call.header("webhook-signature"), signature(&call, &key));
    }
    f.stop().await;
}

#[tokio::test]
async fn failed_call_is_reported_and_the_run_continues() {
    let f = Fixture::start().await;
    project(&f).await;
    let server = ProviderServer::start(|_: &Received| Reply::json(404, &json!({"tier": 3}))).await;
    // One endpoint rejects the call, and one URL may not be called.
    automation(&f, &format!("{}/gone", server.url())).await;
    f.publish(vec![track(&f, "u1", "e", json!({}))]).await;
    f.eventually("the run with the rejected call completed", "SELECT count(*) FROM run WHERE status = 'completed'", 1)
        .await;
    let why = "SELECT t->>'why' FROM run, jsonb_array_elements(trail) AS t WHERE t->>'did' = 'failed'";
    assert_eq!(f.text(why).await.as_deref(), Some("responded with 404"));
    f.execute("DELETE FROM run").await;
    f.execute("UPDATE change SET seq = seq + 1 WHERE topic = 'automation'; UPDATE automation SET active = false, changed_seq = (SELECT seq FROM change WHERE topic = 'automation')").await;
    // Plain HTTP is allowed only to addresses that the operator exempts.
    for (url, because) in [
        ("https://169.254.169.254/latest", "may not be called"),
        ("http://169.254.169.254/latest", "http:// is allowed only"),
        ("http://1.1.1.1/hook", "http:// is allowed only"),
    ] {
        let automation = automation(&f, url).await;
        f.publish(vec![track(&f, "u1", "e", json!({}))]).await;
        f.eventually(
            "the run with the forbidden URL completed",
            "SELECT count(*) FROM run WHERE status = 'completed'",
            1,
        )
        .await;
        assert!(f.text(why).await.unwrap().contains(because), "{url}");
        f.deactivate(automation).await;
        f.execute("DELETE FROM run").await;
    }
    f.stop().await;
}

#[tokio::test]
async fn hanging_calls_of_one_owner_delay_no_other_owner() {
    let mut f = Fixture::start().await;
    let hanging = ProviderServer::start(|_: &Received| Reply::json(200, &json!({}))).await;
    let account = Uuid::from_u128(7);
    for n in 1..=2 {
        f.project = ProjectId(Uuid::from_u128(n));
        project(&f).await;
        let mut db = f.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        creators::set(&tx, f.project, account).await.unwrap();
        tx.commit().await.unwrap();
        automation(&f, &hanging.url()).await;
        for user in 0..80 {
            hanging.fail_next(Fault::Hang);
            f.publish(vec![track(&f, &format!("u{user}"), "e", json!({}))]).await;
        }
    }
    // Failed calls are due again within seconds; calls in flight, after their lease.
    let under_way = format!(
        "SELECT count(*) FROM webhook_call WHERE attempt = 1 AND due_at > now() + interval '15 s' AND url LIKE '{}%'",
        hanging.url()
    );
    f.eventually("one owner's calls are in flight", &under_way, 64).await;

    f.project = ProjectId(Uuid::from_u128(3));
    project(&f).await;
    let prompt = ProviderServer::start(|_: &Received| Reply::json(200, &json!({"tier": 3}))).await;
    automation(&f, &prompt.url()).await;
    f.publish((0..20).map(|n| track(&f, &format!("u{n}"), "e", json!({}))).collect()).await;
    f.eventually("the other owner's runs continued", "SELECT count(*) FROM message", 20).await;
    assert_eq!(f.number(&under_way).await, 64, "none of the hanging calls has ended");
    drop(hanging);
    f.stop().await;
}
