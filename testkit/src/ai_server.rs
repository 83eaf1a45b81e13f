//! A test server for the part of OpenAI's chat completions API that the product uses.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::must;

/// A received request.
#[derive(Clone, Debug)]
pub struct AiRequest {
    /// Method and path.
    pub target: String,
    pub authorization: Option<String>,
    pub body: Value,
}

/// The response to the next request.
enum QueuedResponse {
    /// Status and body.
    Body(u16, String),
    Silence,
}

#[derive(Default)]
struct State {
    responses: VecDeque<QueuedResponse>,
    requests: Vec<AiRequest>,
}

/// Returns the configured responses in order; after the last one, a 500 that says so.
pub struct TestAi {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    serving: JoinHandle<()>,
}

impl TestAi {
    pub async fn start() -> Self {
        let listener = must("a port for an AI server", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await);
        let address = must("a port for an AI server", listener.local_addr());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { address, state, serving }
    }

    /// Returns the value for `AI_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Answers the next request with a completion that has this content.
    pub fn respond_with_completion(&self, content: &str) {
        let message = json!({ "role": "assistant", "content": content });
        self.respond_with(200, &json!({ "choices": [{ "index": 0, "message": message }] }).to_string());
    }

    /// Answers the next request with this status and body.
    pub fn respond_with(&self, status: u16, body: &str) {
        self.lock().responses.push_back(QueuedResponse::Body(status, body.to_owned()));
    }

    /// Never answers the next request.
    pub fn never_respond(&self) {
        self.lock().responses.push_back(QueuedResponse::Silence);
    }

    pub fn requests(&self) -> Vec<AiRequest> {
        self.lock().requests.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TestAi {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Answers one request per connection.
async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let Some(request) = read(&mut stream).await else { return };
    let response = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requests.push(request);
        state.responses.pop_front()
    };
    let (status, body) = match response {
        Some(QueuedResponse::Body(status, body)) => (status, body),
        Some(QueuedResponse::Silence) => return std::future::pending().await,
        None => (500, json!({ "error": { "message": "the test queued no response" } }).to_string()),
    };
    let head = format!(
        "HTTP/1.1 {status} Test\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await;
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut TcpStream) -> Option<AiRequest> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4_096];
        let read = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let header = |name: &str| {
            let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
            lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim().to_owned()).next()
        };
        let length: usize = header("content-length")?.parse().ok()?;
        let body = &bytes[end + 4..];
        if body.len() < length {
            continue;
        }
        let target = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
        let body = serde_json::from_slice(body).unwrap_or_default();
        return Some(AiRequest { target, authorization: header("authorization"), body });
    }
}
