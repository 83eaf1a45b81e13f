//! What people choose to get.

use bytes::Bytes;
use prost::Message;

/// What a person chose of the project's subscription groups, or the project for them. Need not name them beside `user_id`;
/// whoever is gone stays gone.
#[derive(Clone, PartialEq, Message)]
pub struct Subscribe {
    /// 16 bytes: the internal id.
    #[prost(bytes = "bytes", tag = "1")]
    pub user_id: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub choices: Vec<Choice>,
    /// A [`domain::subscription::Source`].
    #[prost(string, tag = "3")]
    pub source: String,
    /// 16 bytes or none: the message whose link they followed.
    #[prost(bytes = "bytes", tag = "4")]
    pub message_id: Bytes,
    /// They take back that they wanted nothing at all.
    #[prost(bool, tag = "5")]
    pub resubscribe: bool,
}

/// Of one group.
#[derive(Clone, PartialEq, Message)]
pub struct Choice {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub group_id: Bytes,
    #[prost(bool, tag = "2")]
    pub subscribed: bool,
}
