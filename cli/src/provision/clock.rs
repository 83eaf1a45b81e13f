//! A jump of the database's clock.

use anyhow::Result;
use database::clock_jumps::{self, ClockJump};

use super::Provision;

impl Provision {
    /// The one that nobody has judged yet.
    pub async fn clock_jump(&self) -> Result<Option<ClockJump>> {
        Ok(clock_jumps::get(&self.connection().await?).await?)
    }

    /// Says that the clock is right; false where nothing was held.
    pub async fn accept_clock(&self) -> Result<bool> {
        Ok(clock_jumps::forget(&self.connection().await?).await?)
    }
}
