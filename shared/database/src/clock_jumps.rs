//! The recorded forward jump of the database's clock that no operator has accepted yet: at most one row per
//! installation.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use crate::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockJump {
    /// How far the clock is ahead of the elapsed time.
    pub ahead_ms: i64,
    /// The time that the clock showed after the jump.
    pub jumped_at: Timestamp,
}

pub async fn get(db: &impl GenericClient) -> Result<Option<ClockJump>, StoreError> {
    let row = db.query_opt(&db.prepare_cached("SELECT ahead_ms, jumped_at FROM clock_jump").await?, &[]).await?;
    row.map(|row| Ok(ClockJump { ahead_ms: row.try_get("ahead_ms")?, jumped_at: row.try_get("jumped_at")? }))
        .transpose()
}

/// Records a jump. Replaces an earlier one.
pub async fn record(db: &impl GenericClient, jump: ClockJump) -> Result<(), StoreError> {
    let sql = "INSERT INTO clock_jump (ahead_ms, jumped_at) VALUES ($1, $2) \
               ON CONFLICT (one) DO UPDATE SET ahead_ms = EXCLUDED.ahead_ms, jumped_at = EXCLUDED.jumped_at";
    db.execute(sql, &[&jump.ahead_ms, &jump.jumped_at]).await?;
    Ok(())
}

/// Deletes the recorded jump: the clock is back, or an operator accepted it. Returns false if there was none.
pub async fn delete(db: &impl GenericClient) -> Result<bool, StoreError> {
    Ok(db.execute("DELETE FROM clock_jump", &[]).await? > 0)
}
