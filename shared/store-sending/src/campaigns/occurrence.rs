//! One occurrence of a campaign: its progress and its messages.

use database::months::Month;
use domain::campaign::Verdict;
use jiff::Timestamp;
use kernel::ids::{self, ProjectId};
use uuid::Uuid;

/// Progress of a campaign's current occurrence.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Number of the occurrence, from 1. A recurring campaign has many.
    pub occurrence: i32,
    pub started_at: Timestamp,
    /// The time for which it was scheduled.
    pub meant_for: Timestamp,
    /// The last user ID up to which the audience is queued.
    pub queued_to: Option<Uuid>,
    /// Whether the whole audience is queued.
    pub is_queued: bool,
    /// Up to when the pace's allowance is used.
    pub paced_to: Timestamp,
    /// When the test of its variants was sent.
    pub test_sent_at: Option<Timestamp>,
    /// The result of the test.
    pub verdict: Option<Verdict>,
}

/// The messages of one occurrence. Their IDs hold its start time, so all of them are in one partition.
#[derive(Clone, Copy, Debug)]
pub struct OccurrenceRows {
    pub project: ProjectId,
    pub campaign: Uuid,
    pub(super) first: Uuid,
    pub(super) last: Uuid,
}

impl OccurrenceRows {
    pub fn of(project: ProjectId, campaign: Uuid, progress: &Progress) -> Self {
        Self::at(project, campaign, progress.started_at)
    }

    /// Returns the messages of the occurrence that began at this time.
    pub fn at(project: ProjectId, campaign: Uuid, started_at: Timestamp) -> Self {
        let ms = started_at.as_millisecond();
        Self { project, campaign, first: ids::timed(ms, [0; 10]), last: ids::timed(ms, [u8::MAX; 10]) }
    }

    pub(super) fn month(&self) -> Month {
        Month::of(self.first)
    }
}
