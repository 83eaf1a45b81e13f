//! The rest of what erased people leave behind: more rows than go at once.

use std::sync::Arc;

use jiff::SignedDuration;
use shared::store::events::counters;
use shared::store::messages::insert;
use shared::store::{erasures, push_tokens};

use crate::App;
use crate::tick::TickError;

/// For how long an erasure is remembered: nothing accepted before it waits for longer, not even for a restored database.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Removes slice after slice until nothing is left.
pub async fn finish(app: Arc<App>) -> Result<(), TickError> {
    loop {
        let mut connection = app.store.connection().await?;
        let tx = connection.transaction().await.map_err(shared::store::StoreError::from)?;
        let Some((person, erased)) = erasures::take_left(&tx).await? else { return Ok(()) };
        let (project, id) = person;
        let removed = erasures::remove_slice(&tx, project, &[id], (erased.accepted, Some(erased.applied))).await?;
        counters::take(&tx, project, &removed.events).await?;
        insert::count(&tx, project, insert::any_lane(), -removed.messages).await?;
        if !removed.left {
            erasures::nothing_left(&tx, person).await?;
        }
        tx.commit().await.map_err(shared::store::StoreError::from)?;
    }
}

/// Forgets erasures of long ago, and the tokens that were taken away by then.
pub async fn forget(app: Arc<App>) -> Result<(), TickError> {
    let (db, before) = (app.store.connection().await?, app.now() - REMEMBERED);
    erasures::forget(&db, before).await?;
    push_tokens::forget(&db, before).await?;
    Ok(())
}
