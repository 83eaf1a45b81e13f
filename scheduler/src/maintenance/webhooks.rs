//! Removes webhook deliveries of deleted endpoints, and those past their retention.

use std::sync::Arc;

use jiff::SignedDuration;
use kernel::ids;
use store_projects::webhook_endpoints;
use store_sending::webhook_deliveries;

use crate::App;
use crate::tick::TickError;

/// How long a delivery is shown and can be sent again.
const DELIVERY_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Removes them slice by slice, each in its own transaction.
pub async fn clear(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    while let Some((project, endpoint)) = webhook_endpoints::deleted(&db).await? {
        while webhook_deliveries::remove_of(&db, project, endpoint).await? > 0 {}
        webhook_endpoints::forget(&db, project, endpoint).await?;
    }
    let oldest = ids::lower_bound((app.now() - DELIVERY_RETENTION).as_millisecond());
    while webhook_deliveries::forget(&db, oldest).await? > 0 {}
    Ok(())
}
