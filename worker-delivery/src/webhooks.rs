//! Sends webhooks.
//!
//! Each endpoint has its own lanes, which claim, send and settle its due deliveries, so that a slow endpoint delays no other. A call whose
//! outcome was not recorded is repeated with the same ID.

mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use database::StoreError;
use http::{Method, Request, Uri};
use http_client::{CallError, HttpResponse};
use jiff::Timestamp;
use kernel::clock::rfc3339;
use kernel::failpoint;
use kernel::fair_share::{FairSlot, FairSlots};
use kernel::ids::ProjectId;
use kernel::metric_name::Metric;
use store_projects::webhook_endpoints::{self, DueEndpoint};
use store_sending::webhook_deliveries::claim::{self, CallAttempt, CallOutcome, ClaimedDelivery};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::App;
use verdict::{Next, Verdict, judge};

/// How often due deliveries are polled.
const POLL: Duration = Duration::from_millis(500);
/// Maximum calls in flight per owner and per endpoint. All owners together get an eighth more.
const MAX_PER_OWNER: usize = 512;
const MAX_PER_ENDPOINT: usize = 8;
/// Age after which a lane ends, so that its endpoint's URL, secrets and status are read again.
const MAX_LANE_AGE: Duration = Duration::from_secs(2);
/// Consecutive failures after which an endpoint gets one call at a time until one succeeds.
const SUSPECT_FAILURES: i32 = 5;
/// Maximum number of stored bytes of a response.
const MAX_RESPONSE_BYTES: usize = 1_024;

type Key = (ProjectId, Uuid);

struct WebhookSender {
    app: Arc<App>,
    slots: FairSlots,
    /// Number of open lanes, by endpoint.
    lanes: Mutex<HashMap<Key, usize>>,
    wake: Notify,
}

/// Sends due webhooks until shutdown. Calls in flight still complete afterwards.
pub async fn send_due(app: Arc<App>) {
    let (slots, lanes, wake) = (FairSlots::new(MAX_PER_OWNER), Mutex::default(), Notify::new());
    let sender = Arc::new(WebhookSender { app, slots, lanes, wake });
    let shutdown = sender.app.shutdown.clone();
    while !shutdown.is_cancelled() {
        if let Err(error) = sender.poll_once().await {
            tracing::debug!(%error, "cannot poll for due webhooks");
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = sender.wake.notified() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

/// A lane makes one call at a time to one endpoint.
struct Lane {
    sender: Arc<WebhookSender>,
    endpoint: Arc<DueEndpoint>,
    started: Instant,
    _slot: FairSlot,
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut lanes = self.sender.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.endpoint.project, self.endpoint.id);
        if let Some(count) = lanes.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                lanes.remove(&key);
            }
        }
    }
}

impl WebhookSender {
    /// Opens lanes to endpoints with due deliveries, within their owners' shares.
    async fn poll_once(self: &Arc<Self>) -> Result<(), StoreError> {
        let db = self.app.store.connection().await?;
        let found = webhook_endpoints::due(&db, &self.app.config.master_keys, self.app.clock.now()).await?;
        drop(db);
        let mut due = Vec::with_capacity(found.len());
        for endpoint in found {
            due.push((self.app.owners.of(&self.app.store, endpoint.project).await?, endpoint));
        }
        // When slots are scarce, they go to the owners and endpoints with the fewest calls in flight.
        due.sort_by_key(|(owner, of)| (self.slots.held(*owner), self.lanes_of((of.project, of.id))));
        for (owner, endpoint) in due {
            let max = if endpoint.failures >= SUSPECT_FAILURES { 1 } else { MAX_PER_ENDPOINT };
            let max = max.saturating_sub(self.lanes_of((endpoint.project, endpoint.id)));
            let slots: Vec<_> = (0..max).map_while(|_| self.slots.take(owner)).collect();
            if slots.is_empty() {
                continue;
            }
            let endpoint = Arc::new(endpoint);
            let claimed = match self.claim(&endpoint, slots.len()).await {
                Ok(claimed) => claimed,
                Err(error) if error.is_unavailable() && !error.is_statement_timeout() => return Err(error),
                Err(error) => {
                    let (project, endpoint) = (endpoint.project, endpoint.id);
                    tracing::warn!(%project, %endpoint, %error, "cannot claim webhooks");
                    continue;
                }
            };
            for (delivery, slot) in claimed.into_iter().zip(slots) {
                self.open(endpoint.clone(), delivery, slot);
            }
        }
        Ok(())
    }

    fn lanes_of(&self, key: Key) -> usize {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied().unwrap_or(0)
    }

    fn open(self: &Arc<Self>, endpoint: Arc<DueEndpoint>, first: ClaimedDelivery, slot: FairSlot) {
        let key = (endpoint.project, endpoint.id);
        *self.lanes.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
        let lane = Lane { sender: self.clone(), endpoint, started: Instant::now(), _slot: slot };
        self.app.tasks.spawn(lane.run(first));
    }

    async fn claim(&self, endpoint: &DueEndpoint, max: usize) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let now = self.app.clock.now();
        let lease = now.checked_add(self.app.config.lease).unwrap_or(now);
        let db = self.app.store.connection().await?;
        let claimed = claim::claim(&db, (endpoint.project, endpoint.id), now, lease, max as i64).await?;
        if !claimed.is_empty() {
            failpoint::hit("delivery.after_webhooks_taken");
        }
        Ok(claimed)
    }
}

impl Lane {
    /// Sends deliveries while calls succeed and more are due.
    async fn run(self, first: ClaimedDelivery) {
        let mut next = Some(first);
        while let Some(delivery) = next.take() {
            let succeeded = self.deliver(&delivery).await;
            if !succeeded || self.sender.app.shutdown.is_cancelled() {
                return;
            }
            if self.started.elapsed() > MAX_LANE_AGE {
                break;
            }
            next = self.sender.claim(&self.endpoint, 1).await.ok().and_then(|mut claimed| claimed.pop());
        }
        let sender = self.sender.clone();
        drop(self);
        sender.wake.notify_one();
    }

    /// Makes one call and settles it. Returns whether it succeeded.
    async fn deliver(&self, delivery: &ClaimedDelivery) -> bool {
        let (app, endpoint) = (&self.sender.app, &self.endpoint);
        let started = app.clock.now();
        let outcome = self.call(delivery, started).await;
        failpoint::hit("delivery.after_webhook_called");
        let ended = app.clock.now();
        let verdict = judge(&outcome, delivery.tries, endpoint.failures, ended, rand::random());
        metrics::counter!(Metric::WebhooksSent, "outcome" => if verdict.error.is_none() { "delivered" } else { "failed" })
            .increment(1);
        let answer = outcome.as_ref().ok();
        let attempt = CallAttempt {
            at: rfc3339(started),
            duration_ms: (ended.as_millisecond() - started.as_millisecond()).max(0),
            status: answer.map(|answer| answer.status.as_u16()),
            error: verdict.error.clone(),
            response: answer.map(first_bytes).filter(|text| !text.is_empty()),
        };
        if let Err(error) = self.settle(delivery, &attempt, &verdict, ended).await {
            let (project, id) = (delivery.project, delivery.id);
            tracing::warn!(%project, webhook_id = %id, %error, "cannot settle a webhook; it will be sent again");
            return false;
        }
        verdict.error.is_none()
    }

    async fn settle(
        &self,
        delivery: &ClaimedDelivery,
        attempt: &CallAttempt,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (project, endpoint) = (delivery.project, delivery.endpoint);
        let later = |delay: Duration| now.checked_add(delay).unwrap_or(now);
        let end = match verdict.next {
            Next::Done => CallOutcome::Delivered,
            Next::Again(delay) => CallOutcome::Retry(later(delay)),
            Next::GiveUp => CallOutcome::Failed,
        };
        let mut db = self.sender.app.store.connection().await?;
        if !claim::settle(&db, delivery, attempt, end).await? {
            tracing::debug!(%project, webhook_id = %delivery.id, "a webhook was taken over, or its user erased");
        }
        if verdict.error.is_none() {
            // Reads the row, not the lane's state: another lane's call may have failed meanwhile.
            return webhook_endpoints::record_success(&db, project, endpoint).await;
        }
        let failed =
            webhook_endpoints::record_failure(&db, project, endpoint, verdict.back_off.map(later), now).await?;
        let Some((since, failures)) = failed else { return Ok(()) };
        let failing_for = Duration::from_millis((now.as_millisecond() - since.as_millisecond()).max(0).unsigned_abs());
        let Some(reason) = verdict.disables(failing_for, failures) else { return Ok(()) };
        let tx = db.transaction().await.map_err(StoreError::from)?;
        if webhook_endpoints::disable(&tx, project, endpoint, reason, now).await? {
            tracing::warn!(%project, %endpoint, reason, "a webhook endpoint was disabled");
        }
        tx.commit().await.map_err(StoreError::from)
    }

    async fn call(&self, delivery: &ClaimedDelivery, now: Timestamp) -> Result<HttpResponse, CallError> {
        let (app, refused) = (&self.sender.app, |why: &str| CallError::Refused(why.to_owned()));
        let Some(secrets) = &self.endpoint.secrets else {
            let (project, endpoint) = (delivery.project, delivery.endpoint);
            tracing::warn!(%project, %endpoint, "the secret of a webhook endpoint cannot be read");
            return Err(refused("the endpoint's secret cannot be read"));
        };
        let uri: Uri = self.endpoint.url.parse().map_err(|_| refused("the endpoint's URL is invalid"))?;
        let (id, seconds, body) = (delivery.id.to_string(), now.as_second(), delivery.body());
        let request = Request::builder()
            .method(Method::POST)
            .header("content-type", "application/json")
            .header("user-agent", "Rekindle")
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", secrets.signatures(now, &id, seconds, &body))
            .header("webhook-id", id)
            .uri(uri)
            .body(Bytes::from(body))
            .map_err(|error| CallError::Refused(error.to_string()))?;
        app.config.http.call_for_project(request).await
    }
}

/// Returns the start of a response as text that the database accepts.
fn first_bytes(answer: &HttpResponse) -> String {
    let bytes = &answer.body[..answer.body.len().min(MAX_RESPONSE_BYTES)];
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}
