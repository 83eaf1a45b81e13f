//! Messages that somebody has to look at again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use shared::clock::from_ms;
use shared::ids;
use shared::send::{Channel, Lane, SendChunk};
use shared::store::messages::due;
use shared::store::messages::insert::{NewMessage, queued};
use testkit::{eventually, eventually_true};
use uuid::Uuid;

use crate::place::{Place, SOON};

fn message(place: &Place, lane: Lane, due_in_ms: i64) -> NewMessage {
    let now = place.clock.now_ms();
    NewMessage {
        project: place.project,
        id: ids::fresh(now),
        user_id: Uuid::from_u128(1),
        channel: Channel::Email,
        lane,
        template_id: None,
        content: json!({}),
        data: json!({}),
        automation_id: None,
        run_id: None,
        subscription_group_id: None,
        trace: None,
        created_at: from_ms(now),
        due_at: from_ms(now + due_in_ms),
    }
}

/// What was handed over: by subject and id, the attempts named.
async fn handed_over(place: &Place) -> BTreeMap<(String, Uuid), Vec<u32>> {
    let names = &place.bus.names;
    let mut found: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for (subject, payload) in place.payloads(&names.send_stream(), &names.send_all()).await {
        let chunk = SendChunk::decode_checked(payload).unwrap();
        assert!(chunk.refs.len() <= 500);
        for hand_over in chunk.refs {
            let id = Uuid::from_slice(&hand_over.message_id).unwrap();
            found.entry((subject.clone(), id)).or_default().push(hand_over.attempt);
        }
    }
    found
}

async fn take(place: &Place, now: Timestamp) -> due::Taken {
    let mut db = place.store.connection().await.unwrap();
    let months = due::months(&db).await.unwrap();
    due::take(&mut db, place.project, &months, now, 10).await.unwrap()
}

#[tokio::test]
async fn what_is_due_is_handed_over_once_a_minute_and_the_rest_is_left_alone() {
    let mut place = Place::new().await;
    let mut messages: Vec<NewMessage> = (0..1_200).map(|_| message(&place, Lane::Campaign, -1)).collect();
    messages.push(message(&place, Lane::Direct, -1));
    messages.push(message(&place, Lane::Automation, -1));
    messages.push(message(&place, Lane::Automation, 60_000));
    messages.push(message(&place, Lane::Automation, -1));
    let db = place.store.connection().await.unwrap();
    queued(&db, 0, &messages).await.unwrap();
    let (retry, settled) = (messages[1_201].id, messages[1_203].id);
    // Under a lease that ran out, and one that is done with.
    let lapsed = "UPDATE message SET attempt = 3, claimed = true WHERE id = $1";
    db.execute(lapsed, &[&retry]).await.unwrap();
    db.execute("UPDATE message SET status = 'sent' WHERE id = $1", &[&settled]).await.unwrap();
    drop(db);
    place.run().await;
    place.run().await;
    let found = eventually(SOON, async || {
        let found = handed_over(&place).await;
        if found.len() >= 1_202 { Ok(found) } else { Err(found.len()) }
    })
    .await;
    assert_eq!(found.len(), 1_202);
    let names = &place.bus.names;
    let of = |lane, id| found.get(&(names.send(Channel::Email, lane), id)).cloned();
    assert!(messages[..1_200].iter().all(|m| of(Lane::Campaign, m.id) == Some(vec![0])));
    assert_eq!(of(Lane::Direct, messages[1_200].id), Some(vec![0]));
    assert_eq!(of(Lane::Automation, retry), Some(vec![3]));
    // Due again in a minute, and the lapsed lease is still to be seen.
    let sql = "SELECT count(*) FROM message WHERE status = 'queued' AND due_at < now() + interval '50 seconds'";
    assert_eq!(place.count(sql).await, 0);
    assert_eq!(place.count("SELECT count(*) FROM message WHERE claimed AND attempt = 3").await, 1);
    place.stop().await;
}

#[tokio::test]
async fn what_nobody_has_worked_on_for_long_is_handed_over_less_often() {
    let place = Place::new().await;
    let db = place.store.connection().await.unwrap();
    let in_seconds = async |id: Uuid| -> i64 {
        let sql = "SELECT extract(epoch FROM due_at - now())::bigint FROM message WHERE id = $1";
        db.query_one(sql, &[&id]).await.unwrap().get(0)
    };
    for (age, least, most) in [(0, 50, 70), (5, 290, 310), (300, 590, 610)] {
        let mut old = message(&place, Lane::Campaign, -1);
        old.created_at = old.created_at.checked_sub(Duration::from_mins(age)).unwrap();
        queued(&db, 0, std::slice::from_ref(&old)).await.unwrap();
        let now = place.clock.now();
        let due = take(&place, now).await.messages;
        assert_eq!(due.iter().map(|m| (m.id, m.has_waited)).collect::<Vec<_>>(), [(old.id, age > 0)]);
        // Whoever took it may die before the broker has it.
        let again = in_seconds(old.id).await;
        assert!((50..=70).contains(&again), "{age} minutes old, taken: again in {again} s");
        assert_eq!(due::handed_over(&db, place.project, &[old.id], now).await.unwrap(), 1);
        let again = in_seconds(old.id).await;
        assert!((least..=most).contains(&again), "{age} minutes old, handed over: again in {again} s");
        // What was put off since then is left alone.
        assert_eq!(due::handed_over(&db, place.project, &[old.id], now).await.unwrap(), u64::from(age == 0));
    }
}

#[tokio::test]
async fn what_the_broker_has_and_nobody_has_worked_on_waits_as_long_as_it_has_waited() {
    let mut place = Place::new().await;
    let mut old = message(&place, Lane::Direct, -1);
    old.created_at = old.created_at.checked_sub(Duration::from_mins(5)).unwrap();
    let db = place.store.connection().await.unwrap();
    queued(&db, 0, &[old, message(&place, Lane::Direct, -1)]).await.unwrap();
    place.run().await;
    place.eventually_none("SELECT 1 - count(*) FROM message WHERE due_at > now() + interval '4 minutes'").await;
    place.eventually_none("SELECT count(*) FROM message WHERE due_at < now() + interval '30 seconds'").await;
    assert_eq!(place.count("SELECT count(*) FROM message WHERE due_at < now() + interval '70 seconds'").await, 1);
    place.stop().await;
}

#[tokio::test]
async fn what_could_not_be_published_is_due_again_in_seconds() {
    let place = Place::new().await;
    let mut old = message(&place, Lane::Campaign, -1);
    old.created_at = old.created_at.checked_sub(Duration::from_hours(3)).unwrap();
    let db = place.store.connection().await.unwrap();
    queued(&db, 0, &[old, message(&place, Lane::Direct, -1)]).await.unwrap();
    let app = place.app().await;
    // The broker answers, and refuses: nobody keeps the stream any more.
    place.bus.jetstream.delete_stream(place.bus.names.send_stream()).await.unwrap();
    assert!(scheduler::messages::tick(app).await.is_err());
    let soon = "SELECT count(*) FROM message WHERE due_at BETWEEN now() AND now() + interval '6 seconds'";
    assert_eq!(place.count(soon).await, 2);
}

#[tokio::test]
async fn of_what_could_not_be_published_only_what_nobody_holds_is_given_back() {
    let place = Place::new().await;
    let messages: Vec<NewMessage> = (0..4).map(|_| message(&place, Lane::Direct, -1)).collect();
    let db = place.store.connection().await.unwrap();
    queued(&db, 0, &messages).await.unwrap();
    let (now, ids) = (place.clock.now(), messages.iter().map(|m| m.id).collect::<Vec<_>>());
    assert_eq!(take(&place, now).await.count, 4);
    // It did arrive, and was claimed; it was sent; somebody is at it just now.
    db.execute("UPDATE message SET attempt = 1, claimed = true WHERE id = $1", &[&ids[0]]).await.unwrap();
    db.execute("UPDATE message SET status = 'sent', due_at = NULL WHERE id = $1", &[&ids[1]]).await.unwrap();
    let mut other = place.store.connection().await.unwrap();
    let holding = other.transaction().await.unwrap();
    holding.execute("SELECT FROM message WHERE id = $1 FOR UPDATE", &[&ids[2]]).await.unwrap();
    let taken = ids.iter().map(|id| (*id, 0)).collect();
    assert_eq!(due::give_back(&db, place.project, &taken, now).await.unwrap(), 1);
    let due = "SELECT id FROM message WHERE due_at <= now()";
    assert_eq!(db.query_one(due, &[]).await.unwrap().get::<_, Uuid>(0), ids[3]);
}

#[tokio::test]
async fn what_is_just_being_put_off_is_given_back_when_that_is_done() {
    let place = Place::new().await;
    let messages: Vec<NewMessage> = (0..2).map(|_| message(&place, Lane::Direct, -1)).collect();
    let db = place.store.connection().await.unwrap();
    queued(&db, 0, &messages).await.unwrap();
    let (now, ids) = (place.clock.now(), messages.iter().map(|m| m.id).collect::<Vec<_>>());
    assert_eq!(take(&place, now).await.count, 2);
    for is_limited in [false, true] {
        let mut other = place.store.connection().await.unwrap();
        let noting = other.transaction().await.unwrap();
        let later = "UPDATE message SET due_at = now() + interval '10 minutes' WHERE id = $1";
        noting.execute(later, &[&ids[0]]).await.unwrap();
        let rows: Vec<(Uuid, i32)> = ids.iter().map(|id| (*id, 0)).collect();
        let (store, project) = (place.store.clone(), place.project);
        let given_back = tokio::spawn(async move {
            let db = store.connection().await.unwrap();
            if is_limited {
                due::put_off(&db, project, &rows, &[now, now], "limited: 1/s", now).await.unwrap()
            } else {
                due::give_back_locked(&db, project, &rows.into_iter().collect(), now).await.unwrap()
            }
        });
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
        eventually_true("somebody waits for the row", SOON, async || db.query_one(waits, &[]).await.unwrap().get(0))
            .await;
        noting.commit().await.unwrap();
        assert_eq!(given_back.await.unwrap(), 2);
        let due = "SELECT count(*) FROM message WHERE due_at <= now()";
        assert_eq!(place.count(due).await, 2);
        db.execute("UPDATE message SET due_at = now() + interval '1 minute'", &[]).await.unwrap();
    }
}
