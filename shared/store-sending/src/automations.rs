//! Automations: an editable head, and immutable versions. Each run keeps the version it started with.
//!
//! `definition` holds an [`automation::Definition`], in the head as in every version; the head's is that of its newest
//! version. A deleted automation stays as an inactive row, so that caches notice the deletion.

mod read;
mod write;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

pub use read::{
    BySegment, SendingUse, by_segments, changed_after, get, get_version, is_active, list, load_followed, uses_segment,
    uses_subscription_group, uses_template,
};
pub use write::{delete, delete_all, get_for_update, insert, update};

use automation::Definition;
use database::StoreError;
use kernel::ids::ProjectId;

/// An automation's head.
#[derive(Clone, Debug, PartialEq)]
pub struct Automation {
    pub id: Uuid,
    pub name: String,
    pub active: bool,
    /// From 1; incremented by every change of the definition.
    pub version: i32,
    pub definition: Definition,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The data that a worker needs to start runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveAutomation {
    pub project: ProjectId,
    pub id: Uuid,
    pub version: i32,
    pub definition: Definition,
}

/// An automation as workers cache it.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowedAutomation {
    pub project: ProjectId,
    pub id: Uuid,
    /// Present if it may start runs. `None` if it is inactive or deleted, or this program cannot decode it.
    pub active: Option<ActiveAutomation>,
    /// The events that runs of any of its versions may listen for; empty if it is deleted.
    pub listens_for: Vec<String>,
}

fn from_row(row: &Row) -> Result<Automation, StoreError> {
    let id = row.try_get("id")?;
    Ok(Automation {
        id,
        name: row.try_get("name")?,
        active: row.try_get("active")?,
        version: row.try_get("version")?,
        definition: decoded(id, row.try_get("definition")?)?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

fn decoded(id: Uuid, stored: Value) -> Result<Definition, StoreError> {
    Definition::decode(stored).map_err(|e| StoreError::Corrupt(format!("definition of automation {id}: {e}")))
}
