//! Connects to PostgreSQL as `DATABASE_URL` says. Every connection of a program is made here.
//!
//! `sslmode` and `sslrootcert` mean what they mean to libpq. The client library supports neither the verifying modes
//! nor the file, so both are read here.
//!
//! Only a server that accepts writes is used. A session with a read-only server is not opened. When a server becomes
//! read-only, its session ends, and the caller looks for the primary among the URL's hosts again.

mod hosts;
mod parameters;
mod security;
mod verifier;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use self::hosts::Hosts;
use self::parameters::Parameters;
use self::security::Security;
use crate::migrations::known_version;
use kernel::cause;
use kernel::env::EnvError;
use tls::TlsFault;

pub use self::hosts::is_read_only;

/// Connect timeout for one host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const URL_FORMAT: &str = "a URL such as postgres://user:password@host:5432/database?sslmode=verify-full";
/// The setting that names the CA of PostgreSQL's certificate, for error messages.
const CA_SETTING: &str = "sslrootcert in DATABASE_URL";

/// Opens connections to one database.
#[derive(Clone)]
pub struct Connector {
    config: Config,
    hosts: Hosts,
    tls: MakeRustlsConnect,
}

impl Connector {
    /// Parses a `DATABASE_URL`. `program` is part of the application name that the server lists.
    ///
    /// Reads the file that `sslrootcert` names. No error repeats the URL, which may contain a password.
    pub fn parse(url: &str, program: &str) -> Result<Self, EnvError> {
        let Parameters { rest, mode, root, unknown } = Parameters::split(url);
        if let Some(name) = unknown {
            let problem = format!("the parameter {name:?} is not supported");
            return Err(url_error(problem, "the TLS parameters sslmode, sslrootcert and sslnegotiation"));
        }
        // In libpq's other form, `host=… user=…`, the parameters are left to the client library.
        let choose = || Security::choose(mode.as_deref(), root.as_deref());
        let security = parameters::is_url(url).then(choose).transpose()?;
        let mut config: Config =
            rest.parse().map_err(|e| url_error(format!("is not a valid PostgreSQL URL: {e}"), URL_FORMAT))?;
        if let Some(security) = &security {
            config.ssl_mode(security.mode());
        }
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            let problem = "target_session_attrs=read-only selects servers that do not accept writes".to_owned();
            return Err(url_error(problem, "target_session_attrs=read-write, which always applies"));
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        // The version is for migrators, which check the programs that are connected.
        config.application_name(format!("rekindle-{program}/{}", known_version()));
        config.connect_timeout(CONNECT_TIMEOUT);
        config.keepalives_idle(Duration::from_secs(30));
        // Detects a server that vanished without closing the connection (Linux).
        config.tcp_user_timeout(Duration::from_secs(15));
        let tls = security.unwrap_or_default().client(config.get_ssl_negotiation())?;
        Ok(Self { hosts: Hosts::from_config(&config), config, tls: MakeRustlsConnect::new(tls) })
    }

    /// Returns the client library's configuration.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Opens a session with the host that accepts writes. The task ends with its client. If all hosts fail, returns the
    /// most informative error.
    pub async fn connect(&self) -> Result<(Client, JoinHandle<()>), Error> {
        self.hosts.connect(|config| self.connect_to(config)).await
    }

    async fn connect_to(&self, config: Config) -> Result<(Client, JoinHandle<()>), Error> {
        match Box::pin(attempt(&config, self.tls.clone())).await {
            // As in libpq: `prefer` falls back to a connection without TLS, whatever made the handshake fail.
            Err(error) if config.get_ssl_mode() == SslMode::Prefer && tls_fault(&error).is_some() => {
                let mut plain = config;
                plain.ssl_mode(SslMode::Disable);
                Box::pin(attempt(&plain, self.tls.clone())).await
            }
            result => result,
        }
    }
}

async fn attempt(config: &Config, tls: MakeRustlsConnect) -> Result<(Client, JoinHandle<()>), Error> {
    let (client, connection) = config.connect(tls).await?;
    let running = tokio::spawn(async move {
        if let Err(error) = serve(connection).await {
            tracing::warn!("connection to PostgreSQL failed: {}", cause::root_message(&error));
        }
    });
    Ok((client, running))
}

/// Runs a session until its client is dropped or its server becomes read-only. The client then finds the connection
/// closed.
async fn serve<S: TlsStream + Unpin>(mut connection: Connection<Socket, S>) -> Result<(), Error> {
    loop {
        let next = poll_fn(|context| {
            let next = connection.poll_message(context);
            // The server reports this parameter with its next answer. A primary becomes a standby only by a restart.
            if connection.parameter("default_transaction_read_only") == Some("on") {
                tracing::warn!("PostgreSQL became read-only; closing the connection");
                return Poll::Ready(None);
            }
            next
        });
        match next.await.transpose()? {
            Some(AsyncMessage::Notice(notice)) => tracing::debug!("PostgreSQL: {}", notice.message()),
            Some(_) => {}
            None => return Ok(()),
        }
    }
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for Connector {
    fn connect(&self, _: &Config) -> Connecting<'_> {
        Box::pin(Self::connect(self))
    }
}

fn url_error(problem: String, allowed: &'static str) -> EnvError {
    EnvError { name: "DATABASE_URL".to_owned(), problem, allowed }
}

/// Returns why TLS failed, if that is why the connection failed.
pub fn tls_fault(error: &Error) -> Option<TlsFault> {
    // The library distinguishes its errors only by their messages.
    if error.to_string() != "error performing TLS handshake" {
        return None;
    }
    let not_offered = std::error::Error::source(error).is_some_and(|e| e.to_string() == "server does not support TLS");
    if not_offered {
        return Some(TlsFault::NotOffered);
    }
    Some(TlsFault::find(error).unwrap_or(TlsFault::Handshake))
}

/// Describes a TLS failure and its remedy.
pub fn describe_tls_error(error: &Error, fault: TlsFault) -> String {
    format!("TLS: {}; {}", cause::root_message(error), remedy(fault))
}

/// Returns the remedy if the server is PostgreSQL.
pub fn remedy(fault: TlsFault) -> String {
    let known = fault.remedy(CA_SETTING);
    match fault {
        TlsFault::NotOffered => format!("{known} (ssl = on), or sslmode=disable within a private network"),
        TlsFault::NameMismatch => format!("{known}, or sslmode=verify-ca"),
        _ => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> Result<SslMode, String> {
        let parsed = Connector::parse(url, "test").map_err(|e| e.to_string());
        parsed.map(|connector| connector.config.get_ssl_mode())
    }

    #[test]
    fn modes_match_libpq() {
        for (parameters, expected) in [
            ("", SslMode::Prefer),
            ("?sslmode=disable", SslMode::Disable),
            ("?sslmode=prefer", SslMode::Prefer),
            ("?sslmode=require&channel_binding=require", SslMode::Require),
            ("?connect_timeout=5&sslmode=verify-full", SslMode::Require),
            ("?sslrootcert=system", SslMode::Require),
        ] {
            assert_eq!(mode(&format!("postgresql://u:p@h/d{parameters}")), Ok(expected), "{parameters}");
        }
        assert_eq!(mode("host=h user=u sslmode=require"), Ok(SslMode::Require));
    }

    #[test]
    fn unsupported_parameter_is_named_without_the_password() {
        for (url, part) in [
            ("postgres://u:hunter2@h/d?sslmode=allow", "sslmode"),
            ("postgres://u:hunter2@h/d?sslmode=verify-ca", "sslrootcert"),
            ("postgres://u:hunter2@h/d?sslmode=require&sslrootcert=system", "verify-full"),
            ("postgres://u:hunter2@h/d?sslmode=verify-full&sslrootcert=%2Fnowhere%2Fca.pem", "/nowhere/ca.pem"),
            ("postgres://u:hunter2@h/d?sslcert=a.pem", "sslcert"),
            ("postgres://u:hunter2@h:port/d", "not a valid PostgreSQL URL"),
            ("postgres://u:hunter2@h,i/d?target_session_attrs=read-only", "read-write"),
            ("host=h password=hunter2 sslmode=verify-full", "postgres://"),
        ] {
            let error = mode(url).unwrap_err();
            assert!(error.starts_with("DATABASE_URL: ") && error.contains(part), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
