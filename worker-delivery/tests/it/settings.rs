//! Channels with missing or invalid settings.

use std::time::Duration;

use domain::message::Channel;
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use store_sending::send_chunks::release_held;
use testkit::{TestMailbox, eventually_true};

use crate::place::{Place, SOON};

#[tokio::test]
async fn with_a_wrong_password_the_channel_shows_the_error_and_the_message_goes_out_once_it_is_mended() {
    let mailbox = TestMailbox::start_with_auth("shop", "right").await;
    let mut place = Place::new().await;
    place.configure(mailbox.port(), json!({ "smtpUsername": "shop" }), Some("wrong")).await;
    place.run().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let message = place.message(ann);
    place.queue(std::slice::from_ref(&message)).await;
    let row = place.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures), ("queued", 0));
    assert!(row.reason.as_deref().unwrap().starts_with("channel_misconfigured: 535"), "{row:?}");
    assert!(place.due_in(&row).unwrap() > 50, "{row:?}");
    let error = place.channel_error().await.unwrap();
    assert!(error.starts_with("535"), "{error}");
    place.configure(mailbox.port(), json!({ "smtpUsername": "shop" }), Some("right")).await;
    assert_eq!(place.channel_error().await, None);
    mailbox.wait_for(1, SOON).await;
    assert_eq!(place.settled(message.id, 2).await.status, "sent");
    place.stop().await;
}

#[tokio::test]
async fn wrong_settings_hold_messages_and_are_cleared_by_success() {
    let mailbox = TestMailbox::start().await;
    let mut place = Place::new().await;
    place.run().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    for (more, words) in [
        (json!({ "smtpHost": "no-such-host.invalid" }), "cannot be resolved"),
        (json!({ "smtpHost": "10.0.0.1" }), "may not be called"),
        (json!({ "smtpSecurity": "starttls" }), "STARTTLS"),
        (json!({ "smtpSecurity": "tls" }), ""),
        (json!({ "mailproviderFromEmail": "" }), "mailproviderFromEmail"),
    ] {
        place.configure(mailbox.port(), more.clone(), None).await;
        let message = place.message(ann);
        place.queue(std::slice::from_ref(&message)).await;
        let row = place.settled(message.id, 1).await;
        assert!(
            row.status == "queued" && row.reason.as_deref().unwrap().starts_with("channel_misconfigured"),
            "{row:?}"
        );
        let error = place.channel_error().await.unwrap();
        assert!(error.contains(words), "{more}: {error}");
    }
    // Simulates a stale error recorded by another worker: the first success clears it.
    place.configure(mailbox.port(), json!({}), None).await;
    let sql = "UPDATE channel SET error = 'old', error_at = now() WHERE project_id = $1 AND channel = 'email'";
    place.store.connection().await.unwrap().execute(sql, &[&place.project]).await.unwrap();
    mailbox.wait_for(5, SOON).await;
    eventually_true("the error is gone", SOON, async || place.channel_error().await.is_none()).await;
    place.stop().await;
}

#[tokio::test]
async fn without_settings_a_message_fails_and_the_next_one_after_they_are_made_does_not() {
    let mailbox = TestMailbox::start().await;
    let mut place = Place::new().await;
    place.run().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let first = place.message(ann);
    place.queue(std::slice::from_ref(&first)).await;
    let row = place.settled(first.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("failed", Some("channel_not_configured")));
    place.configure(mailbox.port(), json!({}), None).await;
    let second = place.message(ann);
    place.queue(std::slice::from_ref(&second)).await;
    mailbox.wait_for(1, SOON).await;
    assert_eq!(place.settled(second.id, 1).await.status, "sent");
    place.stop().await;
}

#[tokio::test]
async fn worker_releases_messages_of_a_channel_that_it_does_not_serve_and_leaves_them_to_others() {
    let mut place = Place::new().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    place.addresses = vec![("DELIVERY_CHANNELS", "email".to_owned())];
    place.run().await;
    let send_mail = async || {
        let mail = place.message(ann);
        place.queue(std::slice::from_ref(&mail)).await;
        place.settled(mail.id, 1).await;
    };
    send_mail().await;
    let push = NewMessage { channel: Channel::Push, ..place.message(ann) };
    place.insert_later(std::slice::from_ref(&push)).await;
    let sql = "UPDATE send_chunk SET is_held = true WHERE channel = 'PUSH'";
    assert_eq!(place.store.connection().await.unwrap().execute(sql, &[]).await.unwrap(), 1);
    place.configure_channel(Channel::Push, json!({}), &[]).await;
    eventually_true("it is due", SOON, async || place.due(place.project).await == 1).await;
    // A push that had been begun at its release would be settled before this mail.
    send_mail().await;
    assert_eq!(place.row(push.id).await.unwrap().attempt, 0);
    place.addresses = vec![("DELIVERY_CHANNELS", "push".to_owned())];
    place.run().await;
    place.settled(push.id, 1).await;
    place.stop().await;
}

#[tokio::test]
async fn held_chunks_that_another_worker_is_releasing_are_skipped() {
    let place = Place::new().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    for _ in 0..2 {
        place.insert_later(&[place.message(ann), place.message(ann)]).await;
    }
    let (mut one, other) = (place.store.connection().await.unwrap(), place.store.connection().await.unwrap());
    assert_eq!(one.execute("UPDATE send_chunk SET is_held = true", &[]).await.unwrap(), 2);
    let (project, now) = (place.project, place.clock.now());
    let tx = one.transaction().await.unwrap();
    tx.query("SELECT FROM send_chunk ORDER BY id LIMIT 1 FOR UPDATE", &[]).await.unwrap();
    let rest = release_held(&other, project, Channel::Email, now);
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), rest).await.expect("it waits for the chunk").unwrap(), 2);
    assert_eq!(release_held(&tx, project, Channel::Email, now).await.unwrap(), 2);
    tx.commit().await.unwrap();
    assert_eq!(release_held(&other, project, Channel::Email, now).await.unwrap(), 0);
}
