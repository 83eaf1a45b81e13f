use std::time::Duration;

use kernel::env::Env;
use kernel::shutdown::Shutdown;
use rate_limits::{Buckets, Server};
use redis::AsyncCommands;
use testkit::{Certificate, PrivateRedis, TestRedis, eventually_true};
use tls::TlsFault;

async fn connect(url: &str) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
    redis::Client::open(url)?.get_multiplexed_async_connection().await
}

#[tokio::test]
async fn test_redis_is_empty_and_separate() {
    let (one, two) = (TestRedis::create().await, TestRedis::create().await);
    let (mut first, mut second) = (connect(one.url()).await.unwrap(), connect(two.url()).await.unwrap());
    let () = first.set("k", "1").await.unwrap();
    assert!(!second.exists::<_, bool>("k").await.unwrap());
    assert!(first.exists::<_, bool>("k").await.unwrap());
}

#[tokio::test]
async fn private_redis_keeps_its_address() {
    let mut server = PrivateRedis::start().await;
    let url = server.url();
    server.kill().await;
    assert!(connect(&url).await.is_err());
    server.start_again().await;
    let mut connection = connect(&url).await.unwrap();
    let () = connection.set("k", "1").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn limits_are_shared_over_tls_with_a_trusted_server() {
    let redis = PrivateRedis::start().await;
    let (right, other) = (Certificate::for_name("127.0.0.1"), Certificate::for_name("127.0.0.1"));
    let url = redis.enable_tls(&right).await;
    let server = |ca_file: &str| {
        Server::from_env(&Env::from_pairs([("REDIS_URL", url.as_str()), ("REDIS_CA_FILE", ca_file)])).unwrap().unwrap()
    };
    let buckets = Buckets::start(server(&right.ca_file()), "test:", Shutdown::new());
    eventually_true("Redis is up", Duration::from_secs(10), async || buckets.is_up()).await;

    for unknown in [other.ca_file(), String::new()] {
        let refused = server(&unknown).client().get_multiplexed_async_connection().await.err().unwrap();
        assert_eq!(TlsFault::find(&refused), Some(TlsFault::UnknownAuthority), "{refused}");
    }
}

#[test]
fn ca_file_for_a_server_without_tls_is_rejected() {
    let certificate = Certificate::for_name("127.0.0.1");
    for (url, ca_file) in [("redis://h:1", certificate.ca_file()), ("rediss://h:1", "/nowhere/ca.pem".to_owned())] {
        let env = Env::from_pairs([("REDIS_URL", url.to_owned()), ("REDIS_CA_FILE", ca_file)]);
        assert_eq!(Server::from_env(&env).unwrap_err().name, "REDIS_CA_FILE");
    }
}
