//! Hostile names on the pages that links in mails open.

use domain::link::{self, LinkClaims};
use domain::message::Channel;
use kernel::ids;
use serde_json::json;
use testkit::markup::{self, Page};

use crate::api_subscriptions::group;
use crate::fixture::Gateway;
use crate::http::Call;
use crate::rows::Rows;
use crate::setup::master_keys;

const PLAIN: &str = "Canary";

#[tokio::test]
async fn project_and_group_names_are_escaped_in_pages() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let user = Rows { gateway: &gateway, project: project.id }.user("ann", Some("ann@example.com"), None, 9).await;
    let news = group(&gateway, &project, "News", json!({"description": "All of them"})).await;
    gateway.applied_up_to(1_000).await;
    let pages = async |text: &str| -> Vec<Page> {
        // Written directly, because the API refuses some of these texts.
        for sql in [
            "UPDATE subscription_group SET name = $2, description = $2 WHERE project_id = $1",
            "UPDATE project SET name = $2 WHERE project_id = $1",
        ] {
            assert_eq!(gateway.sql.execute(sql, &[&project.id, &text]).await.unwrap(), 1);
        }
        // Each round uses another message, because the changes by one link are limited per minute.
        let message = ids::fresh(gateway.app.clock.now_ms());
        let about = LinkClaims { project: project.id, message, user, group: None, channel: Some(Channel::Email) };
        let choose = link::preferences(&master_keys(), "", about);
        let leave = link::unsubscribe(&master_keys(), "", LinkClaims { group: Some(news), ..about });
        let mut seen = Vec::new();
        for (method, path, form) in [
            ("GET", &choose, String::new()),
            ("POST", &choose, format!("shown={news}&group={news}&do=save")),
            ("GET", &leave, String::new()),
            ("POST", &leave, "List-Unsubscribe=One-Click".to_owned()),
        ] {
            let call = Call::new(gateway.address(), method, path);
            let page = call.header("content-type", "application/x-www-form-urlencoded").send(form).await;
            assert_eq!(page.status, 200, "{method} {path}: {}", page.text);
            seen.push(markup::tokenize(&page.text));
        }
        seen
    };
    let plain = pages(PLAIN).await;
    let shown =
        |pages: &[Page], text: &str| pages.iter().map(|page| page.text.matches(text).count()).collect::<Vec<_>>();
    assert_eq!(shown(&plain, PLAIN), [3, 3, 1, 0]);
    for text in markup::TEXTS {
        let pages = pages(text).await;
        for (page, plain) in pages.iter().zip(&plain) {
            assert_eq!(page.shape(), plain.shape(), "{text}");
        }
        assert_eq!(shown(&pages, text), [3, 3, 1, 0], "{text}");
    }
}
