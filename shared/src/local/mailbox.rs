//! A mailbox for trying things out: an SMTP server on loopback that writes every mail into a directory.

use std::path::PathBuf;

use tokio::net::TcpListener;

use crate::shutdown::Shutdown;

/// How the mailbox takes mail.
#[derive(Clone, Debug)]
pub struct MailboxConfig {
    /// Where the mails are put; created when it is not there.
    pub dir: PathBuf,
    /// User and password that a client must give (`AUTH PLAIN` or `LOGIN`); none: no login is asked for.
    pub auth: Option<(String, String)>,
    /// Largest mail taken, in bytes.
    pub max_size: usize,
}

impl MailboxConfig {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), auth: None, max_size: 25 << 20 }
    }

    pub fn with_auth(self, user: &str, password: &str) -> Self {
        Self { auth: Some((user.into(), password.into())), ..self }
    }
}

/// Takes mail until `shutdown`, then lets the conversations under way end for up to a second.
pub async fn serve(listener: TcpListener, config: MailboxConfig, shutdown: Shutdown) -> std::io::Result<()> {
    let _ = (listener, config, shutdown);
    todo!()
}
