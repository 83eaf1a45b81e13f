//! Compiles tests of single values to SQL that is true, false or null; it is null if the value is missing.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{Bound, Order, Source, Test};
use super::Param;
use super::params::Params;

impl Params {
    /// Compiles a test of a value of the user `u`.
    pub(super) fn profile_test(&mut self, source: &Source, test: &Test, now: Timestamp) -> String {
        match source {
            Source::Email => self.text_test("u.email", test),
            Source::Name => self.text_test("u.name", test),
            Source::ExternalId => self.text_test("u.external_id", test),
            Source::CreatedAt => self.time_test("u.created_at", test, now),
            Source::LastSeenAt => self.time_test("u.last_seen_at", test, now),
            Source::Property(keys) => self.property_test("u.properties", keys, test, now),
        }
    }

    /// Compiles a test of a value within a JSON object.
    pub(super) fn property_test(&mut self, object: &str, keys: &[String], test: &Test, now: Timestamp) -> String {
        if let Test::Equals(any) = test
            && let [one] = any.as_slice()
        {
            // Equivalent to extracting the value and comparing it, but a third faster.
            let whole = keys.iter().rev().fold(one.clone(), |inner, key| json!({ key: inner }));
            return format!("({object} @> {}::jsonb)", self.add(Param::Json(whole)));
        }
        let value = self.property(object, keys);
        self.json_test(&value, test, now)
    }

    /// Returns SQL for the value at a path: `jsonb`, null if it is missing. `->` with a text key applies to objects
    /// only.
    pub(super) fn property(&mut self, object: &str, keys: &[String]) -> String {
        let steps = keys.iter().map(|key| format!(" -> {}::text", self.add(Param::Text(key.clone()))));
        format!("({object}{})", steps.collect::<String>())
    }

    fn json_test(&mut self, value: &str, test: &Test, now: Timestamp) -> String {
        let text = format!("({value} #>> '{{}}')");
        let is_text = format!("jsonb_typeof({value}) = 'string'");
        match test {
            Test::Exists => format!("(jsonb_typeof({value}) <> 'null')"),
            Test::Equals(any) => format!("({})", self.equals_any(value, "=", any)),
            Test::ArrayContains(any) => {
                format!("(jsonb_typeof({value}) = 'array' AND {})", self.equals_any(value, "@>", any))
            }
            Test::Ordered(bounds) => self.ordered(bounds, |params, order, bound| match bound {
                Bound::Number(bound) => {
                    let bound = params.add(Param::Json(Value::Number(bound.clone())));
                    format!("jsonb_typeof({value}) = 'number' AND {value} {} {bound}::jsonb", order.symbol())
                }
                Bound::Time(bound) => {
                    let bound = params.add(Param::Time(*bound));
                    format!("rule_time({value}) {} {bound}::timestamptz", order.symbol())
                }
            }),
            Test::Contains(_) | Test::StartsWith(_) | Test::EndsWith(_) => {
                format!("({is_text} AND {})", self.text_test(&text, test))
            }
            Test::Within(span) => {
                let (from, to) = (self.add(Param::Time(span.before(now))), self.add(Param::Time(now)));
                format!("(rule_time({value}) BETWEEN {from}::timestamptz AND {to}::timestamptz)")
            }
        }
    }

    fn equals_any(&mut self, value: &str, operator: &str, any: &[Value]) -> String {
        match any {
            [one] => format!("{value} {operator} {}::jsonb", self.add(Param::Json(one.clone()))),
            _ => format!("{value} {operator} ANY({}::jsonb[])", self.add(Param::Jsons(any.to_vec()))),
        }
    }

    fn text_test(&mut self, text: &str, test: &Test) -> String {
        match test {
            Test::Exists => format!("({text} IS NOT NULL)"),
            Test::Equals(any) => {
                let texts = any.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                format!("({text} = ANY({}::text[]))", self.add(Param::Texts(texts)))
            }
            Test::Contains(part) => format!("(strpos({text}, {}::text) > 0)", self.add(Param::Text(part.clone()))),
            Test::StartsWith(part) => format!("(starts_with({text}, {}::text))", self.add(Param::Text(part.clone()))),
            Test::EndsWith(part) => {
                let part = self.add(Param::Text(part.clone()));
                format!("(right({text}, length({part}::text)) = {part}::text)")
            }
            Test::Ordered(_) | Test::ArrayContains(_) | Test::Within(_) => "false".to_owned(),
        }
    }

    fn time_test(&mut self, time: &str, test: &Test, now: Timestamp) -> String {
        match test {
            Test::Exists => format!("({time} IS NOT NULL)"),
            Test::Ordered(bounds) => self.ordered(bounds, |params, order, bound| match bound {
                Bound::Time(bound) => {
                    format!("{time} {} {}::timestamptz", order.symbol(), params.add(Param::Time(*bound)))
                }
                Bound::Number(_) => "false".to_owned(),
            }),
            Test::Within(span) => {
                format!("({time} >= {}::timestamptz)", self.add(Param::Time(span.before(now))))
            }
            _ => "false".to_owned(),
        }
    }

    fn ordered(
        &mut self,
        bounds: &[(Order, Bound)],
        mut one: impl FnMut(&mut Self, Order, &Bound) -> String,
    ) -> String {
        let parts: Vec<String> = bounds.iter().map(|(order, bound)| one(self, *order, bound)).collect();
        format!("({})", parts.join(" AND "))
    }
}
