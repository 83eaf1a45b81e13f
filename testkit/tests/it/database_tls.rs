//! `DATABASE_URL` with TLS parameters, against servers with and without TLS.

use database::Store;
use database::config::DatabaseConfig;
use database::connector::{self, Connector};
use testkit::{Certificate, PrivatePostgres, TestDatabase};

const NAME: &str = "localhost";

/// Returns the TLS version of a session, if any; or why it could not be opened, and what to do about it.
async fn session(url: &str, parameters: &str) -> Result<Option<String>, String> {
    let connector = Connector::parse(&format!("{url}?{parameters}"), "test").unwrap();
    match connector.connect().await {
        Ok((client, _)) => {
            let sql = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
            Ok(client.query_one(sql, &[]).await.unwrap().get(0))
        }
        Err(error) => {
            let fault = connector::tls_fault(&error).unwrap_or_else(|| panic!("{error:?}"));
            Err(connector::describe_tls_error(&error, fault))
        }
    }
}

/// Returns the server's URL with the name in its certificate.
fn by_name(server: &PrivatePostgres, parameters: &str) -> (String, String) {
    (server.url().replace("@127.0.0.1:", &format!("@{NAME}:")), format!("hostaddr=127.0.0.1&{parameters}"))
}

#[tokio::test]
async fn server_is_verified_by_ca_and_name() {
    let (right, other) = (Certificate::for_name(NAME), Certificate::for_name(NAME));
    let server = PrivatePostgres::start().await;
    server.enable_tls(&right).await;
    let under = |mode: &str, by: &Certificate| format!("sslmode={mode}&sslrootcert={}", by.ca_file());
    let named = async |parameters: String| {
        let (url, parameters) = by_name(&server, &parameters);
        session(&url, &parameters).await
    };
    let by_address = async |parameters: String| session(&server.url(), &parameters).await;
    let version = Ok(Some("TLSv1.3".to_owned()));

    assert_eq!(named(under("verify-full", &right)).await, version);
    assert_eq!(named(format!("{}&channel_binding=require", under("verify-full", &right))).await, version);
    assert_eq!(by_address(under("verify-ca", &right)).await, version);
    let refused = by_address(under("verify-full", &right)).await.unwrap_err();
    assert!(refused.contains("subjectAltName") && refused.contains("sslmode=verify-ca"), "{refused}");
    // With a CA file, `require` is as strict as in libpq.
    for mode in ["verify-full", "verify-ca", "require"] {
        let refused = named(under(mode, &other)).await.unwrap_err();
        assert!(
            refused.contains("invalid peer certificate") && refused.contains("sslrootcert in"),
            "{mode}: {refused}"
        );
    }
    for unknown in ["sslmode=verify-full", "sslrootcert=system"] {
        let refused = named(unknown.to_owned()).await.unwrap_err();
        assert!(refused.contains("UnknownIssuer") && refused.contains("sslrootcert in"), "{unknown}: {refused}");
    }

    assert_eq!(by_address("sslmode=require".to_owned()).await, version);
    assert_eq!(by_address("sslmode=prefer".to_owned()).await, version);
    assert_eq!(by_address(under("prefer", &other)).await, Ok(None));
    assert_eq!(by_address("sslmode=disable".to_owned()).await, Ok(None));
}

#[tokio::test]
async fn pool_uses_tls_and_reports_why_it_cannot() {
    let (right, other) = (Certificate::for_name("127.0.0.1"), Certificate::for_name("127.0.0.1"));
    let server = PrivatePostgres::start().await;
    server.enable_tls(&right).await;
    let store = |by: &Certificate| {
        let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), by.ca_file());
        Store::new(&DatabaseConfig { url, pool_size: 1 }, "test").unwrap()
    };
    let described = database::server::describe(&store(&right).connection().await.unwrap()).await.unwrap();
    assert_eq!(described.tls.as_deref(), Some("TLSv1.3"));
    let refused = store(&other).check().await.unwrap_err();
    assert!(refused.is_unavailable() && refused.to_string().contains("sslrootcert in DATABASE_URL"), "{refused}");
}

#[tokio::test]
async fn self_signed_ca_certificate_is_trusted() {
    let own = Certificate::for_ca(NAME);
    let server = PrivatePostgres::start().await;
    server.enable_tls(&own).await;
    let parameters = format!("sslmode=verify-full&sslrootcert={}", own.ca_file());
    let (url, named) = by_name(&server, &parameters);
    assert_eq!(session(&url, &named).await, Ok(Some("TLSv1.3".to_owned())));
    assert!(session(&server.url(), &parameters).await.unwrap_err().contains("subjectAltName"));
}

#[tokio::test]
async fn server_without_tls_is_rejected_if_tls_is_required() {
    let database = TestDatabase::create_empty().await;
    for mode in ["require", "verify-full"] {
        let refused = session(database.url(), &format!("sslmode={mode}")).await.unwrap_err();
        assert!(refused.contains("server does not support TLS") && refused.contains("ssl = on"), "{refused}");
    }
    assert_eq!(session(database.url(), "sslmode=prefer").await, Ok(None));
}
