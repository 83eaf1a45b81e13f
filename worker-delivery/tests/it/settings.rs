//! Channels with missing or invalid settings.

use std::time::Duration;

use domain::message::Channel;
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use store_sending::send_chunks::release_held;
use testkit::{TestMailbox, eventually_true};

use crate::fixture::{Fixture, SOON};

#[tokio::test]
async fn wrong_password_shows_on_the_channel_and_message_is_sent_once_fixed() {
    let mailbox = TestMailbox::start_with_auth("shop", "right").await;
    let mut fixture = Fixture::new().await;
    fixture.configure(mailbox.port(), json!({ "smtpUsername": "shop" }), Some("wrong")).await;
    fixture.run().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let message = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&message)).await;
    let row = fixture.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures), ("queued", 0));
    assert!(row.reason.as_deref().unwrap().starts_with("channel_misconfigured: 535"), "{row:?}");
    assert!(fixture.due_in(&row).unwrap() > 50, "{row:?}");
    let error = fixture.channel_error().await.unwrap();
    assert!(error.starts_with("535"), "{error}");
    fixture.configure(mailbox.port(), json!({ "smtpUsername": "shop" }), Some("right")).await;
    assert_eq!(fixture.channel_error().await, None);
    mailbox.wait_for(1, SOON).await;
    assert_eq!(fixture.settled(message.id, 2).await.status, "sent");
    fixture.stop().await;
}

#[tokio::test]
async fn wrong_settings_hold_messages_and_are_cleared_by_success() {
    let mailbox = TestMailbox::start().await;
    let mut fixture = Fixture::new().await;
    fixture.run().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    for (more, words) in [
        (json!({ "smtpHost": "no-such-host.invalid" }), "cannot be resolved"),
        (json!({ "smtpHost": "10.0.0.1" }), "may not be called"),
        (json!({ "smtpSecurity": "starttls" }), "STARTTLS"),
        (json!({ "smtpSecurity": "tls" }), ""),
        (json!({ "mailproviderFromEmail": "" }), "mailproviderFromEmail"),
    ] {
        fixture.configure(mailbox.port(), more.clone(), None).await;
        let message = fixture.message(ann);
        fixture.queue(std::slice::from_ref(&message)).await;
        let row = fixture.settled(message.id, 1).await;
        assert!(
            row.status == "queued" && row.reason.as_deref().unwrap().starts_with("channel_misconfigured"),
            "{row:?}"
        );
        let error = fixture.channel_error().await.unwrap();
        assert!(error.contains(words), "{more}: {error}");
    }
    // Simulates a stale error recorded by another worker: the first success clears it.
    fixture.configure(mailbox.port(), json!({}), None).await;
    let sql = "UPDATE channel SET error = 'old', error_at = now() WHERE project_id = $1 AND channel = 'email'";
    fixture.store.connection().await.unwrap().execute(sql, &[&fixture.project]).await.unwrap();
    mailbox.wait_for(5, SOON).await;
    eventually_true("the error is gone", SOON, async || fixture.channel_error().await.is_none()).await;
    fixture.stop().await;
}

#[tokio::test]
async fn message_fails_without_settings_and_the_next_is_sent_once_configured() {
    let mailbox = TestMailbox::start().await;
    let mut fixture = Fixture::new().await;
    fixture.run().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let first = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&first)).await;
    let row = fixture.settled(first.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("failed", Some("channel_not_configured")));
    fixture.configure(mailbox.port(), json!({}), None).await;
    let second = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&second)).await;
    mailbox.wait_for(1, SOON).await;
    assert_eq!(fixture.settled(second.id, 1).await.status, "sent");
    fixture.stop().await;
}

#[tokio::test]
async fn worker_releases_messages_of_a_channel_that_it_does_not_serve_and_leaves_them_to_others() {
    let mut fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    fixture.addresses = vec![("DELIVERY_CHANNELS", "email".to_owned())];
    fixture.run().await;
    let send_mail = async || {
        let mail = fixture.message(ann);
        fixture.queue(std::slice::from_ref(&mail)).await;
        fixture.settled(mail.id, 1).await;
    };
    send_mail().await;
    let push = NewMessage { channel: Channel::Push, ..fixture.message(ann) };
    fixture.insert_later(std::slice::from_ref(&push)).await;
    let sql = "UPDATE send_chunk SET is_held = true WHERE channel = 'PUSH'";
    assert_eq!(fixture.store.connection().await.unwrap().execute(sql, &[]).await.unwrap(), 1);
    fixture.configure_channel(Channel::Push, json!({}), &[]).await;
    eventually_true("it is due", SOON, async || fixture.due(fixture.project).await == 1).await;
    // A push that had been begun at its release would be settled before this mail.
    send_mail().await;
    assert_eq!(fixture.row(push.id).await.unwrap().attempt, 0);
    fixture.addresses = vec![("DELIVERY_CHANNELS", "push".to_owned())];
    fixture.run().await;
    fixture.settled(push.id, 1).await;
    fixture.stop().await;
}

#[tokio::test]
async fn held_chunks_that_another_worker_is_releasing_are_skipped() {
    let fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    for _ in 0..2 {
        fixture.insert_later(&[fixture.message(ann), fixture.message(ann)]).await;
    }
    let (mut one, other) = (fixture.store.connection().await.unwrap(), fixture.store.connection().await.unwrap());
    assert_eq!(one.execute("UPDATE send_chunk SET is_held = true", &[]).await.unwrap(), 2);
    let (project, now) = (fixture.project, fixture.clock.now());
    let tx = one.transaction().await.unwrap();
    tx.query("SELECT FROM send_chunk ORDER BY id LIMIT 1 FOR UPDATE", &[]).await.unwrap();
    let rest = release_held(&other, project, Channel::Email, now);
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), rest).await.expect("it waits for the chunk").unwrap(), 2);
    assert_eq!(release_held(&tx, project, Channel::Email, now).await.unwrap(), 2);
    tx.commit().await.unwrap();
    assert_eq!(release_held(&other, project, Channel::Email, now).await.unwrap(), 0);
}
