//! `DATABASE_URL` with several hosts, one of which accepts writes.

use std::time::Duration;

use database::config::DatabaseConfig;
use database::connector::{self, Connector};
use database::{Store, StoreError};
use testkit::{PrivatePostgres, eventually};
use tokio::net::TcpListener;

const SOON: Duration = Duration::from_secs(20);

/// Returns the port of the server that a session is connected to.
async fn port(connector: &Connector) -> Result<i32, tokio_postgres::Error> {
    let (client, _running) = connector.connect().await?;
    Ok(client.query_one("SELECT current_setting('port')::int", &[]).await?.get(0))
}

/// Returns the server's URL with these ports instead of its own.
fn at(server: &PrivatePostgres, ports: &[u16]) -> String {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    server.url().replace(&format!("127.0.0.1:{}", server.port()), &hosts.join(","))
}

fn connector(url: &str) -> Connector {
    Connector::parse(url, "test").unwrap()
}

#[tokio::test]
async fn writable_host_is_found_among_several() {
    let primary = PrivatePostgres::start().await;
    let standby = primary.standby().await;
    // Like a server that hangs: accepts connections, and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let expected = i32::from(primary.port());
    for first in [standby.port(), silent_port, 1] {
        let url = at(&primary, &[first, primary.port()]);
        assert_eq!(port(&connector(&url)).await.unwrap(), expected, "{url}");
        // A pool allows 2 s for a connection.
        let store = Store::new(&DatabaseConfig { url, pool_size: 1 }, "test").unwrap();
        store.check().await.unwrap();
    }
    let without = connector(&at(&primary, &[1, standby.port(), 1]));
    let error = port(&without).await.unwrap_err();
    assert!(connector::is_read_only(&error), "{error:?}");

    let both = connector(&at(&primary, &[primary.port(), standby.port()]));
    assert_eq!(port(&both).await.unwrap(), expected);
    primary.kill_hard().await;
    assert!(port(&both).await.is_err());
    standby.promote().await;
    assert_eq!(port(&both).await.unwrap(), i32::from(standby.port()));
}

#[tokio::test]
async fn session_ends_when_its_server_becomes_read_only() {
    let server = PrivatePostgres::start().await;
    let store = Store::new(&DatabaseConfig { url: server.url(), pool_size: 1 }, "test").unwrap();
    let set = async |value: &str| {
        let client = server.client().await;
        let sql = format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
        // This session must be able to write, to undo the setting.
        for sql in ["SET default_transaction_read_only = off", sql.as_str(), "SELECT pg_reload_conf()"] {
            client.batch_execute(sql).await.unwrap();
        }
    };
    let write = async || -> Result<(), StoreError> {
        let db = store.connection().await?;
        db.batch_execute("CREATE TABLE IF NOT EXISTS written (n int)").await?;
        Ok(db.batch_execute("INSERT INTO written VALUES (1)").await?)
    };
    write().await.unwrap();
    set("on").await;
    let refused = eventually(SOON, async || match write().await {
        Err(error) if error.to_string().contains("takes writes") => Ok(error),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert!(refused.is_unavailable());
    set("off").await;
    eventually(SOON, async || write().await.map_err(|error| error.to_string())).await;
}
