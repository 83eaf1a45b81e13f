//! Where Postgres is: read once.

use kernel::env::{Env, EnvError};

/// Where Postgres is.
#[derive(Clone, Debug)]
pub struct DatabaseConfig {
    pub url: String,
    /// Connections of this process at most.
    pub pool_size: usize,
}

impl DatabaseConfig {
    /// `DATABASE_URL` (default `postgres://rekindle@127.0.0.1:5432/rekindle`), `DATABASE_POOL_SIZE` (default 16).
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
