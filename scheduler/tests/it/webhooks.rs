//! Removes old webhook deliveries.

use kernel::ids;
use scheduler::maintenance::webhooks::clear;
use uuid::Uuid;

use crate::fixture::Fixture;

#[tokio::test]
async fn old_deliveries_and_those_of_deleted_endpoints_are_removed() {
    let fixture = Fixture::new().await;
    let db = fixture.store.connection().await.unwrap();
    let (kept, deleted) = (Uuid::from_u128(5), Uuid::from_u128(6));
    for (id, deleted_at) in [(kept, "NULL"), (deleted, "now()")] {
        let sql = format!(
            "INSERT INTO webhook_endpoint (project_id, id, url, types, secrets, created_at, updated_at, deleted_at) \
             VALUES ($1, $2, 'https://example.com', '{{*}}', '', now(), now(), {deleted_at})"
        );
        db.execute(&sql, &[&fixture.project, &id]).await.unwrap();
    }
    let delivery = async |endpoint: Uuid, days: i64| {
        let id = ids::fresh(fixture.clock.now_ms() - days * 86_400_000);
        let sql = "INSERT INTO webhook_delivery (project_id, endpoint_id, id, type, data, happened_at, due_at, created_at) \
                   VALUES ($1, $2, $3, 'message.sent', '{}', now(), now(), now())";
        db.execute(sql, &[&fixture.project, &endpoint, &id]).await.unwrap();
        id
    };
    let young = delivery(kept, 29).await;
    for (endpoint, days) in [(kept, 31), (deleted, 0), (deleted, 31)] {
        delivery(endpoint, days).await;
    }
    clear(fixture.app().await).await.unwrap();
    let left = db.query("SELECT id FROM webhook_delivery", &[]).await.unwrap();
    assert_eq!(left.iter().map(|row| row.get(0)).collect::<Vec<Uuid>>(), [young]);
    let left = db.query("SELECT id FROM webhook_endpoint", &[]).await.unwrap();
    assert_eq!(left.iter().map(|row| row.get(0)).collect::<Vec<Uuid>>(), [kept]);
}
