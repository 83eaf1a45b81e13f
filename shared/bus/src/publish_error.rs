//! Why a publish was not acknowledged.

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PublishError {
    #[error("not connected to the broker")]
    Disconnected,
    #[error("the broker did not acknowledge in time")]
    Timeout,
    #[error("the stream is full")]
    Full,
    #[error("too many publishes await their acknowledgement")]
    Busy,
    #[error("the message is larger than the broker takes")]
    TooLarge,
    #[error("the broker refused: {0}")]
    Refused(String),
}
