//! People who are merged while a campaign's audience is taken.

use jiff::SignedDuration;
use shared::campaign::Settings;
use shared::store::campaigns::audience::{find_slice, take_slice};
use shared::store::campaigns::sending;
use uuid::Uuid;

use crate::campaigns::{campaign, people, segment};
use crate::place::Place;

/// Takes the next people of the audience; returns how many they were.
async fn taken(place: &Place, id: Uuid, most: i64) -> usize {
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let now = place.clock.now() + SignedDuration::from_secs(1);
    let (campaign, progress) = sending::hold(&tx, place.project, id, now).await.unwrap().unwrap();
    let slice = find_slice(&tx, place.project, &campaign, &progress, most, now).await.unwrap();
    take_slice(&tx, place.project, &campaign, &progress, &slice).await.unwrap();
    tx.commit().await.unwrap();
    slice.len()
}

#[tokio::test]
async fn whoever_had_a_row_before_the_merge_gets_no_second_one() {
    let place = Place::new().await;
    people(&place, 30).await;
    let pro = segment(&place, "pro").await;
    let id = campaign(&place, pro, place.clock.now(), Settings::default()).await.id;
    let db = place.store.connection().await.unwrap();
    let now = place.clock.now();
    sending::begin(&db, place.project, id, now, now).await.unwrap();
    assert_eq!(taken(&place, id, 4).await, 4);
    let served: Vec<Uuid> =
        db.query("SELECT user_id FROM message ORDER BY user_id", &[]).await.unwrap().iter().map(|r| r.get(0)).collect();
    assert_eq!(served.len(), 4);
    let sql = "SELECT id FROM users WHERE properties ->> 'plan' = 'pro' ORDER BY id DESC LIMIT 2";
    let later: Vec<Uuid> = db.query(sql, &[]).await.unwrap().iter().map(|r| r.get(0)).collect();
    // Accepted long before, and applied only now; and delivery has noted the second one's row for whom they became.
    let merge =
        "UPDATE users SET merged_into = $2, merged_at = now() - interval '3 hours', updated_at = now() WHERE id = $1";
    for (from, into) in served.iter().zip(&later) {
        db.execute(merge, &[from, into]).await.unwrap();
    }
    let noted = "UPDATE message SET user_id = $2 WHERE user_id = $1";
    assert_eq!(db.execute(noted, &[&served[1], &later[1]]).await.unwrap(), 1);
    assert_eq!(taken(&place, id, 100).await, 6);
    let twice = "SELECT count(*) FROM (SELECT FROM message m JOIN users u ON u.id = m.user_id \
                 GROUP BY coalesce(u.merged_into, u.id) HAVING count(*) > 1) AS twice";
    assert_eq!(place.count(twice).await, 0);
    assert_eq!(place.count("SELECT count(*) FROM message").await, 8);
}
