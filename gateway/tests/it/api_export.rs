//! Tests for `GET /users/export` and `GET /events/export`.

use std::io::Read;

use kernel::ids;
use serde_json::{Value, json};
use testkit::eventually_true;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::fixture::{Gateway, texts};
use crate::rows::{Rows, fill_users};
use crate::setup::{Tenant, secs};

const DAY: i64 = 86_400;

/// Returns the lines of an export.
async fn export(gateway: &Gateway, project: &Tenant, path: &str) -> Vec<Value> {
    let response = gateway.call("GET", path).header("x-api-key", &project.secret).send("").await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/x-ndjson")), "{response:?}");
    response.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn field<'v>(lines: &'v [Value], field: &str) -> Vec<&'v str> {
    lines.iter().map(|line| line[field].as_str().unwrap()).collect()
}

#[tokio::test]
async fn exported_users_match_the_list() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    rows.user("u1", Some("ann@shop.example"), Some("Ann"), 40 * DAY).await;
    let known = rows.user("u2", Some("bob@shop.example"), None, 20 * DAY).await;
    rows.user("vip", None, Some("Carl"), 10).await;
    rows.visitor("merged", Some(known)).await;
    for (query, ids) in [
        ("", &["vip", "u2", "u1"][..]),
        ("?filter=active", &["vip", "u2"]),
        ("?filter=inactive", &["u1"]),
        ("?search=SHOP", &["u2", "u1"]),
        ("?search=shop&filter=inactive", &["u1"]),
        ("?search=unknown", &[]),
        ("?search=%01", &[]),
    ] {
        let listed = gateway.get(&project, &format!("/users{query}")).await.expect(200);
        let lines = export(&gateway, &project, &format!("/users/export{query}")).await;
        assert_eq!(field(&lines, "externalId"), ids, "{query}");
        assert_eq!(json!(lines), listed["users"], "{query}");
    }
    assert_eq!(export(&gateway, &other, "/users/export").await.len(), 0);
    let path = format!("/users/export?after={known}");
    assert_eq!(field(&export(&gateway, &project, &path).await, "externalId"), ["u1"]);
    assert_eq!(gateway.get(&other, &path).await.fields(), ["after"]);
    for (query, field) in [("filter=old", "filter"), ("after=5", "after")] {
        let response = gateway.get(&project, &format!("/users/export?{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
    let noted = "SELECT count(*) FROM audit_log WHERE project_id = $1 AND action = 'users.exported'";
    let noted: i64 = gateway.sql.query_one(noted, &[&project.id]).await.unwrap().get(0);
    assert_eq!(noted, 8);
}

#[tokio::test]
async fn long_export_is_complete_and_compressed_on_request() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    fill_users(&gateway, &project, 12_000).await;
    let all = export(&gateway, &project, "/users/export").await;
    let mut ids = field(&all, "id");
    assert!(
        all.is_sorted_by(
            |a, b| (a["createdAt"].as_str(), a["id"].as_str()) > (b["createdAt"].as_str(), b["id"].as_str())
        )
    );
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 12_000);
    assert_eq!(export(&gateway, &project, "/users/export?filter=active").await.len(), 120);
    // A search with few matches far from the newest user, and one that matches all.
    assert_eq!(export(&gateway, &project, "/users/export?search=user-77").await.len(), 111);
    assert_eq!(export(&gateway, &project, "/users/export?search=user-").await.len(), 12_000);
    let middle = &all[7_000]["id"];
    let rest = export(&gateway, &project, &format!("/users/export?after={}", middle.as_str().unwrap())).await;
    assert_eq!(rest, all[7_001..]);

    let call = gateway.call("GET", "/users/export").header("x-api-key", &project.secret);
    let zipped = call.header("accept-encoding", "br, gzip").send("").await;
    assert_eq!((zipped.header("content-encoding"), zipped.header("vary")), (Some("gzip"), Some("accept-encoding")));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&zipped.bytes[..]).read_to_string(&mut text).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, all);
    let head = gateway.call("HEAD", "/users/export").header("x-api-key", &project.secret).send("").await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
}

#[tokio::test]
async fn exported_events_match_the_list() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let known = rows.user("u1", None, None, 100).await;
    let merged = rows.visitor("a1", Some(known)).await;
    let gone = rows.anonymous("gone");
    for n in 0..30 {
        rows.event(if n % 2 == 0 { known } else { merged }, &format!("name_{n}"), 5_000 - n).await;
    }
    let last = rows.event(rows.anonymous("a2"), "last", 100).await;
    let client_id = Uuid::new_v5(&Uuid::NAMESPACE_OID, b"c");
    rows.event_with_id(ids::fresh(gateway.app.clock.now_ms() - 9_000), Some(client_id), known, "first").await;
    rows.event(gone, "before", 4_000).await;
    let sql = "INSERT INTO erasure (project_id, user_id, erased_at, applied_at, has_left) VALUES ($1, $2, clock_timestamp(), clock_timestamp(), true)";
    gateway.sql.execute(sql, &[&project.id, &gone]).await.unwrap();
    for (query, count) in [
        ("?limit=100", 32),
        ("?limit=100&user=u1", 31),
        ("?limit=100&event=name_3", 1),
        ("?limit=100&search=name_", 30),
        ("?limit=100&search=name_1", 11),
        ("?limit=100&search=name_&user=u1", 30),
        ("?limit=100&search=nothing", 0),
        ("?limit=100&user=unknown", 0),
    ] {
        let listed = gateway.get(&project, &format!("/events{query}")).await.expect(200);
        let lines = export(&gateway, &project, &format!("/events/export{query}")).await;
        assert_eq!((lines.len(), &json!(lines)), (count, &listed["events"]), "{query}");
        assert_eq!(texts(&listed["events"], "id"), field(&lines, "id"));
    }
    assert_eq!(export(&gateway, &other, "/events/export").await.len(), 0);
    assert_eq!(export(&gateway, &project, &format!("/events/export?after={last}")).await.len(), 31);
    assert_eq!(export(&gateway, &project, &format!("/events/export?after={client_id}")).await.len(), 0);
    assert_eq!(gateway.get(&other, &format!("/events/export?after={last}")).await.fields(), ["after"]);

    let many = rows.user("many", None, None, 100).await;
    rows.bulk(many, "often", 12_000).await;
    let lines = export(&gateway, &project, "/events/export").await;
    assert_eq!(lines.len(), 12_032);
    assert!(lines.is_sorted_by(|a, b| a["id"].as_str() > b["id"].as_str()
        || a["id"] == json!(client_id)
        || b["id"] == json!(client_id)));
    // Thirty names, far apart.
    assert_eq!(export(&gateway, &project, "/events/export?search=name_").await.len(), 30);
}

async fn unread_export(gateway: &Gateway, project: &Tenant) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = format!("GET /api/v1/users/export HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n\r\n", project.secret);
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    stream
}

#[tokio::test]
async fn slow_reader_holds_no_database_connection() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    fill_users(&gateway, &project, 150_000).await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(unread_export(&gateway, &project).await);
    }
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()";
    eventually_true("no query is running", secs(20), async || {
        gateway.sql.query_one(busy, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
    assert_eq!(gateway.app.exports.taken(), 2);
    // Other projects can still export.
    let other = gateway.project().await;
    assert_eq!(export(&gateway, &other, "/users/export").await.len(), 0);
    let refused = gateway.get(&project, "/users/export").await;
    assert!(refused.status == 429 && refused.body["message"].as_str().unwrap().contains("exports"), "{}", refused.body);
    gateway.get(&project, "/users").await.expect(200);

    // One client reads to a complete end; the others have disconnected.
    let mut reader = clients.remove(0);
    drop(clients);
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    while !bytes.ends_with(b"\r\n0\r\n\r\n") {
        let read = reader.read(&mut piece).await.unwrap();
        assert_ne!(read, 0, "cut off");
        bytes.extend_from_slice(&piece[..read]);
    }
    let lines = bytes.windows(15).filter(|w| w == b"\"externalId\":\"u").count();
    assert!((149_000..=150_000).contains(&lines), "{lines}");
    eventually_true("their slots are released", secs(5), async || gateway.app.exports.taken() == 0).await;
}

#[tokio::test]
async fn export_is_cut_off_when_its_key_is_revoked() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    fill_users(&gateway, &project, 150_000).await;
    let mut reader = unread_export(&gateway, &project).await;
    gateway.sql.execute("UPDATE api_key SET revoked_at = now()", &[]).await.unwrap();
    gateway.app.auth.keys.invalidate_all();
    let mut read = Vec::new();
    // The connection is cut, with or without an error.
    let _ = reader.read_to_end(&mut read).await;
    assert!(!read.ends_with(b"\r\n0\r\n\r\n"), "{} bytes ended as a complete response", read.len());
    eventually_true("its slot is released", secs(5), async || gateway.app.exports.taken() == 0).await;
}
