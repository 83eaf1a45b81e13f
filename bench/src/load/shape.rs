//! What a load consists of.

use crate::tenants;

/// What one request holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One event.
    Single,
    /// 100 items of one person, as an SDK flushes them.
    BatchOfOne,
    /// 100 items of up to 100 people, as a server forwards them.
    BatchOfMany,
    /// A message to one person, sent by the project's server.
    Message,
}

impl Kind {
    pub const BATCH: u32 = 100;

    pub fn items(self) -> u32 {
        match self {
            Self::Single | Self::Message => 1,
            Self::BatchOfOne | Self::BatchOfMany => Self::BATCH,
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            Self::Single => "/api/v1/events",
            Self::BatchOfOne | Self::BatchOfMany => "/api/v1/events/batch",
            Self::Message => "/api/v1/messages",
        }
    }
}

/// Who takes part, and what is sent: 1 % of the items make an anonymous person a known one, 5 % repeat an event that was
/// sent just before under the same id.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub kind: Kind,
    /// The number of the first project.
    pub first: u32,
    pub projects: u32,
    /// People of each project.
    pub people: u32,
}

impl Shape {
    /// 1,000 projects and 100,000 people.
    pub fn new(kind: Kind) -> Self {
        Self { kind, first: 0, projects: tenants::PROJECTS, people: 100 }
    }
}
