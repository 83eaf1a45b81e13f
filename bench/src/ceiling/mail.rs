//! A bare SMTP client: each session sends the same mail repeatedly, one command at a time.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// SMTP sessions, used round-robin.
pub struct BareMailer {
    sessions: Vec<Mutex<BufReader<TcpStream>>>,
    mail: Vec<u8>,
}

impl BareMailer {
    pub async fn connect(to: SocketAddr, sessions: usize, mail: Vec<u8>) -> Result<Self> {
        let mut all = Vec::new();
        for _ in 0..sessions {
            let stream = TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            let mut session = BufReader::new(stream);
            expect_reply(&mut session, b'2').await?;
            command(&mut session, b"EHLO bench\r\n", b'2').await?;
            all.push(Mutex::new(session));
        }
        Ok(Self { sessions: all, mail })
    }

    /// Sends one mail over session `nth` modulo the number of sessions.
    pub async fn send(&self, nth: u64) -> Result<()> {
        let session = &mut *self.sessions[nth as usize % self.sessions.len()].lock().await;
        command(session, b"MAIL FROM:<shop@example.com>\r\n", b'2').await?;
        command(session, b"RCPT TO:<ann@example.com>\r\n", b'2').await?;
        command(session, b"DATA\r\n", b'3').await?;
        command(session, &self.mail, b'2').await
    }
}

async fn command(session: &mut BufReader<TcpStream>, words: &[u8], expected: u8) -> Result<()> {
    session.get_mut().write_all(words).await?;
    expect_reply(session, expected).await
}

/// Reads a reply, which may span several lines.
async fn expect_reply(session: &mut BufReader<TcpStream>, expected: u8) -> Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        if session.read_line(&mut line).await? == 0 || !line.as_bytes().starts_with(&[expected]) {
            bail!("the mail server responded with {line:?}");
        }
        if line.as_bytes().get(3) != Some(&b'-') {
            return Ok(());
        }
    }
}
