//! Removes deleted subscription groups, after users' preferences for them.

use std::sync::Arc;

use store_profiles::{subscription_groups, subscriptions};

use crate::App;
use crate::tick::TickError;

/// Removes them slice by slice, each in its own transaction.
pub async fn clear(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    while let Some((project, group)) = subscription_groups::deleted(&db).await? {
        while subscriptions::remove_of(&db, project, group).await? > 0 {}
        subscription_groups::forget(&db, project, group).await?;
    }
    Ok(())
}
