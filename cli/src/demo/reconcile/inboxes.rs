//! In-app messages due against messages in the users' inboxes.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use crate::demo::api::{Api, ApiError};
use crate::demo::generator::expected::{DueInApp, INBOX};
use crate::demo::report::Line;

/// Concurrent reads.
const MAX_CONCURRENT_READS: usize = 8;
/// How long the last in-app messages may take to arrive after all mails have arrived.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Compares all inboxes, once none is empty or `ARRIVAL_TIMEOUT` has passed.
pub async fn lines(api: &Api, due: &[DueInApp]) -> Result<Vec<Line>, ApiError> {
    inboxes(api, due, Instant::now() + ARRIVAL_TIMEOUT).await?;
    // Read again: a second message may have arrived while others were awaited.
    Ok(compare(due, &inboxes(api, due, Instant::now()).await?))
}

async fn inboxes(api: &Api, due: &[DueInApp], end: Instant) -> Result<Vec<Vec<Value>>, ApiError> {
    let found: Vec<Result<Vec<Value>, ApiError>> =
        stream::iter(due).map(|due| inbox(api, &due.external_id, end)).buffered(MAX_CONCURRENT_READS).collect().await;
    found.into_iter().collect()
}

async fn inbox(api: &Api, external_id: &str, end: Instant) -> Result<Vec<Value>, ApiError> {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    loop {
        ticks.tick().await;
        let page = api.get(&["inbox"], &[("user_id", external_id)]).await?;
        let items = page["items"].as_array().cloned().unwrap_or_default();
        if !items.is_empty() || Instant::now() >= end {
            return Ok(items);
        }
    }
}

/// Checks that each inbox holds exactly one message, and the right one.
fn compare(due: &[DueInApp], found: &[Vec<Value>]) -> Vec<Line> {
    let (mut once, mut right) = (Vec::new(), Vec::new());
    for (due, items) in due.iter().zip(found) {
        let user = &due.external_id;
        if items.len() != 1 {
            once.push(format!("{user}: {} messages", items.len()));
        }
        let is_right = |item: &Value| {
            let body = item["body"].as_str().unwrap_or_default();
            item["title"] == INBOX.subject && without_whitespace(body).contains(&without_whitespace(&due.must_contain))
        };
        if let Some(item) = items.iter().find(|item| !is_right(item)) {
            right.push(format!("{user}: {item} does not contain {:?}", due.must_contain));
        }
    }
    let wrong = [once.len(), right.len()];
    vec![
        Line::correct_of("in-app messages due = in the inboxes", due.len(), once, wrong[0]),
        Line::correct_of("inboxes with the right name", due.len(), right, wrong[1]),
    ]
}

/// Removes white space and control characters, which a renderer may change.
fn without_whitespace(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_user_has_one_message_with_their_name() {
        let due = [DueInApp { external_id: "ann".into(), must_contain: "Hello A\r\nB".into() }];
        let item = |body: &str| json!({ "title": INBOX.subject, "body": body });
        let wrong = |items: Vec<Value>| {
            let lines = compare(&due, &[items]);
            lines.into_iter().filter(|line| !line.ok).map(|line| line.what).collect::<Vec<_>>()
        };
        let right = item("Hello A B, orders");
        assert_eq!(wrong(vec![right.clone()]), Vec::<&str>::new());
        assert_eq!(wrong(vec![]), ["in-app messages due = in the inboxes"]);
        assert_eq!(wrong(vec![right.clone(), right]), ["in-app messages due = in the inboxes"]);
        assert_eq!(wrong(vec![item("Hello there")]), ["inboxes with the right name"]);
    }
}
