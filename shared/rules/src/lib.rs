//! Rules about people and events: segments, and what else decides by them.
//!
//! ```json
//! [ { "field": "properties.plan", "operator": "eq", "value": "pro" },
//!   { "any": [ { "field": "event:order_completed", "operator": "did",
//!                "value": { "count": { "gte": 3 }, "within": "30d" } },
//!              { "not": { "field": "segment", "operator": "in", "value": ["…"] } } ] } ]
//! ```
//!
//! A list of rules holds where all of them hold. One parser reads them ([`parse`]); what it made is compiled to SQL for
//! many people ([`sql`]) and evaluated in memory for one ([`eval`]). A property test holds both against each other.
//!
//! **Meaning.** Values compare by their JSON type: a number never equals its string. What is missing, or null, satisfies
//! only the negative operators, each of which is exactly the opposite of its positive one. Texts compare by code points,
//! case-sensitively. Times are read from texts as [`time::parse`] does.

pub mod eval;
pub mod history;
pub mod look;
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

/// A rule without rules of its own kind within. `negated` turns it into its opposite.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub negated: bool,
    pub condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// A value of the profile or, in a filter, of an event.
    Value { source: Source, test: Test },
    /// A member of at least one of these segments.
    Segment(BTreeSet<Uuid>),
    /// Has a push token of one of these platforms; of any where there is none.
    Platform(BTreeSet<Platform>),
    /// Did something often enough.
    Behaviour(Behaviour),
}

/// Where a value is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Email,
    Name,
    ExternalId,
    CreatedAt,
    LastSeenAt,
    /// The keys that lead to it, at least one. Only objects are entered.
    Property(Vec<String>),
}

/// What a value is asked; never true of one that is missing.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    Exists,
    /// Equals one of these scalars: strings, numbers or booleans, at least one.
    Equals(Vec<Value>),
    /// All of these.
    Ordered(Vec<(Order, Bound)>),
    /// Texts only, as the next two.
    Contains(String),
    StartsWith(String),
    EndsWith(String),
    /// An array that holds at least one of these scalars.
    ArrayContains(Vec<Value>),
    /// A time that lies at most so far back. A property's must not lie ahead either.
    Within(Span),
}

/// How a value must lie to a bound.
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

/// Thresholds on the numbers that a property of events holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    pub aggregate: Aggregate,
    /// The path of the property.
    pub keys: Vec<String>,
    pub thresholds: Vec<Threshold>,
}

/// What a person did, and how often: all thresholds hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    pub deed: Deed,
    /// Counted is only what happened at most so long ago.
    pub within: Option<Span>,
    /// On the number of times; `at least once` where nothing was said.
    pub count: Vec<Threshold>,
    /// On the numbers that a property of the events holds. Without any such number none of them holds.
    pub totals: Vec<Total>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// An event of this name, on whose properties the rules hold.
    Event { name: String, filter: Vec<Rule> },
    /// A message by this channel that has come at least so far.
    Message { channel: Channel, reached: DeliveryState },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    Sum,
    Average,
    Least,
    Greatest,
}

impl Aggregate {
    pub const ALL: [Self; 4] = [Self::Sum, Self::Average, Self::Least, Self::Greatest];

    /// The name that a rule uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Average => "avg",
            Self::Least => "min",
            Self::Greatest => "max",
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
    /// Whether somebody who never did it satisfies it: "at most twice" is true of them.
    fn holds_for_none(&self) -> bool {
        self.totals.is_empty() && self.count.iter().all(|t| t.holds(&Number::from(0)))
    }
}

impl Threshold {
    /// Whether a number satisfies it.
    pub fn holds(&self, number: &Number) -> bool {
        self.order.holds(number::compare(number, &self.than))
    }
}

/// Every leaf of these rules, those of event filters not included.
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

/// The segments that these rules ask about.
pub fn segments(rules: &[Rule]) -> BTreeSet<Uuid> {
    let ids = |leaf: &Leaf| match &leaf.condition {
        Condition::Segment(ids) => ids.clone(),
        _ => BTreeSet::new(),
    };
    leaves(rules).into_iter().flat_map(ids).collect()
}

/// The behaviours that these rules ask about.
pub fn behaviours<'a>(rules: &'a [Rule]) -> Vec<&'a Behaviour> {
    let behaviour = |leaf: &'a Leaf| match &leaf.condition {
        Condition::Behaviour(behaviour) => Some(behaviour),
        _ => None,
    };
    leaves(rules).into_iter().filter_map(behaviour).collect()
}
