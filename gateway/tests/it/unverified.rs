//! Accounts with an unverified address belong only to the project that invited them.

use serde_json::{Value, json};
use store_projects::members::Role;

use crate::fixture::Gateway;
use crate::invitations::{SYSTEM_MAIL, accept, invite, operator_token};
use crate::login::{Login, account};

const CEO: &str = "ceo@bigcorp.example";
const EVES: &str = "a password of eve";
const OWN: &str = "a password of the ceo";

/// Starts a gateway that mails invitations, with an admin of Eve's project and one of BigCorp's.
async fn started() -> (Gateway, Login, Login) {
    let gateway = Gateway::start_with(SYSTEM_MAIL).await;
    let (hers, theirs) = (gateway.project().await, gateway.project().await);
    let eve = gateway.log_in(&hers, Role::Admin).await;
    let bigcorp = gateway.log_in(&theirs, Role::Admin).await;
    (gateway, eve, bigcorp)
}

/// Accepts, as Eve, an unmailed invitation of the address to her own project.
async fn hijack(gateway: &Gateway, eve: &Login) -> (String, Value) {
    invite(gateway, eve, CEO, "ADMIN").await;
    let token = operator_token(gateway, eve, CEO).await;
    let response = accept(gateway, &token, EVES).await;
    assert_eq!(response.status, 200, "{}", response.text);
    (response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned(), response.json())
}

async fn verified_members(gateway: &Gateway, by: &Login) -> Vec<(String, bool)> {
    let team = gateway.get_as(by, "/team").await.expect(200);
    let of = |member: &Value| (member["email"].as_str().unwrap().to_owned(), member["verified"] == true);
    team["members"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn account_from_an_unmailed_link_cannot_create_projects() {
    let (gateway, eve, _) = started().await;
    let (cookie, session) = hijack(&gateway, &eve).await;
    assert_eq!(verified_members(&gateway, &eve).await, [(eve.email.clone(), true), (CEO.to_owned(), false)]);
    let create = gateway.call("POST", "/projects").header("cookie", &cookie);
    let create = create.header("x-csrf-token", session["csrfToken"].as_str().unwrap());
    let refused = create.send(json!({"name": "BigCorp"}).to_string()).await;
    assert!(refused.error(403).contains("not verified"), "{}", refused.text);
}

#[tokio::test]
async fn mailbox_owner_takes_over_an_unverified_account() {
    let (gateway, eve, bigcorp) = started().await;
    let (cookie, _) = hijack(&gateway, &eve).await;
    let (_, mailed) = invite(&gateway, &bigcorp, CEO, "ADMIN").await;
    // Eve's password stops working, and the holder of the address does not need it.
    let joined = accept(&gateway, &mailed, OWN).await;
    assert_eq!(joined.status, 200, "{}", joined.text);
    assert_eq!(joined.json()["user"]["name"], "Grace");
    gateway.call("GET", "/auth/session").header("cookie", &cookie).send("").await.error(401);
    gateway.post_login(CEO, EVES).await.error(401);
    assert_eq!(gateway.post_login(CEO, OWN).await.status, 200);
    assert_eq!(verified_members(&gateway, &bigcorp).await, [(bigcorp.email.clone(), true), (CEO.to_owned(), true)]);
}

#[tokio::test]
async fn unmailed_link_does_not_add_an_unverified_account_to_a_second_project() {
    let (gateway, eve, bigcorp) = started().await;
    hijack(&gateway, &eve).await;
    invite(&gateway, &bigcorp, CEO, "ADMIN").await;
    let token = operator_token(&gateway, &bigcorp, CEO).await;
    accept(&gateway, &token, OWN).await.error(401);
    let refused = accept(&gateway, &token, EVES).await;
    assert!(refused.error(409).contains("not verified"), "{}", refused.text);
    assert_eq!(verified_members(&gateway, &bigcorp).await, [(bigcorp.email.clone(), true)]);
}

#[tokio::test]
async fn mailed_invitation_verifies_an_existing_member() {
    let (gateway, eve, _) = started().await;
    hijack(&gateway, &eve).await;
    let (_, mailed) = invite(&gateway, &eve, CEO, "MEMBER").await;
    assert_eq!(accept(&gateway, &mailed, OWN).await.status, 200);
    assert_eq!(verified_members(&gateway, &eve).await[1], (CEO.to_owned(), true));
    let again = gateway.post_as(&eve, "/team/invites", &json!({"email": CEO})).await;
    assert_eq!(again.status, 409);
}

#[tokio::test]
async fn links_do_not_bypass_a_verified_accounts_password() {
    let (gateway, eve, _) = started().await;
    account(&gateway.app.store, CEO, Some(OWN)).await;
    let (_, mailed) = invite(&gateway, &eve, CEO, "ADMIN").await;
    for token in [mailed, operator_token(&gateway, &eve, CEO).await] {
        accept(&gateway, &token, EVES).await.error(401);
    }
    assert_eq!(gateway.post_login(CEO, OWN).await.status, 200);
}

#[tokio::test]
async fn lookalike_unicode_address_is_a_different_account() {
    let (gateway, eve, bigcorp) = started().await;
    hijack(&gateway, &bigcorp).await;
    account(&gateway.app.store, "kim@bigcorp.example", Some(OWN)).await;
    // Many case-folding rules lower-case the dotted capital I and the Kelvin sign to "i" and "k".
    for other in ["ceo@b\u{130}gcorp.example", "\u{212a}im@bigcorp.example"] {
        let (_, mailed) = invite(&gateway, &eve, other, "MEMBER").await;
        let joined = accept(&gateway, &mailed, EVES).await;
        assert_eq!((joined.status, &joined.json()["user"]["email"]), (200, &json!(other)), "{}", joined.text);
    }
    assert_eq!(verified_members(&gateway, &bigcorp).await[1], (CEO.to_owned(), false));
    assert_eq!(gateway.post_login("KIM@bigcorp.example", OWN).await.status, 200);
}

#[tokio::test]
async fn invitation_response_does_not_reveal_an_account() {
    let (gateway, eve, _) = started().await;
    account(&gateway.app.store, CEO, Some(OWN)).await;
    let mut answers = Vec::new();
    for email in [CEO, "unknown@bigcorp.example"] {
        let mut body = gateway.post_as(&eve, "/team/invites", &json!({"email": email})).await.expect(201);
        let shown = body["invite"].as_object_mut().unwrap();
        for varying in ["id", "email", "createdAt", "expiresAt"] {
            assert!(shown.remove(varying).is_some(), "{varying}");
        }
        answers.push(body);
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn account_takeover_ends_concurrent_logins() {
    let (gateway, eve, bigcorp) = started().await;
    hijack(&gateway, &eve).await;
    let (_, mailed) = invite(&gateway, &bigcorp, CEO, "ADMIN").await;
    let signing_in = async || gateway.post_login(CEO, EVES).await;
    let (taken, hers, again) = tokio::join!(accept(&gateway, &mailed, OWN), signing_in(), signing_in());
    assert_eq!(taken.status, 200, "{}", taken.text);
    for response in [hers, again].iter().filter(|response| response.status == 200) {
        let cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        gateway.call("GET", "/auth/session").header("cookie", &cookie).send("").await.error(401);
    }
}
