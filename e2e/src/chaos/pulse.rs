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

use super::oracle::{Line, Oracle};
use super::plan::{EACH, What};
use super::product::Product;
use super::struck::Struck;

/// Name of these events.
pub const NAME: &str = "pulse";
/// Enough users to cover all partitions almost certainly.
const PEOPLE: usize = 24;
const EVERY: Duration = Duration::from_millis(250);
const ANSWER: Duration = Duration::from_secs(5);
const READ: Duration = Duration::from_secs(5);

/// An accepted beat; its times count from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    pub gateway: usize,
    /// When it was sent.
    pub sent: Duration,
    /// When all of its events were stored.
    pub recorded: Option<Duration>,
}

#[derive(Clone, Default)]
pub struct Pulse(Arc<Mutex<Beats>>);

#[derive(Default)]
struct Beats {
    beats: Vec<Beat>,
    /// The events that are not stored yet, by the index of their beat.
    open: BTreeMap<usize, Vec<Uuid>>,
}

impl Pulse {
    pub fn beats(&self) -> Vec<Beat> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).beats.clone()
    }

    /// Sends a beat through one gateway. It is never retried, so that its age is that of its response.
    pub async fn beat(&self, product: &Product, oracle: &Oracle, gateway: usize) {
        let api = &product.shops[0][gateway];
        let mut turns = tokio::time::interval(EVERY);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let ids: Vec<Uuid> = (0..PEOPLE).map(|_| ids::fresh(Clock::system().now_ms())).collect();
            let events = ids.iter().enumerate().map(|(n, id)| {
                json!({ "type": "track", "event": NAME, "user_id": format!("pulse-{n}"), "id": id, "properties": { "ref": id } })
            });
            let body = json!({ "batch": events.collect::<Vec<_>>() });
            let named = |id: &Uuid| (0, NAME.to_owned(), id.to_string());
            let tried = ids.iter().map(named).map(|(shop, name, reference)| Line::Tried { shop, name, reference });
            oracle.note(tried.collect()).await;
            let sent = product.began.elapsed();
            let Ok(Ok(answer)) =
                timeout(ANSWER, api.call(reqwest::Method::POST, "/events/batch", &api.public_key, Some(&body))).await
            else {
                continue;
            };
            if answer.status == 202 && answer.json["errors"] == 0 {
                let accepted =
                    ids.iter().map(named).map(|(shop, name, reference)| Line::Accepted { shop, name, reference });
                oracle.note(accepted.collect()).await;
                let mut beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let place = beats.beats.len();
                beats.beats.push(Beat { gateway, sent, recorded: None });
                beats.open.insert(place, ids);
            }
        }
    }

    /// Polls for stored events, over its own connections.
    pub async fn watch(&self, product: &Product) {
        let mut turns = tokio::time::interval(EVERY);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut db: Option<Client> = None;
        loop {
            turns.tick().await;
            let open = self.0.lock().unwrap_or_else(PoisonError::into_inner).open.clone();
            if db.as_ref().is_none_or(Client::is_closed) {
                db = product.database().await.ok();
            }
            let Some(client) = db.as_ref().filter(|_| !open.is_empty()) else { continue };
            let all: Vec<Uuid> = open.values().flatten().copied().collect();
            let sql = "SELECT id FROM events WHERE project_id = $1 AND id = ANY($2)";
            let Ok(Ok(rows)) = timeout(READ, client.query(sql, &[&product.projects[0], &all])).await else {
                db = None;
                continue;
            };
            let now = product.began.elapsed();
            let there: std::collections::BTreeSet<Uuid> = rows.iter().map(|row| row.get("id")).collect();
            let mut beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (place, _) in open.into_iter().filter(|(_, ids)| ids.iter().all(|id| there.contains(id))) {
                beats.open.remove(&place);
                beats.beats[place].recorded = Some(now);
            }
        }
    }
}

/// Returns the time from the end of a fault until the first beat sent afterwards was completely stored; `None` if another fault
/// overlapped, because the cause is ambiguous then. After a fault of one gateway, only that gateway's beats count.
pub fn recovery(fault: &Struck, all: &[Struck], beats: &[Beat]) -> Option<Duration> {
    let of_gateway = match &fault.what {
        What::Killed(process) | What::Stopped(process) | What::Suspended(process) | What::Dies(process, ..) => {
            (process.program == "gateway").then_some(process.number)
        }
        What::Network(link, _) => (link.process.program == "gateway").then_some(link.process.number),
        _ => None,
    };
    let gateways: Vec<usize> = of_gateway.map_or_else(|| (0..EACH).collect(), |one| vec![one]);
    let behind = beats.iter().filter(|beat| gateways.contains(&beat.gateway) && beat.sent >= fault.healed);
    let recovered = behind.filter_map(|beat| beat.recorded).min()?;
    // Excludes the fault itself.
    let mut others = all.iter().filter(|other| (other.from, &other.what) != (fault.from, &fault.what));
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

    fn struck(what: What, from: u64, healed: u64) -> Struck {
        Struck { what, from: seconds(from), healed: seconds(healed) }
    }

    fn beat(gateway: usize, sent: u64, recorded: u64) -> Beat {
        Beat { gateway, sent: seconds(sent), recorded: Some(seconds(recorded)) }
    }

    #[test]
    fn recovery_is_the_first_beat_that_was_sent_behind_the_fault() {
        let fault = struck(What::PostgresGone, 10, 14);
        // A beat sent before the end proves nothing, however late it was stored.
        let beats = [beat(0, 13, 15), beat(0, 15, 18), beat(1, 16, 17)];
        assert_eq!(recovery(&fault, std::slice::from_ref(&fault), &beats), Some(seconds(3)));
        assert_eq!(recovery(&fault, std::slice::from_ref(&fault), &beats[..1]), None);
    }

    #[test]
    fn a_gateway_recovers_by_its_own_beats() {
        let fault = struck(What::Killed(Process { program: "gateway", number: 1 }), 10, 14);
        let beats = [beat(0, 14, 14), beat(1, 16, 17)];
        assert_eq!(recovery(&fault, std::slice::from_ref(&fault), &beats), Some(seconds(3)));
    }

    #[test]
    fn with_another_fault_in_between_nobody_can_tell() {
        let fault = struck(What::PostgresGone, 10, 14);
        let beats = [beat(0, 15, 18)];
        for (from, healed, known) in [(15, 16, false), (5, 11, false), (1, 9, true), (19, 20, true)] {
            let all = [fault.clone(), struck(What::RedisGone, from, healed)];
            assert_eq!(recovery(&fault, &all, &beats).is_some(), known, "{from} to {healed}");
        }
    }
}
