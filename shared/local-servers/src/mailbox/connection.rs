//! An SMTP session over a client's socket.

use std::io::Result;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::MailboxConfig;
use super::data::Decoder;
use super::session::{Action, Session};
use super::spool::Spool;
use kernel::shutdown::Shutdown;

/// Maximum length of a command line, in bytes; a login response may be this long.
const MAX_LINE: usize = 12_288;
/// Timeout of an idle client.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

pub(super) async fn serve_connection(stream: TcpStream, shared: Arc<(MailboxConfig, Spool)>, shutdown: Shutdown) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    tokio::select! {
        ended = run_session(&mut stream, &shared, &shutdown) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a client disconnected during its session");
            }
        }
        () = shutdown_grace_over(&shutdown) => {}
    }
}

async fn run_session(
    stream: &mut BufReader<TcpStream>,
    shared: &Arc<(MailboxConfig, Spool)>,
    shutdown: &Shutdown,
) -> Result<()> {
    let config = &shared.0;
    let mut session = Session::new(config);
    let mut replies = String::from("220 localhost ESMTP mailbox\r\n");
    loop {
        // Replies to pipelined commands are sent together.
        if !stream.buffer().contains(&b'\n') {
            send(stream, &mut replies).await?;
        }
        let line = tokio::select! {
            line = tokio::time::timeout(IDLE_TIMEOUT, read_line(stream)) => line,
            () = shutdown.cancelled() => return send(stream, &mut "421 4.3.2 Closing\r\n".to_owned()).await,
        };
        let action = match line {
            Err(_) => return send(stream, &mut "421 4.4.2 Idle for too long\r\n".to_owned()).await,
            Ok(None) => return Ok(()),
            Ok(Some(Err(LineTooLong))) => Action::Reply("500 5.5.2 Line too long\r\n".into()),
            Ok(Some(Ok(line))) => session.line(&line),
        };
        match action {
            Action::Reply(text) => replies.push_str(&text),
            Action::Quit => {
                replies.push_str("221 2.0.0 Bye\r\n");
                return send(stream, &mut replies).await;
            }
            Action::Hang => {
                send(stream, &mut replies).await?;
                return wait_for_disconnect(stream).await;
            }
            Action::Data => {
                replies.push_str("354 Send the email, then a line with a single dot\r\n");
                send(stream, &mut replies).await?;
                let Some(mail) = read_mail(stream, config.max_size).await? else { return Ok(()) };
                let envelope = session.take_envelope();
                let unanswered = envelope.unanswered;
                let Some(mail) = mail else {
                    replies.push_str("552 5.3.4 Too large\r\n");
                    continue;
                };
                let store = Arc::clone(shared);
                let stored = tokio::task::spawn_blocking(move || store.1.store(&envelope, &mail)).await;
                match stored.map_err(std::io::Error::other).and_then(|result| result) {
                    Ok(()) if unanswered => return Ok(()),
                    Ok(()) => replies.push_str("250 2.0.0 Stored\r\n"),
                    Err(error) => {
                        tracing::error!(%error, "could not store an email");
                        replies.push_str("452 4.3.1 Could not store the email\r\n");
                    }
                }
            }
        }
    }
}

async fn send(stream: &mut BufReader<TcpStream>, replies: &mut String) -> Result<()> {
    stream.get_mut().write_all(replies.as_bytes()).await?;
    replies.clear();
    Ok(())
}

struct LineTooLong;

/// Reads a line without its end. Returns `None` if the client disconnected. A line that is too long is read to its end.
async fn read_line(stream: &mut BufReader<TcpStream>) -> Option<std::result::Result<Vec<u8>, LineTooLong>> {
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let buffer = stream.fill_buf().await.ok().filter(|buffer| !buffer.is_empty())?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        too_long |= line.len() + part.len() > MAX_LINE;
        if !too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        stream.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Some(if too_long { Err(LineTooLong) } else { Ok(line) });
        }
    }
}

/// Reads an email. Returns `None` if the client disconnected before the end, `Some(None)` if the email is too large.
async fn read_mail(stream: &mut BufReader<TcpStream>, max_size: usize) -> Result<Option<Option<Vec<u8>>>> {
    let mut decoder = Decoder::new(max_size);
    loop {
        let Ok(buffer) = tokio::time::timeout(IDLE_TIMEOUT, stream.fill_buf()).await else { return Ok(None) };
        let buffer = buffer?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let (length, end) = (buffer.len(), decoder.push(buffer));
        stream.consume(end.unwrap_or(length));
        if end.is_some() {
            return Ok(Some(decoder.finish()));
        }
    }
}

async fn wait_for_disconnect(stream: &mut BufReader<TcpStream>) -> Result<()> {
    loop {
        let length = stream.fill_buf().await?.len();
        if length == 0 {
            return Ok(());
        }
        stream.consume(length);
    }
}

/// Completes shortly after the shutdown, so that a hanging session does not delay it.
async fn shutdown_grace_over(shutdown: &Shutdown) {
    shutdown.cancelled().await;
    tokio::time::sleep(Duration::from_millis(900)).await;
}
