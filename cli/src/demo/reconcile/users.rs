//! Users: how many there are, and whether sampled profiles match what was sent.

use serde_json::Value;

use super::events::{HistoryErrors, compare_history, history};
use crate::demo::api::{Api, ApiError};
use crate::demo::generator::Day;
use crate::demo::generator::clocks;
use crate::demo::generator::expected::ExpectedUser;
use crate::demo::generator::users::{ShopUser, UserKind};
use crate::demo::report::Line;

const SAMPLE_SIZE: usize = 50;

/// Returns how many users a search for the run's ID finds.
pub async fn count_users(api: &Api, run: &str) -> Result<u64, ApiError> {
    let page = api.get(&["users"], &[("search", run), ("limit", "1")]).await?;
    let call = "GET /users".to_owned();
    page["total"].as_u64().ok_or(ApiError::UnexpectedResponse { call, problem: "no total".to_owned() })
}

/// Samples every user with a special property, who come first, then members from the rest.
fn sample(day: &Day) -> Vec<usize> {
    let members: Vec<_> = (0..day.users.len()).filter(|index| day.users[*index].kind == UserKind::Member).collect();
    let (first, rest) = members.split_at(members.len().min(SAMPLE_SIZE / 2));
    let wanted = (SAMPLE_SIZE - first.len()).min(rest.len());
    first.iter().copied().chain((0..wanted).map(|n| rest[n * rest.len() / wanted])).collect()
}

/// Checks profiles, histories and clocks of the sampled members.
pub async fn sampled(api: &Api, day: &Day, slowest_ms: &[u64]) -> Result<Vec<Line>, ApiError> {
    let sample = sample(day);
    let (mut profiles, mut histories, mut clocks_off) =
        (Differences::default(), Differences::default(), Differences::default());
    let mut wrong_clocks = 0;
    for index in &sample {
        let (user, expected_user) = (&day.users[*index], &day.expected_users[*index]);
        let profile = api.find(&["users", &user.external_id], &[]).await?;
        profiles.add(profile.map_or_else(
            || vec![format!("{}: not found", user.external_id)],
            |profile| profile_differences(user, expected_user, &profile),
        ));
        let found = history(api, &user.external_id).await?;
        let HistoryErrors { ids, times } = compare_history(day, *index, &found, slowest_ms[*index]);
        histories.add(ids);
        clocks_off.add(times);
        wrong_clocks += usize::from(clocks::skew_ms(*index) != 0);
    }
    let all = sample.len();
    let note = format!("{wrong_clocks} of them with wrong clocks");
    Ok(vec![
        profiles.line("profiles as last sent (sample)", all),
        histories.line("events before and after sign-up (sample)", all),
        clocks_off.line("timestamps accurate to 5 s (sample)", all).with_note(note),
    ])
}

/// Users with differences, and the differences.
#[derive(Default)]
struct Differences {
    wrong: usize,
    differences: Vec<String>,
}

impl Differences {
    fn add(&mut self, differences: Vec<String>) {
        self.wrong += usize::from(!differences.is_empty());
        self.differences.extend(differences);
    }

    fn line(self, what: &'static str, all: usize) -> Line {
        Line::correct_of(what, all, self.differences, self.wrong)
    }
}

/// Returns the differences between a profile and the values that the user sent last.
pub fn profile_differences(user: &ShopUser, expected_user: &ExpectedUser, profile: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |field: &str, expected: Option<&Value>, found: &Value| {
        let same = expected.map_or(found.is_null(), |expected| same(expected, found));
        if !same {
            let expected = expected.map_or_else(|| "nothing".to_owned(), Value::to_string);
            differences.push(format!("{}: {field} is {found}, not {expected}", user.external_id));
        }
    };
    let email = user.mailbox().map(Value::from);
    let name = user.name.as_deref().map(Value::from);
    compare("externalId", Some(&Value::from(user.external_id.as_str())), &profile["externalId"]);
    compare("email", email.as_ref(), &profile["email"]);
    compare("name", name.as_ref(), &profile["name"]);
    for (key, value) in &expected_user.properties {
        compare(&format!("properties.{key}"), Some(value), &profile["properties"][key]);
    }
    for key in &expected_user.removed {
        compare(&format!("properties.{key}"), None, &profile["properties"][key]);
    }
    differences
}

/// Compares JSON values, where 1 and 1.0 are equal.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::generator::Recipe;
    use serde_json::json;

    fn day() -> Day {
        Day::generate(&Recipe { seed: 1, run: "r".into(), users: 300, start_ms: 1_790_000_000_000 })
    }

    #[test]
    fn sample_contains_special_users_and_members_only() {
        let day = day();
        let sample = sample(&day);
        assert!((0..16).all(|index| sample.contains(&index)));
        assert!(sample.iter().all(|index| day.users[*index].kind == UserKind::Member));
        let distinct: std::collections::BTreeSet<_> = sample.iter().collect();
        assert_eq!((sample.len(), distinct.len()), (SAMPLE_SIZE, SAMPLE_SIZE));
    }

    #[test]
    fn profile_must_match_the_last_values_sent() {
        let day = day();
        let (user, expected_user) = (&day.users[0], &day.expected_users[0]);
        let right = json!({ "id": "x", "externalId": user.external_id, "email": user.email, "name": user.name,
                            "properties": expected_user.properties });
        assert_eq!(profile_differences(user, expected_user, &right), Vec::<String>::new());
        let mut wrong = right.clone();
        wrong["properties"]["country"] = json!("XX");
        wrong["email"] = json!(null);
        assert_eq!(profile_differences(user, expected_user, &wrong).len(), 2);
    }

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(same(&json!({ "a": [1, { "b": 2.0 }] }), &json!({ "a": [1.0, { "b": 2 }] })));
        assert!(!same(&json!(1), &json!("1")));
        assert!(!same(&json!({ "a": 1 }), &json!({ "a": 1, "b": null })));
    }
}
