//! Tests for `/campaigns/:id/report`.

use domain::message::DeliveryState;
use serde_json::json;
use store_sending::campaigns::counts::{self, Counts};
use store_sending::messages::receipts::{self, Receipt};

use crate::api_campaigns::{parts, path};
use crate::fixture::Gateway;

#[tokio::test]
async fn report_counts_the_last_send() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (segment, template) = parts(&gateway, &project).await;
    let new = json!({"name": "n", "channel": "EMAIL", "segmentId": segment, "templateId": template});
    let path = path(&gateway.post(&project, "/campaigns", &new).await.expect(201));
    assert_eq!(gateway.get(&project, &format!("{path}/report")).await.expect(200)["total"], 0);
    let sent = gateway.post(&project, &format!("{path}/send"), &json!({})).await.expect(200);
    let id: uuid::Uuid = sent["id"].as_str().unwrap().parse().unwrap();
    let mut changes = Counts::default();
    for (occurrence, state, variant, count) in [
        (1, DeliveryState::Sent, Some("A"), 1),
        (1, DeliveryState::Sent, Some("B"), 1),
        (1, DeliveryState::Queued, None, 1),
        // From an earlier occurrence.
        (0, DeliveryState::Sent, Some("A"), 1),
        // Messages that have left the state.
        (1, DeliveryState::Cancelled, Some("A"), 2),
        (1, DeliveryState::Cancelled, Some("A"), -2),
    ] {
        changes.add((id, occurrence), variant, state, count);
    }
    counts::add(&gateway.app.store.connection().await.unwrap(), project.id, &changes).await.unwrap();
    let report = gateway.get(&project, &format!("{path}/report")).await.expect(200);
    assert_eq!((&report["total"], &report["byStatus"]), (&json!(3), &json!({"queued": 1, "sent": 2})));
    let of = |name: &str| json!({"name": name, "total": 1, "byStatus": {"sent": 1}, "converted": null});
    assert_eq!(report["variants"], json!([of("A"), of("B")]));
}

#[tokio::test]
async fn report_shows_link_clicks_and_conversions() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (segment, template) = parts(&gateway, &project).await;
    let new = json!({"name": "n", "channel": "EMAIL", "segmentId": segment, "templateId": template,
        "goal": {"event": "bought", "within": "2d"}});
    let path = path(&gateway.post(&project, "/campaigns", &new).await.expect(201));
    let goal =
        |converted: i64| json!({"event": "bought", "within": "2d", "converted": converted, "convertedError": null});
    assert_eq!(gateway.get(&project, &format!("{path}/report")).await.expect(200)["conversion"], goal(0));
    let sent = gateway.post(&project, &format!("{path}/send"), &json!({})).await.expect(200);
    let id: uuid::Uuid = sent["id"].as_str().unwrap().parse().unwrap();
    let sql = "SELECT floor(extract(epoch FROM started_at) * 1000)::bigint FROM campaign WHERE id = $1";
    let started: i64 = gateway.sql.query_one(sql, &[&id]).await.unwrap().get(0);
    let insert = "INSERT INTO message (project_id, id, user_id, channel, lane, status, campaign_id, occurrence, variant, sent_at, created_at, updated_at) \
                  VALUES ($1, $2, $3, 'EMAIL', 'campaign', 'sent', $4, 1, $5, now(), now(), now())";
    let message = |n: u8| kernel::ids::timed(started, [n; 10]);
    let user = |n: u8| uuid::Uuid::from_u128(u128::from(n));
    let mut changes = Counts::default();
    for (n, variant) in [(1, Some("A")), (2, Some("A")), (3, Some("B")), (4, None)] {
        gateway.sql.execute(insert, &[&project.id.0, &message(n), &user(n), &id, &variant]).await.unwrap();
        changes.add((id, 1), variant, DeliveryState::Sent, 1);
    }
    let mut db = gateway.app.store.connection().await.unwrap();
    counts::add(&db, project.id, &changes).await.unwrap();
    // The first message has two clicks on one page, the third has clicks on different pages.
    let receipt = |n: u8, url: &str| Receipt {
        message: message(n),
        state: DeliveryState::Clicked,
        at: gateway.app.clock.now(),
        reason: None,
        url: Some(url.to_owned()),
    };
    let (home, sale) = ("https://shop.example/", "https://shop.example/sale?utm=1");
    for clicks in [vec![receipt(1, home), receipt(1, sale)], vec![receipt(1, sale), receipt(3, sale), receipt(4, sale)]]
    {
        let tx = db.transaction().await.unwrap();
        receipts::apply(&tx, project.id, &clicks, gateway.app.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
    }
    // Conversions: user 1 buys twice, user 30, who is merged into user 3, buys in time. User 2 buys after the window of
    // two days and does something else. User 9 received no message.
    let event = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                 VALUES ($1, $2, $3, $4, '{}', now() + make_interval(mins => $5), now())";
    for (n, name, who, minutes) in [
        (1, "bought", 1, 1),
        (2, "bought", 1, 2),
        (3, "bought", 2, 2_881),
        (4, "looked", 2, 1),
        (5, "bought", 30, 5),
        (6, "bought", 9, 5),
    ] {
        let event_id = kernel::ids::timed(started + 5, [n; 10]);
        gateway.sql.execute(event, &[&project.id.0, &event_id, &name, &user(who), &minutes]).await.unwrap();
    }
    // Events of the anonymous user who was merged into user 3 count.
    let merged = "INSERT INTO users (project_id, id, anonymous_id, properties, created_at, last_seen_at, updated_at, merged_into, merged_at) \
                  VALUES ($1, $2, 'a', '{}', now(), now(), now(), $3, now())";
    gateway.sql.execute(merged, &[&project.id.0, &user(30), &user(3)]).await.unwrap();

    let report = gateway.get(&project, &format!("{path}/report")).await.expect(200);
    let of = |name: &str, clicks: i64, messages: i64| json!({"name": name, "clicks": clicks, "messages": messages});
    let links = json!([
        {"url": sale, "clicks": 4, "messages": 3, "variants": [of("A", 2, 1), of("B", 1, 1)]},
        {"url": home, "clicks": 1, "messages": 1, "variants": [of("A", 1, 1)]},
    ]);
    assert_eq!(report["links"], links);
    assert_eq!(report["conversion"], goal(2));
    assert_eq!([&report["variants"][0]["converted"], &report["variants"][1]["converted"]], [&json!(1), &json!(1)]);
    assert_eq!(report["byStatus"], json!({"clicked": 3, "sent": 1}));

    // Beyond 200 links, clicks are summed in one entry, whether they arrive one by one or in one batch.
    let more: Vec<Receipt> = (0..300).map(|n| receipt(2, &format!("{home}?who={n}"))).collect();
    let tx = db.transaction().await.unwrap();
    receipts::apply(&tx, project.id, &more, gateway.app.clock.now()).await.unwrap();
    receipts::apply(&tx, project.id, &[receipt(4, "https://shop.example/late")], gateway.app.clock.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let links = gateway.get(&project, &format!("{path}/report")).await.expect(200)["links"].clone();
    let links = links.as_array().unwrap();
    let others = json!({"url": null, "clicks": 103, "messages": 2, "variants": [of("A", 102, 1)]});
    assert_eq!((links.len(), links.last()), (201, Some(&others)));

    gateway.post(&project, &format!("{path}/cancel"), &json!({})).await.expect(200);
    gateway.delete(&project, &path).await.expect(200);
    let left = "SELECT (SELECT count(*) FROM campaign_link) + (SELECT count(*) FROM campaign_click) + (SELECT count(*) FROM campaign_count)";
    assert_eq!(gateway.sql.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
}
