//! Tests for `POST /users/import`.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{eventually, eventually_true};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::event::{Body, IngestItem};

use crate::fixture::{ApiResponse, Gateway};
use crate::setup::{Tenant, secs};

const NDJSON: (&str, &str) = ("content-type", "application/x-ndjson");
const CSV: (&str, &str) = ("content-type", "text/csv; charset=UTF-8");

async fn import(
    gateway: &Gateway,
    project: &Tenant,
    query: &str,
    headers: &[(&str, &str)],
    body: impl Into<bytes::Bytes>,
) -> ApiResponse {
    gateway.send("POST", &format!("/users/import{query}"), &project.secret, headers, body).await
}

fn lines(from: usize, to: usize) -> String {
    (from..to).map(|n| format!("{{\"user_id\":\"u{n}\"}}\n")).collect::<Vec<_>>().concat()
}

/// Returns the user ID, the anonymous ID and the properties of each item, sorted by the IDs.
fn said(items: Vec<IngestItem>) -> Vec<(Option<String>, Option<String>, Value)> {
    let said = items.into_iter().map(|item| {
        let Some(Body::Identify(identify)) = item.body else { panic!("{:?}", item.body) };
        (item.user_id, item.anonymous_id, serde_json::from_slice(&identify.properties).unwrap())
    });
    let mut said: Vec<_> = said.collect();
    said.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    said
}

async fn names(gateway: &Gateway) -> Vec<String> {
    said(gateway.items().await).into_iter().map(|(user, _, _)| user.unwrap()).collect()
}

#[tokio::test]
async fn ndjson_and_csv_imports_match_identify() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    gateway.applied_up_to(1_000).await;
    let body = concat!(
        "{\"user_id\":\"u1\",\"email\":\"ann@example.com\",\"properties\":{\"plan\":\"pro\",\"old\":null}}\r\n\n",
        "{\"anonymousId\":\"a1\",\"externalId\":null,\"name\":null,\"createdAt\":\"x\"}"
    );
    let shown = import(&gateway, &project, "", &[NDJSON], body).await.expect(200);
    let id = shown["id"].as_str().unwrap();
    let expected = json!({
        "id": id, "status": "completed", "format": "ndjson", "nextLine": 4, "imported": 2, "failed": 0, "errors": [],
        "errorsOmitted": 0, "createdAt": shown["createdAt"], "updatedAt": shown["updatedAt"],
        "completedAt": shown["completedAt"],
    });
    assert_eq!(shown, expected);
    assert_eq!(gateway.get(&project, &format!("/users/import/{id}")).await.expect(200), shown);
    assert_eq!(gateway.get(&other, &format!("/users/import/{id}")).await.status, 404);

    let body = "\u{feff}User_ID;Email;plan;age:number\r\nu2; bob@example.com;\"a;\r\n\"\"b\"\"\";42\r\nu3;;;\r\n";
    let shown = import(&gateway, &project, "?delimiter=semicolon", &[CSV], body).await.expect(200);
    assert_eq!((&shown["format"], &shown["imported"], &shown["nextLine"]), (&json!("csv"), &json!(2), &json!(5)));
    let known = |id: &str| Some(id.to_owned());
    let expected = [
        (None, known("a1"), json!({})),
        (known("u1"), None, json!({"email": "ann@example.com", "plan": "pro", "old": null})),
        (known("u2"), None, json!({"email": "bob@example.com", "plan": "a;\r\n\"b\"", "age": 42})),
        (known("u3"), None, json!({})),
    ];
    assert_eq!(said(gateway.items().await), expected);
    let list = gateway.get(&project, "/users/import?limit=1").await.expect(200);
    assert_eq!((&list["total"], &list["imports"][0]), (&json!(2), &shown));
    assert_eq!(gateway.pages(&project, "/users/import?limit=1", "imports", "id").await.len(), 2);
    assert_eq!(gateway.get(&other, "/users/import").await.expect(200)["total"], json!(0));
}

#[tokio::test]
async fn invalid_line_is_reported_and_others_are_imported() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    gateway.applied_up_to(1_000).await;
    let mut body =
        b"{\"user_id\":\"a\"}\n{\"user_id\":\"b\",\"email\":\"unknown\",\"plan\":1}\n{\"user_id\":\"\xff\"}\n".to_vec();
    body.extend(format!("{{\"user_id\":\"{}\"}}\n", "x".repeat(5 << 20)).bytes());
    body.extend(b"[\n{\"user_id\":\"c\"}\n");
    let shown = import(&gateway, &project, "", &[NDJSON], body).await.expect(200);
    let errors: Vec<_> = shown["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["line"].as_u64().unwrap(), e["field"].as_str().unwrap()))
        .collect();
    assert_eq!(errors, [(2, "email"), (2, "plan"), (3, "line"), (4, "line"), (5, "line")]);
    assert_eq!((&shown["imported"], &shown["failed"], &shown["nextLine"]), (&json!(2), &json!(4), &json!(7)));
    assert!(shown["errors"][3]["message"].as_str().unwrap().contains("65536 bytes"), "{shown}");
    assert_eq!(names(&gateway).await, ["a", "c"]);

    let rows: String = (0..130).map(|n| if n % 13 == 0 { format!("r{n},1\n") } else { format!("r{n}\n") }).collect();
    let shown = import(&gateway, &project, "", &[CSV], format!("user_id,n:number\n{rows}")).await.expect(200);
    assert_eq!((&shown["imported"], &shown["failed"], &shown["errorsOmitted"]), (&json!(10), &json!(120), &json!(20)));
    assert_eq!(shown["errors"].as_array().unwrap().len(), 100);
    let message = "must have 2 columns like the header, not 1";
    assert_eq!(shown["errors"][0], json!({"line": 3, "field": "line", "message": message}));
}

#[tokio::test]
async fn unreadable_bodies_are_rejected() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    gateway.applied_up_to(1_000).await;
    let zipped = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    const GZIP: (&str, &str) = ("content-encoding", "gzip");
    let one = b"{\"user_id\":\"u\"}\n";
    let cut = zipped(one)[..15].to_vec();
    for (query, headers, body, status, field) in [
        ("", &[][..], &one[..], 415, None),
        ("", &[("content-type", "application/json")], one, 415, None),
        ("", &[("content-type", "text/csv; charset=iso-8859-1")], one, 415, None),
        ("", &[NDJSON, ("content-encoding", "br")], one, 415, None),
        ("", &[NDJSON, GZIP], one, 400, None),
        ("", &[NDJSON, GZIP], &cut, 400, None),
        ("", &[NDJSON], b"", 422, Some("body")),
        ("", &[CSV], b"", 422, Some("body")),
        ("", &[CSV], b"email,name\na@b.co,A\n", 422, Some("header")),
        ("", &[CSV], b"user_id;email\nu;a@b.co\n", 422, Some("header")),
        ("?delimiter=colon", &[CSV], b"user_id\nu", 422, Some("delimiter")),
        ("?delimiter=tab", &[NDJSON], one, 422, Some("delimiter")),
        ("?fromLine=2", &[NDJSON], one, 422, Some("fromLine")),
        ("?fromLine=0", &[NDJSON, ("idempotency-key", "k")], one, 422, Some("fromLine")),
        ("?fromLine=2", &[NDJSON, ("idempotency-key", "k")], one, 409, None),
    ] {
        let response = import(&gateway, &project, query, headers, body.to_vec()).await;
        assert_eq!(
            (response.status, response.fields()),
            (status, field.into_iter().collect()),
            "{headers:?}: {}",
            response.body
        );
    }
    assert!(gateway.items().await.is_empty());
    // Decompresses to 100 MiB without a profile in it.
    let bomb = zipped(&vec![b' '; 100 << 20]);
    let response = import(&gateway, &project, "", &[NDJSON, GZIP], bomb).await.expect(200);
    assert_eq!((&response["imported"], &response["failed"]), (&json!(0), &json!(1)));
    let response = import(&gateway, &project, "", &[NDJSON, GZIP], zipped(one)).await.expect(200);
    assert_eq!(response["imported"], json!(1));
}

/// A request whose body is still being sent.
struct Sending(TcpStream);

impl Sending {
    async fn begin(gateway: &Gateway, project: &Tenant, query: &str, key: &str) -> Self {
        let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
        let head = format!(
            "POST /api/v1/users/import{query} HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\nidempotency-key: {key}\r\n\
             content-type: application/x-ndjson\r\ncontent-length: 10000000\r\n\r\n",
            project.secret
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Self(stream)
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn response(mut self) -> String {
        let mut response = String::new();
        self.0.read_to_string(&mut response).await.unwrap();
        response
    }
}

async fn status(gateway: &Gateway, project: &Tenant, key: &str) -> Value {
    gateway.get(project, &format!("/users/import/{key}")).await.body["status"].clone()
}

#[tokio::test]
async fn interrupted_import_resumes_at_its_next_line() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    gateway.applied_up_to(100_000).await;
    let mut sending = Sending::begin(&gateway, &project, "", "k1").await;
    sending.send(&lines(0, 1_500)).await;
    // The import can be retrieved while it runs.
    let running = eventually(secs(5), async || {
        let shown = gateway.get(&project, "/users/import/k1").await.body;
        if shown["nextLine"] == json!(1_001) { Ok(shown) } else { Err(shown) }
    })
    .await;
    assert_eq!((&running["status"], &running["imported"]), (&json!("running"), &json!(1_000)));
    let key = [NDJSON, ("idempotency-key", "k1")];
    let twice = import(&gateway, &project, "", &key, lines(0, 2_000)).await;
    assert!(twice.status == 409 && twice.body["message"].as_str().unwrap().contains("under way"), "{}", twice.body);
    drop(sending);
    eventually_true("the import is aborted", secs(5), async || status(&gateway, &project, "k1").await == "interrupted")
        .await;

    // Resuming with another body or with a gap is refused.
    let other = import(&gateway, &project, "", &key, lines(1, 2_000)).await;
    assert!(other.status == 409 && other.body["message"].as_str().unwrap().contains("differs"), "{}", other.body);
    let short = import(&gateway, &project, "", &key, lines(0, 999)).await;
    assert_eq!(short.status, 409, "{}", short.body);
    assert_eq!(import(&gateway, &project, "?fromLine=1002", &key, lines(1_001, 2_000)).await.status, 409);
    assert_eq!(import(&gateway, &project, "", &[CSV, key[1]], "user_id\nu").await.status, 409);
    // Resumes by the import's own ID with the remaining lines, some of which are already imported.
    let id = running["id"].as_str().unwrap();
    let rest = [NDJSON, ("idempotency-key", id)];
    let shown = import(&gateway, &project, "?fromLine=991", &rest, lines(990, 1_200)).await.expect(200);
    assert_eq!((&shown["imported"], &shown["nextLine"], &shown["id"]), (&json!(1_200), &json!(1_201), &json!(id)));
    // Resumes with the whole body.
    let shown = import(&gateway, &project, "", &key, lines(0, 2_000)).await.expect(200);
    assert_eq!((&shown["imported"], &shown["status"]), (&json!(2_000), &json!("completed")));
    let again = import(&gateway, &project, "", &key, lines(0, 2_000)).await.expect(200);
    assert_eq!((&again["imported"], &again["completedAt"]), (&json!(2_000), &shown["completedAt"]));
    let mut expected: Vec<String> = (0..2_000).map(|n| format!("u{n}")).collect();
    expected.sort();
    assert_eq!(names(&gateway).await, expected);
}

/// Returns the last sequence of the ingest stream.
async fn last_sequence(gateway: &Gateway) -> i64 {
    let bus = &gateway.app.bus;
    let mut stream = bus.jetstream.get_stream(bus.names.ingest_stream()).await.unwrap();
    stream.info().await.unwrap().state.last_sequence as i64
}

#[tokio::test]
async fn import_waits_until_published_lines_are_recorded() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    gateway.applied_up_to(0).await;
    let headers = [NDJSON, ("idempotency-key", "k")];
    let importing = import(&gateway, &project, "", &headers, lines(0, 2_500));
    let recording = async {
        for slice in [1_000, 2_000, 2_500] {
            eventually_true("a slice is published", secs(5), async || gateway.items().await.len() == slice).await;
            // The next slice waits until these items are recorded.
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(gateway.items().await.len(), slice);
            gateway.applied_up_to(last_sequence(&gateway).await).await;
        }
    };
    let (shown, ()) = tokio::join!(importing, recording);
    assert_eq!(shown.expect(200)["imported"], json!(2_500));
}

#[tokio::test]
async fn concurrent_imports_are_limited() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    gateway.applied_up_to(100_000).await;
    let mut under_way = Vec::new();
    for key in ["k1", "k2"] {
        let mut sending = Sending::begin(&gateway, &project, "", key).await;
        sending.send(&lines(0, 1)).await;
        under_way.push(sending);
        eventually_true("it runs", secs(5), async || status(&gateway, &project, key).await == "running").await;
    }
    let third = import(&gateway, &project, "", &[NDJSON], lines(0, 1)).await;
    assert!(third.status == 429 && third.body["message"].as_str().unwrap().contains("this project"), "{}", third.body);
    import(&gateway, &other, "", &[NDJSON], lines(0, 1)).await.expect(200);
    under_way.clear();
    eventually_true("a slot is free again", secs(5), async || {
        import(&gateway, &project, "", &[NDJSON], lines(0, 1)).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn stalled_import_is_aborted_and_reports_its_next_line() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    gateway.applied_up_to(100_000).await;
    let mut sending = Sending::begin(&gateway, &project, "", "k").await;
    // Sending takes longer than other bodies may take in total, but no single pause counts as a stall.
    for n in 0..4 {
        sending.send(&lines(n * 500, n * 500 + 500)).await;
        tokio::time::sleep(secs(3)).await;
    }
    let response = sending.response().await;
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    let shown = gateway.get(&project, "/users/import/k").await.expect(200);
    let (id, next) = (shown["id"].as_str().unwrap(), shown["nextLine"].as_u64().unwrap());
    assert!(response.contains(id) && response.contains(&format!("fromLine={next}")), "{response}");
    assert_eq!((shown["status"].as_str(), next > 1_000), (Some("interrupted"), true), "{shown}");
}
