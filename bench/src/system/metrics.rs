//! Reads a program's metrics.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Returns the sum of a metric over its labels, or 0 if it does not exist yet.
pub async fn value(admin: SocketAddr, name: &str) -> Result<u64> {
    let text = get(admin, "/metrics").await.context("reading a program's metrics")?;
    Ok(sum(&text, name))
}

/// Returns a whole response, including its head.
pub async fn get(admin: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(admin).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

fn sum(text: &str, name: &str) -> u64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with(['{', ' ']) {
            return None;
        }
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    };
    text.lines().filter_map(value).sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_are_summed_over_labels() {
        let text = "# TYPE a counter\na{x=\"1\"} 3\na{x=\"2\"} 4\nab 9\n";
        assert_eq!((super::sum(text, "a"), super::sum(text, "ab"), super::sum(text, "c")), (7, 9, 0));
    }
}
