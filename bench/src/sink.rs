//! Sinks: providers on loopback that accept every message and store none, each in its own process.

mod http;
mod smtp;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tokio::net::TcpListener;

use crate::child::Server;

pub use http::{arrivals, now_us};

/// Name of a sink in reports.
pub const NAME: &str = "sink";

/// What a sink speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// HTTP/1.1 and HTTP/2, without TLS.
    Http,
    /// The same over TLS.
    Https,
    Smtp,
}

#[derive(Clone, Debug, Args)]
pub struct SinkArgs {
    /// Protocol of the sink.
    #[arg(long, value_enum)]
    kind: Kind,
    /// File to which the sink writes the certificate that callers must trust.
    #[arg(long)]
    certificate: Option<PathBuf>,
}

/// Serves until the process is killed. Prints the listening address.
pub async fn serve(args: &SinkArgs) -> Result<()> {
    let tls = match (args.kind, &args.certificate) {
        (Kind::Https, path) => Some(http::tls(path.as_deref().context("--certificate is missing")?)?),
        _ => None,
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?);
    match args.kind {
        Kind::Http | Kind::Https => http::serve(listener, tls).await,
        Kind::Smtp => smtp::serve(listener).await,
    }
}

/// Starts a sink. With TLS, it writes its certificate to `certificate`.
pub async fn start(kind: Kind, certificate: Option<&Path>) -> Result<Server> {
    let value = kind.to_possible_value().context("a kind has a name")?;
    let mut args = vec!["sink", "--kind", value.get_name()];
    if let Some(path) = certificate {
        args.extend(["--certificate", path.to_str().context("the path is not valid UTF-8")?]);
    }
    Server::start(NAME, &args).await
}
