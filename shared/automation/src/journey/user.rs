//! The user of a run, as rules and templates see them.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use domain::profile::{self, Contact};
use domain::push_token::Platform;
use kernel::timezone;
use rules::eval::{self, Actual, Counted, Facts, Stats};
use rules::{Behaviour, Source};

/// A user, and the statistics of the behaviours that an automation's rules ask about.
#[derive(Clone, Debug)]
pub struct RunUser {
    pub id: Uuid,
    pub external_id: Option<String>,
    pub anonymous_id: Option<String>,
    pub email: Option<String>,
    pub name: Option<String>,
    pub properties: Map<String, Value>,
    pub created_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub platforms: BTreeSet<Platform>,
    pub counted: Vec<Counted>,
    pub segments: HashSet<Uuid>,
    /// When the membership in a segment that the rules name can next change by the passing of time.
    pub segments_change_at: Option<Timestamp>,
}

/// Returns the timezone named by the property `timezone`, if it names one.
pub fn timezone_of(properties: &Map<String, Value>) -> Option<TimeZone> {
    timezone::named(properties.get("timezone")?.as_str()?)
}

impl RunUser {
    /// Merges properties key by key, like an identify call.
    pub fn patch(&mut self, patch: &Map<String, Value>) {
        profile::merge(&mut self.properties, patch);
        let Contact { email, name } = profile::contact(&self.properties);
        (self.email, self.name) = (email, name);
    }

    pub fn timezone(&self) -> Option<TimeZone> {
        timezone_of(&self.properties)
    }

    /// Returns the user in the form that templates see.
    pub fn shown(&self) -> Value {
        json!({
            "id": self.id, "externalId": self.external_id, "anonymousId": self.anonymous_id, "email": self.email,
            "name": self.name, "properties": self.properties,
        })
    }
}

/// The user within a run.
///
/// Besides the user's own fields, rules can read the trigger (`event.properties.total`) and the results of earlier
/// steps (`steps.crm.response.tier`).
#[derive(Clone, Copy, Debug)]
pub struct RunFacts<'a> {
    pub user: &'a RunUser,
    pub trigger: &'a Value,
    pub steps: &'a Map<String, Value>,
}

impl Facts for RunUser {
    fn value(&self, source: &Source) -> Actual<'_> {
        fn text(text: Option<&String>) -> Actual<'_> {
            text.map_or(Actual::Missing, |text| Actual::Text(text))
        }
        match source {
            Source::Email => text(self.email.as_ref()),
            Source::Name => text(self.name.as_ref()),
            Source::ExternalId => text(self.external_id.as_ref()),
            Source::CreatedAt => Actual::Time(self.created_at),
            Source::LastSeenAt => Actual::Time(self.last_seen_at),
            Source::Property(keys) => eval::property(&self.properties, keys),
        }
    }

    fn is_member(&self, segment: Uuid) -> bool {
        self.segments.contains(&segment)
    }

    fn platforms(&self) -> &BTreeSet<Platform> {
        &self.platforms
    }

    fn stats(&self, behaviour: &Behaviour) -> Stats {
        Counted::of(&self.counted, behaviour).map(|counted| counted.stats.clone()).unwrap_or_default()
    }
}

impl Facts for RunFacts<'_> {
    fn value(&self, source: &Source) -> Actual<'_> {
        let Source::Property(keys) = source else { return self.user.value(source) };
        match keys.split_first() {
            Some((first, rest)) if first == "event" && !rest.is_empty() => {
                self.trigger.as_object().map_or(Actual::Missing, |trigger| eval::property(trigger, rest))
            }
            Some((first, rest)) if first == "steps" && !rest.is_empty() => eval::property(self.steps, rest),
            _ => self.user.value(source),
        }
    }

    fn is_member(&self, segment: Uuid) -> bool {
        self.user.is_member(segment)
    }

    fn platforms(&self) -> &BTreeSet<Platform> {
        self.user.platforms()
    }

    fn stats(&self, behaviour: &Behaviour) -> Stats {
        self.user.stats(behaviour)
    }
}
