//! Removes the preferences of deleted subscription groups.

use scheduler::maintenance::subscriptions::clear;
use uuid::Uuid;

use crate::fixture::Fixture;

#[tokio::test]
async fn preferences_of_deleted_groups_are_removed() {
    let fixture = Fixture::new().await;
    let db = fixture.store.connection().await.unwrap();
    let (kept, deleted) = (Uuid::from_u128(5), Uuid::from_u128(6));
    for (id, deleted_at) in [(kept, "NULL"), (deleted, "now()")] {
        let sql = format!(
            "INSERT INTO subscription_group (project_id, id, name, deleted_at, created_at, updated_at) \
             VALUES ($1, $2, 'g', {deleted_at}, now(), now())"
        );
        db.execute(&sql, &[&fixture.project, &id]).await.unwrap();
        let sql = "INSERT INTO subscription (project_id, user_id, group_id, subscribed, source, changed_at) \
                   SELECT $1, gen_random_uuid(), $2, true, 'page', now() FROM generate_series(1, 7)";
        db.execute(sql, &[&fixture.project, &id]).await.unwrap();
    }
    clear(fixture.app().await).await.unwrap();
    let left = db.query("SELECT group_id, count(*) FROM subscription GROUP BY 1", &[]).await.unwrap();
    let left: Vec<(Uuid, i64)> = left.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(left, [(kept, 7)]);
    let left = db.query("SELECT id FROM subscription_group", &[]).await.unwrap();
    assert_eq!(left.iter().map(|row| row.get(0)).collect::<Vec<Uuid>>(), [kept]);
}
