//! The wire format of the send stream.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use crate::event::{WireError, id_bytes};
use kernel::ids::ProjectId;

/// The version that is written.
pub const VERSION: u32 = 1;

/// One message of the send stream: ledger rows to send, and direct messages that have no row yet.
#[derive(Clone, PartialEq, Message)]
pub struct SendChunk {
    #[prost(uint32, tag = "1")]
    pub version: u32,
    #[prost(message, repeated, tag = "2")]
    pub refs: Vec<MessageRef>,
    #[prost(message, repeated, tag = "3")]
    pub direct: Vec<DirectMessage>,
}

/// A row of the ledger.
#[derive(Clone, PartialEq, Message)]
pub struct MessageRef {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub project_id: Bytes,
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub message_id: Bytes,
    /// The row's `attempt` when it was published: 0 for a new one. A row with a later attempt is left alone, so that a
    /// reference that arrives twice or late causes no extra call.
    #[prost(uint32, tag = "3")]
    pub attempt: u32,
}

impl MessageRef {
    /// Refers to a row that was never claimed.
    pub fn new(project: ProjectId, message: Uuid) -> Self {
        Self::at(project, message, 0)
    }

    /// Refers to a row that was claimed `attempt` times.
    pub fn at(project: ProjectId, message: Uuid, attempt: u32) -> Self {
        Self { project_id: id_bytes(project.0), message_id: id_bytes(message), attempt }
    }
}

/// A complete message accepted by `POST /messages`; worker-delivery writes its row.
#[derive(Clone, PartialEq, Message)]
pub struct DirectMessage {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub project_id: Bytes,
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub message_id: Bytes,
    /// 16 bytes each: internal IDs of candidate users. The first that exists is used (external ID, then internal ID).
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub user_ids: Vec<Bytes>,
    /// `EMAIL`, `PUSH`, `IN_APP` or `SMS`.
    #[prost(string, tag = "4")]
    pub channel: String,
    /// JSON object `{subject?, body?, title?}`.
    #[prost(bytes = "bytes", tag = "5")]
    pub content: Bytes,
    /// 16 bytes or none.
    #[prost(bytes = "bytes", tag = "6")]
    pub template_id: Bytes,
    /// JSON object: the template's data in addition to the user.
    #[prost(bytes = "bytes", tag = "7")]
    pub data: Bytes,
    /// Unix milliseconds.
    #[prost(int64, tag = "8")]
    pub accepted_ms: i64,
    /// 24 bytes or none: a [`kernel::trace_context::TraceContext`], if the message is traced.
    #[prost(bytes = "bytes", tag = "9")]
    pub trace: Bytes,
}

impl SendChunk {
    pub fn of(refs: Vec<MessageRef>) -> Self {
        Self { version: VERSION, refs, direct: Vec::new() }
    }

    pub fn decode_checked(payload: Bytes) -> Result<Self, WireError> {
        let chunk = Self::decode(payload).map_err(|e| WireError::Undecodable(e.to_string()))?;
        if chunk.version > VERSION { Err(WireError::Newer(chunk.version)) } else { Ok(chunk) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_chunk_is_refused() {
        let newer = SendChunk { version: VERSION + 1, ..SendChunk::default() }.encode_to_vec();
        assert!(matches!(SendChunk::decode_checked(newer.into()), Err(WireError::Newer(_))));
    }
}
