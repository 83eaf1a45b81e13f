//! In-app messages due against messages in the users' inboxes.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use crate::demo::api::{Api, ApiError};
use crate::demo::generator::expected::{DueInApp, INBOX};
use crate::demo::report::Line;

/// Concurrent reads.
const READERS: usize = 8;
/// How long the last in-app messages may take to arrive after all mails have arrived.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Compares all inboxes, once none is empty or `PATIENCE` has passed.
pub async fn lines(api: &Api, due: &[DueInApp]) -> Result<Vec<Line>, ApiError> {
    inboxes(api, due, Instant::now() + PATIENCE).await?;
    // Read again: a second message may have arrived while others were awaited.
    Ok(compare(due, &inboxes(api, due, Instant::now()).await?))
}

async fn inboxes(api: &Api, due: &[DueInApp], end: Instant) -> Result<Vec<Vec<Value>>, ApiError> {
    let found: Vec<Result<Vec<Value>, ApiError>> =
        stream::iter(due).map(|due| inbox(api, &due.external_id, end)).buffered(READERS).collect().await;
    found.into_iter().collect()
}

async fn inbox(api: &Api, external_id: &str, end: Instant) -> Result<Vec<Value>, ApiError> {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
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
        let person = &due.external_id;
        if items.len() != 1 {
            once.push(format!("{person}: {} messages", items.len()));
        }
        let says = |item: &Value| {
            let body = item["body"].as_str().unwrap_or_default();
            item["title"] == INBOX.subject && squeezed(body).contains(&squeezed(&due.says))
        };
        if let Some(item) = items.iter().find(|item| !says(item)) {
            right.push(format!("{person}: {item} does not contain {:?}", due.says));
        }
    }
    let wrong = [once.len(), right.len()];
    vec![
        Line::all_right("in-app messages due = in the inboxes", due.len(), once, wrong[0]),
        Line::all_right("inboxes with the right name", due.len(), right, wrong[1]),
    ]
}

/// Removes white space and control characters, which a renderer may change.
fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everybody_has_one_message_that_names_them() {
        let due = [DueInApp { external_id: "ann".into(), says: "Hello A\r\nB".into() }];
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
