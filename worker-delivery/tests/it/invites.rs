//! Invitations that are sent by mail.

use std::time::Duration;

use jiff::Timestamp;
use kernel::ids;
use serde_json::json;
use store_projects::invites::{self, Invite, MailStatus, mail};
use store_projects::members::Role;
use testkit::{TestMailbox, eventually};
use uuid::Uuid;

use crate::place::{Place, SOON};

const LINK: &str = "https://app.example.com/accept-invite/0123456789abcdef";

/// Points the operator's mail settings at a port of this machine.
fn mail_by(place: &mut Place, port: u16) {
    place.addresses = vec![
        ("SYSTEM_SMTP_URL", format!("smtp://127.0.0.1:{port}?security=none")),
        ("SYSTEM_MAIL_FROM", "Rekindle <rekindle@example.com>".to_owned()),
    ];
}

/// Creates an invitation to be mailed.
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
    invites::insert(&tx, &invite, Some(&[7; 32])).await.unwrap();
    mail::queue(&tx, &place.keys, place.project, invite.id, LINK, now).await.unwrap();
    tx.commit().await.unwrap();
    invite.id
}

/// Returns the mail's status, whether its link is kept, and its next attempt.
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
    mail_by(&mut place, mailbox.port());
    let sql = "INSERT INTO account (id, email, name, password_hash, created_at, updated_at) \
               VALUES ($1, 'ada@example.com', 'Ada', '', now(), now())";
    place.store.connection().await.unwrap().execute(sql, &[&Uuid::nil()]).await.unwrap();
    let id = invite(&place, "grace@example.com").await;
    // Two concurrent workers send it only once.
    place.run().await;
    place.run().await;
    eventually_in(&place, id, "sent").await;
    let mails = mailbox.wait_for(1, SOON).await;
    let text = String::from_utf8(mails[0].raw.clone()).unwrap().replace("=\r\n", "");
    assert!(text.contains("grace@example.com") && text.contains(LINK), "{text}");
    assert_eq!(mails[0].header("Subject").as_deref(), Some("Invitation to join a project"));
    assert!(text.contains("Ada invites you to join Shop"), "{text}");
    // It is not a message of the project.
    let db = place.store.connection().await.unwrap();
    assert_eq!(db.query("SELECT FROM message", &[]).await.unwrap().len(), 0);
    place.stop().await;
    assert_eq!(mailbox.mails().len(), 1);
}

#[tokio::test]
async fn a_projects_channel_never_carries_an_invitation() {
    let (theirs, ours) = (TestMailbox::start().await, TestMailbox::start().await);
    let mut place = Place::new().await;
    place.configure(theirs.port(), json!({}), None).await;
    mail_by(&mut place, ours.port());
    let id = invite(&place, "grace@example.com").await;
    place.run().await;
    eventually_in(&place, id, "sent").await;
    place.stop().await;
    assert_eq!((theirs.mails().len(), ours.mails().len()), (0, 1));
    assert!(String::from_utf8_lossy(&ours.mails()[0].raw).contains("rekindle@example.com"));
}

#[tokio::test]
async fn an_invitation_waits_for_a_mail_server_that_is_away() {
    let mailbox = TestMailbox::start().await;
    let mut place = Place::new().await;
    // One worker has no operator mail server, and the other's server does not listen.
    for url in [None, Some(1)] {
        place.addresses.clear();
        if let Some(port) = url {
            mail_by(&mut place, port);
        }
        let waiting = invite(&place, "b@example.com").await;
        place.run().await;
        eventually(SOON, async || {
            let (status, sealed, due) = state(&place, waiting).await;
            let later = due.is_some_and(|due| due > place.clock.now() + Duration::from_secs(5));
            let lease = due.is_some_and(|due| due > place.clock.now() + Duration::from_secs(100));
            if status == "queued" && sealed && later && !lease { Ok(()) } else { Err((status, sealed, due)) }
        })
        .await;
        place.stop().await;
    }
    let db = place.store.connection().await.unwrap();
    db.execute("UPDATE invite SET mail_due_at = now() - interval '1 second' WHERE mail_due_at IS NOT NULL", &[])
        .await
        .unwrap();
    mail_by(&mut place, mailbox.port());
    place.run().await;
    mailbox.wait_for(1, SOON).await;
    place.stop().await;
}

#[tokio::test]
async fn an_invitation_that_was_taken_back_is_not_mailed() {
    let mailbox = TestMailbox::start().await;
    let mut place = Place::new().await;
    mail_by(&mut place, mailbox.port());
    let mut db = place.store.connection().await.unwrap();
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
