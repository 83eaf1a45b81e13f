//! `rekindle mailbox`: the local mailbox as its own process.

use anyhow::{Context, Result};
use local_servers::{MailboxConfig, mailbox};
use tokio::net::TcpListener;

use crate::args::MailboxArgs;

pub async fn run(args: &MailboxArgs) -> Result<()> {
    let shutdown = kernel::shutdown::on_signal()?;
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    tracing::info!(address = %args.listen, dir = %args.mail_dir.display(), "accepting mail");
    mailbox::serve(listener, MailboxConfig::new(&args.mail_dir), shutdown).await.context("the mailbox failed")
}
