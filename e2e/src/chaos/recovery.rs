//! Measures the time to recovery after a fault: sends one event for each of many users through each gateway, several times per second, and
//! records when all of them are stored.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kernel::clock::Clock;
use kernel::ids;
use serde_json::json;
use tokio::time::timeout;
use tokio_postgres::Client;
use uuid::Uuid;

use super::injected::InjectedFault;
use super::oracle::{Line, Oracle};
use super::plan::{FaultKind, PROCESSES_PER_PROGRAM};
use super::product::Product;

/// Name of these events.
pub const NAME: &str = "pulse";
/// Enough users to cover all partitions almost certainly.
const USERS: usize = 24;
const INTERVAL: Duration = Duration::from_millis(250);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// An accepted batch; its times count from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeBatch {
    pub gateway: usize,
    /// When it was sent.
    pub sent: Duration,
    /// When all of its events were stored.
    pub recorded: Option<Duration>,
}

#[derive(Clone, Default)]
pub struct RecoveryProbe(Arc<Mutex<ProbeState>>);

#[derive(Default)]
struct ProbeState {
    batches: Vec<ProbeBatch>,
    /// The events that are not stored yet, by the index of their batch.
    pending: BTreeMap<usize, Vec<Uuid>>,
}

impl RecoveryProbe {
    pub fn batches(&self) -> Vec<ProbeBatch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).batches.clone()
    }

    /// Sends a batch through one gateway. It is never retried, so that its age is that of its response.
    pub async fn run(&self, product: &Product, oracle: &Oracle, gateway: usize) {
        let api = &product.shops[0][gateway];
        let mut turns = tokio::time::interval(INTERVAL);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let ids: Vec<Uuid> = (0..USERS).map(|_| ids::fresh(Clock::system().now_ms())).collect();
            let events = ids.iter().enumerate().map(|(n, id)| {
                json!({ "type": "track", "event": NAME, "user_id": format!("pulse-{n}"), "id": id, "properties": { "ref": id } })
            });
            let body = json!({ "batch": events.collect::<Vec<_>>() });
            let named = |id: &Uuid| (0, NAME.to_owned(), id.to_string());
            let tried = ids.iter().map(named).map(|(shop, name, reference)| Line::Tried { shop, name, reference });
            oracle.record(tried.collect()).await;
            let sent = product.began.elapsed();
            let Ok(Ok(answer)) = timeout(
                RESPONSE_TIMEOUT,
                api.call(reqwest::Method::POST, "/events/batch", &api.public_key, Some(&body)),
            )
            .await
            else {
                continue;
            };
            if answer.status == 202 && answer.json["errors"] == 0 {
                let accepted =
                    ids.iter().map(named).map(|(shop, name, reference)| Line::Accepted { shop, name, reference });
                oracle.record(accepted.collect()).await;
                let mut batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let place = batches.batches.len();
                batches.batches.push(ProbeBatch { gateway, sent, recorded: None });
                batches.pending.insert(place, ids);
            }
        }
    }

    /// Polls for stored events, over its own connections.
    pub async fn watch(&self, product: &Product) {
        let mut turns = tokio::time::interval(INTERVAL);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut db: Option<Client> = None;
        loop {
            turns.tick().await;
            let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner).pending.clone();
            if db.as_ref().is_none_or(Client::is_closed) {
                db = product.database().await.ok();
            }
            let Some(client) = db.as_ref().filter(|_| !pending.is_empty()) else { continue };
            let all: Vec<Uuid> = pending.values().flatten().copied().collect();
            let sql = "SELECT id FROM events WHERE project_id = $1 AND id = ANY($2)";
            let Ok(Ok(rows)) = timeout(QUERY_TIMEOUT, client.query(sql, &[&product.projects[0], &all])).await else {
                db = None;
                continue;
            };
            let now = product.began.elapsed();
            let stored: std::collections::BTreeSet<Uuid> = rows.iter().map(|row| row.get("id")).collect();
            let mut batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (place, _) in pending.into_iter().filter(|(_, ids)| ids.iter().all(|id| stored.contains(id))) {
                batches.pending.remove(&place);
                batches.batches[place].recorded = Some(now);
            }
        }
    }
}

/// Returns the time from the end of a fault until the first batch sent afterwards was completely stored; `None` if another fault
/// overlapped, because the cause is ambiguous then. After a fault of one gateway, only that gateway's batches count.
pub fn recovery_time(fault: &InjectedFault, all: &[InjectedFault], batches: &[ProbeBatch]) -> Option<Duration> {
    let of_gateway = match &fault.kind {
        FaultKind::Killed(process)
        | FaultKind::Stopped(process)
        | FaultKind::Suspended(process)
        | FaultKind::DiesAtFailpoint(process, ..) => (process.program == "gateway").then_some(process.number),
        FaultKind::Network(link, _) => (link.process.program == "gateway").then_some(link.process.number),
        _ => None,
    };
    let gateways: Vec<usize> = of_gateway.map_or_else(|| (0..PROCESSES_PER_PROGRAM).collect(), |one| vec![one]);
    let later = batches.iter().filter(|batch| gateways.contains(&batch.gateway) && batch.sent >= fault.healed);
    let recovered = later.filter_map(|batch| batch.recorded).min()?;
    // Excludes the fault itself.
    let mut others = all.iter().filter(|other| (other.from, &other.kind) != (fault.from, &fault.kind));
    let disturbed = others.any(|other| other.from < recovered && other.healed > fault.from);
    (!disturbed).then(|| recovered.saturating_sub(fault.healed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::plan::Process;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn injected(kind: FaultKind, from: u64, healed: u64) -> InjectedFault {
        InjectedFault { kind, from: seconds(from), healed: seconds(healed) }
    }

    fn batch(gateway: usize, sent: u64, recorded: u64) -> ProbeBatch {
        ProbeBatch { gateway, sent: seconds(sent), recorded: Some(seconds(recorded)) }
    }

    #[test]
    fn recovery_time_counts_batches_sent_after_the_fault() {
        let fault = injected(FaultKind::PostgresStopped, 10, 14);
        // A batch sent before the end proves nothing, however late it was stored.
        let batches = [batch(0, 13, 15), batch(0, 15, 18), batch(1, 16, 17)];
        assert_eq!(recovery_time(&fault, std::slice::from_ref(&fault), &batches), Some(seconds(3)));
        assert_eq!(recovery_time(&fault, std::slice::from_ref(&fault), &batches[..1]), None);
    }

    #[test]
    fn recovery_time_of_a_gateway_counts_its_own_batches() {
        let fault = injected(FaultKind::Killed(Process { program: "gateway", number: 1 }), 10, 14);
        let batches = [batch(0, 14, 14), batch(1, 16, 17)];
        assert_eq!(recovery_time(&fault, std::slice::from_ref(&fault), &batches), Some(seconds(3)));
    }

    #[test]
    fn recovery_time_is_unknown_with_overlapping_faults() {
        let fault = injected(FaultKind::PostgresStopped, 10, 14);
        let batches = [batch(0, 15, 18)];
        for (from, healed, known) in [(15, 16, false), (5, 11, false), (1, 9, true), (19, 20, true)] {
            let all = [fault.clone(), injected(FaultKind::RedisKilled, from, healed)];
            assert_eq!(recovery_time(&fault, &all, &batches).is_some(), known, "{from} to {healed}");
        }
    }
}
