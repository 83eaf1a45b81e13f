//! State that requests share to ingest items.

use bus::group_commit::GroupCommit;
use bus::topology::IngestStream;
use bus::{Names, Publisher};
use tokio_util::task::TaskTracker;

use super::applied::Applied;

pub struct Ingest {
    /// The stream that items are published to.
    pub stream: IngestStream,
    /// Publishes the items of many requests together.
    pub group_commit: GroupCommit,
    /// Positions up to which the stream has been applied, for requests that wait for them.
    pub applied: Applied,
}

impl Ingest {
    /// Starts the group commit.
    pub fn start(publisher: &Publisher, names: &Names, stream: IngestStream) -> Self {
        Self {
            group_commit: GroupCommit::start(publisher, names, stream.partitions, &TaskTracker::new()),
            applied: Applied::new(stream.partitions),
            stream,
        }
    }
}
