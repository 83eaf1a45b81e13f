//! One program of the product, as a process that the test controls.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use local_servers::port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Time limit from the start to a successful `/readyz`, on a busy machine.
const READY: Duration = Duration::from_secs(30);
/// Time limit from SIGTERM to the end: slightly longer than the programs' own.
const STOP: Duration = Duration::from_secs(30);

/// Environment variables that override the inherited ones.
pub type Env = BTreeMap<String, String>;

/// A program, running or not. Killed on drop.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    path: PathBuf,
    env: Env,
    admin: SocketAddr,
    log: PathBuf,
    child: Option<Child>,
}

impl Program {
    /// Creates a program that is not started. Its log will be `<dir>/<name>.log`.
    ///
    /// Panics if it was not built.
    pub fn new(name: &'static str, dir: &Path, mut env: Env) -> Self {
        let path = program_dir().join(name);
        assert!(
            path.is_file(),
            "{} is missing: end-to-end tests need the programs; run `cargo build --workspace --bins` first \
             (`make test` does)",
            path.display()
        );
        let admin = unused_address();
        env.insert("ADMIN_ADDR".into(), admin.to_string());
        Self { name, path, env, admin, log: dir.join(format!("{name}.log")), child: None }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Sets a variable for all later starts.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.env.insert(name.into(), value.into());
    }

    /// Starts it, without waiting until it is ready.
    pub fn launch(&mut self) {
        self.launch_with(&[]);
    }

    /// Starts it with additional variables.
    pub fn launch_with(&mut self, more: &[(&str, &str)]) {
        assert!(self.child.is_none(), "{} is already running", self.name);
        let open = std::fs::OpenOptions::new().create(true).append(true).open(&self.log);
        let log = open.expect("a log file");
        let errors = log.try_clone().expect("a log file");
        let mut command = Command::new(&self.path);
        command.envs(&self.env).envs(more.iter().copied()).stdin(Stdio::null()).stdout(log).stderr(errors);
        // In the test's own process group, so that ending a hanging test ends the programs too.
        let child = command.kill_on_drop(true).spawn();
        self.child = Some(child.unwrap_or_else(|error| panic!("cannot start {}: {error}", self.path.display())));
    }

    /// Starts it and waits until it is ready.
    pub async fn start(&mut self) {
        self.launch();
        self.wait_until_ready().await;
    }

    /// Waits until it is ready; panics if it ends instead.
    pub async fn wait_until_ready(&mut self) {
        let deadline = tokio::time::Instant::now() + READY;
        loop {
            let ready = is_ready(self.admin).await;
            if let Some(status) = self.try_exit_status() {
                panic!("{} exited during startup ({status}); the end of its log:\n{}", self.name, self.log_tail());
            }
            if ready {
                return;
            }
            let late = tokio::time::Instant::now() >= deadline;
            assert!(!late, "{} is not ready; the end of its log:\n{}", self.name, self.log_tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether it reports that it is ready.
    pub async fn is_ready(&self) -> bool {
        is_ready(self.admin).await
    }

    /// Returns its exit status if it has ended.
    pub fn try_exit_status(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().expect("the state of a child")
    }

    /// Waits for it to end.
    pub async fn wait_for_exit(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap_or_else(|| panic!("{} is not running", self.name));
        child.wait().await.expect("the end of a child")
    }

    /// Sends SIGKILL and waits until it has ended.
    pub async fn kill(&mut self) {
        let child = self.child.as_mut().unwrap_or_else(|| panic!("{} is not running", self.name));
        // It may have ended already.
        let _ = child.start_kill();
        self.wait_for_exit().await;
    }

    /// Kills it, restarts it after a while, and waits until it is ready.
    pub async fn restart(&mut self, down: Duration) {
        self.kill().await;
        tokio::time::sleep(down).await;
        self.start().await;
    }

    /// Sends SIGSTOP: it keeps its connections and does nothing.
    pub async fn suspend(&self) {
        self.signal("STOP").await;
    }

    /// Sends SIGCONT.
    pub async fn resume(&self) {
        self.signal("CONT").await;
    }

    async fn signal(&self, signal: &str) {
        let id = self.child.as_ref().and_then(Child::id).unwrap_or_else(|| panic!("{} is not running", self.name));
        let result = Command::new("kill").args(["-s", signal, &id.to_string()]).status().await;
        assert!(result.is_ok_and(|status| status.success()), "cannot signal {}", self.name);
    }

    /// Sends SIGTERM and waits until it has drained; panics if it does not end by itself, or ends with an error.
    pub async fn stop(&mut self) {
        self.signal("TERM").await;
        let status = tokio::time::timeout(STOP, self.wait_for_exit()).await;
        let status = status.unwrap_or_else(|_| panic!("{} did not stop in time:\n{}", self.name, self.log_tail()));
        assert!(status.success(), "{} stopped with {status}:\n{}", self.name, self.log_tail());
    }

    /// Sends SIGTERM and returns the exit status; `None` if it has not ended within this time.
    pub async fn terminate(&mut self, within: Duration) -> Option<ExitStatus> {
        self.signal("TERM").await;
        let child = self.child.as_mut()?;
        let status = tokio::time::timeout(within, child.wait()).await.ok()?.expect("the end of a child");
        self.child = None;
        Some(status)
    }

    /// Returns the response of `/metrics`.
    pub async fn metrics(&self) -> String {
        self.probe("/metrics").await.1
    }

    /// Returns the response at a path of its probe port: status and text. Panics if there is no response.
    pub async fn probe(&self, path: &str) -> (u16, String) {
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client");
        let answer = http.get(format!("http://{}{path}", self.admin)).send().await;
        let answer = answer.unwrap_or_else(|error| panic!("no response for {path} from {}: {error:?}", self.name));
        let status = answer.status().as_u16();
        let text =
            answer.text().await.unwrap_or_else(|error| panic!("no response for {path} from {}: {error:?}", self.name));
        (status, text)
    }

    pub fn log_tail(&self) -> String {
        const LINES: usize = 40;
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

async fn is_ready(admin: SocketAddr) -> bool {
    let request = async {
        let mut stream = TcpStream::connect(admin).await.ok()?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.ok()?;
        Some(&head == b"HTTP/1.1 200")
    };
    tokio::time::timeout(Duration::from_secs(3), request).await.ok().flatten().unwrap_or(false)
}

/// Returns an address that no other process uses, or takes while its owner restarts. On Linux, a random one of the 16 million loopback
/// addresses; elsewhere there is only one, with a port that is free now.
pub(crate) fn unused_address() -> SocketAddr {
    let [a, b, c]: [u8; 3] = rand::random();
    let own = Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254));
    let usable = std::net::TcpListener::bind((own, 0)).is_ok();
    SocketAddr::from((if usable { own } else { Ipv4Addr::LOCALHOST }, port::free()))
}

/// Returns `target/<profile>`; the test's own executable is in its `deps`.
fn program_dir() -> PathBuf {
    let own = std::env::current_exe().expect("the path of this test");
    let dir = own.parent().expect("the directory of this test");
    if dir.ends_with("deps") { dir.join("..") } else { dir.to_owned() }
}
