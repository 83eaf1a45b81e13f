use redis::AsyncCommands;
use testkit::{PrivateRedis, TestRedis};

async fn connect(url: &str) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
    redis::Client::open(url)?.get_multiplexed_async_connection().await
}

#[tokio::test]
async fn a_test_has_an_empty_database_of_its_own() {
    let (one, two) = (TestRedis::create().await, TestRedis::create().await);
    let (mut first, mut second) = (connect(one.url()).await.unwrap(), connect(two.url()).await.unwrap());
    let () = first.set("k", "1").await.unwrap();
    assert!(!second.exists::<_, bool>("k").await.unwrap());
    assert!(first.exists::<_, bool>("k").await.unwrap());
}

#[tokio::test]
async fn a_private_server_keeps_its_address() {
    let mut server = PrivateRedis::start().await;
    let url = server.url();
    server.kill().await;
    assert!(connect(&url).await.is_err());
    server.start_again().await;
    let mut connection = connect(&url).await.unwrap();
    let () = connection.set("k", "1").await.unwrap();
    server.stop().await;
}
