//! A mailbox for one test, in the test's process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::shutdown::Shutdown;
use local_servers::MailboxConfig;
use local_servers::mailbox::serve;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::{eventually, must};

/// An SMTP server on a free loopback port, and the directory that it fills; both are removed with this value.
#[derive(Debug)]
pub struct TestMailbox {
    address: SocketAddr,
    dir: TempDir,
    shutdown: Shutdown,
}

/// A mail in the mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    pub path: PathBuf,
    /// The whole file.
    pub raw: Vec<u8>,
}

impl TestMailbox {
    /// Starts a server that accepts mail from anyone.
    pub async fn start() -> Self {
        Self::start_with(|config| config).await
    }

    /// Starts a server that accepts mail only after a login.
    pub async fn start_with_auth(user: &str, password: &str) -> Self {
        Self::start_with(|config| config.with_auth(user, password)).await
    }

    pub async fn start_with(adjust: impl FnOnce(MailboxConfig) -> MailboxConfig) -> Self {
        let dir = must("a directory for a mailbox", TempDir::new());
        let listener = must("a port for a mailbox", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await);
        let address = must("a port for a mailbox", listener.local_addr());
        let (config, shutdown) = (adjust(MailboxConfig::new(dir.path())), Shutdown::new());
        tokio::spawn(serve(listener, config, shutdown.clone()));
        Self { address, dir, shutdown }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns all mails, oldest first.
    pub fn mails(&self) -> Vec<Mail> {
        let entries = must("reading a mailbox", std::fs::read_dir(self.dir()));
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "eml")).collect();
        paths.sort();
        paths.into_iter().map(|path| Mail { raw: must("reading a mail", std::fs::read(&path)), path }).collect()
    }

    /// Waits until there are at least `n` mails and returns all; panics with their number at the timeout.
    pub async fn wait_for(&self, n: usize, timeout: Duration) -> Vec<Mail> {
        let probe = async || {
            let mails = self.mails();
            if mails.len() >= n { Ok(mails) } else { Err(format!("{} of {n} mails", mails.len())) }
        };
        eventually(timeout, probe).await
    }

    /// Stops accepting mail; the mails are kept.
    pub fn stop(&self) {
        self.shutdown.cancel();
    }
}

impl Drop for TestMailbox {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Mail {
    /// Returns the file as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }

    /// Returns the recipients of the envelope.
    pub fn delivered_to(&self) -> Vec<String> {
        self.headers("Delivered-To")
    }

    /// Returns the first header of this name, unfolded but not decoded.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers(name).into_iter().next()
    }

    /// Returns everything after the first empty line, not decoded.
    pub fn body(&self) -> String {
        self.text().split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    fn headers(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let head = text.split("\r\n\r\n").next().unwrap_or_default().replace("\r\n ", " ").replace("\r\n\t", " ");
        let fields = head.split("\r\n").filter_map(|line| line.split_once(':'));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_unfolded_and_names_are_case_insensitive() {
        let raw =
            b"Return-Path: <a@b>\r\nDelivered-To: c@d\r\nDelivered-To: e@f\r\nsubject: one\r\n two\r\n\r\nbody: x\r\n";
        let mail = Mail { path: PathBuf::new(), raw: raw.to_vec() };
        assert_eq!(mail.delivered_to(), ["c@d", "e@f"]);
        assert_eq!(mail.header("Subject").as_deref(), Some("one two"));
        assert_eq!((mail.header("body"), mail.body().as_str()), (None, "body: x\r\n"));
    }
}
