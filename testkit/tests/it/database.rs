use testkit::TestDatabase;

async fn count(database: &TestDatabase, sql: &str) -> i64 {
    database.client().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn test_database_is_migrated_and_separate() {
    let (one, two) = tokio::join!(TestDatabase::create(), TestDatabase::create());
    assert_ne!(one.url(), two.url());
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'schema_migration'";
    assert_eq!((count(&one, tables).await, count(&two, tables).await), (1, 1));
    one.client().await.batch_execute("CREATE TABLE only_here ()").await.unwrap();
    let here = "SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'";
    assert_eq!((count(&one, here).await, count(&two, here).await), (1, 0));
    one.store().check().await.unwrap();
}

#[tokio::test]
async fn empty_database_has_no_tables_and_is_dropped() {
    let database = TestDatabase::create_empty().await;
    assert_eq!(count(&database, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").await, 0);
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    let other = TestDatabase::create_empty().await;
    drop(database);
    let found = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    assert_eq!(count(&other, &found).await, 0);
}

#[tokio::test]
async fn database_in_use_is_dropped() {
    let database = TestDatabase::create_empty().await;
    let client = database.client().await;
    drop(database);
    assert!(client.simple_query("SELECT 1").await.is_err());
}
