//! Subscription preferences.

use bytes::Bytes;
use prost::Message;

/// Subscription choices by a user, or by the project for the user. The item needs no other ID than `user_id`, and does
/// not recreate an erased user.
#[derive(Clone, PartialEq, Message)]
pub struct Subscribe {
    /// 16 bytes: the internal ID.
    #[prost(bytes = "bytes", tag = "1")]
    pub user_id: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub choices: Vec<Choice>,
    /// A [`domain::subscription::Source`].
    #[prost(string, tag = "3")]
    pub source: String,
    /// 16 bytes or none: the message whose link the user followed.
    #[prost(bytes = "bytes", tag = "4")]
    pub message_id: Bytes,
    /// Whether the user revokes an earlier unsubscription from everything.
    #[prost(bool, tag = "5")]
    pub resubscribe: bool,
}

/// The choice for one group.
#[derive(Clone, PartialEq, Message)]
pub struct Choice {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub group_id: Bytes,
    #[prost(bool, tag = "2")]
    pub subscribed: bool,
}
