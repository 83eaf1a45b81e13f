//! The composition of a load.

use crate::tenants;

/// Content of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One event.
    Single,
    /// 100 items of one user, as an SDK flushes them.
    BatchOfOne,
    /// 100 items of up to 100 users, as a server forwards them.
    BatchOfMany,
    /// A message to one user, sent by the project's server.
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

/// Projects, users and requests of a load: 1 % of the items identify an anonymous user, and 5 % repeat a recent event
/// under the same ID.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub kind: Kind,
    /// Number of the first project.
    pub first: u32,
    pub projects: u32,
    /// Users per project.
    pub users: u32,
}

impl Shape {
    /// Creates a shape of 1,000 projects and 100,000 users.
    pub fn new(kind: Kind) -> Self {
        Self { kind, first: 0, projects: tenants::PROJECTS, users: 100 }
    }
}
