//! Outgoing webhooks by the Standard Webhooks scheme: event types and signatures.

mod secret;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub use secret::{EndpointSecrets, REPLACED_SECRET_LIFETIME};

use crate::message::DeliveryState;

/// Used instead of a list of types: all types, including future ones.
pub const ALL_TYPES: &str = "*";
/// The type of a test call, which is sent whatever types an endpoint subscribes to.
pub const TEST: &str = "webhook.test";
pub const ENTERED: &str = "automation.entered";
pub const COMPLETED: &str = "automation.completed";
pub const EXITED: &str = "automation.exited";
pub const CONVERTED: &str = "automation.converted";

/// The types that endpoints may subscribe to.
pub const TYPES: [&str; 12] = [
    "message.sent",
    "message.delivered",
    "message.opened",
    "message.clicked",
    "message.bounced",
    "message.complained",
    "message.failed",
    "message.suppressed",
    ENTERED,
    COMPLETED,
    EXITED,
    CONVERTED,
];

/// Returns the type that reports a message's state; `None` if the state is not reported.
pub fn type_of(state: DeliveryState) -> Option<&'static str> {
    let state = state.as_str();
    TYPES.into_iter().find(|name| name.strip_prefix("message.") == Some(state))
}

/// Signs `<id>.<seconds>.<body>`; returns one signature in the form of the header `webhook-signature`.
pub fn signature(key: &[u8], id: &str, seconds: i64, body: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_specification() {
        // The example in the specification.
        let key = secret::key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        // Computed with `openssl dgst -sha256 -hmac`.
        let id = "00000000-0000-0000-0000-000000000001";
        let signed = signature(b"secret", id, 1_700_000_000, r#"{"a":1}"#);
        assert_eq!(signed, "v1,Q1UoY0jKKxCnGj2SiyQ8RbTFap96ACIfc15cPx4LWn8=");
    }

    #[test]
    fn message_states_have_event_types() {
        assert_eq!(type_of(DeliveryState::Bounced), Some("message.bounced"));
        assert_eq!(type_of(DeliveryState::Suppressed), Some("message.suppressed"));
        for unreported in [DeliveryState::Queued, DeliveryState::Cancelled] {
            assert_eq!(type_of(unreported), None);
        }
    }
}
