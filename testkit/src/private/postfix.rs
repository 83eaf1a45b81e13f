//! A private Postfix: a real mail server with mailboxes of its own, and nowhere to relay to.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use local_servers::{Process, install, port};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::PrivateDir;
use crate::certificate::Certificate;
use crate::{eventually, must, test_dir};

const PROGRAM: &str = "/usr/sbin/postfix";
const MASTER: &str = "/usr/lib/postfix/sbin/master";
/// Command of any other mail server on this machine, which installing Postfix would remove.
const OTHER_MAIL_SERVER: &str = "/usr/sbin/sendmail";
const DOMAIN: &str = "shop.example";
const SOON: Duration = Duration::from_secs(20);

/// Accepts mail for known users at `shop.example` and refuses all other mail. Defers the first mail to each user whose name begins with
/// `grey`. Offers STARTTLS with a certificate for `localhost`, and implicit TLS at a separate port. Stops when this value is dropped.
pub struct PrivatePostfix {
    port: u16,
    tls_port: u16,
    certificate: Certificate,
    greylist: JoinHandle<()>,
    dir: PrivateDir,
}

impl PrivatePostfix {
    /// Starts a server with mailboxes for these users. Panics with the reason on failure.
    pub async fn start(users: &[&str]) -> Self {
        ensure_installed().await;
        let dir = PrivateDir::in_temp_dir("postfix");
        let certificate = Certificate::for_name("localhost");
        let listener = must("a port for a greylist", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await);
        let policy = must("a port for a greylist", listener.local_addr());
        let greylist = tokio::spawn(greylist(listener));
        let (port, tls_port) = (port::free(), port::free());
        configure(dir.path(), [port, tls_port], policy, &certificate, users);
        let conf = dir.path().join("conf");
        run(Command::new(PROGRAM).arg("-c").arg(&conf).arg("check"));
        let mut master = Command::new(MASTER);
        master.arg("-c").arg(&conf).arg("-d");
        let started = Process::spawn(master, &dir.path().join("pid"), &dir.path().join("master.log"));
        let process = must("a private Postfix", started);
        let this = Self { port, tls_port, certificate, greylist, dir };
        eventually(SOON, async || match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
            Ok(_) => Ok(()),
            Err(error) => {
                assert!(process.is_running(), "Postfix exited during startup (it needs root):\n{}", this.log());
                Err(format!("{error}\n{}", this.log()))
            }
        })
        .await;
        this
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port with implicit TLS.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// Returns the value for `OUTBOUND_CA_FILE` that trusts this server.
    pub fn ca_file(&self) -> String {
        self.certificate.ca_file()
    }

    /// Returns the mails in a user's mailbox, in no particular order.
    pub fn mails(&self, user: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path().join("mail").join(user).join("new"));
        // The first mail creates the directory.
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        paths.map(|path| String::from_utf8_lossy(&must("reading a mail", std::fs::read(path))).into_owned()).collect()
    }

    /// Returns the server's log, and its output before the log existed.
    pub fn log(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        read("master.log") + &read("log")
    }
}

impl Drop for PrivatePostfix {
    fn drop(&mut self) {
        self.greylist.abort();
    }
}

/// Installs the programs if they are missing and installing is permitted.
async fn ensure_installed() {
    if Path::new(MASTER).exists() {
        return;
    }
    assert!(
        !Path::new(OTHER_MAIL_SERVER).exists(),
        "the tests need Postfix, but another mail server is installed, which they do not replace"
    );
    let _lock = test_dir::lock("install").await;
    if !Path::new(MASTER).exists() {
        let done = tokio::task::spawn_blocking(|| install::package("postfix", &|line| eprintln!("testkit: {line}")));
        must("Postfix", must("installing Postfix", done.await));
    }
}

fn configure(dir: &Path, [port, tls_port]: [u16; 2], policy: SocketAddr, certificate: &Certificate, users: &[&str]) {
    let [user, group] = ["-u", "-g"].map(|which| {
        let id = run(Command::new("id").args([which, "postfix"]));
        must("the user postfix", id.trim().parse::<u32>())
    });
    for name in ["conf", "queue", "data", "mail"] {
        must("a directory for Postfix", std::fs::create_dir(dir.join(name)));
    }
    for name in ["data", "mail"] {
        must("a directory for Postfix", std::os::unix::fs::chown(dir.join(name), Some(user), Some(group)));
    }
    let mailboxes: Vec<String> = users.iter().map(|name| format!("{name}@{DOMAIN}={name}/")).collect();
    let (mailboxes, at) = (mailboxes.join(" "), dir.display());
    let main = format!(
        "compatibility_level = 3.6
queue_directory = {at}/queue
data_directory = {at}/data
daemon_directory = /usr/lib/postfix/sbin
maillog_file = {at}/log
maillog_file_prefixes = {at}
myhostname = mail.{DOMAIN}
mydestination =
alias_maps =
virtual_mailbox_domains = {DOMAIN}
virtual_mailbox_base = {at}/mail
virtual_mailbox_maps = inline:{{{mailboxes}}}
virtual_uid_maps = static:{user}
virtual_gid_maps = static:{group}
virtual_minimum_uid = 1
smtpd_recipient_restrictions = reject_unauth_destination, reject_unlisted_recipient, check_policy_service inet:{policy}
smtpd_error_sleep_time = 0
smtpd_tls_security_level = may
smtpd_tls_received_header = yes
smtpd_tls_chain_files = {at}/conf/chain.pem
"
    );
    let services = format!(
        "127.0.0.1:{port} inet n - n - - smtpd
127.0.0.1:{tls_port} inet n - n - - smtpd -o smtpd_tls_wrappermode=yes
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
"
    );
    for (name, text) in [("main.cf", main.as_str()), ("master.cf", &services), ("chain.pem", certificate.chain())] {
        must("configuring Postfix", std::fs::write(dir.join("conf").join(name), text));
    }
}

/// Runs a command and returns its output; panics on failure.
fn run(command: &mut Command) -> String {
    let output = must("a command of Postfix", command.output());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Serves a greylist by Postfix's policy protocol: a request consists of lines `name=value` and ends with an empty line.
async fn greylist(listener: TcpListener) {
    let greylisted: Arc<Mutex<HashSet<String>>> = Arc::default();
    while let Ok((stream, _)) = listener.accept().await {
        let greylisted = greylisted.clone();
        // If a connection breaks, Postfix opens a new one.
        tokio::spawn(async move { serve_policy(BufStream::new(stream), &greylisted).await });
    }
}

async fn serve_policy(mut stream: BufStream<TcpStream>, greylisted: &Mutex<HashSet<String>>) -> std::io::Result<()> {
    let (mut line, mut recipient) = (String::new(), String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        if let Some(name) = line.strip_prefix("recipient=") {
            name.trim().clone_into(&mut recipient);
        }
        if line.trim().is_empty() {
            let first = recipient.starts_with("grey")
                && greylisted.lock().unwrap_or_else(PoisonError::into_inner).insert(recipient.clone());
            let action = if first { "451 4.7.1 Greylisted, come back later" } else { "DUNNO" };
            stream.write_all(format!("action={action}\n\n").as_bytes()).await?;
            stream.flush().await?;
        }
    }
}
