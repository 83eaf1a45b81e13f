//! Users who are merged after their messages were begun and before the retry.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use bus::wake::wake;
use domain::message::{Channel, Lane, Queue};
use jiff::SignedDuration;
use providers::stub::Stub;
use providers::{Email, Outcome};
use store_sending::send_chunks::{self, NewChunk};
use testkit::{eventually, eventually_true};
use uuid::Uuid;

use super::{Family, families, merge, orders};
use crate::campaigns::{accepting, campaign, counted, message_to, release, report};
use crate::fixture::{Fixture, SOON};

/// Runs delivery with a provider that accepts each message at its second attempt.
async fn deferring(fixture: &mut Fixture) {
    let seen = Mutex::new(HashSet::new());
    let stub = Stub::new(move |mail: &Email| {
        if seen.lock().unwrap().insert(mail.id) {
            Outcome::Limited { after: Duration::from_hours(1), why: "2 a second".to_owned() }
        } else {
            Outcome::Accepted("1".to_owned())
        }
    });
    fixture.run_with_stub(stub).await;
}

/// Waits until workers are idle, and moves each message that waits for a retry into its own chunk.
async fn deferred(fixture: &Fixture, campaign: Uuid) {
    eventually_true("all that is due is settled", SOON, async || {
        fixture.due(fixture.project).await == 0 && fixture.begun(fixture.project).await == 0
    })
    .await;
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let sql = "DELETE FROM send_chunk WHERE campaign_id = $1 AND NOT is_audience AND done::text NOT LIKE '%1%' RETURNING members, occurrence";
    let now = fixture.clock.now();
    let mut chunks = Vec::new();
    for row in tx.query(sql, &[&campaign]).await.unwrap() {
        let (members, occurrence): (Vec<Uuid>, i32) = (row.get(0), row.get(1));
        chunks.extend(members.into_iter().map(|id| NewChunk {
            campaign: Some((campaign, occurrence)),
            ..NewChunk::due(queue(fixture), vec![id], now + SignedDuration::from_hours(1))
        }));
    }
    send_chunks::insert(&tx, &chunks, now).await.unwrap();
    tx.commit().await.unwrap();
}

fn queue(fixture: &Fixture) -> Queue {
    Queue { project: fixture.project, channel: Channel::Email, lane: Lane::Campaign }
}

/// Makes messages due that wait for a retry.
async fn retry(fixture: &Fixture, messages: &[Uuid]) {
    let sql = "UPDATE send_chunk SET due_at = now() WHERE NOT is_audience AND members[1] = ANY($1)";
    let due = fixture.store.connection().await.unwrap().execute(sql, &[&messages]).await.unwrap();
    assert_eq!(due as usize, messages.len());
    wake(&fixture.bus, &[queue(fixture)]).await;
}

/// An event of a known user (0) and an anonymous one (1): a message is begun, or retried, or the two are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Begin(usize),
    Retry(usize),
    Merge,
}

const ACTS: [Act; 5] = [Act::Begin(0), Act::Begin(1), Act::Retry(0), Act::Retry(1), Act::Merge];

/// Expected messages, by the recipient for whom they were begun: the current user and the status.
#[derive(Default)]
struct Model {
    is_merged: bool,
    messages: BTreeMap<usize, (usize, &'static str)>,
}

impl Model {
    fn user(&self, of: usize) -> usize {
        if self.is_merged { 0 } else { of }
    }

    fn has_other(&self, of: usize, statuses: &[&str]) -> bool {
        let is_other = |(recipient, (user, status)): (&usize, &(usize, &str))| {
            *recipient != of && self.user(*user) == self.user(of) && statuses.contains(status)
        };
        self.messages.iter().any(is_other)
    }

    fn apply(&mut self, act: Act) {
        match act {
            Act::Merge => self.is_merged = true,
            Act::Begin(of) if self.has_other(of, &["queued", "sent"]) => {}
            Act::Begin(of) => drop(self.messages.insert(of, (self.user(of), "queued"))),
            Act::Retry(of) => {
                let status = if self.has_other(of, &["sent"]) { "suppressed" } else { "sent" };
                self.messages.entry(of).and_modify(|message| message.1 = status);
            }
        }
    }
}

#[tokio::test]
async fn users_merged_between_two_attempts_get_one_message() {
    let mut fixture = Fixture::new().await;
    let is_possible = |order: &Vec<Act>| {
        let at = |act| order.iter().position(|found| *found == act);
        [0, 1].iter().all(|of| at(Act::Begin(*of)) < at(Act::Retry(*of)))
    };
    let orders: Vec<Vec<Act>> = orders(&ACTS).into_iter().filter(is_possible).collect();
    let families = families(&fixture, orders.len()).await;
    let campaign = campaign(&fixture).await;
    deferring(&mut fixture).await;
    let (mut models, mut ids) = (Vec::new(), BTreeMap::new());
    models.resize_with(orders.len(), Model::default);
    for step in 0..ACTS.len() {
        let (mut from, mut into, mut begun, mut retried) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (n, (Family([known, one, _]), order)) in families.iter().zip(&orders).enumerate() {
            models[n].apply(order[step]);
            match order[step] {
                Act::Merge => {
                    from.push(*one);
                    into.push(*known);
                }
                Act::Begin(of) => begun.push((n, of)),
                Act::Retry(of) => retried.extend(ids.get(&(n, of)).copied()),
            }
        }
        merge(&fixture, &from, &into).await;
        release(&fixture, &begun.iter().map(|(n, of)| families[*n].0[*of]).collect::<Vec<_>>()).await;
        retry(&fixture, &retried).await;
        deferred(&fixture, campaign).await;
        for (n, of) in begun {
            if let Some((user, _)) = models[n].messages.get(&of) {
                ids.insert((n, of), message_to(&fixture, campaign, families[n].0[*user]).await.unwrap());
            }
        }
    }
    let (mut sent, mut recipients) = (0, 0);
    for (n, (model, order)) in models.iter().zip(&orders).enumerate() {
        for (of, (_, status)) in &model.messages {
            assert_eq!(fixture.row(ids[&(n, *of)]).await.unwrap().status, *status, "{of} of {order:?}");
        }
        sent += model.messages.values().filter(|(_, status)| *status == "sent").count() as i64;
        recipients += 2;
    }
    let mut expected = counted([("sent", sent), ("suppressed", recipients - sent)]);
    // The third member's message is not released.
    expected.insert("queued".to_owned(), families.len() as i64);
    assert_eq!(report(&fixture, campaign).await, expected);
    fixture.assert_queue_is_whole().await;
    fixture.stop().await;
}

/// Begins the messages to a known and an anonymous user of each family, and merges the users while the messages wait.
async fn merged_while_deferred(fixture: &mut Fixture, count: usize) -> (Uuid, Vec<[Uuid; 2]>) {
    let families = families(fixture, count).await;
    let campaign = campaign(fixture).await;
    deferring(fixture).await;
    let (known, one): (Vec<Uuid>, Vec<Uuid>) = families.iter().map(|Family([known, one, _])| (*known, *one)).unzip();
    release(fixture, &[&known[..], &one].concat()).await;
    deferred(fixture, campaign).await;
    let mut messages = Vec::new();
    for (known, one) in known.iter().zip(&one) {
        let of = async |user| message_to(fixture, campaign, user).await.unwrap();
        messages.push([of(*known).await, of(*one).await]);
    }
    merge(fixture, &one, &known).await;
    (campaign, messages)
}

#[tokio::test]
async fn one_of_two_concurrent_retries_for_a_user_is_sent() {
    let mut fixture = Fixture::new().await;
    let (campaign, messages) = merged_while_deferred(&mut fixture, 60).await;
    accepting(&mut fixture).await;
    retry(&fixture, messages.as_flattened()).await;
    deferred(&fixture, campaign).await;
    for pair in messages {
        let [known, one] = pair.map(|id| fixture.row(id));
        let rows = [known.await.unwrap(), one.await.unwrap()];
        let mut found = rows.each_ref().map(|row| (row.status.as_str(), row.reason.as_deref()));
        found.sort_unstable();
        assert_eq!(found, [("sent", None), ("suppressed", Some("merged"))]);
    }
    assert_eq!(report(&fixture, campaign).await, counted([("queued", 60), ("sent", 60), ("suppressed", 60)]));
    fixture.stop().await;
}

#[tokio::test]
async fn retry_is_sent_only_if_no_other_message_of_its_user_may_have_been_sent() {
    let mut fixture = Fixture::new().await;
    let others = [
        ("UPDATE send_chunk SET is_begun = true WHERE members[1] = $1", "suppressed"),
        ("UPDATE send_chunk SET is_begun = true, due_at = NULL WHERE members[1] = $1", "suppressed"),
        ("UPDATE message SET ambiguous = 1 WHERE id = $1", "suppressed"),
        ("UPDATE send_chunk SET due_at = due_at WHERE members[1] = $1", "sent"),
        ("UPDATE message SET ambiguous = 1, forgiven = 1 WHERE id = $1", "sent"),
        ("UPDATE message SET status = 'failed', failed_at = now() WHERE id = $1", "sent"),
    ];
    let (_, messages) = merged_while_deferred(&mut fixture, others.len()).await;
    let db = fixture.store.connection().await.unwrap();
    for ([known, _], (change, _)) in messages.iter().zip(others) {
        assert_eq!(db.execute(change, &[known]).await.unwrap(), 1, "{change}");
    }
    let retried: Vec<Uuid> = messages.iter().map(|[_, one]| *one).collect();
    retry(&fixture, &retried).await;
    for (id, (change, expected)) in retried.iter().zip(others) {
        assert_eq!(fixture.settled(*id, 2).await.status, expected, "{change}");
    }
    fixture.stop().await;
}

/// A merge may be committed at any time after the users of a batch were read.
#[tokio::test]
async fn message_is_sent_to_the_user_read_under_the_campaign_lock() {
    let mut fixture = Fixture::new().await;
    let Family([known, one, _]) = families(&fixture, 1).await.remove(0);
    let campaign = campaign(&fixture).await;
    accepting(&mut fixture).await;
    release(&fixture, &[known]).await;
    eventually_true("the known user is sent one", SOON, async || {
        report(&fixture, campaign).await.get("sent") == Some(&1)
    })
    .await;
    let mut db = fixture.store.connection().await.unwrap();
    db.batch_execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$; \
         CREATE TRIGGER wait AFTER INSERT ON message FOR EACH STATEMENT EXECUTE FUNCTION wait()",
    )
    .await
    .unwrap();
    let tx = db.transaction().await.unwrap();
    tx.query("SELECT pg_advisory_xact_lock(7)", &[]).await.unwrap();
    release(&fixture, &[one]).await;
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    eventually(SOON, async || match tx.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) {
        0 => Err("the anonymous user's message is not inserted yet"),
        _ => Ok(()),
    })
    .await;
    merge(&fixture, &[one], &[known]).await;
    tx.commit().await.unwrap();
    eventually_true("both are settled", SOON, async || report(&fixture, campaign).await.get("sent") == Some(&2)).await;
    let message = message_to(&fixture, campaign, one).await.expect("the message stays the anonymous user's");
    assert_eq!(fixture.row(message).await.unwrap().status, "sent");
    fixture.stop().await;
}
