//! Tests for `/news` and `/feed`.

use serde_json::{Value, json};

use crate::fixture::{Gateway, texts};

fn id(made: &Value) -> String {
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn item_can_be_created_read_updated_and_deleted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let made = gateway.post(&project, "/news", &json!({"title": "Hello", "body": "<b>New</b>"})).await.expect(201);
    assert_eq!((&made["published"], &made["publishedAt"]), (&json!(false), &json!(null)));
    let path = format!("/news/{}", id(&made));
    assert_eq!(gateway.get(&project, &path).await.expect(200), made);

    // `PUT` accepts the representation that `GET` returns.
    let mut back = made.clone();
    back["title"] = json!("Hello again");
    let changed = gateway.put(&project, &path, &back).await.expect(200);
    assert_eq!((&changed["title"], &changed["body"]), (&json!("Hello again"), &json!("<b>New</b>")));
    assert_eq!(gateway.get(&project, &path).await.expect(200), changed);

    assert_eq!(gateway.delete(&project, &path).await.expect(200), json!({"deleted": true}));
    for response in [
        gateway.get(&project, &path).await,
        gateway.put(&project, &path, &json!({"title": "t"})).await,
        gateway.delete(&project, &path).await,
    ] {
        assert_eq!(response.status, 404);
    }
}

#[tokio::test]
async fn feed_shows_published_items_only() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let mut ids = Vec::new();
    for (title, published) in [("a", true), ("b", false), ("c", true)] {
        let new = json!({"title": title, "body": "b", "published": published});
        ids.push(id(&gateway.post(&project, "/news", &new).await.expect(201)));
    }
    let feed = async || gateway.send("GET", "/feed", &project.public, &[], "").await.expect(200);
    assert_eq!(texts(&feed().await["items"], "title"), ["c", "a"]);
    assert_eq!(gateway.get(&project, "/feed").await.expect(200), feed().await);

    // The latest published item comes first; an unpublished one is left out.
    gateway.put(&project, &format!("/news/{}", ids[1]), &json!({"published": true})).await.expect(200);
    gateway.put(&project, &format!("/news/{}", ids[0]), &json!({"published": false})).await.expect(200);
    assert_eq!(texts(&feed().await["items"], "title"), ["b", "c"]);
    assert_eq!(gateway.pages(&project, "/feed?limit=1", "items", "title").await, [["b"], ["c"]]);
    let listed = gateway.get(&project, "/news").await.expect(200);
    assert_eq!(texts(&listed["items"], "title"), ["c", "b", "a"]);

    for (query, field) in [("?limit=101", "limit"), ("?limit=0", "limit"), ("?cursor=x", "cursor")] {
        let response = gateway.get(&project, &format!("/feed{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
    for path in ["/news", &format!("/news/{}", ids[2])] {
        assert_eq!(gateway.send("GET", path, &project.public, &[], "").await.status, 403);
    }
}

#[tokio::test]
async fn foreign_item_is_not_found() {
    let gateway = Gateway::start().await;
    let (owner, other) = (gateway.project().await, gateway.project().await);
    let new = json!({"title": "t", "body": "b", "published": true});
    let path = format!("/news/{}", id(&gateway.post(&owner, "/news", &new).await.expect(201)));
    for path in [path.as_str(), "/news/00000000-0000-7000-8000-000000000000", "/news/not-an-id"] {
        for response in [
            gateway.get(&other, path).await,
            gateway.put(&other, path, &json!({"title": "mine"})).await,
            gateway.delete(&other, path).await,
        ] {
            assert_eq!(
                (response.status, &response.body["message"]),
                (404, &json!("no such news item in this project"))
            );
        }
    }
    assert_eq!(gateway.get(&other, "/feed").await.expect(200)["items"], json!([]));
    assert_eq!(gateway.get(&owner, &path).await.expect(200)["title"], "t");
}

#[tokio::test]
async fn idempotency_key_creates_one_item() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let new = json!({"title": "t", "body": "b"}).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", "k1")];
    let post = async |key: &str| gateway.send("POST", "/news", key, &headers, new.clone()).await;
    let (first, second) = tokio::join!(post(&project.secret), post(&project.secret));
    let first = first.expect(201);
    assert_eq!(second.expect(201), first);
    assert_ne!(post(&other.secret).await.expect(201)["id"], first["id"]);
    assert_eq!(gateway.get(&project, "/news").await.expect(200)["items"].as_array().unwrap().len(), 1);
    gateway.delete(&project, &format!("/news/{}", id(&first))).await.expect(200);
    assert_eq!(post(&project.secret).await.status, 409);
    let wrong = [("content-type", "application/json"), ("idempotency-key", "")];
    let refused = gateway.send("POST", "/news", &project.secret, &wrong, new.clone()).await;
    assert_eq!((refused.status, refused.fields()), (422, vec!["Idempotency-Key"]));
}
