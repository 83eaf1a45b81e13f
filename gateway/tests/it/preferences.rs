//! The preference page, and unsubscribing from a group.

use domain::link::{self, LinkClaims};
use domain::message::Channel;
use http::header::CONTENT_TYPE;
use kernel::ids;
use serde_json::json;
use uuid::Uuid;
use wire::event::{Body, IngestItem, Subscribe};

use crate::api_subscriptions::{choices, chose, group};
use crate::fixture::Gateway;
use crate::http::{Call, HttpResponse};
use crate::rows::Rows;
use crate::setup::{Tenant, master_keys};

const FORM: &str = "application/x-www-form-urlencoded";

async fn call(gateway: &Gateway, method: &str, path: &str, body: &str) -> HttpResponse {
    Call::new(gateway.address(), method, path).header(CONTENT_TYPE.as_str(), FORM).send(body.to_owned()).await
}

/// Creates a user and a link to a message that the user received.
async fn ann(gateway: &Gateway, project: &Tenant) -> LinkClaims {
    let user = Rows { gateway, project: project.id }.user("ann", Some("Ann@example.com"), None, 9).await;
    // Its time lies in an existing partition of the messages.
    let message = ids::fresh(gateway.app.clock.now_ms());
    LinkClaims { project: project.id, message, user, group: None, channel: Some(Channel::Email) }
}

fn page_of(about: LinkClaims) -> String {
    link::preferences(&master_keys(), "", about)
}

fn chosen(item: &IngestItem) -> &Subscribe {
    let Some(Body::Subscribe(chosen)) = &item.body else { panic!("{item:?}") };
    chosen
}

#[tokio::test]
async fn opening_the_page_shows_choices_and_changes_nothing() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let about = ann(&gateway, &project).await;
    let more = json!({"description": "\"All\" & <script>alert(1)</script>"});
    let news = group(&gateway, &project, "<b>News</b>", more).await;
    let digest = group(&gateway, &project, "Digest", json!({"defaultSubscribed": false})).await;
    let inner = group(&gateway, &project, "Inner circle", json!({"public": false})).await;
    group(&gateway, &other, "Elsewhere", json!({})).await;

    let path = page_of(about);
    assert_eq!(call(&gateway, "HEAD", &path, "").await.status, 200);
    // The query string has no effect.
    let page = call(&gateway, "GET", &format!("{path}?do=nothing&shown={news}"), "").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!((page.header("set-cookie"), page.header("cache-control")), (None, Some("no-store")));
    let policy = page.header("content-security-policy").unwrap();
    for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'", "'sha256-"] {
        assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
    }
    let html = &page.text;
    assert!(
        html.contains("&lt;b&gt;News&lt;/b&gt;") && html.contains("&quot;All&quot; &amp; &lt;script&gt;"),
        "{html}"
    );
    assert!(!html.contains("<script") && !html.contains("Inner circle") && !html.contains("Elsewhere"), "{html}");
    assert!(!html.contains(&inner.to_string()), "{html}");
    let is_ticked = |html: &str, id: Uuid| html.contains(&format!("name=\"group\" value=\"{id}\" checked"));
    assert_eq!((is_ticked(html, news), is_ticked(html, digest)), (true, false));
    assert!(html.contains("<label for=\"g0\">") && html.contains("aria-describedby=\"g0-more\""), "{html}");

    chose(&gateway, &project, (about.user, news), false).await;
    chose(&gateway, &project, (about.user, digest), true).await;
    let html = call(&gateway, "GET", &path, "").await.text;
    assert_eq!((is_ticked(&html, news), is_ticked(&html, digest)), (false, true));
    assert!(gateway.items().await.is_empty());
}

#[tokio::test]
async fn choice_is_durable_before_the_page_confirms_it() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let about = ann(&gateway, &project).await;
    let [news, digest] = [
        group(&gateway, &project, "News", json!({})).await,
        group(&gateway, &project, "Digest", json!({"defaultSubscribed": false})).await,
    ];
    gateway.applied_up_to(1_000).await;
    let path = page_of(about);
    let form = format!("shown={news}&shown={digest}&group={digest}&do=save");
    let page = call(&gateway, "POST", &path, &form).await;
    assert!(page.status == 200 && page.text.contains("Your choice is saved"), "{page:?}");
    assert!(page.text.contains(&format!("value=\"{digest}\" checked")), "{}", page.text);
    assert!(!page.text.contains(&format!("value=\"{news}\" checked")), "{}", page.text);
    let items = gateway.items().await;
    assert_eq!((items.len(), items[0].user_id.as_deref()), (1, Some("ann")));
    let first = chosen(&items[0]);
    let mut expected = vec![(news, false), (digest, true)];
    expected.sort();
    assert_eq!((choices(first), first.source.as_str()), (expected, "page"));
    assert_eq!(
        (&first.user_id[..], &first.message_id[..]),
        (&about.user.as_bytes()[..], &about.message.as_bytes()[..])
    );

    // Changes within a minute all count.
    for ticked in [format!("&group={news}"), String::new()] {
        call(&gateway, "POST", &path, &format!("shown={news}{ticked}")).await;
    }
    let items = gateway.items().await;
    let last: Vec<_> = items[1..].iter().map(|item| choices(chosen(item))).collect();
    assert_eq!(last, [vec![(news, true)], vec![(news, false)]]);
    assert!(items.iter().all(|item| item.dedupe_id.is_empty()));

    // A form without a known group changes nothing.
    for form in ["", "shown=x&group=y", "%%%", &format!("group={news}")] {
        assert_eq!(call(&gateway, "POST", &path, form).await.status, 200, "{form}");
    }
    assert_eq!(gateway.items().await.len(), 3);
    assert_eq!(call(&gateway, "POST", &path, &"x".repeat(40_000)).await.status, 413);
}

#[tokio::test]
async fn unsubscribing_from_everything_can_be_undone() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let about = ann(&gateway, &project).await;
    let news = group(&gateway, &project, "News", json!({})).await;
    gateway.applied_up_to(1_000).await;
    let path = page_of(about);
    let page = call(&gateway, "POST", &path, &format!("shown={news}&group={news}&do=nothing")).await;
    assert!(page.status == 200 && page.text.contains("You have unsubscribed from everything"), "{page:?}");
    let items = gateway.items().await;
    let Some(Body::Webhook(webhook)) = &items[0].body else { panic!("{items:?}") };
    assert_eq!((items.len(), webhook.kind.as_str()), (1, "message.unsubscribed"));

    // The address in the profile may belong to another user, so the page reveals nothing about it.
    let unsubscribed = |address: &str| json!({"address": address, "reason": "unsubscribed"});
    gateway.post(&project, "/suppressions", &unsubscribed("ann@example.com")).await.expect(201);
    let shown = call(&gateway, "GET", &path, "").await.text;
    assert!(!shown.contains("You have unsubscribed from everything"), "{shown}");
    // As the worker records the message.
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, address, created_at, updated_at) \
               VALUES ($1, $2, $3, 'EMAIL', 'campaign', 'sent', 'old@example.com', now(), now())";
    gateway.sql.execute(sql, &[&project.id, &about.message, &about.user]).await.unwrap();
    gateway.post(&project, "/suppressions", &unsubscribed("old@example.com")).await.expect(201);
    let shown = call(&gateway, "GET", &path, "").await.text;
    assert!(shown.contains("You have unsubscribed from everything") && shown.contains("name=\"again\""), "{shown}");
    // Saving without `again` keeps the unsubscription.
    call(&gateway, "POST", &path, &format!("shown={news}&group={news}")).await;
    let page = call(&gateway, "POST", &path, &format!("shown={news}&group={news}&again=yes")).await;
    assert!(!page.text.contains("unsubscribed from everything</strong>"), "{}", page.text);
    let items = gateway.items().await;
    assert_eq!(items[1..].iter().map(|item| chosen(item).resubscribe).collect::<Vec<_>>(), [false, true]);
}

#[tokio::test]
async fn page_of_a_deleted_message_shows_what_its_link_unsubscribed() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let about = ann(&gateway, &project).await;
    let other = LinkClaims { message: ids::fresh(gateway.app.clock.now_ms()), ..about };
    let sql = "INSERT INTO suppression (project_id, channel, address, reason, id, message_id, note, created_at) \
               VALUES ($1, $2, $3, 'unsubscribed', gen_random_uuid(), $4, '', now())";
    let email = "ann@example.com";
    gateway.sql.execute(sql, &[&project.id, &"EMAIL", &email, &about.message]).await.unwrap();
    let shows = async |about: LinkClaims| {
        let page = call(&gateway, "GET", &page_of(about), "").await;
        assert_eq!(page.status, 200);
        page.text.contains("You have unsubscribed from everything")
    };
    // Another message may have unsubscribed another user's address that Ann's profile merely names.
    assert_eq!((shows(about).await, shows(other).await), (true, false));

    let user = about.user.to_string();
    gateway.sql.execute(sql, &[&project.id, &"SMS", &user, &other.message]).await.unwrap();
    let by = |channel| LinkClaims { channel, ..other };
    let shown = [Some(Channel::Email), Some(Channel::Sms), None].map(by);
    assert_eq!((shows(shown[0]).await, shows(shown[1]).await, shows(shown[2]).await), (false, true, true));
}

#[tokio::test]
async fn one_click_unsubscribes_from_the_group_of_the_mail() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let news = group(&gateway, &project, "<i>News</i>", json!({"public": false})).await;
    let about = LinkClaims { group: Some(news), ..ann(&gateway, &project).await };
    gateway.applied_up_to(1_000).await;
    let path = link::unsubscribe(&master_keys(), "", about);
    let asks = call(&gateway, "GET", &path, "").await;
    assert!(asks.status == 200 && asks.text.contains("<strong>&lt;i&gt;News&lt;/i&gt;</strong>"), "{asks:?}");
    // The relative link leads from this page to the preference page.
    let onward = asks.text.split_once("<a href=\"..").unwrap().1.split_once('"').unwrap().0.to_owned();
    assert_eq!(onward, page_of(about));
    assert_eq!(call(&gateway, "GET", &onward, "").await.status, 200);
    assert!(gateway.items().await.is_empty());

    // One-click unsubscription, as mail clients send it in either encoding.
    let multipart = "--x\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x--\r\n";
    for body in ["List-Unsubscribe=One-Click", multipart, ""] {
        let page = call(&gateway, "POST", &path, body).await;
        assert!(page.status == 200 && page.text.contains("You are unsubscribed"), "{page:?}");
    }
    let items = gateway.items().await;
    assert_eq!(items.len(), 3);
    for item in &items {
        let chosen = chosen(item);
        assert_eq!((choices(chosen), chosen.source.as_str()), (vec![(news, false)], "link"));
    }
    // The second button of the page.
    call(&gateway, "POST", &path, "all=yes").await;
    let items = gateway.items().await;
    let Some(Body::Webhook(webhook)) = &items[3].body else { panic!("{items:?}") };
    assert_eq!(webhook.kind, "message.unsubscribed");
}

#[tokio::test]
async fn forged_links_are_rejected() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let about = ann(&gateway, &project).await;
    let path = page_of(about);
    let mut forged = path.clone();
    let last = forged.pop().unwrap();
    forged.push(if last == 'A' { 'Q' } else { 'A' });
    let unsubscribe = link::unsubscribe(&master_keys(), "", about);
    let gone = page_of(LinkClaims { user: Uuid::from_u128(99), ..about });
    for wrong in ["/preferences/", "/preferences/x", &forged, &unsubscribe.replace("/unsubscribe/", "/preferences/")] {
        for method in ["GET", "POST"] {
            assert_eq!(call(&gateway, method, wrong, "do=nothing").await.status, 404, "{wrong}");
        }
    }
    // An erased user.
    assert_eq!(call(&gateway, "GET", &gone, "").await.status, 404);
    assert_eq!(call(&gateway, "PUT", &path, "").await.status, 405);
    assert!(gateway.items().await.is_empty());
}

#[tokio::test]
async fn one_link_is_rate_limited_and_needs_the_broker() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let about = ann(&gateway, &project).await;
    let news = group(&gateway, &project, "News", json!({})).await;
    gateway.applied_up_to(1_000).await;
    let (path, form) = (page_of(about), format!("shown={news}"));
    let mut statuses = Vec::new();
    for _ in 0..41 {
        statuses.push(call(&gateway, "POST", &path, &form).await.status);
    }
    // The requests may span two minutes.
    assert!(statuses.contains(&429) && statuses[..20].iter().all(|status| *status == 200), "{statuses:?}");
    assert!(gateway.items().await.len() <= 40);

    gateway.bus.jetstream.delete_stream(gateway.bus.names.ingest_stream()).await.unwrap();
    let other = page_of(LinkClaims { message: ids::fresh(gateway.app.clock.now_ms()), ..about });
    let page = call(&gateway, "POST", &other, &form).await;
    assert!(page.status == 503 && !page.text.contains("saved"), "{page:?}");
}

#[tokio::test]
async fn flood_on_one_link_uses_few_connections() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let about = ann(&gateway, &project).await;
    let news = group(&gateway, &project, "News", json!({})).await;
    let (path, of_group) =
        (page_of(about), link::unsubscribe(&master_keys(), "", LinkClaims { group: Some(news), ..about }));
    gateway.sql.batch_execute("BEGIN; LOCK TABLE subscription_group IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..6 {
        calls.spawn(Call::new(gateway.address(), "GET", &path).send(String::new()));
    }
    for _ in 0..4 {
        let page = calls.join_next().await.unwrap().unwrap();
        assert_eq!((page.status, page.header("retry-after")), (503, Some("5")), "{page:?}");
        assert!(page.text.contains("try again"), "{}", page.text);
    }
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    assert_eq!(gateway.sql.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0), 2);
    // Unsubscribing does not need the group's name.
    let asks = call(&gateway, "GET", &of_group, "").await;
    assert!(asks.status == 200 && asks.text.contains("no longer receive these messages"), "{asks:?}");
    gateway.get(&project, "/users").await.expect(200);

    gateway.sql.batch_execute("COMMIT").await.unwrap();
    while let Some(page) = calls.join_next().await {
        assert_eq!(page.unwrap().status, 200);
    }
}
