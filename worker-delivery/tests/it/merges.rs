//! Users who are merged while messages of a campaign to them wait.

use std::collections::BTreeSet;

use shared::ids;
use testkit::eventually;
use uuid::Uuid;

use crate::campaigns::{accepting, campaign, release};
use crate::place::{Place, SOON};

/// Waits until none of these messages waits for delivery, which gets what is due again.
async fn settled(place: &Place, messages: &[Uuid]) {
    let sql = "SELECT count(*) FROM message WHERE id = ANY($1) AND status = 'queued'";
    eventually(SOON, async || {
        place.sweep().await;
        let open: i64 = place.store.connection().await.unwrap().query_one(sql, &[&messages]).await.unwrap().get(0);
        if open == 0 { Ok(()) } else { Err(format!("{open} are not settled")) }
    })
    .await;
}

async fn merge(place: &Place, from: &[Uuid], into: &[Uuid]) {
    let sql = "UPDATE users u SET merged_into = v.target, merged_at = now(), updated_at = now() \
               FROM unnest($1::uuid[], $2::uuid[]) AS v (id, target) WHERE u.id = v.id";
    place.store.connection().await.unwrap().execute(sql, &[&from, &into]).await.unwrap();
}

/// A known user and two anonymous ones who may become that user.
struct Family([Uuid; 3]);

async fn families(place: &Place, count: usize) -> Vec<Family> {
    let mut families = Vec::new();
    for n in 0..count {
        let ids = ["k", "a", "b"].map(|of| ids::UserKey::External(&format!("{of}{n}")).internal_id(place.project));
        for (id, of) in ids.iter().zip(["k", "a", "b"]) {
            place.person(*id, Some(&format!("{of}{n}@example.com")), None, None).await;
        }
        families.push(Family(ids));
    }
    families
}

/// What happens to a family: the message of one of them is released, or one of the anonymous is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Release(usize),
    Merge(usize),
}

const ACTS: [Act; 5] = [Act::Release(0), Act::Release(1), Act::Release(2), Act::Merge(1), Act::Merge(2)];

fn orders(acts: &[Act]) -> Vec<Vec<Act>> {
    if acts.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |first: &Act| {
        let rest: Vec<Act> = acts.iter().copied().filter(|act| act != first).collect();
        orders(&rest).into_iter().map(|order| [vec![*first], order].concat()).collect::<Vec<_>>()
    };
    acts.iter().flat_map(with_first).collect()
}

/// Whose messages are sent: each whose user at the time has not been sent another.
fn expected(order: &[Act]) -> BTreeSet<usize> {
    let (mut user, mut sent) = ([0, 1, 2], BTreeSet::new());
    for act in order {
        match act {
            Act::Merge(of) => user[*of] = 0,
            Act::Release(of) => {
                if !sent.iter().any(|other: &usize| user[*other] == user[*of]) {
                    sent.insert(*of);
                }
            }
        }
    }
    sent
}

#[tokio::test]
async fn a_user_gets_one_message_of_a_campaign_whenever_others_are_merged_into_them() {
    let mut place = Place::new().await;
    let orders = orders(&ACTS);
    let families = families(&place, orders.len()).await;
    let (campaign, messages) = campaign(&place).await;
    assert_eq!(messages.len(), 3 * families.len());
    accepting(&mut place).await;
    for step in 0..ACTS.len() {
        let (mut from, mut into, mut released) = (Vec::new(), Vec::new(), Vec::new());
        for (Family(ids), order) in families.iter().zip(&orders) {
            match order[step] {
                Act::Merge(of) => {
                    from.push(ids[of]);
                    into.push(ids[0]);
                }
                Act::Release(of) => released.push(messages[&ids[of]]),
            }
        }
        merge(&place, &from, &into).await;
        release(&place, &released).await;
        settled(&place, &released).await;
    }
    let db = place.store.connection().await.unwrap();
    let sql = "SELECT status, status_reason FROM message WHERE id = $1";
    for (Family(ids), order) in families.iter().zip(&orders) {
        let sent = expected(order);
        for (of, id) in ids.iter().enumerate() {
            let row = db.query_one(sql, &[&messages[id]]).await.unwrap();
            let found = (row.get::<_, &str>(0), row.get::<_, Option<&str>>(1));
            let wanted = if sent.contains(&of) { ("sent", None) } else { ("suppressed", Some("merged")) };
            assert_eq!(found, wanted, "{of} of {order:?}");
        }
    }
    // The report adds up to the recipients.
    let sql = "SELECT recipients, (SELECT count(*) FROM message WHERE campaign_id = c.id AND status IN ('sent', 'suppressed')) \
               FROM campaign c WHERE id = $1";
    let row = db.query_one(sql, &[&campaign]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1));
    place.stop().await;
}

#[tokio::test]
async fn one_of_several_messages_claimed_at_once_for_a_user_is_sent() {
    let mut place = Place::new().await;
    let families = families(&place, 60).await;
    let (_, messages) = campaign(&place).await;
    for Family([known, one, two]) in &families {
        merge(&place, &[*one, *two], &[*known, *known]).await;
    }
    accepting(&mut place).await;
    accepting(&mut place).await;
    let all: Vec<Uuid> = families.iter().flat_map(|Family(ids)| ids.map(|id| messages[&id])).collect();
    release(&place, &all).await;
    settled(&place, &all).await;
    let db = place.store.connection().await.unwrap();
    for Family(ids) in &families {
        let ids: Vec<Uuid> = ids.iter().map(|id| messages[id]).collect();
        let sql = "SELECT count(*) FILTER (WHERE status = 'sent'), count(*) FILTER (WHERE status_reason = 'merged') \
                   FROM message WHERE id = ANY($1)";
        let row = db.query_one(sql, &[&ids]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 2));
    }
    place.stop().await;
}

#[tokio::test]
async fn a_message_that_was_not_sent_suppresses_no_other_of_its_user() {
    let mut place = Place::new().await;
    let states = [
        ("status = 'failed', failed_at = now()", "sent"),
        ("status = 'failed', failed_at = now(), ambiguous = 1", "suppressed"),
        ("status = 'suppressed', status_reason = 'no_address'", "sent"),
        ("status = 'opened'", "suppressed"),
        ("claimed = true, due_at = now() + interval '1 hour'", "suppressed"),
        ("attempt = 3, failures = 3, due_at = now() + interval '1 hour'", "sent"),
    ];
    let families = families(&place, states.len()).await;
    let (_, messages) = campaign(&place).await;
    let db = place.store.connection().await.unwrap();
    for (Family([known, one, _]), (state, _)) in families.iter().zip(states) {
        let sql = format!("UPDATE message SET user_id = $2, {state} WHERE id = $1");
        db.execute(&sql, &[&messages[known], known]).await.unwrap();
        merge(&place, &[*one], &[*known]).await;
    }
    accepting(&mut place).await;
    let released: Vec<Uuid> = families.iter().map(|Family([_, one, _])| messages[one]).collect();
    release(&place, &released).await;
    settled(&place, &released).await;
    for (id, (state, expected)) in released.iter().zip(states) {
        assert_eq!(place.row(*id).await.unwrap().status, expected, "beside one of {state}");
    }
    place.stop().await;
}
