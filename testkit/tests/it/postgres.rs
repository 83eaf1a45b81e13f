use std::time::Duration;

use testkit::{PrivatePostgres, TestDatabase, eventually};

async fn connect(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn number(url: &str) -> Result<i32, tokio_postgres::Error> {
    Ok(connect(url).await?.query_one("SELECT n FROM t", &[]).await?.get(0))
}

#[tokio::test]
async fn private_postgres_keeps_address_and_data_after_stop_and_crash() {
    let mut server = PrivatePostgres::start().await;
    let url = server.url();
    connect(&url).await.unwrap().batch_execute("CREATE TABLE t AS SELECT 7 AS n").await.unwrap();

    server.stop().await;
    assert!(connect(&url).await.is_err());
    server.start_again().await;
    assert_eq!(number(&server.url()).await.unwrap(), 7);

    server.kill().await;
    server.start_again().await;
    assert_eq!(server.url(), url);
    assert_eq!(number(&url).await.unwrap(), 7);
}

#[tokio::test]
async fn private_postgres_is_removed_with_the_test() {
    let server = PrivatePostgres::start().await;
    let url = server.url();
    drop(server);
    assert!(connect(&url).await.is_err());
}

#[tokio::test]
async fn wrong_password_is_rejected() {
    let database = TestDatabase::create_empty().await;
    let (head, tail) = database.url().split_once('@').unwrap();
    let error = connect(&format!("{head}wrong@{tail}")).await.err().unwrap();
    assert_eq!(error.code().unwrap().code(), "28P01");
}

#[tokio::test]
async fn case_mapping_works_for_all_scripts() {
    let client = TestDatabase::create_empty().await;
    let row = client.client().await.query_one("SELECT upper('straße ж é')", &[]).await.unwrap();
    assert!(row.get::<_, String>(0).ends_with(" Ж É"));
}

#[tokio::test]
async fn eventually_returns_when_the_probe_succeeds() {
    let mut attempts = 0;
    let answer = eventually(Duration::from_secs(5), async || {
        attempts += 1;
        if attempts < 3 { Err(attempts) } else { Ok(attempts) }
    });
    assert_eq!(answer.await, 3);
}

#[tokio::test]
#[should_panic(expected = "still 7")]
async fn eventually_panics_with_the_last_state() {
    eventually(Duration::from_millis(50), async || Err::<(), _>("still 7")).await;
}
