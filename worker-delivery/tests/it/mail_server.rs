//! A real mail server, Debian's Postfix, which accepts mail, rejects it permanently or temporarily, and speaks TLS.

use std::time::Duration;

use serde_json::json;
use testkit::{PrivatePostfix, eventually};
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

/// Returns a project that sends mail to this server, with a running worker.
async fn fixture(server: &PrivatePostfix, security: &str, trusts: bool) -> Fixture {
    let mut fixture = Fixture::new().await;
    let ca = server.ca_file();
    let trusted_ca = trusts.then_some(("OUTBOUND_CA_FILE", ca));
    fixture.addresses.extend(trusted_ca);
    let settings = json!({ "smtpHost": "localhost", "smtpSecurity": security });
    let port = if security == "tls" { server.tls_port() } else { server.port() };
    fixture.configure(port, settings, None).await;
    fixture.run().await;
    fixture
}

/// Sends a mail to `address`, and returns the message's ID.
async fn send(fixture: &Fixture, address: &str) -> Uuid {
    let user = fixture.user(address, Some(address), None).await;
    let message = fixture.message(user);
    fixture.queue(std::slice::from_ref(&message)).await;
    message.id
}

async fn mails(server: &PrivatePostfix, user: &str, count: usize) -> Vec<String> {
    eventually(SOON, async || {
        let mails = server.mails(user);
        if mails.len() == count { Ok(mails) } else { Err(format!("{} mails\n{}", mails.len(), server.log())) }
    })
    .await
}

#[tokio::test]
async fn real_server_accepts_rejects_and_defers() {
    let server = PrivatePostfix::start(&["ann", "grey"]).await;
    let mut fixture = fixture(&server, "none", false).await;
    let ann = send(&fixture, "ann@shop.example").await;
    let row = fixture.settled(ann, 1).await;
    assert_eq!((row.status.as_str(), row.reason), ("sent", None));
    let mail = mails(&server, "ann", 1).await.remove(0);
    assert!(mail.contains(&format!("Message-ID: <{ann}@")) && mail.contains("Subject: Hello"), "{mail}");

    for (address, words) in [("unknown@shop.example", "User unknown"), ("ann@elsewhere.example", "Relay access denied")]
    {
        let row = fixture.settled(send(&fixture, address).await, 1).await;
        let reason = row.reason.unwrap_or_default();
        assert!(row.status == "failed" && reason.starts_with("rejected: 55") && reason.contains(words), "{reason}");
    }

    let grey = send(&fixture, "grey@shop.example").await;
    let row = fixture.settled(grey, 1).await;
    let reason = row.reason.clone().unwrap_or_default();
    assert!(row.status == "queued" && reason.starts_with("retrying: 451 "), "{row:?}");
    assert_eq!((row.failures, row.ambiguous), (1, 0));
    fixture.bring_forward(grey).await;
    assert_eq!(fixture.settled(grey, 2).await.status, "sent");
    mails(&server, "grey", 1).await;
    fixture.stop().await;
}

#[tokio::test]
async fn mail_is_sent_over_tls_only_to_servers_with_a_trusted_authority() {
    let server = PrivatePostfix::start(&["ann"]).await;
    for (nth, security) in ["starttls", "tls"].into_iter().enumerate() {
        let mut stranger = fixture(&server, security, false).await;
        let message = send(&stranger, "ann@shop.example").await;
        let row = stranger.settled(message, 1).await;
        let reason = row.reason.clone().unwrap_or_default();
        assert!(reason.starts_with("channel_misconfigured:") && reason.contains("certificate"), "{row:?}");
        let due_in = stranger.due_in(&row);
        assert!(due_in.is_some_and(|seconds| Duration::from_secs(seconds.unsigned_abs()) > SOON), "{row:?}");
        stranger.stop().await;
        assert_eq!(server.mails("ann").len(), nth);

        let mut fixture = fixture(&server, security, true).await;
        let message = send(&fixture, "ann@shop.example").await;
        assert_eq!(fixture.settled(message, 1).await.status, "sent");
        for mail in mails(&server, "ann", nth + 1).await {
            assert!(mail.contains("ESMTPS") && mail.contains("using TLSv1.3"), "{mail}");
        }
        fixture.stop().await;
    }
}
