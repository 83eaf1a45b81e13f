//! NATS servers that read configuration files, as in a deployment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use local_servers::{Process, port};

use super::PrivateDir;
use crate::{eventually, must, servers};

/// Time limit for recovering streams and connecting to the other servers.
const START: Duration = Duration::from_mins(1);

/// A server on loopback, with its data in a directory of its own; killed with this value.
#[derive(Debug)]
pub struct ConfiguredNats {
    process: Process,
    config: PathBuf,
    env: Vec<(String, String)>,
    arguments: Vec<String>,
    ports: Ports,
    dir: PrivateDir,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    monitor: u16,
}

impl ConfiguredNats {
    /// Starts a server and waits until it is healthy. `env`: variables that the file reads, in addition to `NATS_STORE_DIR`.
    ///
    /// Panics with the end of the server's log if it does not start.
    pub async fn start(config: &Path, env: &[(&str, &str)]) -> Self {
        let server = Self::launch(config, env, Vec::new()).await;
        server.healthy().await;
        server
    }

    /// Starts `N` servers as one cluster; `route`: the user and password between them.
    pub async fn start_cluster<const N: usize>(config: &Path, env: &[(&str, &str)], route: (&str, &str)) -> [Self; N] {
        let address = |port: u16| format!("nats://{}:{}@127.0.0.1:{port}", route.0, route.1);
        let addresses: [String; N] = std::array::from_fn(|_| address(port::free()));
        let routes = addresses.join(",");
        let mut servers = Vec::with_capacity(N);
        for (n, own) in addresses.iter().enumerate() {
            let name = format!("nats-{n}");
            let own_env: Vec<(&str, &str)> = env.iter().copied().chain([("NATS_SERVER_NAME", name.as_str())]).collect();
            let arguments = ["--cluster", own, "--routes", &routes].map(str::to_owned).to_vec();
            servers.push(Self::launch(config, &own_env, arguments).await);
        }
        for server in &servers {
            server.healthy().await;
        }
        must("a cluster", <[Self; N]>::try_from(servers).map_err(|_| "an unexpected number of servers"))
    }

    async fn launch(config: &Path, env: &[(&str, &str)], arguments: Vec<String>) -> Self {
        let dir = PrivateDir::create("nats");
        let env: Vec<(String, String)> = env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let ports = Ports { client: port::free(), monitor: port::free() };
        let process = spawn(config, &env, &arguments, ports, &dir).await;
        Self { process, config: config.to_owned(), env, arguments, ports, dir }
    }

    pub fn url(&self, user: &str, password: &str) -> String {
        format!("nats://{user}:{password}@127.0.0.1:{}", self.ports.client)
    }

    /// Returns the monitoring URL, `http://127.0.0.1:port`: `/healthz`, `/varz`, `/jsz`.
    pub fn monitor_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.monitor)
    }

    /// Sends SIGKILL and waits until the server has ended.
    pub async fn kill(&self) {
        self.process.kill().await;
    }

    /// Restarts the server after [`ConfiguredNats::kill`], at the same address and with its data. Does not wait until it is healthy.
    pub async fn start_again(&mut self) {
        self.process = spawn(&self.config, &self.env, &self.arguments, self.ports, &self.dir).await;
    }

    /// Waits until the server and its streams are up to date.
    pub async fn healthy(&self) {
        eventually(START, async || {
            if is_healthy(&self.monitor_url()).await {
                return Ok(());
            }
            Err(self.log().lines().rev().take(5).collect::<Vec<_>>().join("\n"))
        })
        .await;
    }

    /// Returns the server's log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("server.log")).unwrap_or_default()
    }
}

async fn spawn(
    config: &Path,
    env: &[(String, String)],
    arguments: &[String],
    ports: Ports,
    dir: &PrivateDir,
) -> Process {
    let mut command = Command::new(&servers::tools().await.nats.path);
    command.arg("--config").arg(config).args(["--addr", "127.0.0.1"]);
    command.args(["--port", &ports.client.to_string(), "--http_port", &ports.monitor.to_string()]);
    command.args(arguments).current_dir(dir.path());
    command.env("NATS_STORE_DIR", format!("\"{}\"", dir.path().join("data").display()));
    command.envs(env.iter().map(|(name, value)| (name, value)));
    must("a configured NATS", Process::spawn(command, &dir.path().join("pid"), &dir.path().join("server.log")))
}

/// Whether the server and its streams are healthy and up to date, by its monitoring URL.
pub(super) async fn is_healthy(monitor_url: &str) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let request = async {
        let mut stream = tokio::net::TcpStream::connect(monitor_url.trim_start_matches("http://")).await.ok()?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.ok()?;
        Some(&head == b"HTTP/1.1 200")
    };
    tokio::time::timeout(Duration::from_secs(2), request).await.ok().flatten().unwrap_or(false)
}
