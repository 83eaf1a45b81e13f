//! Outcomes that the database rejects at first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use database::months::Month;
use domain::message::DeliveryState::{Delivered, Queued, Sent};
use kernel::ids;
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use store_sending::messages::receipts::{self, Receipt};
use store_sending::messages::settle::{Settled, settle};
use testkit::{eventually, eventually_true};
use uuid::Uuid;
use worker_delivery::provider::Outcome;
use worker_delivery::provider::stub::Stub;

use crate::fences::{lease, member, settler};
use crate::place::{Place, SOON};

/// Makes settling fail for rows that match the condition. The sequence `tries` counts the failures.
async fn refuse(place: &Place, condition: &str, code: &str) {
    let sql = format!(
        "CREATE SEQUENCE tries; \
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('tries'); \
         RAISE EXCEPTION 'refused on purpose' USING ERRCODE = '{code}'; END $$; \
         CREATE TRIGGER refuse BEFORE UPDATE ON message FOR EACH ROW \
         WHEN (NEW.status <> 'queued' AND {condition}) EXECUTE FUNCTION refuse()"
    );
    place.store.connection().await.unwrap().batch_execute(&sql).await.unwrap();
}

async fn tries(place: &Place) -> i64 {
    let sql = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tries";
    place.store.connection().await.unwrap().query_one(sql, &[]).await.unwrap().get(0)
}

/// Starts a worker with a provider that accepts everything. Returns its call counter.
async fn accepting(place: &mut Place) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    place
        .run_with_stub(Stub::new(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            Outcome::Accepted("1".to_owned())
        }))
        .await;
    calls
}

#[tokio::test]
async fn what_the_provider_took_is_written_once_a_fault_of_the_database_is_mended() {
    let mut place = Place::new().await;
    // A corrupt page, and a revoked permission.
    for code in ["XX001", "42501"] {
        refuse(&place, "true", code).await;
        let ann = place.user(code, Some("ann@example.com"), None).await;
        let calls = accepting(&mut place).await;
        let messages = [place.message(ann), place.message(ann)];
        place.queue(&messages).await;
        eventually_true("the write is retried", SOON, async || tries(&place).await >= 4).await;
        place
            .store
            .connection()
            .await
            .unwrap()
            .batch_execute("DROP FUNCTION refuse() CASCADE; DROP SEQUENCE tries")
            .await
            .unwrap();
        for message in &messages {
            let row = place.settled(message.id, 1).await;
            assert_eq!((row.status.as_str(), row.attempt, row.ambiguous), ("sent", 1, 0));
        }
        place.drained().await;
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        place.stop().await;
    }
}

#[tokio::test]
async fn while_what_came_of_a_projects_calls_cannot_be_written_no_more_than_a_few_are_made() {
    const MOST: i64 = 2_048;
    let mut place = Place::new().await;
    let (other, failing) = (place.project, place.another_project().await);
    refuse(&place, &format!("NEW.project_id = '{}'", failing.0), "XX001").await;
    let calls = accepting(&mut place).await;
    let bob = place.user("bob", Some("bob@example.com"), None).await;
    place.project = failing;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<_> = (0..MOST + 500).map(|_| place.message(ann)).collect();
    for part in messages.chunks(500) {
        place.queue(part).await;
    }
    eventually(SOON, async || match place.begun(failing).await {
        MOST => Ok(()),
        begun => Err(format!("{begun} begun")),
    })
    .await;

    place.project = other;
    for _ in 0..3 {
        let message = place.message(bob);
        place.queue(std::slice::from_ref(&message)).await;
        assert_eq!(place.settled(message.id, 1).await.status, "sent");
    }
    assert_eq!((place.begun(failing).await, calls.load(Ordering::SeqCst)), (MOST, MOST as usize + 3));
    // Replaces the function, because dropping the trigger needs a lock on a busy table.
    let mended = "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$";
    place.store.connection().await.unwrap().batch_execute(mended).await.unwrap();
    place.project = failing;
    for message in messages.iter().rev() {
        let row = place.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt, row.ambiguous), ("sent", 1, 0));
    }
    assert_eq!(calls.load(Ordering::SeqCst), messages.len() + 3);
    place.stop().await;
}

#[tokio::test]
async fn a_text_that_the_database_refuses_costs_neither_its_message_nor_others() {
    let mut place = Place::new().await;
    refuse(&place, "NEW.subject = 'refused'", "22021").await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let calls = accepting(&mut place).await;
    let messages: Vec<_> = (0..9)
        .map(|n| {
            let mut message = place.message(ann);
            message.content = json!({ "subject": if n == 4 { "refused" } else { "fine" }, "body": "x" });
            message
        })
        .collect();
    place.queue(&messages).await;
    for (n, message) in messages.iter().enumerate() {
        let row = place.settled(message.id, 1).await;
        let subject = if n == 4 { None } else { Some("fine") };
        assert_eq!((row.status.as_str(), row.subject.as_deref(), row.ambiguous), ("sent", subject, 0));
    }
    assert!(tries(&place).await > 0);
    assert_eq!(calls.load(Ordering::SeqCst), 9);
    place.stop().await;
}

#[tokio::test]
async fn whose_message_came_further_is_marked_where_a_segment_looks_at_messages() {
    let place = Place::new().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let marked = async || {
        let sql = "SELECT look, people FROM segment_dirty WHERE project_id = $1";
        let rows = place.store.connection().await.unwrap().query(sql, &[&place.project]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(String, Vec<Uuid>)>>()
    };
    let end = |id, status, due_at| Settled { due_at, ..Settled::new(place.project, id, 1, status) };
    let mut db = place.store.connection().await.unwrap();
    let now = place.clock.now();
    let told = |id| [Receipt { message: id, state: Delivered, at: now, reason: None, url: None }];
    let watch = "INSERT INTO segment_watch (project_id, looks_at, changed_seq) VALUES ($1, $2, 1) \
                 ON CONFLICT (project_id) DO UPDATE SET looks_at = excluded.looks_at";
    for (looks, is_marked) in [(&["profile"][..], false), (&["profile", "messages"], true)] {
        db.execute(watch, &[&place.project, &looks]).await.unwrap();
        let messages = [place.message(ann), place.message(ann), place.message(ann)];
        place.insert(&messages).await;
        // A retry marks no user; two sent messages mark their user once.
        let tx = db.transaction().await.unwrap();
        settle(&tx, place.project, &[&end(messages[0].id, Queued, Some(now))], now).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(marked().await, []);
        let ends = [end(messages[1].id, Sent, None), end(messages[2].id, Sent, None)];
        let tx = db.transaction().await.unwrap();
        settle(&tx, place.project, &ends.iter().collect::<Vec<_>>(), now).await.unwrap();
        tx.commit().await.unwrap();
        let expected = if is_marked { vec![("messages".to_owned(), vec![ann])] } else { Vec::new() };
        assert_eq!(marked().await, expected);
        db.execute("DELETE FROM segment_dirty", &[]).await.unwrap();
        // A receipt marks the user, and its repeat does not.
        for expected in [expected, Vec::new()] {
            let tx = db.transaction().await.unwrap();
            receipts::apply(&tx, place.project, &told(messages[1].id), now).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(marked().await, expected);
            db.execute("DELETE FROM segment_dirty", &[]).await.unwrap();
        }
    }
}

/// Begins two messages of different months, and makes the database reject the outcome of one with this code.
async fn of_two_months(place: &Place, refused: usize, code: &str) -> ([NewMessage; 2], Uuid) {
    let ann = place.user(&format!("ann-{refused}"), Some("ann@example.com"), None).await;
    let now = place.clock.now();
    let last_month = Month::at(now.as_millisecond()).start_ms() - 1;
    let messages = [last_month, now.as_millisecond()].map(|ms| NewMessage { id: ids::fresh(ms), ..place.message(ann) });
    let chunk = place.insert_begun(&messages, lease(place)).await;
    refuse(place, &format!("NEW.id = '{}'", messages[refused].id), code).await;
    (messages, chunk)
}

const MENDED: &str = "DROP FUNCTION refuse() CASCADE; DROP SEQUENCE tries";

#[tokio::test]
async fn a_row_that_the_database_refuses_delays_no_outcome_that_is_written_with_it() {
    let place = Place::new().await;
    for refused in [0, 1] {
        let (messages, chunk) = of_two_months(&place, refused, "22021").await;
        let settler = settler(&place);
        let end = |n: usize| {
            settler.settle(member(&messages[n], chunk, n), Settled::new(place.project, messages[n].id, 1, Sent))
        };
        let both = async { tokio::join!(end(0), end(1)) };
        tokio::time::timeout(SOON, both).await.expect("neither is retried forever");
        assert_eq!(place.row(messages[1 - refused].id).await.unwrap().status, "sent");
        let row = place.row(messages[refused].id).await.unwrap();
        assert!(row.status == "queued" && row.is_begun, "{row:?}");
        place.store.connection().await.unwrap().batch_execute(MENDED).await.unwrap();
    }
}

#[tokio::test]
async fn an_outcome_that_cannot_be_written_delays_no_later_one_of_its_project() {
    let place = Place::new().await;
    for refused in [0, 1] {
        let (messages, chunk) = of_two_months(&place, refused, "XX001").await;
        let settler = settler(&place);
        let end = |n: usize| {
            settler.settle(member(&messages[n], chunk, n), Settled::new(place.project, messages[n].id, 1, Sent))
        };
        let mut delayed = Box::pin(end(refused));
        tokio::select! {
            () = &mut delayed => panic!("the database refused this one"),
            () = eventually_true("the write is retried", SOON, async || tries(&place).await >= 2) => {}
        }
        let later = async {
            tokio::select! {
                () = &mut delayed => panic!("the database refused this one"),
                () = end(1 - refused) => {}
            }
        };
        tokio::time::timeout(SOON, later).await.expect("the later outcome is written");
        assert_eq!(place.row(messages[1 - refused].id).await.unwrap().status, "sent");
        assert!(place.row(messages[refused].id).await.unwrap().is_begun);
        place.store.connection().await.unwrap().batch_execute(MENDED).await.unwrap();
        tokio::time::timeout(SOON, delayed).await.expect("it is written once the database accepts it");
        assert_eq!(place.row(messages[refused].id).await.unwrap().status, "sent");
    }
}

#[tokio::test]
async fn a_project_whose_outcomes_are_locked_delays_no_other() {
    let mut place = Place::new().await;
    let (locked, other) = (place.project, place.another_project().await);
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let campaign = crate::campaigns::campaign(&place).await;
    accepting(&mut place).await;
    let mut db = place.store.connection().await.unwrap();
    let sql =
        "INSERT INTO campaign_outcome (project_id, campaign_id, sent, failed, failed_in_row) VALUES ($1, $2, 0, 0, 0)";
    db.execute(sql, &[&locked, &campaign]).await.unwrap();
    let tx = db.transaction().await.unwrap();
    tx.query("SELECT FROM campaign_outcome WHERE campaign_id = $1 FOR UPDATE", &[&campaign]).await.unwrap();
    crate::campaigns::release(&place, &[ann]).await;
    // The wait's start time identifies the attempt: one that times out is repeated.
    let waiting =
        "SELECT max(waitstart)::text FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    let since = async || tx.query_one(waiting, &[]).await.unwrap().get::<_, Option<String>>(0);
    eventually_true("settling waits for the lock", SOON, async || since().await.is_some()).await;
    let first = since().await;

    place.project = other;
    let bob = place.user("bob", Some("bob@example.com"), None).await;
    for _ in 0..3 {
        let message = place.message(bob);
        place.queue(std::slice::from_ref(&message)).await;
        let sent = "SELECT status = 'sent' FROM message WHERE id = $1";
        // The transaction that holds the lock runs the query, so that it is never idle for long.
        eventually_true("the other project's message is settled", SOON, async || {
            tx.query_one(sent, &[&message.id]).await.unwrap().get(0)
        })
        .await;
        assert_eq!(since().await, first, "it waited for the locked project");
    }
    tx.commit().await.unwrap();
    place.project = locked;
    let id = crate::campaigns::message_to(&place, campaign, ann).await.unwrap();
    assert_eq!(place.settled(id, 1).await.status, "sent");
    place.stop().await;
}
