//! Invitations by mail.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use shared::ids::{self, ProjectId};
use shared::store::invites::{self, Invite, MailStatus, mail};
use shared::store::members::Role;
use shared::store::projects::{self, ProjectSecrets};
use testkit::{TestMailbox, eventually};
use uuid::Uuid;

use crate::place::{Place, SOON};

const LINK: &str = "https://app.example.com/accept-invite/0123456789abcdef";

/// Invites somebody, to be mailed.
async fn invite(place: &Place, email: &str) -> Uuid {
    let now = place.clock.now();
    let invite = Invite {
        project: place.project,
        id: ids::fresh(now.as_millisecond()),
        email: email.to_owned(),
        role: Role::Member,
        invited_by: Uuid::nil(),
        created_at: now,
        expires_at: now + Duration::from_hours(1),
        accepted_at: None,
        revoked_at: None,
        mail: MailStatus::None,
    };
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    invites::insert(&tx, &invite, &[7; 32]).await.unwrap();
    mail::queue(&tx, &place.keys, place.project, invite.id, LINK, now).await.unwrap();
    tx.commit().await.unwrap();
    invite.id
}

/// The state of the mail, whether its link is kept, and when it is looked at again.
async fn state(place: &Place, id: Uuid) -> (String, bool, Option<Timestamp>) {
    let sql = "SELECT mail_status, sealed_link IS NOT NULL, mail_due_at FROM invite WHERE id = $1";
    let row = place.store.connection().await.unwrap().query_one(sql, &[&id]).await.unwrap();
    (row.get(0), row.get(1), row.get(2))
}

async fn eventually_in(place: &Place, id: Uuid, status: &str) {
    eventually(SOON, async || {
        let state = state(place, id).await;
        if state.0 == status && !state.1 && state.2.is_none() { Ok(()) } else { Err(state) }
    })
    .await;
}

#[tokio::test]
async fn an_invitation_is_mailed_once_and_its_link_forgotten() {
    let mailbox = TestMailbox::start().await;
    let mut place = Place::new().await;
    place.configure(mailbox.port(), json!({}), None).await;
    let sql = "INSERT INTO account (id, email, name, password_hash, created_at, updated_at) \
               VALUES ($1, 'ada@example.com', 'Ada', '', now(), now())";
    place.store.connection().await.unwrap().execute(sql, &[&Uuid::nil()]).await.unwrap();
    let id = invite(&place, "grace@example.com").await;
    // Two that work at once take turns.
    place.run().await;
    place.run().await;
    eventually_in(&place, id, "sent").await;
    let mails = mailbox.wait_for(1, SOON).await;
    let text = String::from_utf8(mails[0].raw.clone()).unwrap().replace("=\r\n", "");
    assert!(text.contains("grace@example.com") && text.contains("Invitation to Shop") && text.contains(LINK), "{text}");
    assert!(text.contains("Ada invites you"), "{text}");
    // It is no message of anybody's.
    let db = place.store.connection().await.unwrap();
    assert_eq!(db.query("SELECT FROM message", &[]).await.unwrap().len(), 0);
    place.stop().await;
    assert_eq!(mailbox.mails().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_mailed_is_tried_again_or_given_up() {
    let mailbox = TestMailbox::start().await;
    let mut place = Place::new().await;
    let unset = invite(&place, "a@example.com").await;
    place.run().await;
    eventually_in(&place, unset, "failed").await;

    // A port that nobody listens on, for now.
    place.configure(1, json!({}), None).await;
    let waiting = invite(&place, "b@example.com").await;
    eventually(SOON, async || {
        let (status, sealed, due) = state(&place, waiting).await;
        let later = due.is_some_and(|due| due > place.clock.now() + Duration::from_secs(5));
        let lease = due.is_some_and(|due| due > place.clock.now() + Duration::from_secs(100));
        if status == "queued" && sealed && later && !lease { Ok(()) } else { Err((status, sealed, due)) }
    })
    .await;
    place.configure(mailbox.port(), json!({}), None).await;
    let db = place.store.connection().await.unwrap();
    db.execute("UPDATE invite SET mail_due_at = now() - interval '1 second' WHERE mail_due_at IS NOT NULL", &[])
        .await
        .unwrap();
    eventually_in(&place, waiting, "sent").await;
    place.stop().await;
}

#[tokio::test]
async fn an_invitation_that_was_taken_back_is_not_mailed() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let mut db = place.store.connection().await.unwrap();
    place.stop().await;
    let id = invite(&place, "grace@example.com").await;
    let tx = db.transaction().await.unwrap();
    let found = invites::get_for_update(&tx, place.project, id).await.unwrap().unwrap();
    invites::set_revoked(&tx, &found, place.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    place.run().await;
    eventually_in(&place, id, "failed").await;
    place.stop().await;
    assert_eq!(mailbox.mails().len(), 0);
}

#[tokio::test]
async fn a_mail_server_that_does_not_answer_keeps_only_its_own_project_waiting() {
    let mailbox = TestMailbox::start().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut place = Place::new().await;
    place.configure(silent.local_addr().unwrap().port(), json!({}), None).await;
    // More than are taken in one look, and all of them due before the other project's.
    for n in 0..60 {
        invite(&place, &format!("{n}@example.com")).await;
    }
    place.project = ProjectId(ids::fresh(place.clock.now_ms()));
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let (secrets, now) = (ProjectSecrets::random(), place.clock.now());
    projects::insert(&tx, &place.keys, place.project, "Shop", &secrets, now).await.unwrap();
    tx.commit().await.unwrap();
    place.configure(mailbox.port(), json!({}), None).await;
    let other = invite(&place, "grace@example.com").await;
    place.run().await;
    eventually_in(&place, other, "sent").await;
    // Whoever called meanwhile hears that nobody is there.
    drop(silent);
    place.stop().await;
}
