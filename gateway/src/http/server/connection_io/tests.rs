use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const LONG: Duration = Duration::from_mins(1);

fn limits(head: Duration, idle: Duration, write: Duration) -> Limits {
    Limits { head, idle, write }
}

#[tokio::test]
async fn idle_timeout_exceeds_head_timeout_and_restarts_per_request() {
    let (head, idle) = (Duration::from_millis(20), Duration::from_millis(120));
    let (mut client, server) = tokio::io::duplex(64);
    let phase = Phase::default();
    let mut conn = ConnectionIo::new(server, phase.clone(), limits(head, idle, LONG));
    let mut read = [0; 64];
    // The pauses before three requests add up to more than the idle limit.
    for _ in 0..3 {
        phase.busy();
        phase.idle();
        let pause = async {
            tokio::time::sleep(idle * 2 / 3).await;
            client.write_all(b"a head").await.unwrap();
        };
        let (read, ()) = tokio::join!(conn.read(&mut read), pause);
        assert_eq!(read.unwrap(), 6);
    }
    // The start of the head has arrived; the rest does not.
    let since = Instant::now();
    assert_eq!(conn.read(&mut read).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert!((head..idle).contains(&since.elapsed()), "{:?}", since.elapsed());
    // Nothing arrives at all.
    phase.busy();
    phase.idle();
    let since = Instant::now();
    assert_eq!(conn.read(&mut read).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert!(since.elapsed() >= idle, "{:?}", since.elapsed());
}

#[tokio::test]
async fn trickling_head_times_out() {
    let (mut client, server) = tokio::io::duplex(64);
    let head = Duration::from_millis(100);
    let mut conn = ConnectionIo::new(server, Phase::default(), limits(head, LONG, LONG));
    let since = Instant::now();
    let mut read = [0; 64];
    let reading = async {
        loop {
            if let Err(error) = conn.read(&mut read).await {
                return error.kind();
            }
        }
    };
    let trickling = async {
        loop {
            tokio::time::sleep(head / 5).await;
            client.write_all(b"x").await.unwrap();
        }
    };
    let kind = tokio::select! {
        kind = reading => kind,
        () = trickling => unreachable!(),
    };
    assert_eq!(kind, io::ErrorKind::TimedOut);
    assert!(since.elapsed() < head * 3, "{:?}", since.elapsed());
}

#[tokio::test]
async fn unread_response_ends_the_connection() {
    let limit = Duration::from_millis(50);
    let (client, server) = tokio::io::duplex(10);
    let mut conn = ConnectionIo::new(server, Phase::default(), limits(limit, LONG, limit));
    conn.write_all(b"fits in!").await.unwrap();
    conn.flush().await.unwrap();
    let error = conn.write_all(b"does not fit").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(client);
}

#[tokio::test]
async fn write_timeout_restarts_after_a_flush() {
    let limit = Duration::from_millis(80);
    let (mut client, server) = tokio::io::duplex(4);
    let mut conn = ConnectionIo::new(server, Phase::default(), limits(limit, LONG, limit));
    let reading = async {
        let mut read = [0; 8];
        for _ in 0..4 {
            tokio::time::sleep(limit / 2).await;
            client.read_exact(&mut read).await.unwrap();
        }
    };
    let writing = async {
        for _ in 0..4 {
            conn.write_all(b"12345678").await.unwrap();
            conn.flush().await.unwrap();
        }
    };
    tokio::join!(reading, writing);
}

#[tokio::test]
async fn streamed_response_restarts_the_write_timeout_with_every_read() {
    let limit = Duration::from_millis(80);
    let phase = Phase::default();
    let (mut client, server) = tokio::io::duplex(4);
    let mut conn = ConnectionIo::new(server, phase.clone(), limits(limit, limit, limit));
    let streaming = phase.streaming();
    let reading = async {
        let mut read = [0; 4];
        for _ in 0..6 {
            tokio::time::sleep(limit / 2).await;
            client.read_exact(&mut read).await.unwrap();
        }
    };
    // The buffer is never empty meanwhile, yet each read restarts the limit. The client sends nothing, which is no timeout either.
    let (written, ()) = tokio::join!(conn.write_all(&[b'x'; 28]), reading);
    written.unwrap();
    let mut read = [0; 4];
    let nothing = tokio::time::timeout(limit * 2, conn.read(&mut read)).await;
    assert!(nothing.is_err(), "{nothing:?}");
    assert_eq!(conn.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    drop(streaming);
    assert_eq!(conn.read(&mut read).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn only_error_responses_of_the_library_are_replaced() {
    let automatic = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
    let response = String::from_utf8(replacement_for(automatic).unwrap()).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["error"], &body["status"]), (&"Bad Request".into(), &400.into()));
    for ours in [
        &b"HTTP/1.1 400 Bad Request\r\nx-request-id: 1\r\ncontent-length: 0\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\n\r\n",
        b"{\"a\":1}",
        b"\xff",
    ] {
        assert!(replacement_for(ours).is_none(), "{}", String::from_utf8_lossy(ours));
    }
}
