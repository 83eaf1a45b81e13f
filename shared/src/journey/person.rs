//! The person whose run it is, as steps ask about them.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::profile;
use crate::push_token::Platform;
use crate::rule::eval::{self, Actual, Facts, Stats};
use crate::rule::{Behaviour, Source};

/// A person, and what they did as far as an automation's rules ask.
#[derive(Clone, Debug)]
pub struct Person {
    pub id: Uuid,
    pub external_id: Option<String>,
    pub anonymous_id: Option<String>,
    pub email: Option<String>,
    pub name: Option<String>,
    pub properties: Map<String, Value>,
    pub created_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub platforms: BTreeSet<Platform>,
    pub stats: Vec<(Behaviour, Stats)>,
    pub segments: HashSet<Uuid>,
}

/// The timezone of the property `timezone`, where there is such a one.
pub fn timezone_of(properties: &Map<String, Value>) -> Option<TimeZone> {
    let name = properties.get("timezone")?.as_str()?;
    if name.len() > 64 { None } else { TimeZone::get(name).ok() }
}

impl Person {
    /// Merges properties key by key, as an identify does.
    pub fn patch(&mut self, patch: &Map<String, Value>) {
        profile::merge(&mut self.properties, patch);
        (self.email, self.name) = profile::email_and_name(&self.properties);
    }

    pub fn timezone(&self) -> Option<TimeZone> {
        timezone_of(&self.properties)
    }

    /// As templates see them.
    pub fn shown(&self) -> Value {
        json!({
            "id": self.id, "externalId": self.external_id, "anonymousId": self.anonymous_id, "email": self.email,
            "name": self.name, "properties": self.properties,
        })
    }
}

/// A person within a run. Beside the person's own fields, rules may ask about the trigger (`event.properties.total`)
/// and about what earlier steps left (`steps.crm.response.tier`).
#[derive(Clone, Copy, Debug)]
pub struct RunFacts<'a> {
    pub person: &'a Person,
    pub trigger: &'a Value,
    pub steps: &'a Map<String, Value>,
}

impl<'a> Facts for RunFacts<'a> {
    fn value(&self, source: &Source) -> Actual<'_> {
        let text = |text: &'a Option<String>| text.as_deref().map_or(Actual::Missing, Actual::Text);
        let person = self.person;
        match source {
            Source::Email => text(&person.email),
            Source::Name => text(&person.name),
            Source::ExternalId => text(&person.external_id),
            Source::CreatedAt => Actual::Time(person.created_at),
            Source::LastSeenAt => Actual::Time(person.last_seen_at),
            Source::Property(keys) => match keys.split_first() {
                Some((first, rest)) if first == "event" && !rest.is_empty() => {
                    self.trigger.as_object().map_or(Actual::Missing, |trigger| eval::property(trigger, rest))
                }
                Some((first, rest)) if first == "steps" && !rest.is_empty() => eval::property(self.steps, rest),
                _ => eval::property(&person.properties, keys),
            },
        }
    }

    fn is_member(&self, segment: Uuid) -> bool {
        self.person.segments.contains(&segment)
    }

    fn platforms(&self) -> &BTreeSet<Platform> {
        &self.person.platforms
    }

    fn stats(&self, behaviour: &Behaviour) -> Stats {
        let found = self.person.stats.iter().find(|(known, _)| known == behaviour);
        found.map(|(_, stats)| stats.clone()).unwrap_or_default()
    }
}
