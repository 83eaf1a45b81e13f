//! Queued messages are each sent once.

use mail_parser::MessageParser;
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

#[tokio::test]
async fn a_message_that_is_queued_several_times_is_sent_once() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), Some("Ann Ämter")).await;
    let template = fixture.template("Hi {{ name }}", "<p>Plan: {{ user.properties.plan }} {{ event.name }}</p>").await;
    let mut message = fixture.message(ann);
    (message.template_id, message.content) = (Some(template), json!({}));
    message.data = json!({ "event": { "name": "signed <up>" } });
    fixture.queue(std::slice::from_ref(&message)).await;
    let mails = mailbox.wait_for(1, SOON).await;
    for _ in 0..3 {
        assert_eq!(fixture.insert(&[message.clone(), message.clone()]).await, []);
    }

    let mail = MessageParser::default().parse(&mails[0].raw).unwrap();
    assert_eq!(mail.subject(), Some("Hi Ann Ämter"));
    assert_eq!(mail.message_id(), Some(format!("{}@example.com", message.id).as_str()));
    assert_eq!(mail.to().unwrap().first().unwrap().name(), Some("Ann Ämter"));
    assert_eq!(mail.from().unwrap().first().unwrap().name(), Some("Shop"));
    assert_eq!(mail.body_html(0).unwrap().trim(), "<p>Plan: pro signed &lt;up&gt;</p>");
    assert_eq!(mail.body_text(0).unwrap().trim(), "Plan: pro signed <up>");
    let row = fixture.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason, row.attempt, row.due_at), ("sent", None, 1, None));
    assert_eq!((row.subject.as_deref(), row.provider.as_deref()), (Some("Hi Ann Ämter"), Some("smtp")));
    fixture.assert_queue_is_whole().await;
    fixture.stop().await;
    assert_eq!(mailbox.mails().len(), 1);
}

#[tokio::test]
async fn mail_date_is_the_time_of_release() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let message = fixture.message(ann);
    fixture.insert_later(std::slice::from_ref(&message)).await;
    let (made, released) = (1_790_000_000i64, 1_790_030_000i64);
    let times = "UPDATE message SET created_at = to_timestamp($2::bigint), released_at = to_timestamp($3::bigint) WHERE id = $1";
    let db = fixture.store.connection().await.unwrap();
    assert_eq!(db.execute(times, &[&message.id, &made, &released]).await.unwrap(), 1);
    fixture.bring_forward(message.id).await;
    let mails = mailbox.wait_for(1, SOON).await;
    let mail = MessageParser::default().parse(&mails[0].raw).unwrap();
    assert_eq!(mail.date().unwrap().to_timestamp(), released);
    fixture.stop().await;
}

#[tokio::test]
async fn two_workers_send_each_message_once() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    fixture.run().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<_> = (0..300).map(|_| fixture.message(ann)).collect();
    // More than a worker begins at once, so that chunks are split.
    for part in messages.chunks(100) {
        fixture.queue(part).await;
    }
    mailbox.wait_for(300, SOON).await;
    let mut ids: Vec<_> = mailbox.mails().iter().filter_map(|m| m.header("Message-ID")).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((mailbox.mails().len(), ids.len()), (300, 300));
    for message in &messages {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt), ("sent", 1));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_message_whose_row_is_locked_is_settled_once_the_lock_is_released() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let (locked, free) = (fixture.message(ann), fixture.message(ann));
    fixture.insert_later(&[locked.clone(), free.clone()]).await;
    let mut db = fixture.store.connection().await.unwrap();
    let note = db.transaction().await.unwrap();
    let lock = "UPDATE message SET updated_at = now() WHERE id = $1";
    assert_eq!(note.execute(lock, &[&locked.id]).await.unwrap(), 1);
    fixture.bring_forward(free.id).await;
    mailbox.wait_for(2, SOON).await;
    testkit::eventually_true("a query waits for the row", SOON, async || {
        let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
        note.query_one(sql, &[]).await.unwrap().get(0)
    })
    .await;
    note.commit().await.unwrap();
    for id in [locked.id, free.id] {
        let row = fixture.settled(id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt, row.ambiguous), ("sent", 1, 0));
    }
    fixture.stop().await;
    assert_eq!(mailbox.mails().len(), 2);
}

#[tokio::test]
async fn name_with_line_breaks_is_sent_safely() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let eve = fixture.user("eve", Some("eve@example.com"), Some("Eve\r\nBcc: all@example.com\r\n\r\n<b>")).await;
    let template = fixture.template("Hi {{ name }}", "<p>{{ name }}</p>").await;
    let mut message = fixture.message(eve);
    message.template_id = Some(template);
    fixture.queue(&[message]).await;
    let mails = mailbox.wait_for(1, SOON).await;
    assert_eq!(mails[0].delivered_to(), ["eve@example.com"]);
    let mail = MessageParser::default().parse(&mails[0].raw).unwrap();
    assert!(mail.bcc().is_none());
    assert_eq!(mail.subject(), Some("Hi Eve Bcc: all@example.com <b>"));
    assert_eq!(mail.to().unwrap().first().unwrap().name(), Some("Eve Bcc: all@example.com <b>"));
    fixture.stop().await;
}

#[tokio::test]
async fn unsendable_messages_have_their_reason() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let nowhere = fixture.user("nowhere", None, None).await;
    let wrong = fixture.user("wrong", Some("not an address"), None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let endless =
        fixture.template("x", "a\n{% for i in (1..100000) %}{% for j in (1..100000) %}y{% endfor %}{% endfor %}").await;
    let mut deleted = fixture.message(ann);
    deleted.template_id = Some(Uuid::from_u128(1));
    let mut unrenderable = fixture.message(ann);
    unrenderable.template_id = Some(endless);
    let messages =
        [fixture.message(nowhere), fixture.message(wrong), fixture.message(Uuid::from_u128(2)), deleted, unrenderable];
    fixture.queue(&messages).await;
    for (message, status, reason) in [
        (&messages[0], "suppressed", "no_address"),
        (&messages[1], "failed", "invalid_address"),
        (&messages[2], "failed", "user_not_found"),
        (&messages[3], "failed", "template_not_found"),
        (&messages[4], "failed", "render_failed: body: line 2, column"),
    ] {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!(row.status, status, "{row:?}");
        assert!(row.reason.as_deref().unwrap().starts_with(reason), "{row:?}");
        assert_eq!(row.due_at, None);
    }
    fixture.drained().await;
    assert_eq!(mailbox.mails().len(), 0);
    fixture.stop().await;
}

#[tokio::test]
async fn message_to_a_merged_user_is_sent_to_the_surviving_user() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let anonymous = Uuid::from_u128(77);
    fixture.insert_user(anonymous, Some("old@example.com"), None, Some(ann)).await;
    let message = fixture.message(anonymous);
    fixture.queue(std::slice::from_ref(&message)).await;
    assert_eq!(mailbox.wait_for(1, SOON).await[0].delivered_to(), ["ann@example.com"]);
    assert_eq!(fixture.settled(message.id, 1).await.user_id, ann);
    fixture.stop().await;
}

#[tokio::test]
async fn changed_template_is_sent_in_its_latest_version() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let template = fixture.template("one", "x").await;
    for (n, subject) in ["one", "two"].into_iter().enumerate() {
        let sql = "UPDATE template SET subject = $3, version = version + 1 WHERE project_id = $1 AND id = $2";
        let db = fixture.store.connection().await.unwrap();
        db.execute(sql, &[&fixture.project, &template, &subject]).await.unwrap();
        let mut message = fixture.message(ann);
        message.template_id = Some(template);
        fixture.queue(&[message]).await;
        assert_eq!(mailbox.wait_for(n + 1, SOON).await[n].header("Subject").as_deref(), Some(subject));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn compiled_body_of_a_template_is_sent() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let template = fixture.template("s", "<mjml>{{ name }}</mjml>").await;
    let sql = "UPDATE template SET compiled = '<b style=\"top:0\">for {{ user.email }}</b>' WHERE project_id = $1 AND id = $2";
    let db = fixture.store.connection().await.unwrap();
    db.execute(sql, &[&fixture.project, &template]).await.unwrap();
    let mut message = fixture.message(ann);
    message.template_id = Some(template);
    fixture.queue(&[message]).await;
    let html = mailbox.wait_for(1, SOON).await[0].text();
    assert!(html.contains("for ann@example.com") && !html.contains("mjml"), "{html}");
    fixture.stop().await;
}
