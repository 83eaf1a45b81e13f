//! A benchmark server in its own process, so that its usage is counted separately.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::usage::Watched;

/// A running server, killed on drop.
pub struct Server {
    child: Child,
    name: &'static str,
    pub addr: SocketAddr,
}

impl Server {
    /// Starts this program with other arguments and waits for the address that it prints.
    pub async fn start(name: &'static str, args: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(args).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("the child has no standard output")?).read_line(&mut line).await?;
        let addr = line.trim().parse().with_context(|| format!("the {name} did not print an address"))?;
        Ok(Self { child, name, addr })
    }

    pub fn watched(&self) -> Vec<Watched> {
        self.child.id().map(|pid| Watched::process(self.name, pid)).into_iter().collect()
    }
}
