//! Sending: every connection sends its next request when the last one was answered.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::Scenario;
use crate::system::System;

const PEOPLE: u32 = 100_000;
const NAMES: u32 = 50;

/// What was accepted.
#[derive(Default)]
pub struct Sent {
    pub events: u64,
    /// In milliseconds.
    pub latencies: Vec<f64>,
}

impl Sent {
    /// In milliseconds.
    pub fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_by(f64::total_cmp);
        let index = (q * sorted.len().saturating_sub(1) as f64).round() as usize;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    }
}

/// Sends for so long.
pub async fn send(system: &System, scenario: Scenario, connections: usize, time: Duration) -> Result<Sent> {
    let until = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        tasks.spawn(connection(system.base_url.clone(), system.public_key.clone(), scenario, until));
    }
    let mut all = Sent::default();
    while let Some(sent) = tasks.join_next().await {
        let sent = sent??;
        all.events += sent.events;
        all.latencies.extend(sent.latencies);
    }
    Ok(all)
}

async fn connection(base_url: String, key: String, scenario: Scenario, until: Instant) -> Result<Sent> {
    let client = reqwest::Client::builder().pool_max_idle_per_host(1).timeout(Duration::from_secs(30)).build()?;
    let (path, events) = match scenario {
        Scenario::Batch => ("events/batch", 100),
        Scenario::Single => ("events", 1),
    };
    let mut sent = Sent::default();
    while Instant::now() < until {
        let body = match scenario {
            Scenario::Batch => format!(r#"{{"batch":[{}]}}"#, (0..100).map(|_| item()).collect::<Vec<_>>().join(",")),
            Scenario::Single => item(),
        };
        let started = Instant::now();
        let request = client.post(format!("{base_url}/{path}")).header("x-api-key", &key);
        let answer = request.header("content-type", "application/json").body(body).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        if status.as_u16() != 202 {
            bail!("{status}: {text}");
        }
        sent.latencies.push(started.elapsed().as_secs_f64() * 1e3);
        sent.events += events;
    }
    Ok(sent)
}

/// About 300 bytes, as an SDK sends them.
fn item() -> String {
    let (person, name) = (rand::random_range(0..PEOPLE), rand::random_range(0..NAMES));
    format!(
        r#"{{"type":"track","event":"event_{name}","user_id":"person-{person}","properties":{{"product":"sku-{}","price":{}.5,"currency":"EUR","category":"garden","position":{},"list":"search results","referrer":"https://example.com/catalogue/spring","session":"s-{person}-7","variant":{{"size":"M","colour":"green"}}}}}}"#,
        rand::random_range(0..5_000),
        rand::random_range(1..300),
        rand::random_range(0..40),
    )
}
