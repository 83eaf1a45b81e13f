//! Makes the webhook calls that runs wait for.
//!
//! The worker claims calls from their rows, makes them outside the recording transaction, and publishes each result to
//! the user's own partition, where the run continues in order. It deletes the row once the broker has acknowledged the
//! result. A retried call has the same ID.

mod response;
mod rotation;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use automation::journey::CallOutcome;
use bus::Publisher;
use bytes::Bytes;
use database::{Store, StoreError};
use http::{Method, Request};
use http_client::HttpClient;
use jiff::Timestamp;
use kernel::backoff::Backoff;
use kernel::clock::Clock;
use kernel::failpoint;
use kernel::fair_share::FairSlots;
use kernel::ids::{self, OwnerId, ProjectId};
use kernel::shutdown::Shutdown;
use prost::Message;
use secrets::MasterKeys;
use store_projects::projects;
use store_projects::projects::creators;
use store_sending::webhook_calls::{self, ClaimedCall};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use wire::event::{Answer as AnswerItem, Body, IngestBatch, IngestItem, VERSION, id_bytes};

use response::{AttemptResult, classify};
use rotation::Rotation;

/// Maximum number of one owner's calls in flight, with an eighth more for the other owners.
const MAX_PER_OWNER: usize = 64;
/// Maximum number of projects in one poll: enough for all that have due calls.
const MAX_PROJECTS: i64 = 10_000;
/// Lease of a claimed call, after which an unsettled call is made again: longer than any call takes.
const LEASE: Duration = Duration::from_mins(1);
/// Poll interval for retries, and for calls that other workers left.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of attempts. With the delays of [`RETRY_BACKOFF`], they span about a quarter of an hour.
const MAX_ATTEMPTS: i32 = 6;
const RETRY_BACKOFF: Backoff = Backoff { initial: Duration::from_secs(2), factor: 4, max: Duration::from_mins(10) };
/// Maximum size of a request body, in bytes.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// Makes the calls of webhook steps.
pub struct Caller {
    pub store: Store,
    pub publisher: Publisher,
    pub names: bus::Names,
    pub clock: Clock,
    pub http: HttpClient,
    pub keys: MasterKeys,
    /// Notified by the lanes when they have written calls.
    pub wake: Arc<Notify>,
}

impl Caller {
    /// Runs until shutdown, then waits for calls in flight.
    pub async fn run(self, shutdown: Shutdown) {
        let (caller, slots, tasks) = (Arc::new(self), FairSlots::new(MAX_PER_OWNER), TaskTracker::new());
        let mut rotation = Rotation::default();
        while !shutdown.is_cancelled() {
            if let Err(error) = caller.poll(&slots, &tasks, &mut rotation, &shutdown).await {
                tracing::debug!(%error, "due webhook calls cannot be claimed; retrying");
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = caller.wake.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
        tasks.close();
        tasks.wait().await;
    }

    /// Claims due calls, at most as many as there are free slots, so that a kill leaves few calls unsettled.
    async fn poll(
        self: &Arc<Self>,
        slots: &FairSlots,
        tasks: &TaskTracker,
        rotation: &mut Rotation,
        shutdown: &Shutdown,
    ) -> Result<(), StoreError> {
        loop {
            let mut claimed = 0;
            let now = self.clock.now();
            let db = self.store.connection().await?;
            let mut due = webhook_calls::projects(&db, now, MAX_PROJECTS).await?;
            let owners = if due.is_empty() { HashMap::new() } else { creators::owners(&db, &due).await? };
            drop(db);
            rotation.sort(&mut due);
            let owner_of = |project: &ProjectId| owners.get(project).copied().unwrap_or_else(|| (*project).into());
            let mut due_of: HashMap<OwnerId, usize> = HashMap::new();
            due.iter().for_each(|project| *due_of.entry(owner_of(project)).or_default() += 1);
            // Owners with the fewest calls in flight go first. In one pass each owner gets an equal part of the slots,
            // which its projects share.
            due.sort_by_key(|project| slots.held(owner_of(project)));
            for project in due {
                if shutdown.is_cancelled() {
                    return Ok(());
                }
                let owner = owner_of(&project);
                let share = (MAX_PER_OWNER / due_of.len() / due_of[&owner]).max(1);
                let taken: Vec<_> = (0..share).map_while(|_| slots.take(owner)).collect();
                if taken.is_empty() {
                    continue;
                }
                rotation.serve(project);
                let lease = now.checked_add(LEASE).unwrap_or(now);
                let db = self.store.connection().await?;
                let calls = webhook_calls::claim(&db, project, now, lease, taken.len() as i64).await?;
                for (call, slot) in calls.into_iter().zip(taken) {
                    claimed += 1;
                    let caller = self.clone();
                    tasks.spawn(async move {
                        caller.handle(call).await;
                        drop(slot);
                        caller.wake.notify_one();
                    });
                }
            }
            if claimed == 0 {
                return Ok(());
            }
        }
    }

    async fn handle(&self, call: ClaimedCall) {
        let result = self.call(&call).await;
        failpoint::hit("automation.after_call_made");
        let outcome = match result {
            AttemptResult::Retry(why) if call.attempt < MAX_ATTEMPTS => {
                tracing::debug!(project = %call.project, run = %call.run, why, "webhook call failed; retrying");
                let delay = RETRY_BACKOFF.delay(call.attempt.unsigned_abs(), rand::random());
                let until = self.clock.now().checked_add(delay).unwrap_or(Timestamp::MAX);
                self.settle(async |db| webhook_calls::postpone(db, &call, until).await).await;
                return;
            }
            AttemptResult::Retry(why) => CallOutcome::failed(why),
            AttemptResult::Final(answer) => answer,
        };
        // Delete the row only after the result is published. Otherwise the lease expires, and the call is made again
        // under the same ID.
        if self.publish_result(&call, &outcome).await {
            failpoint::hit("automation.after_call_answered");
            self.settle(async |db| webhook_calls::delete(db, call.project, call.id).await).await;
        }
    }

    async fn settle(&self, write: impl AsyncFnOnce(&database::Connection) -> Result<(), StoreError>) {
        let written = async {
            let db = self.store.connection().await?;
            write(&db).await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "webhook call cannot be settled; it will be repeated");
        }
    }

    async fn call(&self, call: &ClaimedCall) -> AttemptResult {
        let body = call.body.to_string();
        if body.len() > MAX_BODY_BYTES {
            return AttemptResult::Final(CallOutcome::failed("body_too_large"));
        }
        let now = self.clock.now();
        // Signs with a separate secret: a recipient that knew the secret of inbound webhooks could forge those.
        let secrets = async {
            projects::signing_secrets(&mut self.store.connection().await?, &self.keys, call.project, now).await
        };
        let secrets = match secrets.await {
            Ok(Some(secrets)) => secrets,
            Ok(None) => return AttemptResult::Retry("the project has no signing secret".to_owned()),
            Err(error) => return AttemptResult::Retry(error.to_string()),
        };
        let (id, seconds) = (call.id.to_string(), now.as_second());
        let signature = secrets.signatures(now, &id, seconds, &body);
        let request = Request::builder()
            .method(Method::POST)
            .uri(&call.url)
            .header("content-type", "application/json")
            .header("user-agent", "Rekindle")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", signature)
            .body(Bytes::from(body));
        match request {
            Ok(request) => classify(self.http.call_for_project(request).await),
            Err(error) => AttemptResult::Final(CallOutcome::failed(error.to_string())),
        }
    }

    async fn publish_result(&self, call: &ClaimedCall, outcome: &CallOutcome) -> bool {
        let now_ms = self.clock.now_ms();
        let item = IngestItem {
            project_id: id_bytes(call.project.0),
            id: id_bytes(ids::fresh(now_ms)),
            received_ms: now_ms,
            timestamp_ms: now_ms,
            body: Some(Body::Answer(AnswerItem {
                run_id: id_bytes(call.run),
                wait_seq: u32::try_from(call.wait_seq).unwrap_or(0),
                outcome: serde_json::to_vec(outcome).unwrap_or_default().into(),
            })),
            ..IngestItem::default()
        };
        let payload = IngestBatch { version: VERSION, items: vec![item] }.encode_to_vec();
        let subject = self.names.ingest(call.partition.unsigned_abs());
        match self.publisher.publish(subject, payload.into()).await {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(%error, "call result cannot be published; the call will be repeated");
                false
            }
        }
    }
}
