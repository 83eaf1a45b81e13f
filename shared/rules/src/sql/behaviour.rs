//! Compiles behaviours to sets of users.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use uuid::Uuid;

use super::super::slide::Edge;
use super::super::{Activity, Aggregate, Behaviour, Condition, Leaf, Rule, Source, Threshold, Total};
use super::{Compiler, Param};
use domain::message::{Channel, DeliveryState};
use kernel::ids;

/// The longest time by which an event's ID may precede the event: a client may create the ID up to 30 days before
/// receipt, and the event's time may be up to a day after receipt.
const OLDEST_ID: SignedDuration = SignedDuration::from_hours(32 * 24);

/// The rows of activities: the table, and the conditions on the rows that count.
struct Rows {
    table: &'static str,
    conditions: Vec<String>,
}

impl Compiler<'_> {
    /// Returns the set of users who did it often enough or, for the `opposite`, of those who did it but not often
    /// enough.
    pub(super) fn behaviour_set(&mut self, behaviour: &Behaviour, opposite: bool) -> String {
        let Rows { table, conditions } = self.rows(behaviour);
        let having = self.having(behaviour);
        let not = if opposite { "NOT " } else { "" };
        let columns = if behaviour.totals.is_empty() { "" } else { ", d.properties" };
        let owned = self.owned(table, columns, &conditions.join(" AND "));
        format!("(SELECT id FROM ({owned}) AS d GROUP BY id HAVING {not}({having}))")
    }

    /// Compiles `count`, `edge` and `totals` for the IDs in a parameter.
    pub(super) fn stats(&mut self, behaviour: &Behaviour, ids: &str) -> String {
        let Rows { table, conditions } = self.rows(behaviour);
        let condition = format!("{} AND d.user_id = ANY({ids}::uuid[])", conditions.join(" AND "));
        let columns = self.counted(behaviour, |at, nth| {
            format!("(SELECT {at} FROM {table} d WHERE {condition} ORDER BY 1 DESC OFFSET {nth} - 1 LIMIT 1)")
        });
        format!("SELECT {columns} FROM {table} d WHERE {condition}")
    }

    /// Compiles the individual activities, newest first: `at`, and `numbers` as text.
    pub(super) fn activities(&mut self, behaviour: &Behaviour, ids: &str, limit: usize) -> String {
        let Rows { table, conditions } = self.rows(behaviour);
        let at = self.at(behaviour);
        let numbers: Vec<String> = behaviour.totals.iter().map(|total| self.number(&total.keys)).collect();
        format!(
            "SELECT {at} AS at, {} AS numbers FROM {table} d WHERE {} AND d.user_id = ANY({ids}::uuid[]) \
             ORDER BY 1 DESC LIMIT {limit}",
            texts(&numbers),
            conditions.join(" AND ")
        )
    }

    /// Like `stats` for many users, with one row and the column `person` for each. Two parameters hold the IDs and
    /// the user of each ID.
    pub(super) fn bulk_stats(&mut self, behaviour: &Behaviour, ids: &str, users: &str) -> String {
        let Rows { table, conditions } = self.rows(behaviour);
        let columns = self.counted(behaviour, |at, nth| format!("(array_agg({at} ORDER BY {at} DESC))[{nth}]"));
        format!(
            "SELECT p.person, {columns} FROM {table} d JOIN unnest({ids}::uuid[], {users}::uuid[]) AS p (id, person) \
             ON p.id = d.user_id WHERE {} GROUP BY p.person",
            conditions.join(" AND ")
        )
    }

    /// Returns the columns `count`, `edge` and `totals`. `newest` returns SQL for the time of the n-th newest activity.
    fn counted(&mut self, behaviour: &Behaviour, newest: impl Fn(&str, u64) -> String) -> String {
        let edge = match behaviour.edge() {
            None => "NULL::timestamptz".to_owned(),
            Some(edge) => {
                let at = self.at(behaviour);
                match edge {
                    Edge::Newest(1) => format!("max({at})"),
                    Edge::Newest(nth) => newest(&at, nth),
                    Edge::Oldest => format!("min({at})"),
                }
            }
        };
        let totals = behaviour.totals.iter().map(|total| self.total(total.aggregate, &total.keys));
        let totals: Vec<String> = totals.collect();
        format!("count(*) AS count, {edge} AS edge, {} AS totals", texts(&totals))
    }

    /// Returns SQL for the time of an activity.
    fn at(&mut self, behaviour: &Behaviour) -> String {
        match &behaviour.activity {
            Activity::Event { .. } => "d.ts".to_owned(),
            Activity::Message { reached, .. } => self.reached_at(*reached),
        }
    }

    fn rows(&mut self, behaviour: &Behaviour) -> Rows {
        let since = behaviour.within.map(|within| within.before(self.now));
        let mut conditions = vec!["d.project_id = $1".to_owned()];
        match &behaviour.activity {
            Activity::Event { name, filter } => {
                conditions.push(format!("d.name = {}::text", self.params.add(Param::Text(name.clone()))));
                if let Some(since) = since {
                    // The condition on the ID skips old partitions and rows; only the one on the time is exact.
                    let oldest = self.params.add(Param::Id(oldest_id(since)));
                    let since = self.params.add(Param::Time(since));
                    conditions.push(format!("d.id >= {oldest}::uuid AND d.ts >= {since}::timestamptz"));
                }
                conditions.extend(filter.iter().map(|rule| self.filter(rule)));
                Rows { table: "events", conditions }
            }
            Activity::Message { channel, reached } => {
                let channel = self.params.add(Param::Text(Channel::as_str(*channel).to_owned()));
                conditions.push(format!("d.channel = {channel}::text"));
                let at = self.reached_at(*reached);
                match since {
                    None => conditions.push(format!("{at} IS NOT NULL")),
                    Some(since) => {
                        conditions.push(format!("{at} >= {}::timestamptz", self.params.add(Param::Time(since))));
                    }
                }
                Rows { table: "message", conditions }
            }
        }
    }

    /// Returns SQL for the time at which a message reached a state; null if it did not.
    ///
    /// An opened message counts as delivered even if the provider reported only the opening.
    fn reached_at(&mut self, state: DeliveryState) -> String {
        match state {
            DeliveryState::Queued => "d.created_at".to_owned(),
            DeliveryState::Sent => "coalesce(d.sent_at, d.delivered_at, d.opened_at, d.clicked_at)".to_owned(),
            DeliveryState::Delivered => "coalesce(d.delivered_at, d.opened_at, d.clicked_at)".to_owned(),
            DeliveryState::Opened => "coalesce(d.opened_at, d.clicked_at)".to_owned(),
            DeliveryState::Clicked => "d.clicked_at".to_owned(),
            other => {
                let status = self.params.add(Param::Text(other.as_str().to_owned()));
                format!("(CASE WHEN d.status = {status}::text THEN coalesce(d.failed_at, d.updated_at) END)")
            }
        }
    }

    fn filter(&mut self, rule: &Rule) -> String {
        let mut joined = |rules: &[Rule], operator: &str| {
            let parts: Vec<String> = rules.iter().map(|rule| self.filter(rule)).collect();
            format!("({})", parts.join(operator))
        };
        match rule {
            Rule::All(rules) => joined(rules, " AND "),
            Rule::Any(rules) => joined(rules, " OR "),
            Rule::Not(rule) => format!("(NOT {})", self.filter(rule)),
            Rule::Leaf(Leaf { negated, condition: Condition::Value { source: Source::Property(keys), test } }) => {
                let test = self.params.property_test("d.properties", keys, test, self.now);
                format!("({test} IS {})", if *negated { "NOT TRUE" } else { "TRUE" })
            }
            // The parser accepts only properties in rules on events.
            Rule::Leaf(_) => "false".to_owned(),
        }
    }

    fn having(&mut self, behaviour: &Behaviour) -> String {
        let mut parts: Vec<String> = Vec::new();
        for threshold in &behaviour.count {
            parts.push(self.threshold("count(*)::numeric", threshold));
        }
        for Total { aggregate, keys, thresholds } in &behaviour.totals {
            let total = self.total(*aggregate, keys);
            parts.extend(thresholds.iter().map(|threshold| self.threshold(&total, threshold)));
        }
        format!("({}) IS TRUE", parts.join(" AND "))
    }

    fn threshold(&mut self, number: &str, Threshold { order, than }: &Threshold) -> String {
        let than = self.params.add(Param::Json(Value::Number(than.clone())));
        format!("{number} {} {than}::jsonb::numeric", order.symbol())
    }

    fn total(&mut self, aggregate: Aggregate, keys: &[String]) -> String {
        format!("{}({})", aggregate.as_str(), self.number(keys))
    }

    /// Returns SQL for a number; null if the value is missing or not a number, so that aggregates skip it.
    fn number(&mut self, keys: &[String]) -> String {
        let value = self.params.property("d.properties", keys);
        format!("CASE WHEN jsonb_typeof({value}) = 'number' THEN {value}::numeric END")
    }
}

/// Returns an array of numbers as text: a number that no double holds would otherwise fail the whole statement.
fn texts(numbers: &[String]) -> String {
    let texts: Vec<String> = numbers.iter().map(|number| format!("({number})::text")).collect();
    format!("ARRAY[{}]::text[]", texts.join(", "))
}

fn oldest_id(since: Timestamp) -> Uuid {
    let oldest = since.checked_sub(OLDEST_ID).unwrap_or(Timestamp::MIN);
    ids::timed(oldest.as_millisecond(), [0; 10])
}
