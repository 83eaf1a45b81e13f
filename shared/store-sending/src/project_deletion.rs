//! The deletion of a project.

use database::StoreError;
use database::changes::{self, Topic};
use deadpool_postgres::Transaction;
use jiff::Timestamp;
use store_projects::api_keys;
use store_projects::projects::{self, Project};

use crate::{automations, campaigns};

/// Deletes a project that was read by [`projects::get_for_update`]: once the transaction is committed, it is not found
/// any more, its keys are refused and nothing is sent for it. The scheduler removes its other rows later.
pub async fn delete(tx: &Transaction<'_>, project: &Project, now: Timestamp) -> Result<(), StoreError> {
    changes::next(tx, Topic::Project).await?;
    api_keys::revoke_all(tx, project.id, now).await?;
    automations::delete_all(tx, project.id, now).await?;
    campaigns::cancel_all(tx, project.id, now).await?;
    projects::remove(tx, project, now).await
}
