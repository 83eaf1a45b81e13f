//! Events sent against events stored.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use serde_json::Value;

use crate::demo::api::{Api, ApiError};
use crate::demo::generator::users::UserKind;
use crate::demo::generator::{Day, clocks};
use crate::demo::report::Line;

pub type Totals = BTreeMap<String, u64>;

/// Concurrent reads.
const MAX_CONCURRENT_READS: usize = 8;

/// Returns the exact totals by name, over all runs.
pub async fn totals(api: &Api, names: impl Iterator<Item = &str>) -> Result<Totals, ApiError> {
    let mut totals = Totals::new();
    for name in names {
        let page = api.get(&["events"], &[("event", name), ("limit", "1")]).await?;
        totals.insert(name.to_owned(), total(&page)?);
    }
    Ok(totals)
}

fn total(page: &Value) -> Result<u64, ApiError> {
    let call = "GET /events".to_owned();
    page["pagination"]["total"]
        .as_u64()
        .ok_or(ApiError::UnexpectedResponse { call, problem: "no pagination.total".to_owned() })
}

/// Returns what was added since `before`.
pub fn since(now: &Totals, before: &Totals) -> Totals {
    let gained = |name: &String, now: &u64| now.saturating_sub(before.get(name).copied().unwrap_or(0));
    now.iter().map(|(name, now)| (name.clone(), gained(name, now))).collect()
}

/// Compares stored with expected events. `gained` holds the events stored since the run began, by name.
pub fn stored(expected: &BTreeMap<&'static str, u64>, gained: &Totals) -> Line {
    let of = |name: &str| gained.get(name).copied().unwrap_or(0);
    let differences = expected
        .iter()
        .filter(|(name, sent)| of(name) != **sent)
        .map(|(name, sent)| format!("{name}: {sent} sent, {} stored", of(name)));
    let (sent, stored) = (expected.values().sum(), gained.values().sum());
    let differences: Vec<_> = differences.collect();
    let mut line = Line::equal("events sent = events stored", sent, stored);
    line.ok &= differences.is_empty();
    line.with_examples(differences)
}

/// Checks the rejected repeats: every accepted event that did not add a stored event must have been rejected as a
/// duplicate.
pub fn repeats(planned: u64, taken: u64, stored_before: u64, stored_now: u64) -> Line {
    let refused = taken.saturating_sub(stored_now.saturating_sub(stored_before));
    let line = Line::equal("repeats sent = repeats rejected", planned + stored_before, refused);
    if stored_before > 0 { line.with_note(format!("{stored_before} were stored before this replay")) } else { line }
}

/// Checks that each member's events, including those before the sign-up, are listed under the member.
pub async fn by_user(api: &Api, day: &Day) -> Result<Line, ApiError> {
    let members = day.users.iter().zip(&day.expected_users).filter(|(user, _)| user.kind == UserKind::Member);
    let found: Vec<Result<Option<String>, ApiError>> = stream::iter(members)
        .map(|(user, expected_user)| async move {
            let page = api.get(&["events"], &[("user", &user.external_id), ("limit", "1")]).await?;
            let (sent, stored) = (expected_user.events.len() as u64, total(&page)?);
            Ok((sent != stored).then(|| format!("{}: {sent} sent, {stored} listed", user.external_id)))
        })
        .buffered(MAX_CONCURRENT_READS)
        .collect()
        .await;
    let all = found.len();
    let differences: Vec<String> = found.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
    let wrong = differences.len();
    Ok(Line::correct_of("members with all their events", all, differences, wrong))
}

/// Checks that up to 50 events whose ID the service derived can be retrieved by the client's ID.
pub async fn by_client_id(api: &Api, day: &Day) -> Result<Line, ApiError> {
    let events =
        day.expected_users.iter().flat_map(|expected_user| &expected_user.events).filter(|event| !event.own_id);
    let (mut all, mut differences) = (0, Vec::new());
    for event in events.take(50) {
        all += 1;
        match api.find(&["events", &event.id], &[]).await? {
            None => differences.push(format!("GET /events/{:?}: not found", event.id)),
            Some(found) if found["eventName"] != event.name => {
                differences.push(format!("GET /events/{:?}: is a {}", event.id, found["eventName"]));
            }
            Some(_) => {}
        }
    }
    let wrong = differences.len();
    Ok(Line::correct_of("events found by the client's ID (sample)", all, differences, wrong))
}

/// Returns all of a member's events, over all pages: ID and timestamp as the API shows them.
pub async fn history(api: &Api, external_id: &str) -> Result<Vec<(String, i64)>, ApiError> {
    let mut events = Vec::new();
    for page in 1.. {
        let query = [("user", external_id), ("limit", "100"), ("page", &page.to_string())];
        let answer = api.get(&["events"], &query).await?;
        let items = answer["events"].as_array().map_or(&[][..], Vec::as_slice);
        events.extend(items.iter().map(|event| {
            let at = event["timestamp"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
            (event["id"].as_str().unwrap_or_default().to_owned(), at.map_or(i64::MIN, jiff::Timestamp::as_millisecond))
        }));
        if items.is_empty() || events.len() as u64 >= total(&answer)? {
            break;
        }
    }
    Ok(events)
}

/// Maximum difference between a corrected time and the true one: the request's latency, but no clock error.
///
/// The retry time of a request is added, since a stopped gateway may read the first attempt when it resumes.
const CLOCK_TOLERANCE_MS: i64 = 5_000;

/// Errors in the history of one user.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HistoryErrors {
    /// Missing or unexpected event IDs.
    pub ids: Vec<String>,
    /// Wrong timestamps.
    pub times: Vec<String>,
}

/// Compares the history that the API returned with the one that was sent.
pub fn compare_history(day: &Day, index: usize, found: &[(String, i64)], slowest_ms: u64) -> HistoryErrors {
    let tolerance = CLOCK_TOLERANCE_MS + slowest_ms as i64;
    let (who, sent) = (&day.users[index].external_id, &day.expected_users[index].events);
    let (mut ids, mut times) = (Vec::new(), Vec::new());
    if sent.len() != found.len() {
        ids.push(format!("{who}: {} events sent, {} listed", sent.len(), found.len()));
    }
    for event in sent.iter().filter(|event| event.own_id) {
        match (found.iter().find(|(id, _)| *id == event.id), event.at_ms) {
            (None, _) => ids.push(format!("{who}: {} {} is missing", event.name, event.id)),
            (Some((_, at)), Some(true_ms)) if (at - true_ms).abs() > tolerance => times.push(format!(
                "{who}: {} {} is {} ms off (clock {} ms off)",
                event.name,
                event.id,
                at.saturating_sub(true_ms),
                clocks::skew_ms(index)
            )),
            (Some(_), _) => {}
        }
    }
    HistoryErrors { ids, times }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::generator::Recipe;

    #[test]
    fn totals_balance_name_by_name() {
        let expected = BTreeMap::from([("a", 3), ("b", 4)]);
        let before = Totals::from([("a".into(), 10)]);
        let gained = |a, b| since(&Totals::from([("a".into(), a), ("b".into(), b)]), &before);
        assert!(stored(&expected, &gained(13, 4)).ok);
        let swapped = stored(&expected, &gained(14, 3));
        assert!(!swapped.ok && swapped.expected == swapped.found, "equal sums do not hide two differences");
        assert_eq!(swapped.examples, ["a: 3 sent, 4 stored", "b: 4 sent, 3 stored"]);
    }

    #[test]
    fn accepted_events_that_are_not_stored_count_as_repeats() {
        // A first replay: 100 distinct events, 7 of them sent twice.
        assert!(repeats(7, 107, 0, 100).ok);
        assert!(!repeats(7, 107, 0, 101).ok, "a repeat was stored");
        assert!(!repeats(7, 107, 0, 99).ok, "an event was lost");
        // The same replay again adds nothing. After an interruption, 40 events were already stored.
        assert!(repeats(7, 107, 100, 100).ok);
        assert!(!repeats(7, 107, 100, 101).ok);
        assert!(repeats(7, 107, 40, 100).ok);
    }

    #[test]
    fn history_is_compared_by_id_and_timestamp() {
        let recipe = Recipe { seed: 1, run: "r".into(), users: 20, start_ms: 1_790_000_000_000 };
        let day = Day::generate(&recipe);
        let whole: Vec<_> =
            day.expected_users[3].events.iter().map(|e| (e.id.clone(), e.at_ms.unwrap_or(0) + 900)).collect();
        assert_eq!(compare_history(&day, 3, &whole, 0), HistoryErrors::default());
        let HistoryErrors { ids, .. } = compare_history(&day, 3, &whole[1..], 0);
        assert_eq!(ids.len(), 2, "the count and the missing one: {ids:?}");
        let skewed: Vec<_> = whole.iter().map(|(id, at)| (id.clone(), at + clocks::skew_ms(3))).collect();
        let HistoryErrors { ids, times } = compare_history(&day, 3, &skewed, 0);
        assert!(ids.is_empty() && times.len() == whole.len());
    }
}
