//! The database's clock, which a run can shift. The programs call `clock_timestamp()` and `statement_timestamp()`, and get functions of
//! ours instead.

use tokio_postgres::{Client, Error};

/// Installs functions that shadow the system's, in a schema that comes first in every connection's search path. Call it before the
/// programs connect.
///
/// Panics on an error.
pub async fn install(db: &Client) {
    let sql = "CREATE SCHEMA chaos; CREATE TABLE chaos.clock (ahead interval NOT NULL); \
               INSERT INTO chaos.clock VALUES (interval '0'); \
               CREATE FUNCTION chaos.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS \
               'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM chaos.clock)'; \
               CREATE FUNCTION chaos.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS \
               'SELECT pg_catalog.statement_timestamp() + (SELECT ahead FROM chaos.clock)'; \
               ALTER DATABASE test SET search_path = public, chaos, pg_catalog";
    db.batch_execute(sql).await.expect("installing the shiftable clock");
}

/// Shifts the clock to `minutes` ahead of the real time.
pub async fn set(db: &Client, minutes: i16) -> Result<(), Error> {
    db.execute("UPDATE chaos.clock SET ahead = $1::int * interval '1 minute'", &[&i32::from(minutes)]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use database::Store;
    use database::config::DatabaseConfig;
    use kernel::clock::Clock;
    use testkit::PrivatePostgres;
    use tokio_postgres::NoTls;

    use super::*;

    #[tokio::test]
    async fn programs_use_the_shifted_clock() {
        let postgres = PrivatePostgres::start().await;
        let (db, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        install(&db).await;
        let store = Store::new(&DatabaseConfig { url: postgres.url(), pool_size: 1 }, "test").unwrap();
        for minutes in [0_i16, 4, -4] {
            set(&db, minutes).await.unwrap();
            let clock = Clock::system();
            store.synchronize(&clock).await.unwrap();
            let ahead = clock.now_ms() - Clock::system().now_ms() - i64::from(minutes) * 60_000;
            assert!(
                ahead.unsigned_abs() < Duration::from_secs(10).as_millis() as u64,
                "{ahead} ms off {minutes} minutes"
            );
        }
    }
}
