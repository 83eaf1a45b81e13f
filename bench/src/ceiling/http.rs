//! A bare hyper server in a process of its own. It reads the body, optionally parses it, and responds.

use std::borrow::Cow;
use std::convert::Infallible;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

use crate::child::Server;

/// What the server does with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Reads it.
    Bare,
    /// Reads it and parses a batch, borrowing from it.
    Parse,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct ServeArgs {
    /// What the server does with a body.
    #[arg(long, value_enum)]
    mode: Mode,
}

const ANSWER: &[u8] = br#"{"success":true}"#;

/// Serves until the process is killed. Prints the listening address.
pub async fn serve(args: ServeArgs) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, args.mode));
            let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // An error here means that the load generator closed its connection.
            let _ = serving.await;
        });
    }
}

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow)]
    batch: Vec<Item<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    user_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    properties: &'a RawValue,
}

impl Item<'_> {
    /// Sums the lengths of the parsed fields, so that the compiler cannot drop the parsing.
    fn bytes(&self) -> usize {
        let optional = [&self.event, &self.user_id].into_iter().flatten().map(|text| text.len()).sum::<usize>();
        self.kind.len() + self.id.len() + optional + self.properties.get().len()
    }
}

async fn answer(request: Request<Incoming>, mode: Mode) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let parsed = mode == Mode::Bare
        || serde_json::from_slice::<Batch<'_>>(&body).is_ok_and(|b| b.batch.iter().map(Item::bytes).sum::<usize>() > 0);
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    *response.status_mut() = if parsed { hyper::StatusCode::ACCEPTED } else { hyper::StatusCode::BAD_REQUEST };
    Ok(response)
}

/// Starts a bare server in the given mode.
pub async fn start(mode: Mode) -> Result<Server> {
    let mode = mode.to_possible_value().context("a mode has a name")?;
    Server::start("bare server", &["serve", "--mode", mode.get_name()]).await
}
