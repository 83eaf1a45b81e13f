//! Plain connections to a test's PostgreSQL.

use anyhow::Context;
use local_servers::PostgresServer;
use tokio_postgres::{Client, NoTls};

/// Connects to a database. The connection closes when the client is dropped.
pub(crate) async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(described).context("PostgreSQL")?;
    tokio::spawn(connection);
    Ok(client)
}

pub(crate) fn described(error: tokio_postgres::Error) -> anyhow::Error {
    match error.as_db_error() {
        Some(db) => anyhow::anyhow!("{} ({})", db.message(), db.code().code()),
        None => error.into(),
    }
}

/// Drops all databases that an earlier run left, including templates. Only for a server that nothing else uses yet.
pub(crate) async fn drop_leftovers(server: &PostgresServer) -> anyhow::Result<()> {
    let client = connect(&server.url("postgres")).await?;
    let sql = r"SELECT datname FROM pg_database WHERE datname ~ '^(test|template|unfinished_template)_'";
    for row in client.query(sql, &[]).await? {
        let name: String = row.try_get("datname")?;
        client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
    }
    Ok(())
}
