//! Outcomes that the database rejects at first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use database::months::Month;
use domain::message::DeliveryState::{Delivered, Queued, Sent};
use kernel::ids;
use providers::Outcome;
use providers::stub::Stub;
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use store_sending::messages::receipts::{self, Receipt};
use store_sending::messages::settle::{Settled, settle};
use testkit::{eventually, eventually_true};
use uuid::Uuid;

use crate::fences::{lease, member, settler};
use crate::fixture::{Fixture, SOON};

/// Makes settling fail for rows that match the condition. The sequence `tries` counts the failures.
async fn refuse(fixture: &Fixture, condition: &str, code: &str) {
    let sql = format!(
        "CREATE SEQUENCE tries; \
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('tries'); \
         RAISE EXCEPTION 'refused on purpose' USING ERRCODE = '{code}'; END $$; \
         CREATE TRIGGER refuse BEFORE UPDATE ON message FOR EACH ROW \
         WHEN (NEW.status <> 'queued' AND {condition}) EXECUTE FUNCTION refuse()"
    );
    fixture.store.connection().await.unwrap().batch_execute(&sql).await.unwrap();
}

async fn tries(fixture: &Fixture) -> i64 {
    let sql = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tries";
    fixture.store.connection().await.unwrap().query_one(sql, &[]).await.unwrap().get(0)
}

/// Starts a worker with a provider that accepts everything. Returns its call counter.
async fn accepting(fixture: &mut Fixture) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    fixture
        .run_with_stub(Stub::new(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            Outcome::Accepted("1".to_owned())
        }))
        .await;
    calls
}

#[tokio::test]
async fn accepted_message_is_recorded_after_the_database_recovers() {
    let mut fixture = Fixture::new().await;
    // A corrupt page, and a revoked permission.
    for code in ["XX001", "42501"] {
        refuse(&fixture, "true", code).await;
        let ann = fixture.user(code, Some("ann@example.com"), None).await;
        let calls = accepting(&mut fixture).await;
        let messages = [fixture.message(ann), fixture.message(ann)];
        fixture.queue(&messages).await;
        eventually_true("the write is retried", SOON, async || tries(&fixture).await >= 4).await;
        fixture
            .store
            .connection()
            .await
            .unwrap()
            .batch_execute("DROP FUNCTION refuse() CASCADE; DROP SEQUENCE tries")
            .await
            .unwrap();
        for message in &messages {
            let row = fixture.settled(message.id, 1).await;
            assert_eq!((row.status.as_str(), row.attempt, row.ambiguous), ("sent", 1, 0));
        }
        fixture.drained().await;
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        fixture.stop().await;
    }
}

#[tokio::test]
async fn calls_stop_at_the_limit_while_outcomes_cannot_be_written() {
    const MAX_CALLS: i64 = 2_048;
    let mut fixture = Fixture::new().await;
    let (other, failing) = (fixture.project, fixture.another_project().await);
    refuse(&fixture, &format!("NEW.project_id = '{}'", failing.0), "XX001").await;
    let calls = accepting(&mut fixture).await;
    let bob = fixture.user("bob", Some("bob@example.com"), None).await;
    fixture.project = failing;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<_> = (0..MAX_CALLS + 500).map(|_| fixture.message(ann)).collect();
    for part in messages.chunks(500) {
        fixture.queue(part).await;
    }
    eventually(SOON, async || match fixture.begun(failing).await {
        MAX_CALLS => Ok(()),
        begun => Err(format!("{begun} begun")),
    })
    .await;

    fixture.project = other;
    for _ in 0..3 {
        let message = fixture.message(bob);
        fixture.queue(std::slice::from_ref(&message)).await;
        assert_eq!(fixture.settled(message.id, 1).await.status, "sent");
    }
    assert_eq!((fixture.begun(failing).await, calls.load(Ordering::SeqCst)), (MAX_CALLS, MAX_CALLS as usize + 3));
    // Replaces the function, because dropping the trigger needs a lock on a busy table.
    let repaired =
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$";
    fixture.store.connection().await.unwrap().batch_execute(repaired).await.unwrap();
    fixture.project = failing;
    for message in messages.iter().rev() {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt, row.ambiguous), ("sent", 1, 0));
    }
    assert_eq!(calls.load(Ordering::SeqCst), messages.len() + 3);
    fixture.stop().await;
}

#[tokio::test]
async fn text_that_the_database_rejects_loses_no_outcome() {
    let mut fixture = Fixture::new().await;
    refuse(&fixture, "NEW.subject = 'refused'", "22021").await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let calls = accepting(&mut fixture).await;
    let messages: Vec<_> = (0..9)
        .map(|n| {
            let mut message = fixture.message(ann);
            message.content = json!({ "subject": if n == 4 { "refused" } else { "fine" }, "body": "x" });
            message
        })
        .collect();
    fixture.queue(&messages).await;
    for (n, message) in messages.iter().enumerate() {
        let row = fixture.settled(message.id, 1).await;
        let subject = if n == 4 { None } else { Some("fine") };
        assert_eq!((row.status.as_str(), row.subject.as_deref(), row.ambiguous), ("sent", subject, 0));
    }
    assert!(tries(&fixture).await > 0);
    assert_eq!(calls.load(Ordering::SeqCst), 9);
    fixture.stop().await;
}

#[tokio::test]
async fn progress_of_a_message_marks_its_user_if_a_segment_uses_messages() {
    let fixture = Fixture::new().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let marked = async || {
        let sql = "SELECT look, people FROM segment_dirty WHERE project_id = $1";
        let rows = fixture.store.connection().await.unwrap().query(sql, &[&fixture.project]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(String, Vec<Uuid>)>>()
    };
    let end = |id, status, due_at| Settled { due_at, ..Settled::new(fixture.project, id, 1, status) };
    let mut db = fixture.store.connection().await.unwrap();
    let now = fixture.clock.now();
    let receipt = |id| [Receipt { message: id, state: Delivered, at: now, reason: None, url: None }];
    let watch = "INSERT INTO segment_watch (project_id, looks_at, changed_seq) VALUES ($1, $2, 1) \
                 ON CONFLICT (project_id) DO UPDATE SET looks_at = excluded.looks_at";
    for (segment_inputs, is_marked) in [(&["profile"][..], false), (&["profile", "messages"], true)] {
        db.execute(watch, &[&fixture.project, &segment_inputs]).await.unwrap();
        let messages = [fixture.message(ann), fixture.message(ann), fixture.message(ann)];
        fixture.insert(&messages).await;
        // A retry marks no user; two sent messages mark their user once.
        let tx = db.transaction().await.unwrap();
        settle(&tx, fixture.project, &[&end(messages[0].id, Queued, Some(now))], now).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(marked().await, []);
        let ends = [end(messages[1].id, Sent, None), end(messages[2].id, Sent, None)];
        let tx = db.transaction().await.unwrap();
        settle(&tx, fixture.project, &ends.iter().collect::<Vec<_>>(), now).await.unwrap();
        tx.commit().await.unwrap();
        let expected = if is_marked { vec![("messages".to_owned(), vec![ann])] } else { Vec::new() };
        assert_eq!(marked().await, expected);
        db.execute("DELETE FROM segment_dirty", &[]).await.unwrap();
        // A receipt marks the user, and its repeat does not.
        for expected in [expected, Vec::new()] {
            let tx = db.transaction().await.unwrap();
            receipts::apply(&tx, fixture.project, &receipt(messages[1].id), now).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(marked().await, expected);
            db.execute("DELETE FROM segment_dirty", &[]).await.unwrap();
        }
    }
}

/// Begins two messages of different months, and makes the database reject the outcome of one with this code.
async fn begin_messages_of_two_months(fixture: &Fixture, refused: usize, code: &str) -> ([NewMessage; 2], Uuid) {
    let ann = fixture.user(&format!("ann-{refused}"), Some("ann@example.com"), None).await;
    let now = fixture.clock.now();
    let last_month = Month::at(now.as_millisecond()).start_ms() - 1;
    let messages =
        [last_month, now.as_millisecond()].map(|ms| NewMessage { id: ids::fresh(ms), ..fixture.message(ann) });
    let chunk = fixture.insert_begun(&messages, lease(fixture)).await;
    refuse(fixture, &format!("NEW.id = '{}'", messages[refused].id), code).await;
    (messages, chunk)
}

const REPAIRED: &str = "DROP FUNCTION refuse() CASCADE; DROP SEQUENCE tries";

#[tokio::test]
async fn rejected_row_does_not_delay_outcomes_written_with_it() {
    let fixture = Fixture::new().await;
    for refused in [0, 1] {
        let (messages, chunk) = begin_messages_of_two_months(&fixture, refused, "22021").await;
        let settler = settler(&fixture);
        let end = |n: usize| {
            settler.settle(member(&messages[n], chunk, n), Settled::new(fixture.project, messages[n].id, 1, Sent))
        };
        let both = async { tokio::join!(end(0), end(1)) };
        tokio::time::timeout(SOON, both).await.expect("neither is retried forever");
        assert_eq!(fixture.row(messages[1 - refused].id).await.unwrap().status, "sent");
        let row = fixture.row(messages[refused].id).await.unwrap();
        assert!(row.status == "queued" && row.is_begun, "{row:?}");
        fixture.store.connection().await.unwrap().batch_execute(REPAIRED).await.unwrap();
    }
}

#[tokio::test]
async fn unwritable_outcome_does_not_delay_later_outcomes_of_its_project() {
    let fixture = Fixture::new().await;
    for refused in [0, 1] {
        let (messages, chunk) = begin_messages_of_two_months(&fixture, refused, "XX001").await;
        let settler = settler(&fixture);
        let end = |n: usize| {
            settler.settle(member(&messages[n], chunk, n), Settled::new(fixture.project, messages[n].id, 1, Sent))
        };
        let mut delayed = Box::pin(end(refused));
        tokio::select! {
            () = &mut delayed => panic!("settled although the database rejects the outcome"),
            () = eventually_true("the write is retried", SOON, async || tries(&fixture).await >= 2) => {}
        }
        let later = async {
            tokio::select! {
                () = &mut delayed => panic!("settled although the database rejects the outcome"),
                () = end(1 - refused) => {}
            }
        };
        tokio::time::timeout(SOON, later).await.expect("the later outcome is written");
        assert_eq!(fixture.row(messages[1 - refused].id).await.unwrap().status, "sent");
        assert!(fixture.row(messages[refused].id).await.unwrap().is_begun);
        fixture.store.connection().await.unwrap().batch_execute(REPAIRED).await.unwrap();
        tokio::time::timeout(SOON, delayed).await.expect("it is written once the database accepts it");
        assert_eq!(fixture.row(messages[refused].id).await.unwrap().status, "sent");
    }
}

#[tokio::test]
async fn locked_project_does_not_delay_other_projects() {
    let mut fixture = Fixture::new().await;
    let (locked, other) = (fixture.project, fixture.another_project().await);
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let campaign = crate::campaigns::campaign(&fixture).await;
    accepting(&mut fixture).await;
    let mut db = fixture.store.connection().await.unwrap();
    let sql =
        "INSERT INTO campaign_outcome (project_id, campaign_id, sent, failed, failed_in_row) VALUES ($1, $2, 0, 0, 0)";
    db.execute(sql, &[&locked, &campaign]).await.unwrap();
    let tx = db.transaction().await.unwrap();
    tx.query("SELECT FROM campaign_outcome WHERE campaign_id = $1 FOR UPDATE", &[&campaign]).await.unwrap();
    crate::campaigns::release(&fixture, &[ann]).await;
    // The wait's start time identifies the attempt: one that times out is repeated.
    let waiting =
        "SELECT max(waitstart)::text FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    let since = async || tx.query_one(waiting, &[]).await.unwrap().get::<_, Option<String>>(0);
    eventually_true("settling waits for the lock", SOON, async || since().await.is_some()).await;
    let first = since().await;

    fixture.project = other;
    let bob = fixture.user("bob", Some("bob@example.com"), None).await;
    for _ in 0..3 {
        let message = fixture.message(bob);
        fixture.queue(std::slice::from_ref(&message)).await;
        let sent = "SELECT status = 'sent' FROM message WHERE id = $1";
        // The transaction that holds the lock runs the query, so that it is never idle for long.
        eventually_true("the other project's message is settled", SOON, async || {
            tx.query_one(sent, &[&message.id]).await.unwrap().get(0)
        })
        .await;
        assert_eq!(since().await, first, "the wait for the locked project's row was restarted");
    }
    tx.commit().await.unwrap();
    fixture.project = locked;
    let id = crate::campaigns::message_to(&fixture, campaign, ann).await.unwrap();
    assert_eq!(fixture.settled(id, 1).await.status, "sent");
    fixture.stop().await;
}
