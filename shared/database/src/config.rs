//! Connection settings for PostgreSQL, read once.

use kernel::env::{Env, EnvError};

/// Connection settings for PostgreSQL.
#[derive(Clone, Debug)]
pub struct DatabaseConfig {
    pub url: String,
    /// Maximum number of connections of this process.
    pub pool_size: usize,
}

impl DatabaseConfig {
    /// Reads `DATABASE_URL` (default `postgres://rekindle@127.0.0.1:5432/rekindle`) and
    /// `DATABASE_POOL_SIZE` (default 16).
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        Ok(Self {
            url: env.text("DATABASE_URL", "postgres://rekindle@127.0.0.1:5432/rekindle"),
            pool_size: env.bounded("DATABASE_POOL_SIZE", 16, 1..=500, "1 to 500")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_work_on_one_machine() {
        assert_eq!(DatabaseConfig::from_env(&Env::default()).unwrap().pool_size, 16);
    }
}
