//! What taking in items shares between requests.

use bus::group_commit::GroupCommit;
use bus::topology::IngestStream;
use bus::{Names, Publisher};
use tokio_util::task::TaskTracker;

use super::applied::Applied;

pub struct Ingest {
    /// Where items go.
    pub stream: IngestStream,
    /// Publishes the items of many requests together.
    pub group_commit: GroupCommit,
    /// Positions up to which the stream has been applied, for those who wait for them.
    pub applied: Applied,
}

impl Ingest {
    /// Begins to publish what is handed to it.
    pub fn start(publisher: &Publisher, names: &Names, stream: IngestStream) -> Self {
        Self {
            group_commit: GroupCommit::start(publisher, names, stream.partitions, &TaskTracker::new()),
            applied: Applied::new(stream.partitions),
            stream,
        }
    }
}
