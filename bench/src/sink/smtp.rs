//! A minimal mail server that accepts every mail and discards it.

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

pub async fn serve(listener: TcpListener) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // An error here means that the client disconnected.
        tokio::spawn(async move { serve_connection(stream).await.ok() });
    }
}

async fn serve_connection(stream: TcpStream) -> Result<()> {
    let (read, mut write) = stream.into_split();
    let (mut lines, mut line, mut in_mail) = (BufReader::with_capacity(64 * 1024, read), Vec::new(), false);
    write.write_all(b"220 sink ESMTP\r\n").await?;
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let answer: &[u8] = if in_mail {
            if line != b".\r\n" {
                continue;
            }
            in_mail = false;
            b"250 2.0.0 Ok: queued as taken\r\n"
        } else {
            match verb(&line) {
                "EHLO" => b"250-sink\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n",
                "DATA" => {
                    in_mail = true;
                    b"354 go on\r\n"
                }
                "QUIT" => {
                    write.write_all(b"221 bye\r\n").await?;
                    return Ok(());
                }
                "HELO" | "MAIL" | "RCPT" | "RSET" | "NOOP" => b"250 ok\r\n",
                _ => b"502 unknown\r\n",
            }
        };
        write.write_all(answer).await?;
    }
}

/// Returns the first four letters in upper case, if they are a known verb.
fn verb(line: &[u8]) -> &'static str {
    let known = ["EHLO", "HELO", "MAIL", "RCPT", "DATA", "RSET", "NOOP", "QUIT"];
    let is = |verb: &&&str| line.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(verb.as_bytes()));
    known.iter().find(is).copied().unwrap_or("")
}

#[cfg(test)]
mod tests {
    #[test]
    fn verbs_are_case_insensitive() {
        assert_eq!(
            ["ehlo x\r\n", "MAIL FROM:<>\r\n", "x\r\n", ""].map(|l| super::verb(l.as_bytes())),
            ["EHLO", "MAIL", "", ""]
        );
    }
}
