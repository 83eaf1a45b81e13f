//! Parses behaviours: `event:<name>` and `message:<CHANNEL>` with `did` and `did_not`.

use serde_json::{Map, Number, Value};

use super::super::{Activity, Aggregate, Behaviour, Condition, Leaf, Order, Rule, Threshold, Total};
use super::{Parser, Scope, keys};
use domain::message::{Channel, DeliveryState};

const THRESHOLDS: [(&str, Order); 5] = [
    ("gte", Order::GreaterOrEqual),
    ("gt", Order::Greater),
    ("lte", Order::LessOrEqual),
    ("lt", Order::Less),
    ("eq", Order::Equal),
];
const MAX_COUNT: i64 = 1_000_000_000;

pub(super) fn channel(text: &str) -> Result<Channel, String> {
    Channel::ALL
        .into_iter()
        .find(|channel| channel.as_str() == text)
        .ok_or_else(|| "must be one of `message:EMAIL`, `message:PUSH`, `message:IN_APP`, `message:SMS`".to_owned())
}

/// The path of a rule, and the number of groups that contain it.
type RulePosition<'p> = (&'p str, usize);

impl Parser {
    pub(super) fn behaviour(
        &mut self,
        operator: &str,
        value: Option<&Value>,
        (path, _): RulePosition<'_>,
        read: impl FnOnce(&mut Self, &Map<String, Value>) -> Option<Behaviour>,
    ) -> Option<Leaf> {
        let negated = match operator {
            "did" => false,
            "did_not" => true,
            _ => {
                self.problem(&format!("{path}.operator"), "must be one of `did`, `did_not` for this field");
                return None;
            }
        };
        let nothing = Map::new();
        let object = match value {
            None => &nothing,
            Some(Value::Object(object)) => object,
            Some(_) => {
                self.problem(
                    &format!("{path}.value"),
                    "must be an object; omit it to match users who did this at least once",
                );
                return None;
            }
        };
        let before = self.problems.len();
        let behaviour = read(self, object)?;
        (self.problems.len() == before).then_some(Leaf { negated, condition: Condition::Behaviour(behaviour) })
    }

    pub(super) fn event(
        &mut self,
        name: &str,
        value: &Map<String, Value>,
        (path, depth): RulePosition<'_>,
    ) -> Behaviour {
        let path = format!("{path}.value");
        let known = ["count", "within", "where", "sum", "avg", "min", "max"];
        self.refuse_unknown(value, &known, &path, "of a behaviour");
        let filter = self.filter(value, &path, depth);
        let (count, within) = (self.count(value, &path), self.within(value, &path));
        let totals = Aggregate::ALL.into_iter().filter_map(|aggregate| self.total(aggregate, value, &path)).collect();
        Behaviour { activity: Activity::Event { name: name.to_owned(), filter }, within, count, totals }
    }

    pub(super) fn message(
        &mut self,
        channel: Channel,
        value: &Map<String, Value>,
        (path, _): RulePosition<'_>,
    ) -> Option<Behaviour> {
        let path = format!("{path}.value");
        self.refuse_unknown(value, &["status", "count", "within"], &path, "of a behaviour");
        let reached = match given(value, "status") {
            None => Some(DeliveryState::Sent),
            Some(status) => status.as_str().and_then(DeliveryState::parse),
        };
        if reached.is_none() {
            let all: Vec<String> = DeliveryState::ALL.iter().map(|s| format!("`{}`", s.as_str())).collect();
            self.problem(&format!("{path}.status"), format!("must be one of {}", all.join(", ")));
        }
        let (count, within) = (self.count(value, &path), self.within(value, &path));
        Some(Behaviour {
            activity: Activity::Message { channel, reached: reached? },
            within,
            count,
            totals: Vec::new(),
        })
    }

    /// Parses the rules of `where`, which apply to the event's own properties.
    fn filter(&mut self, value: &Map<String, Value>, path: &str, depth: usize) -> Vec<Rule> {
        let path = format!("{path}.where");
        match given(value, "where") {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                let outer = std::mem::replace(&mut self.scope, Scope::Event);
                let rules = self.list(items, &path, depth);
                self.scope = outer;
                rules
            }
            Some(_) => {
                self.problem(&path, "must be an array of rules on the event's properties");
                Vec::new()
            }
        }
    }

    fn within(&mut self, value: &Map<String, Value>, path: &str) -> Option<super::super::time::Span> {
        given(value, "within").and_then(|within| self.span(within, &format!("{path}.within")))
    }

    fn count(&mut self, value: &Map<String, Value>, path: &str) -> Vec<Threshold> {
        let path = format!("{path}.count");
        match given(value, "count") {
            None => vec![Threshold { order: Order::GreaterOrEqual, than: Number::from(1) }],
            Some(Value::Object(object)) => {
                self.refuse_unknown(object, &THRESHOLDS.map(|(name, _)| name), &path, "of a count");
                let whole = |n: &Number| n.as_i64().is_some_and(|n| (0..=MAX_COUNT).contains(&n));
                self.thresholds(object, &path, whole, &format!("a whole number from 0 to {MAX_COUNT}"))
            }
            Some(_) => {
                self.problem(&path, "must be an object such as { \"gte\": 3 }");
                Vec::new()
            }
        }
    }

    fn total(&mut self, aggregate: Aggregate, value: &Map<String, Value>, path: &str) -> Option<Total> {
        let path = format!("{path}.{}", aggregate.as_str());
        let Some(object) = given(value, aggregate.as_str())?.as_object() else {
            self.problem(&path, "must be an object such as { \"property\": \"total\", \"gte\": 100 }");
            return None;
        };
        let known: Vec<&str> = std::iter::once("property").chain(THRESHOLDS.map(|(name, _)| name)).collect();
        self.refuse_unknown(object, &known, &path, "of a total");
        let property = self.required_text(object, "property", &path).map(keys);
        let thresholds = self.thresholds(object, &path, |_| true, "a number");
        match property? {
            Ok(keys) => Some(Total { aggregate, keys, thresholds }),
            Err(why) => {
                self.problem(&format!("{path}.property"), why);
                None
            }
        }
    }

    fn thresholds(
        &mut self,
        object: &Map<String, Value>,
        path: &str,
        allowed: impl Fn(&Number) -> bool,
        what: &str,
    ) -> Vec<Threshold> {
        let mut found = Vec::new();
        let given = THRESHOLDS.iter().filter_map(|(name, order)| Some((name, order, object.get(*name)?)));
        for (name, order, value) in given {
            match value.as_number().filter(|n| allowed(n)) {
                Some(than) => found.push(Threshold { order: *order, than: than.clone() }),
                None => self.problem(&format!("{path}.{name}"), format!("must be {what}")),
            }
        }
        if !THRESHOLDS.iter().any(|(name, _)| object.contains_key(*name)) {
            self.problem(path, "needs at least one of `gte`, `gt`, `lte`, `lt`, `eq`");
        }
        found
    }
}

/// Returns a field that is present and not null.
fn given<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    object.get(name).filter(|value| !value.is_null())
}
