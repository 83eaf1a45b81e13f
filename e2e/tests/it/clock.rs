//! A process uses the database's time, even if the response with it is slow.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use database::Store;
use database::config::DatabaseConfig;
use e2e::chaos::proxy::{Proxy, Trouble, Way};
use kernel::clock::Clock;
use testkit::PrivatePostgres;

/// How long a response is delayed.
const HELD: Duration = Duration::from_secs(2);
/// Tolerance for a busy machine.
const NEAR_MS: i64 = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_long_on_its_way_is_no_present_time() {
    let postgres = PrivatePostgres::start().await;
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port()))).await.expect("starting a proxy");
    let url = postgres.url().replace(&format!("127.0.0.1:{}", postgres.port()), &proxy.address().to_string());
    let store = Store::new(&DatabaseConfig { url, pool_size: 1 }, "test").expect("a connection pool");
    let clock = Clock::system();
    store.synchronize(&clock).await.expect("reading the time");

    proxy.suffer(Trouble::Deaf(Way::Back));
    let heal = async {
        tokio::time::sleep(HELD).await;
        proxy.heal();
    };
    let (read, ()) = tokio::join!(store.synchronize(&clock), heal);
    read.expect("reading the time, delayed");
    // PostgreSQL runs on this machine, so both clocks read the same time.
    let behind = Clock::system().now_ms() - clock.now_ms();
    assert!(behind.abs() < NEAR_MS, "{behind} ms behind the database");
}
