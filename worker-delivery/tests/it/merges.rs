//! Users who are merged while campaign messages to them are queued.

mod retries;

use std::collections::BTreeMap;

use kernel::ids;
use testkit::eventually_true;
use uuid::Uuid;

use crate::campaigns::{accepting, all_sent, campaign, counted, message_to, release, report};
use crate::fixture::{Fixture, SOON};

async fn merge(fixture: &Fixture, from: &[Uuid], into: &[Uuid]) {
    let sql = "UPDATE users u SET merged_into = v.target, merged_at = now(), updated_at = now() \
               FROM unnest($1::uuid[], $2::uuid[]) AS v (id, target) WHERE u.id = v.id";
    fixture.store.connection().await.unwrap().execute(sql, &[&from, &into]).await.unwrap();
}

/// A known user and two anonymous ones who may become that user.
struct Family([Uuid; 3]);

async fn families(fixture: &Fixture, count: usize) -> Vec<Family> {
    let mut families = Vec::new();
    for n in 0..count {
        let ids = ["k", "a", "b"].map(|of| ids::UserKey::External(&format!("{of}{n}")).internal_id(fixture.project));
        for (id, of) in ids.iter().zip(["k", "a", "b"]) {
            fixture.insert_user(*id, Some(&format!("{of}{n}@example.com")), None, None).await;
        }
        families.push(Family(ids));
    }
    families
}

/// An event in a family: the message to one member is released, or an anonymous member is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Release(usize),
    Merge(usize),
}

const ACTS: [Act; 5] = [Act::Release(0), Act::Release(1), Act::Release(2), Act::Merge(1), Act::Merge(2)];

fn orders<A: Copy + PartialEq>(acts: &[A]) -> Vec<Vec<A>> {
    if acts.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |first: &A| {
        let rest: Vec<A> = acts.iter().copied().filter(|act| act != first).collect();
        orders(&rest).into_iter().map(|order| [vec![*first], order].concat()).collect::<Vec<_>>()
    };
    acts.iter().flat_map(with_first).collect()
}

/// Returns the members whose messages are sent, and the receiving user. A message is sent if its user at that time has
/// received none.
fn expected(order: &[Act]) -> BTreeMap<usize, usize> {
    let (mut user, mut sent) = ([0, 1, 2], BTreeMap::new());
    for act in order {
        match act {
            Act::Merge(of) => user[*of] = 0,
            Act::Release(of) => {
                if !sent.keys().any(|other: &usize| user[*other] == user[*of]) {
                    sent.insert(*of, user[*of]);
                }
            }
        }
    }
    sent
}

/// Returns the statuses of the campaign's messages by family member.
async fn messages(fixture: &Fixture, campaign: Uuid, Family(ids): &Family) -> BTreeMap<usize, String> {
    let sql = "SELECT user_id, status FROM message WHERE campaign_id = $1 AND user_id = ANY($2)";
    let rows = fixture.store.connection().await.unwrap().query(sql, &[&campaign, &&ids[..]]).await.unwrap();
    let found = rows.len();
    let nth = |user: Uuid| ids.iter().position(|id| *id == user).unwrap();
    let messages: BTreeMap<usize, String> = rows.iter().map(|row| (nth(row.get(0)), row.get(1))).collect();
    assert_eq!(messages.len(), found, "one message for each user");
    messages
}

#[tokio::test]
async fn merged_user_gets_one_message_of_a_campaign() {
    let mut fixture = Fixture::new().await;
    let orders = orders(&ACTS);
    let families = families(&fixture, orders.len()).await;
    let campaign = campaign(&fixture).await;
    accepting(&mut fixture).await;
    for step in 0..ACTS.len() {
        let (mut from, mut into, mut released) = (Vec::new(), Vec::new(), Vec::new());
        for (Family(ids), order) in families.iter().zip(&orders) {
            match order[step] {
                Act::Merge(of) => {
                    from.push(ids[of]);
                    into.push(ids[0]);
                }
                Act::Release(of) => released.push(ids[of]),
            }
        }
        merge(&fixture, &from, &into).await;
        release(&fixture, &released).await;
        all_sent(&fixture, campaign).await;
    }
    let mut sent = 0;
    for (family, order) in families.iter().zip(&orders) {
        let expected = expected(order).into_values().map(|user| (user, "sent".to_owned())).collect();
        assert_eq!(messages(&fixture, campaign, family).await, expected, "{order:?}");
        sent += expected.len() as i64;
    }
    // The report adds up to the recipients.
    let recipients = 3 * families.len() as i64;
    assert_eq!(report(&fixture, campaign).await, counted([("sent", sent), ("suppressed", recipients - sent)]));
    fixture.stop().await;
}

#[tokio::test]
async fn one_of_several_concurrent_messages_to_a_user_is_sent() {
    let mut fixture = Fixture::new().await;
    let families = families(&fixture, 60).await;
    let campaign = campaign(&fixture).await;
    for Family([known, one, two]) in &families {
        merge(&fixture, &[*one, *two], &[*known, *known]).await;
    }
    accepting(&mut fixture).await;
    accepting(&mut fixture).await;
    let all: Vec<Uuid> = families.iter().flat_map(|Family(ids)| *ids).collect();
    release(&fixture, &all).await;
    all_sent(&fixture, campaign).await;
    for family in &families {
        assert_eq!(messages(&fixture, campaign, family).await, BTreeMap::from([(0, "sent".to_owned())]));
    }
    assert_eq!(report(&fixture, campaign).await, counted([("sent", 60), ("suppressed", 120)]));
    fixture.stop().await;
}

#[tokio::test]
async fn user_gets_another_message_only_if_the_first_was_certainly_not_sent() {
    let mut fixture = Fixture::new().await;
    let states = [
        ("status = 'failed', failed_at = now(), sent_at = NULL", true),
        ("status = 'failed', failed_at = now(), sent_at = NULL, ambiguous = 1", false),
        ("status = 'suppressed', status_reason = 'no_address', sent_at = NULL", true),
        ("status = 'opened'", false),
        ("status = 'queued', sent_at = NULL", false),
    ];
    let families = families(&fixture, states.len()).await;
    let campaign = campaign(&fixture).await;
    accepting(&mut fixture).await;
    let first: Vec<Uuid> = families.iter().map(|Family([_, one, _])| *one).collect();
    release(&fixture, &first).await;
    all_sent(&fixture, campaign).await;
    let db = fixture.store.connection().await.unwrap();
    for (Family([known, one, _]), (state, _)) in families.iter().zip(states) {
        let sql = format!("UPDATE message SET {state} WHERE id = $1");
        let message = message_to(&fixture, campaign, *one).await.unwrap();
        assert_eq!(db.execute(&sql, &[&message]).await.unwrap(), 1);
        merge(&fixture, &[*one], &[*known]).await;
    }
    let others: Vec<Uuid> = families.iter().map(|Family([known, ..])| *known).collect();
    release(&fixture, &others).await;
    all_sent(&fixture, campaign).await;
    eventually_true("they are counted", SOON, async || report(&fixture, campaign).await.get("suppressed") == Some(&3))
        .await;
    for (family, (state, gets_another)) in families.iter().zip(states) {
        let found: Vec<_> = messages(&fixture, campaign, family).await.into_keys().collect();
        assert_eq!(found, if gets_another { vec![0, 1] } else { vec![1] }, "{state}");
    }
    fixture.stop().await;
}
