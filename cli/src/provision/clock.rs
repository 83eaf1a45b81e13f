//! Jumps of the database's clock.

use anyhow::Result;
use database::clock_jumps::{self, ClockJump};

use super::Provision;

impl Provision {
    /// Returns the clock jump that is not resolved yet, if any.
    pub async fn clock_jump(&self) -> Result<Option<ClockJump>> {
        Ok(clock_jumps::get(&self.connection().await?).await?)
    }

    /// Accepts the current clock as correct. Returns `false` if nothing was held.
    pub async fn accept_clock(&self) -> Result<bool> {
        Ok(clock_jumps::delete(&self.connection().await?).await?)
    }
}
