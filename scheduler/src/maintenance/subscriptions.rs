//! The end of deleted subscription groups: what people chose of them goes first.

use std::sync::Arc;

use store_profiles::{subscription_groups, subscriptions};

use crate::App;
use crate::tick::TickError;

/// Removes slice after slice, each in a transaction of its own.
pub async fn clear(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    while let Some((project, group)) = subscription_groups::deleted(&db).await? {
        while subscriptions::remove_of(&db, project, group).await? > 0 {}
        subscription_groups::forget(&db, project, group).await?;
    }
    Ok(())
}
