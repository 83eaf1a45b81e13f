//! Why a publish was not acknowledged.

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PublishError {
    #[error("not connected to the broker")]
    Disconnected,
    #[error("the broker did not acknowledge in time")]
    Timeout,
    #[error("the stream is full")]
    Full,
    #[error("too many publishes await acknowledgement")]
    Busy,
    #[error("the message exceeds the broker's maximum payload")]
    TooLarge,
    #[error("the broker rejected the publish: {0}")]
    Refused(String),
}
