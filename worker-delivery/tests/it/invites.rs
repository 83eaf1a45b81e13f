//! Invitations that are sent by mail.

use std::time::Duration;

use jiff::Timestamp;
use kernel::ids;
use serde_json::json;
use store_projects::invites::{self, Invite, MailStatus, mail};
use store_projects::members::Role;
use testkit::{TestMailbox, eventually};
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

const LINK: &str = "https://app.example.com/accept-invite/0123456789abcdef";

/// Points the operator's mail settings at a port of this machine.
fn mail_by(fixture: &mut Fixture, port: u16) {
    fixture.addresses = vec![
        ("SYSTEM_SMTP_URL", format!("smtp://127.0.0.1:{port}?security=none")),
        ("SYSTEM_MAIL_FROM", "Rekindle <rekindle@example.com>".to_owned()),
    ];
}

/// Creates an invitation to be mailed.
async fn invite(fixture: &Fixture, email: &str) -> Uuid {
    let now = fixture.clock.now();
    let invite = Invite {
        project: fixture.project,
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
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    invites::insert(&tx, &invite, Some(&[7; 32])).await.unwrap();
    mail::queue(&tx, &fixture.keys, fixture.project, invite.id, LINK, now).await.unwrap();
    tx.commit().await.unwrap();
    invite.id
}

/// Returns the mail's status, whether its link is kept, and its next attempt.
async fn state(fixture: &Fixture, id: Uuid) -> (String, bool, Option<Timestamp>) {
    let sql = "SELECT mail_status, sealed_link IS NOT NULL, mail_due_at FROM invite WHERE id = $1";
    let row = fixture.store.connection().await.unwrap().query_one(sql, &[&id]).await.unwrap();
    (row.get(0), row.get(1), row.get(2))
}

async fn eventually_in(fixture: &Fixture, id: Uuid, status: &str) {
    eventually(SOON, async || {
        let state = state(fixture, id).await;
        if state.0 == status && !state.1 && state.2.is_none() { Ok(()) } else { Err(state) }
    })
    .await;
}

#[tokio::test]
async fn invitation_is_mailed_once_and_its_link_is_deleted() {
    let mailbox = TestMailbox::start().await;
    let mut fixture = Fixture::new().await;
    mail_by(&mut fixture, mailbox.port());
    let sql = "INSERT INTO account (id, email, name, password_hash, created_at, updated_at) \
               VALUES ($1, 'ada@example.com', 'Ada', '', now(), now())";
    fixture.store.connection().await.unwrap().execute(sql, &[&Uuid::nil()]).await.unwrap();
    let id = invite(&fixture, "grace@example.com").await;
    // Two concurrent workers send it only once.
    fixture.run().await;
    fixture.run().await;
    eventually_in(&fixture, id, "sent").await;
    let mails = mailbox.wait_for(1, SOON).await;
    let text = String::from_utf8(mails[0].raw.clone()).unwrap().replace("=\r\n", "");
    assert!(text.contains("grace@example.com") && text.contains(LINK), "{text}");
    assert_eq!(mails[0].header("Subject").as_deref(), Some("Invitation to join a project"));
    assert!(text.contains("Ada invites you to join Shop"), "{text}");
    // It is not a message of the project.
    let db = fixture.store.connection().await.unwrap();
    assert_eq!(db.query("SELECT FROM message", &[]).await.unwrap().len(), 0);
    fixture.stop().await;
    assert_eq!(mailbox.mails().len(), 1);
}

#[tokio::test]
async fn invitations_are_never_sent_through_a_projects_channel() {
    let (theirs, ours) = (TestMailbox::start().await, TestMailbox::start().await);
    let mut fixture = Fixture::new().await;
    fixture.configure(theirs.port(), json!({}), None).await;
    mail_by(&mut fixture, ours.port());
    let id = invite(&fixture, "grace@example.com").await;
    fixture.run().await;
    eventually_in(&fixture, id, "sent").await;
    fixture.stop().await;
    assert_eq!((theirs.mails().len(), ours.mails().len()), (0, 1));
    assert!(String::from_utf8_lossy(&ours.mails()[0].raw).contains("rekindle@example.com"));
}

#[tokio::test]
async fn invitation_waits_for_an_unreachable_mail_server() {
    let mailbox = TestMailbox::start().await;
    let mut fixture = Fixture::new().await;
    // One worker has no operator mail server, and the other's server does not listen.
    for url in [None, Some(1)] {
        fixture.addresses.clear();
        if let Some(port) = url {
            mail_by(&mut fixture, port);
        }
        let waiting = invite(&fixture, "b@example.com").await;
        fixture.run().await;
        eventually(SOON, async || {
            let (status, sealed, due) = state(&fixture, waiting).await;
            let later = due.is_some_and(|due| due > fixture.clock.now() + Duration::from_secs(5));
            let lease = due.is_some_and(|due| due > fixture.clock.now() + Duration::from_secs(100));
            if status == "queued" && sealed && later && !lease { Ok(()) } else { Err((status, sealed, due)) }
        })
        .await;
        fixture.stop().await;
    }
    let db = fixture.store.connection().await.unwrap();
    db.execute("UPDATE invite SET mail_due_at = now() - interval '1 second' WHERE mail_due_at IS NOT NULL", &[])
        .await
        .unwrap();
    mail_by(&mut fixture, mailbox.port());
    fixture.run().await;
    mailbox.wait_for(1, SOON).await;
    fixture.stop().await;
}

#[tokio::test]
async fn revoked_invitation_is_not_mailed() {
    let mailbox = TestMailbox::start().await;
    let mut fixture = Fixture::new().await;
    mail_by(&mut fixture, mailbox.port());
    let mut db = fixture.store.connection().await.unwrap();
    let id = invite(&fixture, "grace@example.com").await;
    let tx = db.transaction().await.unwrap();
    let found = invites::get_for_update(&tx, fixture.project, id).await.unwrap().unwrap();
    invites::set_revoked(&tx, &found, fixture.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    fixture.run().await;
    eventually_in(&fixture, id, "failed").await;
    fixture.stop().await;
    assert_eq!(mailbox.mails().len(), 0);
}
