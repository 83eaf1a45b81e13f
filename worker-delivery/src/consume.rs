//! Reading one lane of one channel from the send stream, without ever giving up.

mod pull;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::{AckKind, Message};
use metrics::{Gauge, gauge};
use shared::backoff::Backoff;
use shared::metric_name::Metric;
use shared::send::{Channel, Lane};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::pull::Pull;
use crate::App;
use crate::handle::{Crowd, Queue, Received, Turn, handle};

/// Until a lane that brings nothing counts as empty.
const IDLE: Duration = Duration::from_secs(1);
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Room for what the workers of a lane keep waiting, and for what each project has in hand beside.
const MAX_ACK_PENDING: i64 = 16_384;
/// How many may wait for their accounts' limits at a time, beside what is begun: each the rows of one project that came in one
/// group.
const BESIDE: usize = 2_048;
/// How long what the broker sent ahead may lie here while there is no room to begin it. Well below the time after which
/// the broker would send it again by itself, to us or to others, with ours still lying here.
const AHEAD: Duration = Duration::from_secs(10);

/// How much of a lane is begun at a time: messages taken together, and such groups. Direct messages are one each as they
/// come from the API, all others hold up to 500 rows.
fn bounds(lane: Lane) -> (usize, usize) {
    match lane {
        Lane::Direct => (64, 16),
        Lane::Automation => (16, 8),
        Lane::Campaign => (1, 8),
    }
}

/// Reads until the shutdown; what was read and not begun goes back.
pub async fn consume(app: Arc<App>, channel: Channel, lane: Lane) {
    let (group, groups) = bounds(lane);
    let (slots, beside) = (Arc::new(Semaphore::new(groups)), Arc::new(Semaphore::new(BESIDE)));
    // One group is written down at a time, unless that takes long: what comes meanwhile is the next, which so grows by itself where
    // much comes.
    let intakes = Arc::new(Semaphore::new(1));
    let crowd = Crowd::default();
    let lag = gauge!(Metric::SendLag, "channel" => channel.slug(), "lane" => lane.as_str());
    let mut failures = 0;
    while !app.shutdown.is_cancelled() {
        let mut messages = match open(&app, channel, lane, group).await {
            Ok(messages) => messages,
            Err(error) => {
                failures += 1;
                if failures % 10 == 1 {
                    tracing::warn!(channel = channel.slug(), lane = lane.as_str(), %error, "cannot read the send stream; trying again");
                }
                tokio::select! {
                    () = app.shutdown.cancelled() => return,
                    () = tokio::time::sleep(Backoff::CONNECT.delay(failures, rand::random())) => continue,
                }
            }
        };
        let mut has_read = false;
        // Ends when the pull breaks; then it is made anew.
        while let Some(intake) = turn(&app, &intakes).await
            && let Some(batch) = next_group(&app, &mut messages, group, &lag).await
        {
            (has_read, failures) = (true, 0);
            let slot = loop {
                tokio::select! {
                    biased;
                    slot = slots.clone().acquire_owned() => break slot.ok(),
                    () = app.shutdown.cancelled() => break None,
                    () = crowd.during(tokio::time::sleep(AHEAD)) => {
                        let ahead: Vec<Message> = std::iter::from_fn(|| messages.here()).take(2 * group).collect();
                        give_back(ahead).await;
                    }
                }
            };
            let Some(slot) = slot else {
                batch.give_back().await;
                break;
            };
            let turn = Turn { crowd: crowd.clone(), intake, slot, beside: beside.clone() };
            app.tasks.clone().spawn(handle(app.clone(), Queue { channel, lane }, batch, turn));
        }
        give_back(messages.end().await).await;
        if !has_read {
            failures += 1;
            tokio::select! {
                () = app.shutdown.cancelled() => return,
                () = tokio::time::sleep(Backoff::CONNECT.delay(failures, rand::random())) => {}
            }
        }
    }
}

/// The turn to read and write down a group; `None` when the shutdown began.
async fn turn(app: &App, turns: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        () = app.shutdown.cancelled() => None,
        turn = turns.clone().acquire_owned() => turn.ok(),
    }
}

async fn open(app: &App, channel: Channel, lane: Lane, group: usize) -> Result<Pull, String> {
    let names = &app.bus.names;
    let config = Config {
        durable_name: Some(names.send_consumer(channel, lane)),
        filter_subject: names.send(channel, lane),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        // An outage is no fault of a message's.
        max_deliver: -1,
        max_ack_pending: MAX_ACK_PENDING,
        ..Config::default()
    };
    let made = app.bus.jetstream.create_consumer_on_stream(config, names.send_stream()).await;
    let consumer: PullConsumer = made.map_err(|e| e.to_string())?;
    Pull::begin(&app.bus, consumer, group).await
}

/// The next message and what came with it; `None` when the pull broke or the shutdown began.
async fn next_group(app: &App, messages: &mut Pull, most: usize, lag: &Gauge) -> Option<Received> {
    let first = loop {
        tokio::select! {
            biased;
            () = app.shutdown.cancelled() => return None,
            first = messages.next() => break first,
            // Whoever is given nothing has nothing waiting.
            () = tokio::time::sleep(IDLE) => lag.set(0.0),
        }
    };
    let first = first.inspect_err(|error| tracing::debug!(%error, "the pull broke; opening it anew")).ok()?;
    let mut group = vec![first];
    while group.len() < most
        && let Some(message) = messages.here()
    {
        group.push(message);
    }
    if let Some(Ok(info)) = group.last().map(Message::info) {
        lag.set(info.pending as f64);
    }
    Some(Received::new(group))
}

/// Gives back what was sent ahead: it comes again, here or elsewhere.
async fn give_back(messages: Vec<Message>) {
    for message in messages {
        let _ = message.ack_with(AckKind::Nak(None)).await;
    }
}
