//! One item as an SDK sends it: an event of 318 bytes, or a profile update that names a user by both IDs.

use crate::dice::Dice;
use crate::tenants;

/// Body size of a single event in bytes.
pub const EVENT_BYTES: usize = 318;
/// Placeholder for an ID, overwritten just before the item is sent.
pub const ID: &str = "00000000-0000-7000-8000-000000000000";
/// Placeholder for the ID of an anonymous user.
pub const ANONYMOUS: &str = "anon-0000000000000000";

/// The user that an event names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRef {
    Known(u32),
    /// A new anonymous user, whom the next profile update identifies.
    Anonymous,
}

/// Builds a track item. `kind` is inserted before the fields, as batches require.
pub fn track(dice: &mut Dice, who: UserRef, sent_at: &str, kind: &str) -> String {
    let name = tenants::event_name(dice.below(tenants::EVENT_NAMES));
    let who = match who {
        UserRef::Known(user) => format!(r#""user_id":"{}""#, tenants::external_id(user)),
        UserRef::Anonymous => format!(r#""anonymous_id":"{ANONYMOUS}""#),
    };
    let head = format!(r#"{{{kind}"id":"{ID}","event":"{name}",{who},"timestamp":"{sent_at}","properties":"#);
    let properties = properties_of(dice, (EVENT_BYTES + kind.len()).saturating_sub(head.len() + 1));
    format!("{head}{properties}}}")
}

/// Builds a profile update that identifies the anonymous user.
pub fn identify(dice: &mut Dice, user: u32, kind: &str) -> String {
    format!(
        r#"{{{kind}"id":"{ID}","user_id":"{}","anonymous_id":"{ANONYMOUS}","properties":{{"plan":"pro","visits":{},"locale":"de-DE"}}}}"#,
        tenants::external_id(user),
        dice.below(1_000)
    )
}

/// Builds a mail to one user, with inline content.
pub fn message(user: u32) -> String {
    let text = "Three items of your order left our store this morning, and should arrive by tomorrow noon.";
    let who = tenants::external_id(user);
    format!(r#"{{"userId":"{who}","channel":"EMAIL","subject":"Your order is on its way","body":"<p>{text}</p>"}}"#)
}

/// Builds an event's properties, of the size used in loads.
pub fn properties(dice: &mut Dice) -> String {
    properties_of(dice, 167)
}

/// Builds properties of exactly `bytes` bytes, if that is enough for the fixed fields.
fn properties_of(dice: &mut Dice, bytes: usize) -> String {
    let start = format!(
        r#"{{"product":"sku-{:04}","price":{}.5,"currency":"EUR","quantity":{},"category":"garden","list":"search results","page":""#,
        dice.below(5_000),
        10 + dice.below(90),
        1 + dice.below(9),
    );
    let room = bytes.saturating_sub(start.len() + 2);
    let page: String = "/catalogue/spring/garden/tools/offers/page/2?sort=price&view=grid&width=1280&height=800"
        .chars()
        .take(room)
        .collect();
    format!(r#"{start}{page}"}}"#)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn event_has_the_specified_size_and_is_valid() {
        let mut dice = Dice::new(1);
        for who in [UserRef::Known(99_999), UserRef::Anonymous] {
            for kind in ["", r#""type":"track","#] {
                let text = track(&mut dice, who, "2026-01-01T00:00:00.000Z", kind);
                assert_eq!(text.len(), EVENT_BYTES + kind.len(), "{text}");
                let value: Value = serde_json::from_str(&text).unwrap();
                assert!(value["properties"]["product"].is_string());
            }
        }
        let update: Value = serde_json::from_str(&identify(&mut dice, 1, "")).unwrap();
        assert_eq!(
            (update["user_id"].as_str(), update["anonymous_id"].as_str()),
            (Some("user-0000001"), Some(ANONYMOUS))
        );
    }
}
