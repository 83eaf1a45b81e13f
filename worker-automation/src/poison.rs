//! What can never be applied: found by halving, put into the dead-letter stream with its reason, and left out.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use shared::bus::{Bus, dead_letter};
use shared::event::{IngestBatch, IngestItem, VERSION};
use shared::metric_name;
use shared::store::StoreError;

use crate::lane::RETRY;
use crate::record::{Batch, Mode, RecordError, Recorded, Recorder};

/// Why a transaction did not go through.
enum Failure {
    Deposed(Vec<i16>),
    /// Trying again is all there is to do.
    Passing(String),
    /// One item, known by its index, will fail again.
    Item(usize, String),
    /// Something within the batch will fail again.
    Batch(String),
}

/// Records a batch; waits for the database where it is away. `Err` holds the partitions that have another owner.
pub async fn record_without_poison(
    recorder: &Arc<Recorder>,
    bus: &Bus,
    batch: Arc<Batch>,
) -> Result<Recorded, Vec<i16>> {
    let mut skip: HashSet<usize> = HashSet::new();
    let mut failures = 0_u32;
    loop {
        match attempt(recorder, &batch, skip.clone(), Mode::Commit).await {
            Ok(recorded) => return Ok(recorded),
            Err(Failure::Deposed(partitions)) => return Err(partitions),
            Err(Failure::Passing(why)) => {
                failures += 1;
                if failures % 20 == 1 {
                    tracing::warn!(why, failures, "cannot record; trying again");
                }
                tokio::time::sleep(RETRY.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
            }
            Err(Failure::Item(index, reason)) => {
                put_aside(bus, &batch, &mut skip, &[index], &reason).await;
            }
            Err(Failure::Batch(reason)) => {
                let culprits = find(recorder, &batch, &skip).await;
                let left: Vec<usize> = (0..batch.items.len()).filter(|i| !skip.contains(i)).collect();
                // Each item alone goes through, together they do not: then none of this batch can be trusted.
                let culprits = if culprits.is_empty() { left } else { culprits };
                if culprits.is_empty() {
                    tracing::error!(reason, "an empty batch cannot be recorded; trying again");
                    tokio::time::sleep(RETRY * 4).await;
                }
                put_aside(bus, &batch, &mut skip, &culprits, &reason).await;
            }
        }
    }
}

/// One transaction in a task of its own, so that a panic in it is a failure like any other.
async fn attempt(
    recorder: &Arc<Recorder>,
    batch: &Arc<Batch>,
    skip: HashSet<usize>,
    mode: Mode,
) -> Result<Recorded, Failure> {
    let (recorder, batch) = (recorder.clone(), batch.clone());
    match tokio::spawn(async move { recorder.record(&batch, &skip, mode).await }).await {
        Ok(Ok(recorded)) => Ok(recorded),
        Ok(Err(RecordError::Deposed(partitions))) => Err(Failure::Deposed(partitions)),
        Ok(Err(RecordError::Refused { index, reason })) => Err(Failure::Item(index, reason)),
        Ok(Err(RecordError::Store(error))) if passes(&error) => Err(Failure::Passing(error.to_string())),
        Ok(Err(RecordError::Store(error))) => Err(Failure::Batch(error.to_string())),
        Err(panic) => Err(Failure::Batch(format!("panic: {}", panic_text(panic)))),
    }
}

fn passes(error: &StoreError) -> bool {
    error.is_unavailable() || error.is_conflict()
}

fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
        }
        Err(error) => error.to_string(),
    }
}

/// The items that fail by themselves, found by halving with transactions that are rolled back.
async fn find(recorder: &Arc<Recorder>, batch: &Arc<Batch>, skip: &HashSet<usize>) -> Vec<usize> {
    let candidates: Vec<usize> = (0..batch.items.len()).filter(|i| !skip.contains(i)).collect();
    let mut culprits = Vec::new();
    let mut halves = vec![candidates];
    while let Some(part) = halves.pop() {
        if part.is_empty() {
            continue;
        }
        let wanted: HashSet<usize> = part.iter().copied().collect();
        let others: HashSet<usize> = (0..batch.items.len()).filter(|i| !wanted.contains(i)).collect();
        match attempt(recorder, batch, others, Mode::Trial).await {
            Ok(_) | Err(Failure::Deposed(_)) => {}
            Err(Failure::Item(index, _)) => {
                culprits.push(index);
                halves.push(part.into_iter().filter(|i| *i != index).collect());
            }
            Err(Failure::Passing(_)) => {
                tokio::time::sleep(RETRY).await;
                halves.push(part);
            }
            Err(Failure::Batch(_)) if part.len() == 1 => culprits.extend(part),
            Err(Failure::Batch(_)) => {
                let (left, right) = part.split_at(part.len() / 2);
                halves.push(right.to_vec());
                halves.push(left.to_vec());
            }
        }
    }
    culprits
}

async fn put_aside(bus: &Bus, batch: &Batch, skip: &mut HashSet<usize>, indexes: &[usize], reason: &str) {
    for index in indexes {
        if let Some(item) = batch.items.get(*index)
            && skip.insert(*index)
        {
            bury_item(bus, &item.wire, reason).await;
        }
    }
}

/// Puts one item into the dead-letter stream, as a message of its own that could be published again.
pub async fn bury_item(bus: &Bus, item: &IngestItem, reason: &str) {
    let payload = IngestBatch { version: VERSION, items: vec![item.clone()] }.encode_to_vec();
    bury(bus, "item", payload.into(), reason).await;
}

/// Puts a whole message there: nobody can tell its items.
pub async fn bury_message(bus: &Bus, seq: i64, payload: Bytes, reason: &str) {
    bury(bus, &format!("message {seq}"), payload, reason).await;
}

/// Waits until the broker has it: only then may the position move on.
async fn bury(bus: &Bus, source: &str, payload: Bytes, reason: &str) {
    tracing::error!(source, reason, "cannot be applied; put into the dead-letter stream");
    metrics::counter!(metric_name::DEAD_LETTERS, "from" => "ingest").increment(1);
    while let Err(error) = dead_letter::bury(bus, "ingest", source, reason, payload.clone()).await {
        tracing::warn!(%error, "the dead-letter stream does not take it; trying again");
        tokio::time::sleep(RETRY * 4).await;
    }
}
