//! Reaching PostgreSQL as `DATABASE_URL` says: the one place where a program connects to it.
//!
//! `sslmode` and `sslrootcert` mean what they mean to libpq. The client library itself knows neither the modes that verify
//! nor the file, so that both are read here.
//!
//! Only a server that takes writes is of any use. A session with one that does not is not begun, and one whose server ceases to ends,
//! so that whoever needs it looks for the primary anew among the hosts of the address.

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

pub use self::hosts::takes_no_writes;

/// How long one address may take to accept.
const CONNECT: Duration = Duration::from_secs(2);
const ALLOWED: &str = "an address such as postgres://user:password@host:5432/database?sslmode=verify-full";
/// How an operator names the authority of PostgreSQL's certificate.
const TRUST: &str = "sslrootcert in DATABASE_URL";

/// Makes connections to one database.
#[derive(Clone)]
pub struct Connector {
    config: Config,
    hosts: Hosts,
    tls: MakeRustlsConnect,
}

impl Connector {
    /// `url` as `DATABASE_URL` has it; `program` is how the server lists the sessions. Reads the file that `sslrootcert`
    /// names. No error repeats the address, which may hold a password.
    pub fn parse(url: &str, program: &str) -> Result<Self, EnvError> {
        let Parameters { rest, mode, root, unknown } = Parameters::split(url);
        if let Some(name) = unknown {
            let problem = format!("the parameter {name:?} is not supported");
            return Err(refusal(problem, "sslmode, sslrootcert and sslnegotiation of the parameters of TLS"));
        }
        // An address in libpq's other form, `host=… user=…`, keeps what the library reads of it.
        let choose = || Security::choose(mode.as_deref(), root.as_deref());
        let security = parameters::is_url(url).then(choose).transpose()?;
        let mut config: Config = rest.parse().map_err(|e| refusal(format!("is no Postgres address: {e}"), ALLOWED))?;
        if let Some(security) = &security {
            config.ssl_mode(security.mode());
        }
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            let problem = "target_session_attrs=read-only names servers that take no writes".to_owned();
            return Err(refusal(problem, "target_session_attrs=read-write, which is meant in any case"));
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        // The version is for a migrator, which asks who works with the database.
        config.application_name(format!("rekindle-{program}/{}", known_version()));
        config.connect_timeout(CONNECT);
        config.keepalives_idle(Duration::from_secs(30));
        // A server that vanished without a word must be noticed (Linux).
        config.tcp_user_timeout(Duration::from_secs(15));
        let tls = security.unwrap_or_default().client(config.get_ssl_negotiation())?;
        Ok(Self { hosts: Hosts::of(&config), config, tls: MakeRustlsConnect::new(tls) })
    }

    /// What the client library was told.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// A session with the host that takes writes; it ends with its client, and the task with it. Of several errors the most telling.
    pub async fn connect(&self) -> Result<(Client, JoinHandle<()>), Error> {
        self.hosts.first(|config| self.connect_to(config)).await
    }

    async fn connect_to(&self, config: Config) -> Result<(Client, JoinHandle<()>), Error> {
        match Box::pin(attempt(&config, self.tls.clone())).await {
            // As with libpq: whoever only prefers TLS goes on without it, whatever keeps it from being agreed upon.
            Err(error) if config.get_ssl_mode() == SslMode::Prefer && tls_fault(&error).is_some() => {
                let mut plain = config;
                plain.ssl_mode(SslMode::Disable);
                Box::pin(attempt(&plain, self.tls.clone())).await
            }
            tried => tried,
        }
    }
}

async fn attempt(config: &Config, tls: MakeRustlsConnect) -> Result<(Client, JoinHandle<()>), Error> {
    let (client, connection) = config.connect(tls).await?;
    let running = tokio::spawn(async move {
        if let Err(error) = serve(connection).await {
            tracing::warn!("a connection to PostgreSQL ended: {}", cause::words(&error));
        }
    });
    Ok((client, running))
}

/// Runs a session until its client is gone, or its server takes no writes any more: to its client it is closed then.
async fn serve<S: TlsStream + Unpin>(mut connection: Connection<Socket, S>) -> Result<(), Error> {
    loop {
        let next = poll_fn(|context| {
            let next = connection.poll_message(context);
            // The server tells of this one by itself, with its next answer. Nobody becomes a standby without a new start.
            if connection.parameter("default_transaction_read_only") == Some("on") {
                tracing::warn!("PostgreSQL takes no writes any more; the connection to it is closed");
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

fn refusal(problem: String, allowed: &'static str) -> EnvError {
    EnvError { name: "DATABASE_URL".to_owned(), problem, allowed }
}

/// Why no TLS was agreed upon, where a connection failed for that.
pub fn tls_fault(error: &Error) -> Option<TlsFault> {
    // The library tells the kind of an error by its words only.
    if error.to_string() != "error performing TLS handshake" {
        return None;
    }
    let not_offered = std::error::Error::source(error).is_some_and(|e| e.to_string() == "server does not support TLS");
    if not_offered {
        return Some(TlsFault::NotOffered);
    }
    Some(TlsFault::find(error).unwrap_or(TlsFault::Handshake))
}

/// What went wrong with TLS, and what to do about it.
pub fn tls_words(error: &Error, fault: TlsFault) -> String {
    format!("TLS: {}; {}", cause::words(error), remedy(fault))
}

/// What to do about it where the server is PostgreSQL.
pub fn remedy(fault: TlsFault) -> String {
    let known = fault.remedy(TRUST);
    match fault {
        TlsFault::NotOffered => format!("{known} (ssl = on), or sslmode=disable within a network of your own"),
        TlsFault::OtherName => format!("{known}, or sslmode=verify-ca"),
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
    fn the_modes_are_those_of_libpq() {
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
    fn what_cannot_be_is_refused_by_name_without_the_password() {
        for (url, part) in [
            ("postgres://u:hunter2@h/d?sslmode=allow", "sslmode"),
            ("postgres://u:hunter2@h/d?sslmode=verify-ca", "sslrootcert"),
            ("postgres://u:hunter2@h/d?sslmode=require&sslrootcert=system", "verify-full"),
            ("postgres://u:hunter2@h/d?sslmode=verify-full&sslrootcert=%2Fnowhere%2Fca.pem", "/nowhere/ca.pem"),
            ("postgres://u:hunter2@h/d?sslcert=a.pem", "sslcert"),
            ("postgres://u:hunter2@h:port/d", "no Postgres address"),
            ("postgres://u:hunter2@h,i/d?target_session_attrs=read-only", "read-write"),
            ("host=h password=hunter2 sslmode=verify-full", "postgres://"),
        ] {
            let error = mode(url).unwrap_err();
            assert!(error.starts_with("DATABASE_URL: ") && error.contains(part), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
