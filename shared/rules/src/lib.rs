//! Rules on users and events, as in segments and other conditions.
//!
//! ```json
//! [ { "field": "properties.plan", "operator": "eq", "value": "pro" },
//!   { "any": [ { "field": "event:order_completed", "operator": "did",
//!                "value": { "count": { "gte": 3 }, "within": "30d" } },
//!              { "not": { "field": "segment", "operator": "in", "value": ["…"] } } ] } ]
//! ```
//!
//! A list of rules holds if all its rules hold. [`parse`] reads rules; [`sql`] compiles them to SQL for many users, and
//! [`eval`] evaluates them in memory for one. A property test checks that both agree.
//!
//! **Semantics.** Values compare by their JSON type: a number never equals its string. A missing or null value satisfies
//! only negative operators, each of which is the exact opposite of its positive one. Strings compare by code points,
//! case-sensitively. Times are read from strings by [`time::parse`].

pub mod change;
pub mod eval;
pub mod history;
mod number;
pub mod parse;
pub mod sending_rules;
pub mod slide;
pub mod sql;
#[cfg(test)]
mod tests;
pub mod time;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Number, Value};
use uuid::Uuid;

use domain::message::{Channel, DeliveryState};
use domain::push_token::Platform;
use time::Span;

pub use parse::{MAX_DEPTH, MAX_LEAVES, RuleProblem, parse, parse_for_event};

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    All(Vec<Rule>),
    Any(Vec<Rule>),
    Not(Box<Rule>),
    Leaf(Leaf),
}

/// A rule that contains no groups. `negated` turns it into its opposite.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub negated: bool,
    pub condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// A test of a value of the profile or, in an event filter, of the event.
    Value { source: Source, test: Test },
    /// The user is a member of at least one of these segments.
    Segment(BTreeSet<Uuid>),
    /// The user has a push token of one of these platforms, or of any platform if the set is empty.
    Platform(BTreeSet<Platform>),
    /// The user did something often enough.
    Behaviour(Behaviour),
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Email,
    Name,
    ExternalId,
    CreatedAt,
    LastSeenAt,
    /// The path of a property: at least one key. Paths lead through objects only.
    Property(Vec<String>),
}

/// A test of a value; never true of a missing one.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    Exists,
    /// The value equals one of these scalars: strings, numbers or booleans, at least one.
    Equals(Vec<Value>),
    /// All of these comparisons hold.
    Ordered(Vec<(Order, Bound)>),
    /// Applies to strings only, like the next two.
    Contains(String),
    StartsWith(String),
    EndsWith(String),
    /// The value is an array with at least one of these scalars.
    ArrayContains(Vec<Value>),
    /// The value is a time no longer ago than this span. A property's time must not be in the future either.
    Within(Span),
}

/// How a value must compare to a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Order {
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Equal => ordering.is_eq(),
            Self::GreaterOrEqual => ordering.is_ge(),
            Self::Greater => ordering.is_gt(),
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Equal => "=",
            Self::GreaterOrEqual => ">=",
            Self::Greater => ">",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    Number(Number),
    Time(Timestamp),
}

/// Thresholds on an aggregate of the numbers in a property of events.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    pub aggregate: Aggregate,
    /// The path of the property.
    pub keys: Vec<String>,
    pub thresholds: Vec<Threshold>,
}

/// What a user did, and how often. All thresholds must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    pub activity: Activity,
    /// Counts only what happened within this span before now.
    pub within: Option<Span>,
    /// Thresholds on the count. The parser defaults to at least once.
    pub count: Vec<Threshold>,
    /// Thresholds on aggregates. Without any number in the property none of them holds.
    pub totals: Vec<Total>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Activity {
    /// An event of this name whose properties satisfy the rules.
    Event { name: String, filter: Vec<Rule> },
    /// A message of this channel that reached at least this state.
    Message { channel: Channel, reached: DeliveryState },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

impl Aggregate {
    pub const ALL: [Self; 4] = [Self::Sum, Self::Average, Self::Min, Self::Max];

    /// Returns the name used in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Average => "avg",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// A bound on a count or a total.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub order: Order,
    pub than: Number,
}

impl Behaviour {
    /// Returns whether a user who never did it satisfies the behaviour, for example "at most twice".
    fn holds_for_none(&self) -> bool {
        self.totals.is_empty() && self.count.iter().all(|t| t.holds(&Number::from(0)))
    }
}

impl Threshold {
    /// Returns whether a number satisfies the threshold.
    pub fn holds(&self, number: &Number) -> bool {
        self.order.holds(number::compare(number, &self.than))
    }
}

/// Returns every leaf of these rules, without those of event filters.
pub fn leaves(rules: &[Rule]) -> Vec<&Leaf> {
    let mut found = Vec::new();
    collect(rules, &mut found);
    found
}

fn collect<'a>(rules: &'a [Rule], found: &mut Vec<&'a Leaf>) {
    for rule in rules {
        match rule {
            Rule::All(rules) | Rule::Any(rules) => collect(rules, found),
            Rule::Not(rule) => collect(std::slice::from_ref(rule), found),
            Rule::Leaf(leaf) => found.push(leaf),
        }
    }
}

/// Returns the segments that these rules name.
pub fn segments(rules: &[Rule]) -> BTreeSet<Uuid> {
    let ids = |leaf: &Leaf| match &leaf.condition {
        Condition::Segment(ids) => ids.clone(),
        _ => BTreeSet::new(),
    };
    leaves(rules).into_iter().flat_map(ids).collect()
}

/// Returns the behaviours that these rules name.
pub fn behaviours<'a>(rules: &'a [Rule]) -> Vec<&'a Behaviour> {
    let behaviour = |leaf: &'a Leaf| match &leaf.condition {
        Condition::Behaviour(behaviour) => Some(behaviour),
        _ => None,
    };
    leaves(rules).into_iter().filter_map(behaviour).collect()
}
