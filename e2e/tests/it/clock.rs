//! A process uses the database's time, even if the response with it is slow.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use database::Store;
use database::config::DatabaseConfig;
use e2e::chaos::proxy::{Direction, LinkFault, Proxy};
use kernel::clock::Clock;
use testkit::PrivatePostgres;

/// How long a response is delayed.
const DELAY: Duration = Duration::from_secs(2);
/// Tolerance for a busy machine.
const MAX_OFFSET_MS: i64 = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delayed_responses_do_not_set_the_clock() {
    let postgres = PrivatePostgres::start().await;
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port()))).await.expect("starting a proxy");
    let url = postgres.url().replace(&format!("127.0.0.1:{}", postgres.port()), &proxy.address().to_string());
    let store = Store::new(&DatabaseConfig { url, pool_size: 1 }, "test").expect("a connection pool");
    let clock = Clock::system();
    store.synchronize(&clock).await.expect("reading the time");

    proxy.inject(LinkFault::Blocked(Direction::ToClient));
    let heal = async {
        tokio::time::sleep(DELAY).await;
        proxy.heal();
    };
    let (read, ()) = tokio::join!(store.synchronize(&clock), heal);
    read.expect("reading the time, delayed");
    // PostgreSQL runs on this machine, so both clocks read the same time.
    let offset = Clock::system().now_ms() - clock.now_ms();
    assert!(offset.abs() < MAX_OFFSET_MS, "{offset} ms behind the database");
}
