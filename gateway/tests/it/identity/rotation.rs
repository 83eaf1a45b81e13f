//! Rotation of the identity secret.

use serde_json::{Value, json};
use store_projects::members::Role;
use store_projects::projects;
use testkit::{TestDatabase, TestNats, eventually};

use super::{hash, switched, token};
use crate::fixture::Gateway;
use crate::setup::{Tenant, master_keys, secs};

/// Returns whether an event is accepted with a hash and with a token under `secret`.
async fn taken(gateway: &Gateway, project: &Tenant, secret: &str) -> [bool; 2] {
    let sent = async |name: &str, proof: String| {
        let body = json!({"event": "e", "user_id": "ann", name: proof}).to_string();
        gateway.send("POST", "/events", &project.public, &[], body).await.status == 202
    };
    [sent("user_hash", hash(secret, "ann")).await, sent("user_token", token(secret, "ann", 60)).await]
}

async fn accepts(gateway: &Gateway, project: &Tenant, secret: &str) -> bool {
    let taken = taken(gateway, project, secret).await;
    assert_eq!(taken[0], taken[1], "both gateways accept the same secrets");
    taken[0]
}

async fn soon(gateway: &Gateway, project: &Tenant, secret: &str, expected: bool) {
    eventually(secs(2), async || {
        let taken = taken(gateway, project, secret).await;
        if taken == [expected; 2] { Ok(()) } else { Err(taken) }
    })
    .await;
}

#[tokio::test]
async fn rotated_secret_is_accepted_during_its_overlap_at_every_gateway() {
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let here = Gateway::start_on(&database, &nats).await;
    let there = Gateway::start_on(&database, &nats).await;
    let project = here.project().await;
    let admin = here.log_in(&project, Role::Admin).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let first = text(&switched(&here, &project, &admin, true).await["identitySecret"]);
    for gateway in [&here, &there] {
        soon(gateway, &project, "another", false).await;
        assert!(accepts(gateway, &project, &first).await);
    }
    let path = format!("/projects/{}", project.id);
    let rotate = async |body: &str| {
        let response =
            here.send_as(&admin, "POST", &format!("{path}/identity-secret"), body.to_owned()).await.expect(200);
        (text(&response["identitySecret"]), response["previousIdentitySecretUntil"].clone())
    };
    let (second, until) = rotate("").await;
    let until: jiff::Timestamp = until.as_str().unwrap().parse().unwrap();
    let hours = until.duration_since(here.app.clock.now()).as_secs() as f64 / 3_600.0;
    assert!((23.9..=24.0).contains(&hours), "{hours}");
    let shown = here.get_as(&admin, &path).await.expect(200);
    assert_eq!(shown["identitySecret"], json!(second));
    assert!(!shown.to_string().contains(&first));
    assert!(accepts(&here, &project, &second).await && accepts(&here, &project, &first).await);
    soon(&there, &project, &second, true).await;
    assert!(accepts(&there, &project, &first).await);

    // A second rotation ends the overlap of the first secret, immediately on the gateway that rotates.
    let (third, _) = rotate(r#"{"overlapHours": 720}"#).await;
    for (secret, accepted) in [(&third, true), (&second, true), (&first, false)] {
        assert_eq!(accepts(&here, &project, secret).await, accepted);
        soon(&there, &project, secret, accepted).await;
    }

    // The overlap ends without another rotation.
    let mut db = here.app.store.connection().await.unwrap();
    let mut secrets = projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap();
    secrets.previous_identity.as_mut().unwrap().until = here.app.clock.now() - secs(1);
    let tx = db.transaction().await.unwrap();
    projects::set_secrets(&tx, &master_keys(), project.id, &secrets, here.app.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    for gateway in [&here, &there] {
        soon(gateway, &project, &second, false).await;
        assert!(accepts(gateway, &project, &third).await);
    }

    // A leaked secret is replaced without an overlap.
    let (fourth, until) = rotate(r#"{"overlapHours": 0}"#).await;
    assert_eq!(until, Value::Null);
    assert!(accepts(&here, &project, &fourth).await && !accepts(&here, &project, &third).await);
    soon(&there, &project, &third, false).await;

    let log = here.get_as(&admin, "/audit-log?action=project.identity_secret_rotated").await.expect(200);
    assert_eq!(log["total"], 3);
    assert_eq!(log["entries"][0]["details"], json!({"overlapHours": 0}));
    for (body, field) in [
        (r#"{"overlapHours": -1}"#, "overlapHours"),
        (r#"{"overlapHours": 721}"#, "overlapHours"),
        (r#"{"overlapHours": null}"#, "overlapHours"),
        (r#"{"overlap": 1}"#, "overlap"),
    ] {
        let response = here.send_as(&admin, "POST", &format!("{path}/identity-secret"), body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{body}");
    }
}
