//! A jump of the database's clock ahead that nobody has judged yet: one row of the installation, or none.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use crate::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockJump {
    /// How far the clock runs ahead of the time that has passed.
    pub ahead_ms: i64,
    /// What it showed after the jump.
    pub jumped_at: Timestamp,
}

pub async fn get(db: &impl GenericClient) -> Result<Option<ClockJump>, StoreError> {
    let row = db.query_opt(&db.prepare_cached("SELECT ahead_ms, jumped_at FROM clock_jump").await?, &[]).await?;
    row.map(|row| Ok(ClockJump { ahead_ms: row.try_get("ahead_ms")?, jumped_at: row.try_get("jumped_at")? }))
        .transpose()
}

/// Notes one, in the place of an earlier one.
pub async fn note(db: &impl GenericClient, jump: ClockJump) -> Result<(), StoreError> {
    let sql = "INSERT INTO clock_jump (ahead_ms, jumped_at) VALUES ($1, $2) \
               ON CONFLICT (one) DO UPDATE SET ahead_ms = EXCLUDED.ahead_ms, jumped_at = EXCLUDED.jumped_at";
    db.execute(sql, &[&jump.ahead_ms, &jump.jumped_at]).await?;
    Ok(())
}

/// Forgets it: the clock is back, or right as it is. False where there was none.
pub async fn forget(db: &impl GenericClient) -> Result<bool, StoreError> {
    Ok(db.execute("DELETE FROM clock_jump", &[]).await? > 0)
}
