//! Users: how many there are, and whether sampled profiles match what was sent.

use serde_json::Value;

use super::events::{HistoryFaults, compare_history, history};
use crate::demo::api::{Api, ApiError};
use crate::demo::generator::Day;
use crate::demo::generator::clocks;
use crate::demo::generator::expected::PersonBooks;
use crate::demo::generator::people::{Kind, Person};
use crate::demo::report::Line;

const SAMPLE: usize = 50;

/// Returns how many users a search for the run's ID finds.
pub async fn known(api: &Api, run: &str) -> Result<u64, ApiError> {
    let page = api.get(&["users"], &[("search", run), ("limit", "1")]).await?;
    let call = "GET /users".to_owned();
    page["total"].as_u64().ok_or(ApiError::Odd { call, problem: "no total".to_owned() })
}

/// Samples every user with a special property, who come first, then members from the rest.
fn sample(day: &Day) -> Vec<usize> {
    let members: Vec<_> = (0..day.people.len()).filter(|index| day.people[*index].kind == Kind::Member).collect();
    let (first, rest) = members.split_at(members.len().min(SAMPLE / 2));
    let wanted = (SAMPLE - first.len()).min(rest.len());
    first.iter().copied().chain((0..wanted).map(|n| rest[n * rest.len() / wanted])).collect()
}

/// Checks profiles, histories and clocks of the sampled members.
pub async fn sampled(api: &Api, day: &Day, slowest_ms: &[u64]) -> Result<Vec<Line>, ApiError> {
    let sample = sample(day);
    let (mut profiles, mut histories, mut clocks_off) = (Sorted::default(), Sorted::default(), Sorted::default());
    let mut wrong_clocks = 0;
    for index in &sample {
        let (person, books) = (&day.people[*index], &day.books[*index]);
        let user = api.find(&["users", &person.external_id], &[]).await?;
        profiles.add(user.map_or_else(
            || vec![format!("{}: not found", person.external_id)],
            |user| profile_differences(person, books, &user),
        ));
        let found = history(api, &person.external_id).await?;
        let HistoryFaults { ids, times } = compare_history(day, *index, &found, slowest_ms[*index]);
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
struct Sorted {
    wrong: usize,
    differences: Vec<String>,
}

impl Sorted {
    fn add(&mut self, differences: Vec<String>) {
        self.wrong += usize::from(!differences.is_empty());
        self.differences.extend(differences);
    }

    fn line(self, what: &'static str, all: usize) -> Line {
        Line::all_right(what, all, self.differences, self.wrong)
    }
}

/// Returns the differences between a profile and the values that the user sent last.
pub fn profile_differences(person: &Person, books: &PersonBooks, user: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |field: &str, expected: Option<&Value>, found: &Value| {
        let same = expected.map_or(found.is_null(), |expected| same(expected, found));
        if !same {
            let expected = expected.map_or_else(|| "nothing".to_owned(), Value::to_string);
            differences.push(format!("{}: {field} is {found}, not {expected}", person.external_id));
        }
    };
    let email = person.mailbox().map(Value::from);
    let name = person.name.as_deref().map(Value::from);
    compare("externalId", Some(&Value::from(person.external_id.as_str())), &user["externalId"]);
    compare("email", email.as_ref(), &user["email"]);
    compare("name", name.as_ref(), &user["name"]);
    for (key, value) in &books.properties {
        compare(&format!("properties.{key}"), Some(value), &user["properties"][key]);
    }
    for key in &books.removed {
        compare(&format!("properties.{key}"), None, &user["properties"][key]);
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
        Day::generate(&Recipe { seed: 1, run: "r".into(), people: 300, start_ms: 1_790_000_000_000 })
    }

    #[test]
    fn the_sample_holds_the_special_people_and_members_only() {
        let day = day();
        let sample = sample(&day);
        assert!((0..16).all(|index| sample.contains(&index)));
        assert!(sample.iter().all(|index| day.people[*index].kind == Kind::Member));
        let distinct: std::collections::BTreeSet<_> = sample.iter().collect();
        assert_eq!((sample.len(), distinct.len()), (SAMPLE, SAMPLE));
    }

    #[test]
    fn a_profile_must_say_what_was_said_last() {
        let day = day();
        let (person, books) = (&day.people[0], &day.books[0]);
        let right = json!({ "id": "x", "externalId": person.external_id, "email": person.email, "name": person.name,
                            "properties": books.properties });
        assert_eq!(profile_differences(person, books, &right), Vec::<String>::new());
        let mut wrong = right.clone();
        wrong["properties"]["country"] = json!("XX");
        wrong["email"] = json!(null);
        assert_eq!(profile_differences(person, books, &wrong).len(), 2);
    }

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(same(&json!({ "a": [1, { "b": 2.0 }] }), &json!({ "a": [1.0, { "b": 2 }] })));
        assert!(!same(&json!(1), &json!("1")));
        assert!(!same(&json!({ "a": 1 }), &json!({ "a": 1, "b": null })));
    }
}
