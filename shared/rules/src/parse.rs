//! Parses rules from JSON. Every problem has an exact path, such as `rules[1].any[0].value`.

mod behaviour;
mod operator;
mod value;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Condition, Leaf, Rule, Source};
use operator::Operator;

/// Maximum nesting depth of groups.
pub const MAX_DEPTH: usize = 5;
/// Maximum number of leaves in one list of rules, including those of event filters.
pub const MAX_LEAVES: usize = 50;

const MAX_FIELD_CHARS: usize = 300;
const MAX_PATH_KEYS: usize = 10;

/// A problem with rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// The path of the value, for example `rules[1].any[0].value`.
    pub path: String,
    /// What is allowed at this path.
    pub message: String,
}

/// Parses rules on users. `path` is the path of the rules, for problems.
pub fn parse(rules: &Value, path: &str) -> Result<Vec<Rule>, Vec<RuleProblem>> {
    Parser::new(Scope::User).whole(rules, path)
}

/// Parses rules on the properties of one event.
pub fn parse_for_event(rules: &Value, path: &str) -> Result<Vec<Rule>, Vec<RuleProblem>> {
    Parser::new(Scope::Event).whole(rules, path)
}

/// Returns the segments named in rules that [`parse`] accepts, each with the path of its ID.
pub fn named_segments(rules: &Value, path: &str) -> Vec<(String, Uuid)> {
    let mut named = Vec::new();
    for (i, rule) in rules.as_array().into_iter().flatten().enumerate() {
        collect_segments(rule, &format!("{path}[{i}]"), &mut named);
    }
    named
}

fn collect_segments(rule: &Value, path: &str, named: &mut Vec<(String, Uuid)>) {
    for group in ["any", "all"] {
        named.extend(named_segments(&rule[group], &format!("{path}.{group}")));
    }
    if rule["not"].is_object() {
        collect_segments(&rule["not"], &format!("{path}.not"), named);
    }
    if rule["field"] != "segment" {
        return;
    }
    let id = |value: &Value| value.as_str().and_then(|text| Uuid::try_parse(text).ok());
    let value = &rule["value"];
    named.extend(id(value).map(|id| (format!("{path}.value"), id)));
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        named.extend(id(item).map(|id| (format!("{path}.value[{i}]"), id)));
    }
}

/// The subject of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    User,
    Event,
}

struct Parser {
    scope: Scope,
    leaves: usize,
    problems: Vec<RuleProblem>,
}

impl Parser {
    fn new(scope: Scope) -> Self {
        Self { scope, leaves: 0, problems: Vec::new() }
    }

    fn whole(mut self, rules: &Value, path: &str) -> Result<Vec<Rule>, Vec<RuleProblem>> {
        let parsed = match rules {
            Value::Array(items) => self.list(items, path, 0),
            _ => {
                self.problem(path, "must be an array of rules");
                Vec::new()
            }
        };
        if self.problems.is_empty() { Ok(parsed) } else { Err(self.problems) }
    }

    fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(RuleProblem { path: path.to_owned(), message: message.into() });
    }

    /// Parses rules nested in `depth` groups.
    fn list(&mut self, items: &[Value], path: &str, depth: usize) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (i, item) in items.iter().enumerate() {
            // One leaf too many is enough for the error; a hostile list is not read to its end.
            if self.leaves > MAX_LEAVES {
                break;
            }
            rules.extend(self.rule(item, &format!("{path}[{i}]"), depth));
        }
        rules
    }

    fn rule(&mut self, item: &Value, path: &str, depth: usize) -> Option<Rule> {
        let Some(object) = item.as_object() else {
            self.problem(path, "must be an object: { field, operator, value }, or a group { any }, { all } or { not }");
            return None;
        };
        match ["any", "all", "not"].into_iter().find(|name| object.contains_key(*name)) {
            Some(kind) => self.group(object, kind, path, depth),
            None => self.leaf(object, path, depth).map(Rule::Leaf),
        }
    }

    fn group(&mut self, object: &Map<String, Value>, kind: &'static str, path: &str, depth: usize) -> Option<Rule> {
        if depth == MAX_DEPTH {
            self.problem(path, format!("groups may be nested at most {MAX_DEPTH} deep"));
            return None;
        }
        self.refuse_unknown(object, &[kind], path, "of a group");
        let inner = format!("{path}.{kind}");
        let value = &object[kind];
        if kind == "not" {
            return Some(Rule::Not(Box::new(self.rule(value, &inner, depth + 1)?)));
        }
        let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
            self.problem(&inner, "must be an array of at least one rule");
            return None;
        };
        let rules = self.list(items, &inner, depth + 1);
        Some(if kind == "any" { Rule::Any(rules) } else { Rule::All(rules) })
    }

    fn leaf(&mut self, object: &Map<String, Value>, path: &str, depth: usize) -> Option<Leaf> {
        self.leaves += 1;
        if self.leaves > MAX_LEAVES {
            self.problem(path, format!("at most {MAX_LEAVES} rules are allowed in total"));
            return None;
        }
        self.refuse_unknown(object, &["field", "operator", "value"], path, "of a rule");
        let field = self.required_text(object, "field", path);
        let operator = self.required_text(object, "operator", path);
        let (field, operator) = (field?, operator?);
        let subject = match self.subject(field) {
            Ok(subject) => subject,
            Err(why) => {
                self.problem(&format!("{path}.field"), why);
                return None;
            }
        };
        let at = (path, depth);
        let value = object.get("value").filter(|v| !v.is_null());
        if let Subject::Event(name) = subject {
            return self.behaviour(operator, value, at, |parser, value| Some(parser.event(name, value, at)));
        }
        if let Subject::Message(channel) = subject {
            return self.behaviour(operator, value, at, |parser, value| parser.message(channel, value, at));
        }
        let Some((operator, negated)) = Operator::parse(operator).filter(|(found, _)| subject.supports(*found)) else {
            let allowed = Operator::names(|operator| subject.supports(operator));
            self.problem(&format!("{path}.operator"), format!("must be one of {allowed} for this field"));
            return None;
        };
        let path = format!("{path}.value");
        let condition = match subject {
            Subject::Segment => Condition::Segment(self.ids(operator, value, &path)?),
            Subject::Platform => Condition::Platform(self.platforms(operator, value, &path)?),
            Subject::Value(source) => Condition::Value { test: self.test(operator, &source, value, &path)?, source },
            Subject::Event(_) | Subject::Message(_) => return None,
        };
        Some(Leaf { negated, condition })
    }

    fn required_text<'v>(&mut self, object: &'v Map<String, Value>, name: &str, path: &str) -> Option<&'v str> {
        let message = match object.get(name) {
            Some(Value::String(text)) => return Some(text),
            None | Some(Value::Null) => "is required",
            Some(_) => "must be a string",
        };
        self.problem(&format!("{path}.{name}"), message);
        None
    }

    fn refuse_unknown(&mut self, object: &Map<String, Value>, known: &[&str], path: &str, what: &str) {
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            let shown: String = name.chars().take(100).collect();
            let known: Vec<String> = known.iter().map(|k| format!("`{k}`")).collect();
            self.problem(
                &format!("{path}.{shown}"),
                format!("is not a field {what}; the fields are {}", known.join(", ")),
            );
        }
    }

    fn subject<'v>(&self, field: &'v str) -> Result<Subject<'v>, String> {
        if field.is_empty() || field.chars().count() > MAX_FIELD_CHARS || field.chars().any(char::is_control) {
            return Err(format!("must have 1 to {MAX_FIELD_CHARS} characters and no control characters"));
        }
        if self.scope == Scope::Event {
            return keys(field).map(|keys| Subject::Value(Source::Property(keys)));
        }
        if let Some(name) = field.strip_prefix("event:") {
            let long = name.chars().count() > 200;
            return if name.is_empty() || long {
                Err("must name an event of 1 to 200 characters, as in `event:order_completed`".to_owned())
            } else {
                Ok(Subject::Event(name))
            };
        }
        if let Some(channel) = field.strip_prefix("message:") {
            return behaviour::channel(channel).map(Subject::Message);
        }
        Ok(match field {
            "segment" => Subject::Segment,
            "push.platform" => Subject::Platform,
            "email" => Subject::Value(Source::Email),
            "name" => Subject::Value(Source::Name),
            "externalId" => Subject::Value(Source::ExternalId),
            "createdAt" => Subject::Value(Source::CreatedAt),
            "lastSeenAt" => Subject::Value(Source::LastSeenAt),
            other => Subject::Value(Source::Property(keys(other)?)),
        })
    }
}

/// The subject that a field names.
enum Subject<'v> {
    Value(Source),
    Segment,
    Platform,
    Event(&'v str),
    Message(domain::message::Channel),
}

impl Subject<'_> {
    fn supports(&self, operator: Operator) -> bool {
        match self {
            Self::Value(Source::Email | Source::Name | Source::ExternalId) => operator.is_for_texts(),
            Self::Value(Source::CreatedAt | Source::LastSeenAt) => operator.is_for_times(),
            Self::Value(Source::Property(_)) => true,
            Self::Segment => matches!(operator, Operator::Equals | Operator::In),
            Self::Platform => matches!(operator, Operator::Equals | Operator::In | Operator::Exists),
            Self::Event(_) | Self::Message(_) => false,
        }
    }
}

/// Returns the keys of `properties.address.city` or `address.city`.
fn keys(field: &str) -> Result<Vec<String>, String> {
    let path = field.strip_prefix("properties.").unwrap_or(field);
    let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
    if keys.len() > MAX_PATH_KEYS || keys.iter().any(|key| key.is_empty() || key.len() > 255) {
        return Err(format!(
            "must be a field of the profile or `properties.` with 1 to {MAX_PATH_KEYS} keys of 1 to 255 bytes, joined by dots"
        ));
    }
    Ok(keys)
}
