//! Latency of a direct message to its provider while nothing else is sent.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use domain::message::Channel;
use serde_json::json;

use super::ledger::Ledger;
use super::{PATIENCE, TEXT, TITLE};
use crate::api::Api;
use crate::load::quantile;
use crate::provision::delivery;
use crate::report::{Figure, Section};
use crate::scenario::Lab;
use crate::sink::{self, Kind, arrivals, now_us};
use crate::system::{DELIVERY, GATEWAY};
use crate::tenants;

const WARM_UP: usize = 10;
/// Poll interval of the sink, which records arrival times itself.
const POLL: Duration = Duration::from_millis(5);

/// Microseconds until a message arrives at the provider, from its acceptance and from its request.
struct Latency {
    accepted: u32,
    requested: u32,
}

/// Sends direct mails one at a time, each after the previous one has arrived.
pub async fn latency(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let count = if lab.settings.quick { 50 } else { 500 };
    section.about = format!(
        "{count} mails by POST /messages, each sent after the previous one has reached the provider; from the acceptance, and from the request"
    );
    let sink = sink::start(Kind::Http, None).await?;
    let ledger = Ledger { channel: Channel::Email, env: vec![("MAIL_BASE_URL", format!("http://{}", sink.addr))] };
    ledger.open(lab, &delivery::mail_service()).await?;
    let system = lab.system().await?;
    delivery::addresses(system, 0).await?;
    system.run(&[GATEWAY, DELIVERY]).await?;
    lab.progress.step("direct mails, one at a time");
    let system = lab.system().await?;
    let mut api = Api::connect(system.gateway, 0).await?;
    let mut all = Vec::with_capacity(count);
    for _ in 0..WARM_UP + count {
        all.push(send(&mut api, sink.addr).await?);
    }
    all.drain(..WARM_UP);
    for (from, of) in
        [("acceptance", (|t: &Latency| t.accepted) as fn(&Latency) -> u32), ("the request", |t| t.requested)]
    {
        let mut times: Vec<u32> = all.iter().map(of).collect();
        times.sort_unstable();
        for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
            section.figures.push(Figure::one(
                format!("from {from} to the provider, {name}"),
                "ms",
                quantile(&times, q),
            ));
        }
    }
    ledger.close(lab.system().await?).await
}

async fn send(api: &mut Api, sink: SocketAddr) -> Result<Latency> {
    let before = arrivals(sink).await?.count;
    let message = json!({ "userId": tenants::external_id(0), "channel": "EMAIL", "subject": TITLE, "body": format!("<p>{TEXT}</p>") });
    let requested = now_us();
    api.call("POST", "/messages", &message, b"202").await?;
    let (accepted, started) = (now_us(), Instant::now());
    loop {
        tokio::time::sleep(POLL).await;
        let seen = arrivals(sink).await.context("querying the sink")?;
        if seen.count > before {
            // The response may be read after the message has arrived.
            let since = |from: i64| u32::try_from((seen.last_us - from).max(0)).unwrap_or(u32::MAX);
            return Ok(Latency { accepted: since(accepted), requested: since(requested) });
        }
        if started.elapsed() > PATIENCE {
            bail!("a message did not reach the provider within {} s", PATIENCE.as_secs());
        }
    }
}
