//! A mailbox for development: an SMTP server on loopback that writes every email to a directory.
//!
//! An email is one file, `<unix-ms>-<n>-<random>.eml`, which sorts by time: the bytes as received, after the
//! `Return-Path` and `Delivered-To` lines that a delivering server adds. It is synced to disk before it is
//! acknowledged. To test failures, a recipient's local part may end in a tag:
//!
//! - `+reject550` (any 5xx) or `+defer451` (any 4xx): the recipient gets that reply code.
//! - `+hang`: the recipient gets no reply.
//! - `+unanswered`: the email is accepted, and the connection is closed without a reply.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use kernel::shutdown::Shutdown;

mod address;
mod connection;
mod data;
mod session;
mod spool;

/// Configuration of the mailbox.
#[derive(Clone, Debug)]
pub struct MailboxConfig {
    /// The directory of the emails; created if missing.
    pub dir: PathBuf,
    /// User and password that a client must send (`AUTH PLAIN` or `LOGIN`). `None`: no login is required, and any is
    /// accepted.
    pub auth: Option<(String, String)>,
    /// Maximum size of an email, in bytes.
    pub max_size: usize,
}

impl MailboxConfig {
    /// Returns a configuration without login, for emails of up to 25 MiB.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), auth: None, max_size: 25 << 20 }
    }

    pub fn with_auth(self, user: &str, password: &str) -> Self {
        Self { auth: Some((user.into(), password.into())), ..self }
    }
}

/// Accepts email until `shutdown`, then waits up to a second for open connections.
pub async fn serve(listener: TcpListener, config: MailboxConfig, shutdown: Shutdown) -> std::io::Result<()> {
    let spool = spool::Spool::open(&config.dir)?;
    let shared = Arc::new((config, spool));
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    sessions.spawn(connection::serve_connection(stream, Arc::clone(&shared), shutdown.clone()));
                }
                Err(error) => {
                    // Usually out of file descriptors: wait for open connections to end.
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = sessions.join_next() => {}
            () = shutdown.cancelled() => break,
        }
    }
    drop(listener);
    let ends = async { while sessions.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), ends).await;
    Ok(())
}
