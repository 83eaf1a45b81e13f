//! A mail server that takes whatever comes, and fails by a script that sees each mail whole. (The mailbox, which keeps to the
//! protocol to the letter, fails by its recipients' tags.)

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use kernel::shutdown::Shutdown;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};

use crate::accept::accept;
use crate::must;
use crate::provider_server::Fault;

/// Asked once a mail has begun: whether the connection ends before its final dot.
type HangsUp = dyn Fn() -> bool + Send + Sync;
type Script = dyn Fn(&str) -> Option<Fault> + Send + Sync;

/// Listens on loopback until it is dropped.
pub struct SmtpService {
    served: Arc<Served>,
    address: SocketAddr,
    shutdown: Shutdown,
}

struct Served {
    script: Box<Script>,
    hangs_up: Box<HangsUp>,
    taken: Mutex<Vec<String>>,
}

impl SmtpService {
    /// `script` says what goes wrong with a mail; `Flood` means nothing here, and `GoAway` is 421.
    pub async fn start(script: impl Fn(&str) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self::start_with(script, || false).await
    }

    /// As [`SmtpService::start`]; `hangs_up` is asked once a mail has begun whether the connection ends before its final dot.
    pub async fn start_with(
        script: impl Fn(&str) -> Option<Fault> + Send + Sync + 'static,
        hangs_up: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = must("a port for a mail server", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await);
        let address = must("a port for a mail server", listener.local_addr());
        let served =
            Arc::new(Served { script: Box::new(script), hangs_up: Box::new(hangs_up), taken: Mutex::default() });
        let shutdown = Shutdown::new();
        let serving = {
            let served = served.clone();
            move |stream| {
                let served = served.clone();
                async move {
                    // How a conversation ends is the test's business.
                    let _ = converse(BufStream::new(stream), &served).await;
                }
            }
        };
        tokio::spawn(accept(listener, shutdown.clone(), serving));
        Self { served, address, shutdown }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The mails that were taken, oldest first.
    pub fn mails(&self) -> Vec<String> {
        self.served.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for SmtpService {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Ends when either side has had enough.
async fn converse(mut stream: BufStream<TcpStream>, served: &Served) -> std::io::Result<()> {
    say(&mut stream, "220 localhost").await?;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        match line.get(..4).unwrap_or(&line).to_ascii_uppercase().as_str() {
            "EHLO" => say(&mut stream, "250-localhost\r\n250 8BITMIME").await?,
            "QUIT" => return say(&mut stream, "221 Bye").await,
            "DATA" => {
                say(&mut stream, "354 Go on").await?;
                if (served.hangs_up)() {
                    // Its first line has come.
                    line.clear();
                    stream.read_line(&mut line).await?;
                    return Ok(());
                }
                let mail = read_mail(&mut stream).await?;
                let Some(answer) = end_of_mail(&mut stream, served, mail).await? else { return Ok(()) };
                say(&mut stream, &answer).await?;
            }
            _ => say(&mut stream, "250 OK").await?,
        }
    }
}

async fn say(stream: &mut BufStream<TcpStream>, text: &str) -> std::io::Result<()> {
    stream.write_all(format!("{text}\r\n").as_bytes()).await?;
    stream.flush().await
}

async fn read_mail(stream: &mut BufStream<TcpStream>) -> std::io::Result<String> {
    let mut mail = Vec::new();
    while !mail.ends_with(b"\r\n.\r\n") {
        if stream.read_until(b'\n', &mut mail).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8_lossy(&mail).into_owned())
}

/// What is answered to a mail; none where the connection ends instead.
async fn end_of_mail(
    stream: &mut BufStream<TcpStream>,
    served: &Served,
    mail: String,
) -> std::io::Result<Option<String>> {
    let fault = (served.script)(&mail);
    match &fault {
        Some(Fault::Answer(reply)) => return Ok(Some(format!("{} {}", reply.status, reply.body))),
        Some(Fault::Lost) => return Ok(None),
        Some(Fault::GoAway) => return Ok(Some("421 4.3.2 Leaving".to_owned())),
        _ => {}
    }
    let number = {
        let mut taken = served.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.push(mail);
        taken.len()
    };
    match fault {
        Some(Fault::Reset) => return Ok(None),
        // Until the client gives up.
        Some(Fault::Hang) => {
            stream.read_u8().await?;
            return Ok(None);
        }
        Some(Fault::Slow(late)) => tokio::time::sleep(late).await,
        _ => {}
    }
    Ok(Some(format!("250 2.0.0 Ok: queued as {number}")))
}
