//! Tests for `/templates`.

use serde_json::json;

use crate::fixture::{Gateway, held_renderings, texts};
use crate::rows::Rows;

#[tokio::test]
async fn template_can_be_created_read_updated_and_deleted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let new = json!({
        "name": "Welcome", "channel": "EMAIL", "subject": "Hi {{ user.name }}", "body": "<p>{{ plan }}</p>",
        "tags": ["onboarding"], "ai": true,
    });
    let made = gateway.post(&project, "/templates", &new).await.expect(201);
    for (field, value) in new.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    assert_eq!(made["version"], 1);
    assert!(made["createdAt"].as_str().unwrap().ends_with('Z'));
    let path = format!("/templates/{}", made["id"].as_str().unwrap());
    assert_eq!(gateway.get(&project, &path).await.expect(200), made);

    let renamed = gateway.put(&project, &path, &json!({"name": "Hello"})).await.expect(200);
    assert_eq!(
        (&renamed["name"], &renamed["version"], &renamed["subject"]),
        (&json!("Hello"), &json!(1), &new["subject"])
    );
    let edited = gateway.put(&project, &path, &json!({"subject": "Hello"})).await.expect(200);
    assert_eq!((&edited["version"], &edited["body"]), (&json!(2), &new["body"]));
    // `PUT` accepts the representation that `GET` returns.
    let same = gateway.put(&project, &path, &edited).await.expect(200);
    assert_eq!(same["version"], 2);

    assert_eq!(gateway.delete(&project, &path).await.expect(200), json!({"deleted": true}));
    assert_eq!(gateway.get(&project, &path).await.status, 404);
    assert_eq!(gateway.delete(&project, &path).await.status, 404);
}

#[tokio::test]
async fn only_push_templates_have_a_url() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let new = json!({"name": "n", "channel": "PUSH", "subject": "t", "body": "b", "url": "myapp://order/{{ id }}"});
    let made = gateway.post(&project, "/templates", &new).await.expect(201);
    assert_eq!((&made["url"], &made["version"]), (&new["url"], &json!(1)));
    let path = format!("/templates/{}", made["id"].as_str().unwrap());
    assert_eq!(gateway.get(&project, &path).await.expect(200), made);
    assert_eq!(gateway.get(&project, "/templates").await.expect(200)["templates"], json!([made]));
    let seen = gateway.post(&project, &format!("{path}/preview"), &json!({"data": {"id": 7}})).await.expect(200);
    assert_eq!(seen, json!({"subject": "t", "body": "b", "url": "myapp://order/7", "warnings": []}));
    let changed = gateway.put(&project, &path, &json!({"url": "/orders"})).await.expect(200);
    assert_eq!((&changed["url"], &changed["version"]), (&json!("/orders"), &json!(2)));
    let bare = gateway.put(&project, &path, &json!({"url": null})).await.expect(200);
    assert_eq!((&bare["url"], &bare["version"]), (&json!(null), &json!(3)));

    let mail = json!({"name": "n", "channel": "EMAIL", "body": "b"});
    let mail = gateway.post(&project, "/templates", &mail).await.expect(201);
    let mail_path = format!("/templates/{}", mail["id"].as_str().unwrap());
    // `PUT` accepts the representation that `GET` returns.
    gateway.put(&project, &mail_path, &mail).await.expect(200);
    for (path, url) in [(&path, "//evil.example"), (&path, "javascript:{{ x }}"), (&mail_path, "/orders")] {
        let refused = gateway.put(&project, path, &json!({"url": url})).await;
        assert_eq!((refused.status, refused.fields()), (422, vec!["url"]), "{}", refused.body);
    }
}

#[tokio::test]
async fn template_that_does_not_parse_is_rejected_with_a_position() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let broken = json!({"name": "n", "channel": "EMAIL", "subject": "{{ a", "body": "one\n{% if x %}"});
    let response = gateway.post(&project, "/templates", &broken).await;
    assert_eq!((response.status, response.fields()), (422, vec!["subject", "body"]), "{}", response.body);
    assert!(response.body["details"][1]["message"].as_str().unwrap().starts_with("line 2"), "{}", response.body);
    assert_eq!(gateway.get(&project, "/templates").await.expect(200)["templates"], json!([]));
}

#[tokio::test]
async fn lists_are_newest_first_and_filtered() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    for (name, channel, ai) in [("a", "EMAIL", false), ("b", "PUSH", true), ("c", "EMAIL", true)] {
        let new = json!({"name": name, "channel": channel, "body": "b", "ai": ai});
        gateway.post(&project, "/templates", &new).await.expect(201);
    }
    for (query, names) in [
        ("", &["c", "b", "a"][..]),
        ("?channel=EMAIL", &["c", "a"]),
        ("?ai=true", &["c", "b"]),
        ("?ai=false", &["a"]),
        ("?channel=EMAIL&ai=true", &["c"]),
        ("?channel=SMS", &[]),
    ] {
        let body = gateway.get(&project, &format!("/templates{query}")).await.expect(200);
        assert_eq!(
            (texts(&body["templates"], "name"), &body["nextCursor"]),
            (names.iter().map(ToString::to_string).collect(), &json!(null)),
            "{query}"
        );
    }
    for (query, field) in [("?channel=FAX", "channel"), ("?ai=yes", "ai"), ("?cursor=x", "cursor")] {
        let response = gateway.get(&project, &format!("/templates{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
}

#[tokio::test]
async fn foreign_template_is_not_found() {
    let gateway = Gateway::start().await;
    let (owner, other) = (gateway.project().await, gateway.project().await);
    let new = json!({"name": "n", "channel": "EMAIL", "body": "b"});
    let made = gateway.post(&owner, "/templates", &new).await.expect(201);
    let path = format!("/templates/{}", made["id"].as_str().unwrap());
    let missing = "/templates/00000000-0000-7000-8000-000000000000";
    let message = gateway.get(&other, missing).await.body["message"].clone();
    for path in [path.as_str(), missing, "/templates/not-an-id"] {
        for response in [
            gateway.get(&other, path).await,
            gateway.put(&other, path, &json!({"name": "mine"})).await,
            gateway.delete(&other, path).await,
        ] {
            assert_eq!((response.status, &response.body["message"]), (404, &message), "{path}");
        }
    }
    assert_eq!(gateway.get(&other, "/templates").await.expect(200)["templates"], json!([]));
    assert_eq!(gateway.get(&owner, &path).await.expect(200)["name"], "n");
    let public = gateway.send("GET", "/templates", &owner.public, &[], "").await;
    assert_eq!(public.status, 403);
}

#[tokio::test]
async fn template_in_use_cannot_be_deleted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let new = json!({"name": "n", "channel": "EMAIL", "body": "b"});
    let id = gateway.post(&project, "/templates", &new).await.expect(201)["id"].as_str().unwrap().to_owned();
    let steps = json!([{"type": "WAIT", "delay": 1}, {"type": "SEND_EMAIL", "templateId": id}]);
    let automation =
        json!({"name": "Welcome", "triggerType": "EVENT", "triggerEvent": "e", "active": true, "steps": steps});
    let automation = gateway.post(&project, "/automations", &automation).await.expect(201);
    let refused = gateway.delete(&project, &format!("/templates/{id}")).await;
    assert_eq!(refused.status, 409);
    assert!(refused.body["message"].as_str().unwrap().contains("Welcome"), "{}", refused.body);

    let path = format!("/automations/{}", automation["id"].as_str().unwrap());
    gateway.put(&project, &path, &json!({"active": false})).await.expect(200);
    gateway.delete(&project, &format!("/templates/{id}")).await.expect(200);
    // The automation cannot be activated without its template.
    let refused = gateway.put(&project, &path, &json!({"active": true})).await;
    assert_eq!((refused.status, refused.fields()), (422, vec!["steps[1].templateId"]));
}

#[tokio::test]
async fn preview_renders_the_template_for_a_user() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    rows.user("u1", Some("ann@example.com"), Some("Ann"), 0).await;
    rows.visitor("v1", Some(rows.known("u1"))).await;
    let new = json!({
        "name": "n", "channel": "EMAIL", "subject": "Hi {{ name }}",
        "body": "<p>{{ user.properties.plan }} {{ event.name }} {{ code }}</p>",
    });
    let made = gateway.post(&project, "/templates", &new).await.expect(201);
    let path = format!("/templates/{}/preview", made["id"].as_str().unwrap());
    let data = json!({"event": {"name": "paid"}, "code": 7});
    let unlinked = "body: there is no unsubscribe link ({{ unsubscribeUrl }} or {{ preferencesUrl }}); only transactional email may omit it";
    for named in ["u1", "v1"] {
        let seen = gateway.post(&project, &path, &json!({"userId": named, "data": data})).await.expect(200);
        assert_eq!(seen, json!({"subject": "Hi Ann", "body": "<p>pro paid 7</p>", "warnings": [unlinked]}), "{named}");
    }
    let seen = gateway.post(&project, &path, &json!({})).await.expect(200);
    assert_eq!((&seen["subject"], &seen["body"]), (&json!("Hi"), &json!("<p>  </p>")));
    assert_eq!(seen["warnings"].as_array().unwrap().len(), 5, "{seen}");

    for (body, field) in [(json!({"userId": "unknown"}), "userId"), (json!({"data": [1]}), "data")] {
        let response = gateway.post(&project, &path, &body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{}", response.body);
    }
    let endless = "{% for i in (1..100000) %}{% for j in (1..100000) %}y{% endfor %}{% endfor %}";
    let endless = json!({"name": "n", "channel": "PUSH", "subject": "t", "body": endless});
    let made = gateway.post(&project, "/templates", &endless).await.expect(201);
    let path = format!("/templates/{}/preview", made["id"].as_str().unwrap());
    let response = gateway.post(&project, &path, &json!({})).await;
    assert_eq!((response.status, response.fields()), (422, vec!["body"]), "{}", response.body);

    // While the owner's share of the permits is in use, a request is refused after a short wait. Other owners are
    // served.
    let held = held_renderings(&gateway, &project).await;
    assert_eq!(gateway.post(&project, &path, &json!({})).await.status, 503);
    let other = gateway.project().await;
    let plain = json!({"name": "n", "channel": "PUSH", "subject": "t", "body": "b"});
    let made = gateway.post(&other, "/templates", &plain).await.expect(201);
    let others = format!("/templates/{}/preview", made["id"].as_str().unwrap());
    gateway.post(&other, &others, &json!({})).await.expect(200);
    drop(held);
    assert_eq!(gateway.post(&project, &path, &json!({})).await.status, 422);
}

#[tokio::test]
async fn mjml_is_compiled_on_save_and_returned_as_written() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let mjml = "<mjml><mj-body><mj-section><mj-column>{% for x in (1..2) %}<mj-text>Hi {{ name | default: 'you' }}</mj-text>\
                {% endfor %}<mj-image src=\"https://a.example/b.png\" /></mj-column></mj-section></mj-body></mjml>";
    let new = json!({"name": "n", "channel": "EMAIL", "subject": "s", "body": mjml});
    let made = gateway.post(&project, "/templates", &new).await.expect(201);
    assert_eq!((&made["body"], &made["version"]), (&json!(mjml), &json!(1)));
    let path = format!("/templates/{}", made["id"].as_str().unwrap());
    let preview = format!("{path}/preview");
    let seen = gateway.post(&project, &preview, &json!({})).await.expect(200);
    let html = seen["body"].as_str().unwrap();
    assert_eq!((html.matches("Hi you").count(), html.contains("<mj-")), (2, false), "{html}");

    // Renaming keeps the compiled body. Another body is compiled again, and one that does not compile is refused with a
    // position.
    gateway.put(&project, &path, &json!({"name": "m"})).await.expect(200);
    assert_eq!(gateway.post(&project, &preview, &json!({})).await.expect(200)["body"], seen["body"]);
    let include = json!({"body": "<mjml>\n<mj-body><mj-include path=\"/etc/passwd\" /></mj-body></mjml>"});
    let refused = gateway.put(&project, &path, &include).await;
    assert_eq!((refused.status, refused.fields()), (422, vec!["body"]));
    let why = refused.body["details"][0]["message"].as_str().unwrap();
    assert!(why.starts_with("line 2, column 10: mj-include"), "{why}");
    let css = "<style>b{color:red}</style><b>{{ unsubscribeUrl }}</b>";
    let changed = gateway.put(&project, &path, &json!({"body": css})).await.expect(200);
    assert_eq!((&changed["body"], &changed["version"]), (&json!(css), &json!(2)));
    let seen = gateway.post(&project, &preview, &json!({})).await.expect(200);
    let inlined = "<style>b{color:red}</style><b style=\"color: red\">#unsubscribe</b>";
    assert_eq!((&seen["body"], &seen["warnings"]), (&json!(inlined), &json!([])));
    gateway.put(&project, &path, &json!({"body": "<p>plain</p>"})).await.expect(200);
    assert_eq!(gateway.post(&project, &preview, &json!({})).await.expect(200)["body"], "<p>plain</p>");
}

#[tokio::test]
async fn oversized_css_is_not_inlined_and_the_preview_warns() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rules = (0..10_000).map(|n| format!(".c{n} p>a:nth-child(2n){{top:{n}px}}")).collect::<Vec<_>>().concat();
    let body = format!("<style>{rules}</style>{}", "<p><a>x</a></p>".repeat(30_000));
    let new = json!({"name": "n", "channel": "EMAIL", "subject": "s", "body": body});
    let made = gateway.post(&project, "/templates", &new).await.expect(201);
    assert_eq!(made["body"], body);
    let path = format!("/templates/{}/preview", made["id"].as_str().unwrap());
    let seen = gateway.post(&project, &path, &json!({})).await.expect(200);
    let warnings = seen["warnings"].to_string();
    assert!(warnings.contains("not inlined") && warnings.contains("at most"), "{warnings}");
}
