//! Mail that cannot be sent as it is: it is held, or fails without affecting other messages.

use std::time::Duration;

use e2e::{Options, System, mails};
use serde_json::{Value, json};

use crate::shop::Shop;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_smtp_password_is_reported_and_mail_waits_for_the_correction() {
    let system = System::start_with(Options { mail_login: Some(("shop", "right")), ..Options::default() }).await;
    let api = &system.api;
    identify(&system, "ada", "Ada").await;
    let send = async |subject: &str| {
        let message = json!({ "userId": "ada", "channel": "EMAIL", "subject": subject, "body": "<p>Hi</p>" });
        let sent = api.post("/messages", &message).await.expect(202);
        sent["id"].as_str().unwrap_or_default().to_owned()
    };
    send("While right").await;
    system.mail_to("ada@example.com", SOON).await;

    api.put("/channels", &json!({ "smtpPassword": "wrong" })).await.expect(200);
    let held = send("While wrong").await;
    let shown = api.until("/channels", SOON, |c| c["email"]["error"].is_string()).await;
    println!("shown: {}", shown["email"]["error"]);
    assert!(!shown.to_string().contains("wrong\""), "the error contains the password: {shown}");
    let waits =
        |m: &Value| of(m, &held)["statusReason"].as_str().is_some_and(|r| r.starts_with("channel_misconfigured"));
    let messages = api.until("/messages", SOON, waits).await;
    assert_eq!(of(&messages, &held)["status"], "queued", "{messages}");

    api.put("/channels", &json!({ "smtpPassword": "right" })).await.expect(200);
    api.until("/messages", SOON, |m| of(m, &held)["status"] == "sent").await;
    let mails = mails::to(&system.mailbox, "ada@example.com");
    let subjects: Vec<String> = mails.iter().filter_map(|m| m.header("Subject")).collect();
    assert_eq!(subjects, ["While right", "While wrong"]);
    api.until("/channels", SOON, |c| c["email"]["error"].is_null()).await;
}

/// Returns the message with this ID from a page, or null.
fn of<'a>(page: &'a Value, id: &str) -> &'a Value {
    let found = page["messages"].as_array().and_then(|all| all.iter().find(|m| m["id"] == id));
    found.unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_add_no_recipients() {
    let system = System::start().await;
    Shop::open(&system, 1).await;
    let names = [
        "Eve\r\nBcc: victim@example.com",
        "Eve\r\n.\r\nQUIT\r\n",
        "\u{202e}eve\u{feff}",
        "Eve <b>&amp;</b> \"O'E\" ,;<>",
    ];
    for (n, name) in names.iter().enumerate() {
        identify(&system, &format!("eve{n}"), name).await;
        let event = json!({ "event": "signed_up", "user_id": format!("eve{n}"), "properties": {} });
        system.api.track("/events", &event).await.expect(202);
    }
    let nul = json!({ "user_id": "nul", "properties": { "name": "a\u{0}b" } });
    system.api.track("/users/identify", &nul).await.expect(422);
    for n in 0..names.len() {
        let address = format!("eve{n}@example.com");
        let mail = system.mail_to(&address, SOON).await;
        assert_eq!((mail.delivered_to(), mail.header("Bcc")), (vec![address], None), "{}", mail.text());
    }
    let marked = mails::to(&system.mailbox, "eve3@example.com").remove(0).text();
    assert!(marked.contains("<h1>Hello Eve &lt;b&gt;"), "the name was not escaped: {marked}");
    assert_eq!(system.mailbox.mails().len(), names.len());
}

async fn identify(system: &System, user: &str, name: &str) {
    let known = json!({ "user_id": user, "properties": { "email": format!("{user}@example.com"), "name": name } });
    system.api.track("/users/identify", &known).await.expect(202);
    system.api.until(&format!("/users/{user}"), SOON, |_| true).await;
}
