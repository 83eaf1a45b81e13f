//! A mailbox for trying things out: an SMTP server on loopback that writes every mail into a directory.
//!
//! A mail is one file, `<unix-ms>-<n>-<random>.eml`, which sorts by time: the bytes as they came, under the
//! `Return-Path` and `Delivered-To` lines that a delivering server puts on top. It is on the disk before it is
//! acknowledged. For trying failures, a recipient's local part may end in a tag:
//!
//! - `+reject550` (any 5xx) or `+defer451` (any 4xx): the recipient is answered with that code.
//! - `+hang`: the recipient is never answered.
//! - `+unanswered`: the mail is taken, and the connection closed instead of an answer.

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

/// How the mailbox takes mail.
#[derive(Clone, Debug)]
pub struct MailboxConfig {
    /// Where the mails are put; created when it is not there.
    pub dir: PathBuf,
    /// User and password that a client must give (`AUTH PLAIN` or `LOGIN`); none: any login is taken, none is asked for.
    pub auth: Option<(String, String)>,
    /// Largest mail taken, in bytes.
    pub max_size: usize,
}

impl MailboxConfig {
    /// No login, and mails of up to 25 MiB.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), auth: None, max_size: 25 << 20 }
    }

    pub fn with_auth(self, user: &str, password: &str) -> Self {
        Self { auth: Some((user.into(), password.into())), ..self }
    }
}

/// Takes mail until `shutdown`, then lets the conversations under way end for up to a second.
pub async fn serve(listener: TcpListener, config: MailboxConfig, shutdown: Shutdown) -> std::io::Result<()> {
    let spool = spool::Spool::open(&config.dir)?;
    let shared = Arc::new((config, spool));
    let mut conversations = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    conversations.spawn(connection::converse(stream, Arc::clone(&shared), shutdown.clone()));
                }
                Err(error) => {
                    // Out of file descriptors, mostly: give the conversations under way time to end.
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = conversations.join_next() => {}
            () = shutdown.cancelled() => break,
        }
    }
    drop(listener);
    let ends = async { while conversations.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), ends).await;
    Ok(())
}
