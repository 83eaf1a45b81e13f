//! The structure of an incoming item: every field as raw JSON, with names in snake case or camel case.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::json_error;
use crate::http::error::ApiError;

pub(super) type Raw<'a> = Option<&'a RawValue>;

/// An item of a batch, or the body of a single one. The last of repeated fields wins.
#[derive(Clone, Debug, Default)]
pub struct Item<'a> {
    pub kind: Raw<'a>,
    /// The client's ID.
    pub id: Raw<'a>,
    pub event: Raw<'a>,
    /// The name of a screen.
    pub name: Raw<'a>,
    pub user_id: Raw<'a>,
    /// The proof that the caller may act for the user, as an HMAC.
    pub user_hash: Raw<'a>,
    /// The same proof, as a JWT.
    pub user_token: Raw<'a>,
    pub anonymous_id: Raw<'a>,
    pub previous_id: Raw<'a>,
    pub properties: Raw<'a>,
    pub timestamp: Raw<'a>,
    pub sent_at: Raw<'a>,
}

impl<'a> Item<'a> {
    /// Parses the body of a request for a single item.
    pub fn single(text: &'a str) -> Result<Self, ApiError> {
        serde_json::from_str(text).map_err(|e| body_error(text, &e))
    }
}

/// Returns the error for an unreadable body: valid JSON of another type, or invalid JSON.
pub(super) fn body_error(text: &str, error: &serde_json::Error) -> ApiError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) if !text.trim_start().starts_with('{') => {
            ApiError::BadRequest("the body must be a JSON object".to_owned())
        }
        _ => json_error(error),
    }
}

/// Defines field names and a deserializer that takes each field as raw JSON.
macro_rules! fields {
    ($name:ident { $($field:ident: $($text:literal)|+),+ $(,)? }) => {
        enum $name { $($field,)+ Other }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Names;
                impl Visitor<'_> for Names {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a field name")
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        Ok(match text { $($($text)|+ => $name::$field,)+ _ => $name::Other })
                    }
                }
                deserializer.deserialize_identifier(Names)
            }
        }
    };
}

pub(super) use fields;

fields!(ItemField {
    Kind: "type",
    Id: "id" | "messageId" | "message_id",
    Event: "event" | "eventName" | "event_name",
    Name: "name",
    UserId: "user_id" | "userId",
    UserHash: "user_hash" | "userHash",
    UserToken: "user_token" | "userToken",
    AnonymousId: "anonymous_id" | "anonymousId",
    PreviousId: "previous_id" | "previousId",
    Properties: "properties",
    Timestamp: "timestamp",
    SentAt: "sentAt" | "sent_at",
});

/// Deserializes into existing memory: an item is large, and moving it costs as much as parsing it.
pub(super) trait ReadInPlace<'de>: Default {
    fn read<D: Deserializer<'de>>(&mut self, deserializer: D) -> Result<(), D::Error>;
}

impl<'de: 'a, 'a> ReadInPlace<'de> for Item<'a> {
    fn read<D: Deserializer<'de>>(&mut self, deserializer: D) -> Result<(), D::Error> {
        struct Fields<'i, 'a>(&'i mut Item<'a>);
        impl<'de: 'a, 'a> Visitor<'de> for Fields<'_, 'a> {
            type Value = ();
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
                let item = self.0;
                while let Some(field) = map.next_key()? {
                    let slot = match field {
                        ItemField::Kind => &mut item.kind,
                        ItemField::Id => &mut item.id,
                        ItemField::Event => &mut item.event,
                        ItemField::Name => &mut item.name,
                        ItemField::UserId => &mut item.user_id,
                        ItemField::UserHash => &mut item.user_hash,
                        ItemField::UserToken => &mut item.user_token,
                        ItemField::AnonymousId => &mut item.anonymous_id,
                        ItemField::PreviousId => &mut item.previous_id,
                        ItemField::Properties => &mut item.properties,
                        ItemField::Timestamp => &mut item.timestamp,
                        ItemField::SentAt => &mut item.sent_at,
                        ItemField::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    // `null` counts as absent, so it must not hide a value under the other spelling.
                    let raw: &'de RawValue = map.next_value()?;
                    if raw.get() != "null" {
                        *slot = Some(raw);
                    }
                }
                Ok(())
            }
        }
        deserializer.deserialize_map(Fields(self))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Item<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut item = Self::default();
        item.read(deserializer)?;
        Ok(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_name_styles_are_read_and_the_last_value_wins() {
        let item =
            Item::single(r#"{"eventName":"a","userId":"u","anonymous_id":null,"event":"b","x":[1e999]}"#).unwrap();
        assert_eq!((item.event.unwrap().get(), item.user_id.unwrap().get()), (r#""b""#, r#""u""#));
        assert!(item.anonymous_id.is_none());
    }
}
