//! A reference implementation of rules in the simplest form: directly from JSON, one user at a time.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::world::{Event, Message, TestUser, World};

pub fn all(rules: &Value, user: &TestUser, world: &World) -> bool {
    rules.as_array().unwrap().iter().all(|rule| one(rule, user, world))
}

fn one(rule: &Value, user: &TestUser, world: &World) -> bool {
    if let Some(rules) = rule["any"].as_array() {
        return rules.iter().any(|rule| one(rule, user, world));
    }
    if let Some(rules) = rule["all"].as_array() {
        return rules.iter().all(|rule| one(rule, user, world));
    }
    if rule["not"].is_object() {
        return !one(&rule["not"], user, world);
    }
    let (field, operator) = (rule["field"].as_str().unwrap(), rule["operator"].as_str().unwrap());
    let value = &rule["value"];
    let text = |text: &Option<String>| text.as_ref().map_or(Value::Null, |text| json!(text));
    let found = match field {
        "segment" | "push.platform" => return belongs(field, operator, value, user, world),
        "email" => text(&user.email),
        "name" => text(&user.name),
        "externalId" => text(&user.external_id),
        "createdAt" | "lastSeenAt" => json!(user.created_at.to_string()),
        _ if operator.starts_with("did") => return behaved(field, operator, value, user, world),
        _ => property(&user.properties, field),
    };
    satisfies(&found, operator, value, world.now)
}

fn property(properties: &Map<String, Value>, field: &str) -> Value {
    let path = field.strip_prefix("properties.").unwrap_or(field);
    let mut found = Value::Object(properties.clone());
    for key in path.split('.') {
        found = found.as_object().and_then(|object| object.get(key)).cloned().unwrap_or(Value::Null);
    }
    found
}

fn belongs(field: &str, operator: &str, value: &Value, user: &TestUser, world: &World) -> bool {
    let platforms: Vec<&str> = user.platforms.iter().map(|platform| platform.as_str()).collect();
    // Only the requested segments are evaluated; otherwise a segment that depends on another would depend on itself.
    let asked = |value: &Value| {
        if field != "segment" {
            return platforms.iter().any(|platform| value == platform);
        }
        let segment: Uuid = value.as_str().unwrap().parse().unwrap();
        match world.rules.iter().find(|(id, _)| *id == segment) {
            Some((_, rules)) => all(rules, user, world),
            None => user.lists.contains(&segment),
        }
    };
    match operator {
        "eq" => asked(value),
        "neq" => !asked(value),
        "in" => value.as_array().unwrap().iter().any(asked),
        "not_in" => !value.as_array().unwrap().iter().any(asked),
        "exists" => !platforms.is_empty(),
        "not_exists" => platforms.is_empty(),
        other => panic!("{other}"),
    }
}

fn satisfies(found: &Value, operator: &str, value: &Value, now: Timestamp) -> bool {
    let positive = match operator {
        "neq" => Some("eq"),
        "not_in" => Some("in"),
        "not_contains" => Some("contains"),
        "not_exists" => Some("exists"),
        "not_within_last" => Some("within_last"),
        _ => None,
    };
    if let Some(positive) = positive {
        return !satisfies(found, positive, value, now);
    }
    if found.is_null() {
        return false;
    }
    let text = |test: fn(&str, &str) -> bool| found.as_str().is_some_and(|found| test(found, value.as_str().unwrap()));
    let (time, bound) = (instant(found), instant(value));
    let within = |low: &Value, high: &Value| match (instant(low), instant(high)) {
        (Some(low), Some(high)) => time.is_some_and(|time| low <= time && time <= high),
        _ => found.is_number() && number(low) <= number(found) && number(found) <= number(high),
    };
    let ordered = |test: fn(std::cmp::Ordering) -> bool| match (time, bound) {
        (Some(time), Some(bound)) => test(time.cmp(&bound)),
        _ => found.is_number() && value.is_number() && test(number(found).total_cmp(&number(value))),
    };
    match operator {
        "exists" => true,
        "eq" => same(found, value),
        "in" => value.as_array().unwrap().iter().any(|value| same(found, value)),
        "gt" | "after" => ordered(std::cmp::Ordering::is_gt),
        "gte" => ordered(std::cmp::Ordering::is_ge),
        "lt" | "before" => ordered(std::cmp::Ordering::is_lt),
        "lte" => ordered(std::cmp::Ordering::is_le),
        "between" => within(&value[0], &value[1]),
        "contains" => text(|found, part| found.contains(part)),
        "starts_with" => text(|found, part| found.starts_with(part)),
        "ends_with" => text(|found, part| found.ends_with(part)),
        "array_contains" => found.as_array().is_some_and(|items| items.iter().any(|item| same(item, value))),
        "array_contains_any" => value.as_array().unwrap().iter().any(|v| satisfies(found, "array_contains", v, now)),
        "within_last" => time.is_some_and(|time| span(value, now) <= time && time <= now),
        other => panic!("{other}"),
    }
}

fn same(a: &Value, b: &Value) -> bool {
    if a.is_number() && b.is_number() { number(a).total_cmp(&number(b)).is_eq() } else { !a.is_null() && a == b }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn instant(value: &Value) -> Option<Timestamp> {
    rules::time::parse(value.as_str()?)
}

/// Returns the time that a span such as `30d` before `now` denotes.
fn span(value: &Value, now: Timestamp) -> Timestamp {
    let (count, unit) = value.as_str().unwrap().split_at(value.as_str().unwrap().len() - 1);
    let minutes = count.parse::<i64>().unwrap()
        * match unit {
            "d" => 1_440,
            "h" => 60,
            _ => 1,
        };
    now - SignedDuration::from_mins(minutes)
}

fn behaved(field: &str, operator: &str, value: &Value, user: &TestUser, world: &World) -> bool {
    if operator == "did_not" {
        return !behaved(field, "did", value, user, world);
    }
    let (kind, name) = field.split_once(':').unwrap();
    let recent = |at: Timestamp| value["within"].is_null() || at >= span(&value["within"], world.now);
    if kind == "message" {
        let status = value["status"].as_str().unwrap_or("sent");
        let counts = |m: &&Message| m.channel == name && reached(m, status).is_some_and(recent);
        return enough(&value["count"], user.messages.iter().filter(counts).count());
    }
    let filter = |event: &Event| match value["where"].as_array() {
        None => true,
        Some(rules) => rules.iter().all(|rule| filtered(rule, event, world.now)),
    };
    let done: Vec<&Event> =
        user.events.iter().filter(|event| event.name == name && recent(event.at) && filter(event)).collect();
    let numbers: Vec<f64> =
        done.iter().map(|event| &event.properties["age"]).filter(|n| n.is_number()).map(number).collect();
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = numbers.iter().sum();
    let totals = [("sum", sum), ("avg", sum / numbers.len() as f64), ("min", least), ("max", greatest)];
    enough(&value["count"], done.len())
        && totals
            .iter()
            .filter(|(name, _)| value[*name].is_object())
            .all(|(name, total)| !numbers.is_empty() && thresholds(&value[*name], *total))
}

fn filtered(rule: &Value, event: &Event, now: Timestamp) -> bool {
    if let Some(rules) = rule["any"].as_array() {
        rules.iter().any(|rule| filtered(rule, event, now))
    } else if let Some(rules) = rule["all"].as_array() {
        rules.iter().all(|rule| filtered(rule, event, now))
    } else if rule["not"].is_object() {
        !filtered(&rule["not"], event, now)
    } else {
        let found = property(&event.properties, rule["field"].as_str().unwrap());
        satisfies(&found, rule["operator"].as_str().unwrap(), &rule["value"], now)
    }
}

fn enough(count: &Value, times: usize) -> bool {
    if count.is_null() { times >= 1 } else { thresholds(count, times as f64) }
}

fn thresholds(thresholds: &Value, found: f64) -> bool {
    thresholds.as_object().unwrap().iter().filter(|(name, _)| *name != "property").all(|(name, than)| {
        let than = number(than);
        match name.as_str() {
            "gte" => found >= than,
            "gt" => found > than,
            "lte" => found <= than,
            "lt" => found < than,
            _ => (found - than).abs() < 1e-12,
        }
    })
}

/// Returns when a message reached `status`: the time of the first reported step from there on.
pub fn reached(message: &Message, status: &str) -> Option<Timestamp> {
    match ["queued", "sent", "delivered", "opened", "clicked"].iter().position(|step| *step == status) {
        Some(step) => message.at[step..5].iter().copied().flatten().next(),
        None => (message.status == status).then(|| message.at[5].or(message.at[0])).flatten(),
    }
}
