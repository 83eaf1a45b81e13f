//! Faults of the database, and of the master key for it.

use std::time::Duration;

use cli::provision::Provision;
use secrets::MasterKeys;
use testkit::{Certificate, PrivatePostgres, TestDatabase, eventually};

use super::deployment::{Deployment, MASTER_KEY};
use super::{examine, finds, of};

#[tokio::test]
async fn connection_failures_are_distinguished() {
    let deployment = Deployment::make().await;
    let with = |url: String| finds(deployment.doctor().env("DATABASE_URL", url), "database.connection");
    let away = format!("postgres://rekindle@127.0.0.1:{}/rekindle", local_servers::port::free());
    assert!(with(away).contains("cannot be reached"));
    let url = &deployment.database_url;
    let (user, rest) = url.trim_start_matches("postgres://").split_once(':').unwrap();
    let (password, location) = rest.split_once('@').unwrap();
    let text = with(format!("postgres://{user}:wr0ng@{location}"));
    assert!(text.contains("password") && !text.contains("wr0ng"), "{text}");
    let (host, _) = location.split_once('/').unwrap();
    assert!(with(format!("postgres://{user}:{password}@{host}/nowhere")).contains("no such database"));
}

#[tokio::test]
async fn tls_failures_are_reported() {
    let (right, other) = (Certificate::for_name("127.0.0.1"), Certificate::for_name("127.0.0.1"));
    let server = PrivatePostgres::start().await;
    server.enable_tls(&right).await;
    let deployment = Deployment::on(server.url()).await;
    let verified = |by: &Certificate| {
        let mut doctor = deployment.doctor();
        let url = &deployment.database_url;
        doctor.env("DATABASE_URL", format!("{url}?sslmode=verify-full&sslrootcert={}", by.ca_file()));
        doctor
    };
    let (_, report) = examine(&mut verified(&right));
    let text = of(&report, "database.connection");
    assert!(text["verdict"] == "well" && text["what"].as_str().unwrap().ends_with(", TLSv1.3"), "{report:#}");
    assert!(finds(&mut verified(&other), "database.connection").starts_with("no TLS with PostgreSQL: "));
    let (_, report) = examine(&mut verified(&other));
    let remedy = of(&report, "database.connection")["remedy"].as_str().unwrap().to_owned();
    assert!(remedy.contains("sslrootcert in DATABASE_URL"), "{remedy}");

    let without = Deployment::make().await;
    let url = format!("{}?sslmode=require", without.database_url);
    let text = finds(without.doctor().env("DATABASE_URL", url), "database.connection");
    assert!(text.contains("server does not support TLS"), "{text}");
    let url = format!("{}?sslmode=allow", without.database_url);
    let text = finds(without.doctor().env("DATABASE_URL", url), "settings");
    assert!(text.contains("sslmode=allow is not supported"), "{text}");
}

#[tokio::test]
async fn missing_and_newer_schemas_are_reported() {
    let deployment = Deployment::make().await;
    let empty = TestDatabase::create_empty().await;
    let (wrong, report) = examine(deployment.doctor().env("DATABASE_URL", empty.url()));
    assert_eq!(wrong, ["database.durability", "database.extensions", "database.schema"], "{report:#}");
    assert!(of(&report, "database.schema")["remedy"].as_str().unwrap().contains("rekindle migrate"));

    let db = deployment.connection().await;
    db.batch_execute("UPDATE schema_migration SET checksum = 'other' WHERE version = 1").await.unwrap();
    assert!(finds(&mut deployment.doctor(), "database.schema").contains("a different text"));
    let newer = "INSERT INTO schema_migration (version, name, checksum, min_reader) VALUES (999, 'later', '', 999)";
    db.batch_execute(newer).await.unwrap();
    assert!(finds(&mut deployment.doctor(), "database.schema").contains("upgrade the program"));
}

#[tokio::test]
async fn standby_that_blocks_commits_is_reported() {
    let primary = PrivatePostgres::start().await;
    let deployment = Deployment::on(primary.url()).await;
    let db = primary.client().await;
    // A role that cannot see other roles' statistics.
    db.batch_execute("CREATE ROLE plain LOGIN PASSWORD 'plain' IN ROLE pg_read_all_data").await.unwrap();
    let verdict = |url: &str| {
        let (_, report) = examine(deployment.doctor().env("DATABASE_URL", url));
        let mut findings = report["findings"].as_array().unwrap().iter();
        let found = findings.find(|finding| finding["check"] == "database.standby");
        found.map(|finding| finding["verdict"].as_str().unwrap().to_owned())
    };
    assert_eq!(verdict(&primary.url()), None);

    let standby = primary.standby().await;
    assert_eq!(verdict(&primary.url()).as_deref(), Some("well"));
    let plain = format!("postgres://plain:plain@127.0.0.1:{}/test", primary.port());
    assert_eq!(verdict(&plain).as_deref(), Some("notable"));

    // The standby streams as before, but no commit can wait for it.
    for sql in ["ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'", "SELECT pg_reload_conf()"] {
        db.batch_execute(sql).await.unwrap();
    }
    let state = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'async'";
    eventually(Duration::from_secs(20), async || {
        let seen: i64 = db.query_one(state, &[]).await.map_err(|error| error.to_string())?.get(0);
        if seen == 1 { Ok(()) } else { Err("the setting was not read".to_owned()) }
    })
    .await;
    let text = finds(&mut deployment.doctor(), "database.standby");
    assert!(text.contains("1 connected and 0 in sync: every commit waits"), "{text}");
    drop(standby);
}

#[tokio::test]
async fn missing_extension_is_reported() {
    let deployment = Deployment::make().await;
    deployment.connection().await.batch_execute("DROP EXTENSION pg_trgm CASCADE").await.unwrap();
    assert!(finds(&mut deployment.doctor(), "database.extensions").contains("pg_trgm"));
}

#[tokio::test]
async fn master_key_that_does_not_decrypt_secrets_is_reported() {
    let deployment = Deployment::make().await;
    let keys = MasterKeys::parse(MASTER_KEY).unwrap();
    Provision::new(&deployment.database_url).unwrap().create_project(&keys, "Shop").await.unwrap();
    let (_, report) = examine(&mut deployment.doctor());
    assert_eq!(of(&report, "secrets.master_key")["verdict"], "well", "{report:#}");
    let other = "ab".repeat(32);
    assert!(finds(deployment.doctor().env("MASTER_KEY", &other), "secrets.master_key").contains("1 of project"));
    let (_, report) = examine(deployment.doctor().env("MASTER_KEY", format!("{other},{MASTER_KEY}")));
    assert_eq!(of(&report, "secrets.master_key")["verdict"], "well", "{report:#}");
}

#[tokio::test]
async fn wrong_clock_is_reported() {
    let deployment = Deployment::make().await;
    // For new sessions, the server's clock is 90 s fast.
    let sql = "DO $$ BEGIN \
               CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql \
               AS 'SELECT pg_catalog.clock_timestamp() + interval ''90 s'''; \
               EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); \
               END $$";
    deployment.connection().await.batch_execute(sql).await.unwrap();
    assert!(finds(&mut deployment.doctor(), "database.clock").contains("behind"));
}
