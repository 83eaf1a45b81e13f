//! Expected results of the day, counted while it is generated and never read from the service.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::catalog;
use super::users::{ShopUser, UserKind};

#[derive(Clone, Debug)]
pub struct SentEvent {
    pub name: &'static str,
    /// The ID that the client sent.
    pub id: String,
    /// The true time, if the client sent a timestamp.
    pub at_ms: Option<i64>,
    /// Whether the event keeps the client's ID, instead of one derived from it.
    pub own_id: bool,
}

/// Everything that is expected of one user.
#[derive(Clone, Debug, Default)]
pub struct ExpectedUser {
    /// Distinct events, in chronological order.
    pub events: Vec<SentEvent>,
    /// The last value of each property, except `name` and a valid `email`.
    pub properties: BTreeMap<String, Value>,
    pub removed: BTreeSet<String>,
    /// Cart ID and total in cents.
    pub checkouts: Vec<(String, u64)>,
    pub repeats: u64,
    /// The token of a phone that accepts pushes.
    pub device: Option<String>,
}

impl ExpectedUser {
    /// Merges properties key by key: the last value wins, and `null` removes. Anonymous values do not override known
    /// ones.
    pub(super) fn identify(&mut self, known: bool, properties: &Map<String, Value>) {
        for (key, value) in properties {
            if key == "email" || key == "name" {
                if key == "email" && value.as_str().is_some_and(|email| !email.contains('@')) {
                    self.properties.insert(key.clone(), value.clone());
                }
                continue;
            }
            if !known && self.properties.contains_key(key) {
                continue;
            }
            if value.is_null() {
                self.properties.remove(key);
                self.removed.insert(key.clone());
            } else {
                self.removed.remove(key);
                self.properties.insert(key.clone(), value.clone());
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MailKind {
    Welcome,
    Reminder,
}

/// A mail that must be in the mailbox exactly once.
#[derive(Clone, Debug)]
pub struct DueMail {
    pub kind: MailKind,
    pub to: String,
    pub subject: String,
    /// Texts that the body must contain.
    pub must_contain: Vec<String>,
    /// The cart of a reminder.
    pub cart_id: Option<String>,
}

/// Texts of the templates. The service fills in the placeholders of mails, and [`due_mails`] does so here.
pub struct MessageText {
    pub subject: &'static str,
    pub body: &'static str,
}

pub const WELCOME: MessageText = MessageText {
    subject: "Welcome, {{ name | default: \"there\" }}! 🎉",
    body: "<html><body><h1>Hello {{ name | default: \"there\" }}</h1><p>Good to have you on the \
           <b>{{ user.properties.plan | default: \"free\" }}</b> plan — ברוכים הבאים, أهلاً وسهلاً.</p></body></html>",
};

pub const REMINDER: MessageText = MessageText {
    subject: "Your cart {{ properties.cartId }} is waiting, {{ name | default: \"there\" }}",
    body: "<html><body><p>Hi {{ name | default: \"there\" }},</p><ul>{% for item in properties.items %}<li>\
           {{ item.quantity }} × {{ item.title }}</li>{% endfor %}</ul><p>Order total: \
           <b>{{ properties.total }} {{ properties.currency }}</b></p></body></html>",
};

/// In-app message to every user who signed up.
pub const INBOX: MessageText = MessageText {
    subject: "Good to have you here",
    body: "Hello {{ name | default: \"there\" }}, orders and offers wait here for you.",
};

/// Push to every phone that allows it. It omits the name, because some names exceed the size limit of a push.
pub const PUSH: MessageText = MessageText {
    subject: "You will hear from us",
    body: "Orders and offers come to this phone — 🌿 from now on.",
};

/// An in-app message that must be in its user's inbox exactly once.
#[derive(Clone, Debug)]
pub struct DueInApp {
    pub external_id: String,
    /// Text that the message must contain.
    pub must_contain: String,
}

pub fn due_in_app(user: &ShopUser, expected_user: &ExpectedUser) -> Option<DueInApp> {
    let must_contain = format!("Hello {}", user.name.as_deref().unwrap_or("there"));
    signed_up(user, expected_user).then(|| DueInApp { external_id: user.external_id.clone(), must_contain })
}

fn signed_up(user: &ShopUser, expected_user: &ExpectedUser) -> bool {
    user.kind == UserKind::Member && expected_user.events.iter().any(|event| event.name == "signed_up")
}

/// Returns the mails due to one user: a welcome after sign-up, and a reminder for every checkout, if the user has a
/// valid address.
pub fn due_mails(user: &ShopUser, expected_user: &ExpectedUser) -> Vec<DueMail> {
    let Some(to) = user.mailbox() else { return Vec::new() };
    let name = user.name.as_deref().unwrap_or("there");
    let welcome = signed_up(user, expected_user).then(|| DueMail {
        kind: MailKind::Welcome,
        to: to.to_owned(),
        subject: format!("Welcome, {name}! 🎉"),
        must_contain: vec![format!("Hello {name}")],
        cart_id: None,
    });
    let reminders = expected_user.checkouts.iter().map(|(cart_id, cents)| DueMail {
        kind: MailKind::Reminder,
        to: to.to_owned(),
        subject: format!("Your cart {cart_id} is waiting, {name}"),
        must_contain: vec![format!("Hi {name},"), format!("Order total: {} EUR", catalog::printed(*cents))],
        cart_id: Some(cart_id.clone()),
    });
    welcome.into_iter().chain(reminders).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn identified(steps: &[(bool, Value)]) -> ExpectedUser {
        let mut expected_user = ExpectedUser::default();
        for (known, properties) in steps {
            expected_user.identify(*known, properties.as_object().unwrap());
        }
        expected_user
    }

    #[test]
    fn the_last_value_wins_and_null_removes() {
        let expected_user = identified(&[
            (true, json!({ "plan": "free", "a": 1, "name": "x", "email": "a@b.example" })),
            (true, json!({ "plan": "pro", "a": null })),
        ]);
        assert_eq!(expected_user.properties, BTreeMap::from([("plan".to_owned(), json!("pro"))]));
        assert_eq!(expected_user.removed, BTreeSet::from(["a".to_owned()]));
    }

    #[test]
    fn anonymous_values_do_not_override_known_ones() {
        let expected_user =
            identified(&[(true, json!({ "theme": "light" })), (false, json!({ "theme": "dark", "utm": 1 }))]);
        assert_eq!(expected_user.properties["theme"], json!("light"));
        assert_eq!(expected_user.properties["utm"], json!(1));
    }

    #[test]
    fn invalid_email_is_kept_as_property() {
        let expected_user = identified(&[(true, json!({ "email": "nowhere" }))]);
        assert_eq!(expected_user.properties["email"], json!("nowhere"));
    }
}
