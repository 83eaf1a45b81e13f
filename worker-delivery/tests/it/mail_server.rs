//! A real mail server, Debian's Postfix, which accepts mail, rejects it permanently or temporarily, and speaks TLS.

use std::time::Duration;

use serde_json::json;
use testkit::{PrivatePostfix, eventually};
use uuid::Uuid;

use crate::place::{Place, SOON};

/// Returns a project that sends mail to this server, with a running worker.
async fn place(server: &PrivatePostfix, security: &str, trusts: bool) -> Place {
    let mut place = Place::new().await;
    let ca = server.ca_file();
    let place_trusts = trusts.then_some(("OUTBOUND_CA_FILE", ca));
    place.addresses.extend(place_trusts);
    let settings = json!({ "smtpHost": "localhost", "smtpSecurity": security });
    let port = if security == "tls" { server.tls_port() } else { server.port() };
    place.configure(port, settings, None).await;
    place.run().await;
    place
}

/// Sends a mail to `address`, and returns the message's ID.
async fn send(place: &Place, address: &str) -> Uuid {
    let user = place.user(address, Some(address), None).await;
    let message = place.message(user);
    place.queue(std::slice::from_ref(&message)).await;
    message.id
}

async fn mails(server: &PrivatePostfix, person: &str, count: usize) -> Vec<String> {
    eventually(SOON, async || {
        let mails = server.mails(person);
        if mails.len() == count { Ok(mails) } else { Err(format!("{} mails\n{}", mails.len(), server.log())) }
    })
    .await
}

#[tokio::test]
async fn a_real_server_receives_refuses_and_puts_off() {
    let server = PrivatePostfix::start(&["ann", "grey"]).await;
    let mut place = place(&server, "none", false).await;
    let ann = send(&place, "ann@shop.example").await;
    let row = place.settled(ann, 1).await;
    assert_eq!((row.status.as_str(), row.reason), ("sent", None));
    let mail = mails(&server, "ann", 1).await.remove(0);
    assert!(mail.contains(&format!("Message-ID: <{ann}@")) && mail.contains("Subject: Hello"), "{mail}");

    for (address, words) in [("unknown@shop.example", "User unknown"), ("ann@elsewhere.example", "Relay access denied")]
    {
        let row = place.settled(send(&place, address).await, 1).await;
        let reason = row.reason.unwrap_or_default();
        assert!(row.status == "failed" && reason.starts_with("rejected: 55") && reason.contains(words), "{reason}");
    }

    let grey = send(&place, "grey@shop.example").await;
    let row = place.settled(grey, 1).await;
    let reason = row.reason.clone().unwrap_or_default();
    assert!(row.status == "queued" && reason.starts_with("retrying: 451 "), "{row:?}");
    assert_eq!((row.failures, row.ambiguous), (1, 0));
    place.bring_forward(grey).await;
    assert_eq!(place.settled(grey, 2).await.status, "sent");
    mails(&server, "grey", 1).await;
    place.stop().await;
}

#[tokio::test]
async fn mail_goes_over_tls_to_a_server_whose_authority_is_trusted_and_to_no_other() {
    let server = PrivatePostfix::start(&["ann"]).await;
    for (nth, security) in ["starttls", "tls"].into_iter().enumerate() {
        let mut stranger = place(&server, security, false).await;
        let message = send(&stranger, "ann@shop.example").await;
        let row = stranger.settled(message, 1).await;
        let reason = row.reason.clone().unwrap_or_default();
        assert!(reason.starts_with("channel_misconfigured:") && reason.contains("certificate"), "{row:?}");
        let due_in = stranger.due_in(&row);
        assert!(due_in.is_some_and(|seconds| Duration::from_secs(seconds.unsigned_abs()) > SOON), "{row:?}");
        stranger.stop().await;
        assert_eq!(server.mails("ann").len(), nth);

        let mut place = place(&server, security, true).await;
        let message = send(&place, "ann@shop.example").await;
        assert_eq!(place.settled(message, 1).await.status, "sent");
        for mail in mails(&server, "ann", nth + 1).await {
            assert!(mail.contains("ESMTPS") && mail.contains("using TLSv1.3"), "{mail}");
        }
        place.stop().await;
    }
}
