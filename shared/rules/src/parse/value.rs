//! Parses the values of operators.

use std::collections::BTreeSet;

use serde_json::Value;
use uuid::Uuid;

use super::super::time::{self, Span};
use super::super::{Bound, Order, Source, Test};
use super::{Operator, Parser};
use domain::push_token::Platform;

const MAX_TEXT_CHARS: usize = 1_000;
const MAX_LIST_ITEMS: usize = 1_000;

impl Parser {
    pub(super) fn test(
        &mut self,
        operator: Operator,
        source: &Source,
        value: Option<&Value>,
        path: &str,
    ) -> Option<Test> {
        let texts_only = matches!(source, Source::Email | Source::Name | Source::ExternalId);
        let times_only = matches!(source, Source::CreatedAt | Source::LastSeenAt);
        if operator == Operator::Exists {
            return self.expect_no_value(value, path).then_some(Test::Exists);
        }
        let Some(value) = value else {
            self.problem(path, "is required");
            return None;
        };
        Some(match operator {
            Operator::Exists => Test::Exists,
            Operator::Equals => Test::Equals(vec![self.scalar(value, path, texts_only)?]),
            Operator::In => Test::Equals(self.scalars(value, path, texts_only)?),
            Operator::ArrayContains => Test::ArrayContains(vec![self.scalar(value, path, false)?]),
            Operator::ArrayContainsAny => Test::ArrayContains(self.scalars(value, path, false)?),
            Operator::Less => Test::Ordered(vec![(Order::Less, self.bound(value, path, times_only)?)]),
            Operator::LessOrEqual => Test::Ordered(vec![(Order::LessOrEqual, self.bound(value, path, times_only)?)]),
            Operator::Greater => Test::Ordered(vec![(Order::Greater, self.bound(value, path, times_only)?)]),
            Operator::GreaterOrEqual => {
                Test::Ordered(vec![(Order::GreaterOrEqual, self.bound(value, path, times_only)?)])
            }
            Operator::Before => Test::Ordered(vec![(Order::Less, self.bound(value, path, true)?)]),
            Operator::After => Test::Ordered(vec![(Order::Greater, self.bound(value, path, true)?)]),
            Operator::Between => self.between(value, path, times_only)?,
            Operator::WithinLast => Test::Within(self.span(value, path)?),
            Operator::Contains => Test::Contains(self.part(value, path)?),
            Operator::StartsWith => Test::StartsWith(self.part(value, path)?),
            Operator::EndsWith => Test::EndsWith(self.part(value, path)?),
        })
    }

    /// Checks that `exists` has no value; some clients send `true`.
    fn expect_no_value(&mut self, value: Option<&Value>, path: &str) -> bool {
        let none = value.is_none_or(|v| *v == Value::Bool(true));
        if !none {
            self.problem(path, "must be omitted with this operator");
        }
        none
    }

    fn text<'v>(&mut self, value: &'v Value, path: &str, least: usize) -> Option<&'v str> {
        let text = value
            .as_str()
            .filter(|text| (least..=MAX_TEXT_CHARS).contains(&text.chars().count()) && !text.contains('\0'));
        if text.is_none() {
            self.problem(path, format!("must be a string of {least} to {MAX_TEXT_CHARS} characters"));
        }
        text
    }

    fn part(&mut self, value: &Value, path: &str) -> Option<String> {
        self.text(value, path, 1).map(str::to_owned)
    }

    fn scalar(&mut self, value: &Value, path: &str, text_only: bool) -> Option<Value> {
        match value {
            Value::Number(_) | Value::Bool(_) if !text_only => Some(value.clone()),
            Value::String(_) => self.text(value, path, 0).map(|text| Value::String(text.to_owned())),
            _ => {
                let allowed = if text_only { "a string" } else { "a string, a number, true or false" };
                self.problem(path, format!("must be {allowed}"));
                None
            }
        }
    }

    fn scalars(&mut self, value: &Value, path: &str, text_only: bool) -> Option<Vec<Value>> {
        let items = self.items(value, path)?;
        let before = self.problems.len();
        let scalar = |(i, item)| self.scalar(item, &format!("{path}[{i}]"), text_only);
        let scalars = items.iter().enumerate().filter_map(scalar).collect();
        (self.problems.len() == before).then_some(scalars)
    }

    fn items<'v>(&mut self, value: &'v Value, path: &str) -> Option<&'v [Value]> {
        let items = value.as_array().filter(|items| (1..=MAX_LIST_ITEMS).contains(&items.len()));
        if items.is_none() {
            self.problem(path, format!("must be an array of 1 to {MAX_LIST_ITEMS} values"));
        }
        items.map(Vec::as_slice)
    }

    fn bound(&mut self, value: &Value, path: &str, times_only: bool) -> Option<Bound> {
        let bound = match value {
            Value::Number(number) if !times_only => Some(Bound::Number(number.clone())),
            Value::String(text) => time::parse(text).map(Bound::Time),
            _ => None,
        };
        if bound.is_none() {
            let numbers = if times_only { "" } else { "a number, or " };
            self.problem(path, format!("must be {numbers}{}", time::ALLOWED));
        }
        bound
    }

    fn between(&mut self, value: &Value, path: &str, times_only: bool) -> Option<Test> {
        let Some([low, high]) = value.as_array().map(Vec::as_slice) else {
            self.problem(path, "must be an array of two bounds, both inclusive");
            return None;
        };
        let low = self.bound(low, &format!("{path}[0]"), times_only);
        let high = self.bound(high, &format!("{path}[1]"), times_only);
        let (low, high) = (low?, high?);
        let ordered = match (&low, &high) {
            (Bound::Number(low), Bound::Number(high)) => super::super::number::compare(low, high).is_le(),
            (Bound::Time(low), Bound::Time(high)) => low <= high,
            _ => {
                self.problem(path, "must be two numbers or two times");
                return None;
            }
        };
        if !ordered {
            self.problem(path, "must begin with the lower bound");
            return None;
        }
        Some(Test::Ordered(vec![(Order::GreaterOrEqual, low), (Order::LessOrEqual, high)]))
    }

    pub(super) fn span(&mut self, value: &Value, path: &str) -> Option<Span> {
        let span = value.as_str().and_then(Span::parse);
        if span.is_none() {
            self.problem(path, format!("must be {}", Span::ALLOWED));
        }
        span
    }

    /// Parses one ID for `eq`, several for `in`.
    pub(super) fn ids(&mut self, operator: Operator, value: Option<&Value>, path: &str) -> Option<BTreeSet<Uuid>> {
        self.named(operator, value, path, "the ID of a segment", |text| Uuid::try_parse(text).ok())
    }

    /// Parses platforms. Returns an empty set for `exists`.
    pub(super) fn platforms(
        &mut self,
        operator: Operator,
        value: Option<&Value>,
        path: &str,
    ) -> Option<BTreeSet<Platform>> {
        if operator == Operator::Exists {
            return self.expect_no_value(value, path).then(BTreeSet::new);
        }
        self.named(operator, value, path, "one of `IOS`, `ANDROID`, `WEB`", Platform::parse)
    }

    fn named<T: Ord>(
        &mut self,
        operator: Operator,
        value: Option<&Value>,
        path: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<BTreeSet<T>> {
        let one = |value: &Value| value.as_str().and_then(&read);
        let Some(value) = value else {
            self.problem(path, "is required");
            return None;
        };
        // A single name is accepted in place of a list.
        if operator == Operator::Equals || value.is_string() {
            let found = one(value);
            if found.is_none() {
                self.problem(path, format!("must be {what}"));
            }
            return found.map(|found| BTreeSet::from([found]));
        }
        let mut all = BTreeSet::new();
        for (i, item) in self.items(value, path)?.iter().enumerate() {
            match one(item) {
                Some(found) => _ = all.insert(found),
                None => self.problem(&format!("{path}[{i}]"), format!("must be {what}")),
            }
        }
        Some(all)
    }
}
