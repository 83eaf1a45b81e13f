//! A mail server that accepts any mail, and fails by a script that gets each complete mail. (The mailbox follows the protocol strictly,
//! and fails by tags in recipient addresses.)

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use kernel::shutdown::Shutdown;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};

use crate::accept::accept;
use crate::must;
use crate::provider_server::Fault;

/// Called at the start of a mail; returns whether the connection ends before the final dot.
type ClosesEarly = dyn Fn() -> bool + Send + Sync;
type Script = dyn Fn(&str) -> Option<Fault> + Send + Sync;

/// Listens on loopback until dropped.
pub struct SmtpService {
    served: Arc<Served>,
    address: SocketAddr,
    shutdown: Shutdown,
}

struct Served {
    script: Box<Script>,
    closes_early: Box<ClosesEarly>,
    accepted: Mutex<Vec<String>>,
}

impl SmtpService {
    /// Starts a server. `script` returns a mail's fault; `Flood` has no effect, and `GoAway` responds with 421.
    pub async fn start(script: impl Fn(&str) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self::start_with(script, || false).await
    }

    /// Like [`SmtpService::start`]; `closes_early` is called at the start of each mail and returns whether the connection ends before the
    /// final dot.
    pub async fn start_with(
        script: impl Fn(&str) -> Option<Fault> + Send + Sync + 'static,
        closes_early: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = must("a port for a mail server", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await);
        let address = must("a port for a mail server", listener.local_addr());
        let served = Arc::new(Served {
            script: Box::new(script),
            closes_early: Box::new(closes_early),
            accepted: Mutex::default(),
        });
        let shutdown = Shutdown::new();
        let serving = {
            let served = served.clone();
            move |stream| {
                let served = served.clone();
                async move {
                    // Errors are ignored: the test checks the outcome.
                    let _ = serve_connection(BufStream::new(stream), &served).await;
                }
            }
        };
        tokio::spawn(accept(listener, shutdown.clone(), serving));
        Self { served, address, shutdown }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the accepted mails, oldest first.
    pub fn mails(&self) -> Vec<String> {
        self.served.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for SmtpService {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Serves a connection until either side closes it.
async fn serve_connection(mut stream: BufStream<TcpStream>, served: &Served) -> std::io::Result<()> {
    write_line(&mut stream, "220 localhost").await?;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        match line.get(..4).unwrap_or(&line).to_ascii_uppercase().as_str() {
            "EHLO" => write_line(&mut stream, "250-localhost\r\n250 8BITMIME").await?,
            "QUIT" => return write_line(&mut stream, "221 Bye").await,
            "DATA" => {
                write_line(&mut stream, "354 Go on").await?;
                if (served.closes_early)() {
                    // The first line of the mail has arrived.
                    line.clear();
                    stream.read_line(&mut line).await?;
                    return Ok(());
                }
                let mail = read_mail(&mut stream).await?;
                let Some(answer) = end_of_mail(&mut stream, served, mail).await? else { return Ok(()) };
                write_line(&mut stream, &answer).await?;
            }
            _ => write_line(&mut stream, "250 OK").await?,
        }
    }
}

async fn write_line(stream: &mut BufStream<TcpStream>, text: &str) -> std::io::Result<()> {
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

/// Returns the response to a mail; `None` if the connection ends instead.
async fn end_of_mail(
    stream: &mut BufStream<TcpStream>,
    served: &Served,
    mail: String,
) -> std::io::Result<Option<String>> {
    let fault = (served.script)(&mail);
    match &fault {
        Some(Fault::Respond(reply)) => return Ok(Some(format!("{} {}", reply.status, reply.body))),
        Some(Fault::Lost) => return Ok(None),
        Some(Fault::GoAway) => return Ok(Some("421 4.3.2 Leaving".to_owned())),
        _ => {}
    }
    let number = {
        let mut accepted = served.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.push(mail);
        accepted.len()
    };
    match fault {
        Some(Fault::Reset) => return Ok(None),
        // Until the client times out.
        Some(Fault::Hang) => {
            stream.read_u8().await?;
            return Ok(None);
        }
        Some(Fault::Slow(late)) => tokio::time::sleep(late).await,
        _ => {}
    }
    Ok(Some(format!("250 2.0.0 Ok: queued as {number}")))
}
