//! A user as the recipient of messages.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::message::Channel;
use crate::suppression::{Address, international};

#[derive(Clone, Debug, PartialEq)]
pub struct Recipient {
    pub id: Uuid,
    pub external_id: Option<String>,
    pub anonymous_id: Option<String>,
    pub email: Option<String>,
    pub name: Option<String>,
    /// A JSON object.
    pub properties: Value,
    pub created_at: Timestamp,
}

impl Recipient {
    /// Creates a recipient without contact data or properties.
    pub fn without_profile(id: Uuid, created_at: Timestamp) -> Self {
        let properties = Value::Object(serde_json::Map::new());
        Self { id, external_id: None, anonymous_id: None, email: None, name: None, properties, created_at }
    }

    /// Returns the user's current address for a channel.
    pub fn address(&self, channel: Channel) -> Option<Address> {
        match channel {
            Channel::Email => self.email.as_deref().map(Address::email),
            Channel::Sms => Some(Address::number(&international(self.properties.get("phone")?.as_str()?)?)),
            Channel::Push | Channel::InApp => None,
        }
    }
}
