//! Tests for `/reports`.

use kernel::ids::ProjectId;
use serde_json::{Value, json};

use crate::fixture::Gateway;
use crate::rows::Rows;

const DAY: i64 = 86_400;

/// Inserts an event count for the day `days_ago`.
async fn events(gateway: &Gateway, project: ProjectId, days_ago: i32, name: &str, count: i64) {
    let sql = "INSERT INTO event_count_sum (project_id, day, name, count) VALUES ($1, current_date - $2::int, $3, $4)";
    gateway.sql.execute(sql, &[&project.0, &days_ago, &name, &count]).await.unwrap();
}

/// Inserts a count of messages that reached `status`, in each of two lanes.
async fn messages(gateway: &Gateway, project: ProjectId, at: &str, channel: &str, status: &str, count: i64) {
    let sql = format!(
        "INSERT INTO message_status_count (project_id, at, channel, status, lane, count) \
         SELECT $1, {at}, $2, $3, lane, $4 FROM generate_series(0, 1) lane"
    );
    gateway.sql.execute(&sql, &[&project.0, &channel, &status, &count]).await.unwrap();
}

fn of_day(report: &Value, from_last: usize) -> &Value {
    let days = report["timeseries"].as_array().unwrap();
    &days[days.len() - 1 - from_last]
}

#[tokio::test]
async fn report_sums_its_range() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    for (days_ago, name, count) in [(0, "a", 5), (0, "b", 1), (6, "b", 7), (7, "c", 100), (29, "c", 20), (89, "d", 1)] {
        events(&gateway, project.id, days_ago, name, count).await;
    }
    events(&gateway, other.id, 0, "a", 1_000).await;
    // Counted, but not yet folded into the sums.
    let sql = "INSERT INTO event_count_new (project_id, id, day, counts) VALUES ($1, gen_random_uuid(), current_date, '{\"a\": 2}')";
    gateway.sql.execute(sql, &[&project.id.0]).await.unwrap();
    let today = "date_trunc('day', now(), 'UTC')";
    messages(&gateway, project.id, today, "EMAIL", "sent", 3).await;
    messages(&gateway, project.id, today, "PUSH", "failed", 1).await;
    messages(&gateway, project.id, &format!("{today} - interval '8 days'"), "EMAIL", "sent", 10).await;
    messages(&gateway, project.id, &format!("{today} - interval '8 days'"), "EMAIL", "opened", 4).await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let known = rows.user("u1", None, None, 60).await;
    rows.visitor("merged", Some(known)).await;
    rows.user("u2", None, None, 20 * DAY).await;
    rows.user("u3", None, None, 200 * DAY).await;

    let week = gateway.get(&project, "/reports").await.expect(200);
    assert_eq!((&week["range"], &week["timezone"]), (&json!("7d"), &json!("UTC")));
    assert_eq!((&week["events"], &week["activeUsers"], &week["messagesSent"]), (&json!(15), &json!(1), &json!(6)));
    let top = json!([{"eventName": "b", "count": 8}, {"eventName": "a", "count": 7}]);
    assert_eq!(week["topEvents"], top);
    assert_eq!(week["deliveries"], json!({"EMAIL": {"sent": 6}, "PUSH": {"failed": 2}}));
    assert_eq!(week["timeseries"].as_array().unwrap().len(), 7);
    assert_eq!(of_day(&week, 0), &json!({"date": week["to"], "events": 8, "messagesSent": 6}));
    assert_eq!(of_day(&week, 1)["events"], json!(0));
    assert_eq!(of_day(&week, 6), &json!({"date": week["from"], "events": 7, "messagesSent": 0}));

    let month = gateway.get(&project, "/reports?range=30d").await.expect(200);
    assert_eq!((&month["events"], &month["activeUsers"], &month["messagesSent"]), (&json!(135), &json!(2), &json!(26)));
    assert_eq!(month["deliveries"]["EMAIL"], json!({"sent": 26, "opened": 8}));
    assert_eq!(gateway.get(&project, "/reports?range=90d").await.expect(200)["events"], json!(136));
}

#[tokio::test]
async fn report_contains_requested_metrics_only() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let report = gateway.get(&project, "/reports?metrics=events").await.expect(200);
    assert_eq!(report["events"], 0);
    assert!(report.get("activeUsers").is_none() && report.get("deliveries").is_none(), "{report}");
    assert!(of_day(&report, 0).get("messagesSent").is_none());
    let report = gateway.get(&project, "/reports?metrics=users,messages").await.expect(200);
    assert!(report.get("events").is_none() && report.get("topEvents").is_none(), "{report}");
    assert_eq!((&report["activeUsers"], &report["messagesSent"]), (&json!(0), &json!(0)));
    for (query, field) in [("?range=8d", "range"), ("?metrics=clicks", "metrics"), ("?metrics=events,", "metrics")] {
        let response = gateway.get(&project, &format!("/reports{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
    assert_eq!(gateway.send("GET", "/reports", &project.public, &[], "").await.status, 403);
}

#[tokio::test]
async fn days_follow_the_projects_timezone() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let sql = "UPDATE project SET timezone = 'Pacific/Kiritimati' WHERE project_id = $1";
    gateway.sql.execute(sql, &[&project.id.0]).await.unwrap();
    // UTC+14: the day begins at 10:00 UTC.
    let midnight = "(date_trunc('day', now() AT TIME ZONE 'Pacific/Kiritimati') AT TIME ZONE 'Pacific/Kiritimati')";
    messages(&gateway, project.id, midnight, "EMAIL", "sent", 1).await;
    messages(&gateway, project.id, &format!("{midnight} - interval '15 minutes'"), "EMAIL", "sent", 2).await;
    let report = gateway.get(&project, "/reports").await.expect(200);
    assert_eq!(report["timezone"], "Pacific/Kiritimati");
    let today = "SELECT (now() AT TIME ZONE 'Pacific/Kiritimati')::date::text";
    let today: String = gateway.sql.query_one(today, &[]).await.unwrap().get(0);
    assert_eq!(report["to"], json!(today));
    assert_eq!((&of_day(&report, 0)["messagesSent"], &of_day(&report, 1)["messagesSent"]), (&json!(2), &json!(4)));
}
