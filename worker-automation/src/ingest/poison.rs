//! Finds items that can never be applied by bisection, dead-letters them with the reason, and skips them.
//!
//! Only data errors and repeatable panics count as an item's fault. Every other failure is the system's: it is logged
//! and retried, and costs no item.

use std::collections::HashSet;
use std::sync::Arc;

use bus::{Bus, dead_letter};
use bytes::Bytes;
use database::StoreError;
use kernel::metric_name::Metric;
use prost::Message;
use wire::event::{EncodedBatch, VERSION};

use crate::config::RETRY_DELAY;
use crate::ingest::batch::Batch;
use crate::record::error::RecordError;
use crate::record::transaction::{Mode, Recorded, Recorder};

/// Reason for a failed transaction.
enum Failure {
    Deposed(Vec<i16>),
    /// Transient: retry.
    Transient(String),
    /// Timed out; a smaller batch may succeed.
    TooSlow(String),
    /// The data causes a failure that would repeat.
    Data(String),
}

/// Records a batch, retrying while the database is unavailable.
///
/// `Err` holds the partitions whose positions are not at the start of the batch: they have another owner by now, or an
/// earlier attempt committed but its response was lost.
pub async fn record_valid_items(recorder: &Arc<Recorder>, bus: &Bus, batch: Arc<Batch>) -> Result<Recorded, Vec<i16>> {
    let mut skip: HashSet<usize> = HashSet::new();
    let mut failures = 0_u32;
    loop {
        let outcome = attempt(recorder, &batch, skip.clone(), Mode::Commit).await;
        let (why, smaller) = match outcome {
            Ok(recorded) => return Ok(recorded),
            Err(Failure::Deposed(partitions)) => return Err(partitions),
            Err(Failure::Transient(why)) => (why, false),
            Err(Failure::TooSlow(why)) => (why, true),
            Err(Failure::Data(why)) => {
                let culprits = find_culprits(recorder, &batch, &skip).await;
                for (index, reason) in &culprits {
                    if skip.insert(*index)
                        && let Some(item) = batch.items.get(*index)
                    {
                        dead_letter_item(bus, &item.encoded, reason).await;
                    }
                }
                if !culprits.is_empty() {
                    continue;
                }
                // Each item succeeds on its own, but not together.
                (why, true)
            }
        };
        failures += 1;
        if failures % 20 == 1 {
            tracing::warn!(why, failures, "batch cannot be recorded; retrying");
        }
        if smaller && let Some((first, second)) = without_skipped(&batch, &skip).halves() {
            let first = Box::pin(record_valid_items(recorder, bus, Arc::new(first))).await?;
            let second = Box::pin(record_valid_items(recorder, bus, Arc::new(second))).await?;
            return Ok(first.and(second));
        }
        tokio::time::sleep(RETRY_DELAY.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
    }
}

/// Returns the batch without the skipped items.
fn without_skipped(batch: &Batch, skip: &HashSet<usize>) -> Batch {
    let items = batch.items.iter().enumerate().filter(|(i, _)| !skip.contains(i)).map(|(_, item)| item.clone());
    Batch { items: items.collect(), steps: batch.steps.clone() }
}

/// Runs one transaction in its own task, so that a panic becomes an ordinary failure.
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
        Ok(Err(RecordError::Store(error))) => Err(classify(&error)),
        Err(panic) => Err(Failure::Data(format!("panic: {}", panic_text(panic)))),
    }
}

fn classify(error: &StoreError) -> Failure {
    let why = error.to_string();
    if error.is_data_error() {
        Failure::Data(why)
    } else if error.is_statement_timeout() {
        Failure::TooSlow(why)
    } else {
        Failure::Transient(why)
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
        }
        Err(error) => error.to_string(),
    }
}

/// Returns the items that fail on their own, with reasons, by bisection with transactions that are rolled back.
async fn find_culprits(recorder: &Arc<Recorder>, batch: &Arc<Batch>, skip: &HashSet<usize>) -> Vec<(usize, String)> {
    bisect(batch.items.len(), skip, |others| attempt(recorder, batch, others, Mode::Trial)).await
}

/// Finds failing items by bisection; `attempt` tries all items except those in the given set.
async fn bisect<T, Tried: Future<Output = Result<T, Failure>>>(
    items: usize,
    skip: &HashSet<usize>,
    mut attempt: impl FnMut(HashSet<usize>) -> Tried,
) -> Vec<(usize, String)> {
    let candidates: Vec<usize> = (0..items).filter(|i| !skip.contains(i)).collect();
    let mut culprits = Vec::new();
    let mut parts = vec![candidates];
    while let Some(part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        let wanted: HashSet<usize> = part.iter().copied().collect();
        let others: HashSet<usize> = (0..items).filter(|i| !wanted.contains(i)).collect();
        match attempt(others).await {
            Ok(_) | Err(Failure::Deposed(_)) => {}
            Err(Failure::Data(why)) if part.len() == 1 => culprits.extend(part.into_iter().map(|i| (i, why.clone()))),
            Err(Failure::Transient(_)) => {
                tokio::time::sleep(RETRY_DELAY).await;
                parts.push(part);
            }
            // A single item that is too slow is not at fault.
            Err(Failure::TooSlow(_)) if part.len() == 1 => {}
            Err(Failure::Data(_) | Failure::TooSlow(_)) => {
                let (left, right) = part.split_at(part.len() / 2);
                parts.push(right.to_vec());
                parts.push(left.to_vec());
            }
        }
    }
    culprits
}

/// Dead-letters one item, as a message of its own that can be published again.
pub async fn dead_letter_item(bus: &Bus, encoded: &Bytes, reason: &str) {
    let payload = EncodedBatch { version: VERSION, items: vec![encoded.clone()] }.encode_to_vec();
    publish_dead_letter(bus, "item", payload.into(), reason).await;
}

/// Dead-letters a whole message, because its items cannot be decoded.
pub async fn dead_letter_message(bus: &Bus, seq: i64, payload: Bytes, reason: &str) {
    publish_dead_letter(bus, &format!("message {seq}"), payload, reason).await;
}

/// Retries until the broker acknowledges: only then may the position advance.
async fn publish_dead_letter(bus: &Bus, source: &str, payload: Bytes, reason: &str) {
    tracing::error!(source, reason, "data cannot be applied; moving it to the dead-letter stream");
    metrics::counter!(Metric::DeadLetters, "from" => "ingest").increment(1);
    while let Err(error) = dead_letter::publish(bus, "ingest", source, reason, payload.clone()).await {
        tracing::warn!(%error, "dead letter cannot be published; retrying");
        tokio::time::sleep(RETRY_DELAY * 4).await;
    }
}

#[cfg(test)]
mod model;
