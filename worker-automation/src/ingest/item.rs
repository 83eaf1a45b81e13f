//! Items as the worker handles them: decoded from the wire, with the ids that their names stand for.

use automation::TriggerType;
use automation::journey;
use bytes::Bytes;
use domain::message::DeliveryState;
use domain::push_token::Platform;
use domain::subscription::Source;
use jiff::Timestamp;
use kernel::clock::from_ms;
use kernel::ids::{ProjectId, UserKey};
use kernel::trace_context::TraceContext;
use prost::Message;
use serde_json::{Map, Value};
use uuid::Uuid;
use wire::event::{self, Body, IngestItem, WireError};

/// A person as an item names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub id: Uuid,
    pub name: String,
}

/// Who an item is about: by the known id, the anonymous one, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    pub known: Option<Named>,
    pub anonymous: Option<Named>,
}

impl Who {
    fn new(project: ProjectId, user_id: Option<String>, anonymous_id: Option<String>) -> Self {
        let known = user_id.map(|name| Named { id: UserKey::External(&name).internal_id(project), name });
        let anonymous = anonymous_id.map(|name| Named { id: UserKey::Anonymous(&name).internal_id(project), name });
        Self { known, anonymous }
    }

    /// The person that the item counts for, before merges are followed.
    pub fn named(&self) -> Option<&Named> {
        self.known.as_ref().or(self.anonymous.as_ref())
    }
}

/// Text within the message that it came in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Bytes);

impl Text {
    fn new(bytes: Bytes) -> Result<Self, WireError> {
        std::str::from_utf8(&bytes).map_err(|e| WireError::Undecodable(e.to_string()))?;
        Ok(Self(bytes))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The event that an item is recorded as.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub name: &'a str,
    /// JSON text.
    pub properties: &'a str,
}

/// What an item does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Track {
        name: String,
        /// JSON text.
        properties: Text,
    },
    /// With both ids, also the merge of the anonymous person into the known one.
    Identify {
        patch: Map<String, Value>,
    },
    Timer {
        run: Uuid,
        wait_seq: i32,
    },
    Answer {
        run: Uuid,
        wait_seq: i32,
        answer: journey::Answer,
    },
    /// By another automation, or because a date has come.
    Start {
        automation: Uuid,
        date: Option<Timestamp>,
        /// An object, as the run's steps see it.
        trigger: Map<String, Value>,
    },
    /// Of a person, by an internal id.
    Erase {
        person: Uuid,
    },
    /// Of a person, by an internal id. Need name nobody beside them.
    Subscribe(Subscribe),
    RegisterToken {
        platform: Platform,
        token: String,
    },
    /// Names nobody.
    RemoveToken {
        token: String,
    },
    /// May name nobody.
    Webhook {
        kind: String,
        /// JSON text.
        properties: Text,
    },
}

/// What a person chose to get.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscribe {
    pub person: Uuid,
    /// Groups, and whether they want to be subscribed.
    pub choices: Vec<(Uuid, bool)>,
    pub source: Source,
    /// Whose link they followed.
    pub message: Option<Uuid>,
    /// They take back that they wanted nothing at all.
    pub resubscribe: bool,
}

impl Subscribe {
    fn decode(wire: &event::Subscribe) -> Result<Self, WireError> {
        let choices = wire.choices.iter().map(|c| Ok((event::uuid("group_id", &c.group_id)?, c.subscribed)));
        let unknown = || WireError::Undecodable(format!("source {:?}", wire.source));
        let message = Some(&wire.message_id).filter(|id| !id.is_empty());
        Ok(Self {
            person: event::uuid("user_id", &wire.user_id)?,
            choices: choices.collect::<Result<_, WireError>>()?,
            source: Source::parse(&wire.source).ok_or_else(unknown)?,
            message: message.map(|id| event::uuid("message_id", id)).transpose()?,
            resubscribe: wire.resubscribe,
        })
    }
}

impl Action {
    /// By what kind of automation it may be waited for.
    pub fn trigger(&self) -> Option<TriggerType> {
        match self {
            Self::Track { .. } => Some(TriggerType::Event),
            Self::Webhook { .. } => Some(TriggerType::Webhook),
            _ => None,
        }
    }

    /// As metrics name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Track { .. } => "track",
            Self::Identify { .. } => "identify",
            Self::RegisterToken { .. } => "push_token",
            _ => "other",
        }
    }

    /// The event that it is recorded as. A webhook about a message only moves that on.
    pub fn event(&self) -> Option<Event<'_>> {
        match self {
            Self::Track { name, properties } => Some(Event { name, properties: properties.as_str() }),
            Self::Webhook { kind, properties } if DeliveryState::told_by(kind).is_none() => {
                Some(Event { name: kind, properties: properties.as_str() })
            }
            _ => None,
        }
    }
}

/// One item.
#[derive(Clone, Debug)]
pub struct Item {
    pub project: ProjectId,
    /// The row's id.
    pub id: Uuid,
    /// By which a repeat is found, where the row's id cannot serve.
    pub dedupe: Option<Uuid>,
    pub who: Who,
    pub received: Timestamp,
    pub timestamp: Timestamp,
    /// How many automations stand behind it.
    pub depth: i16,
    pub partition: i16,
    /// Of the message that it came in.
    pub seq: i64,
    pub action: Action,
    /// See [`IngestItem::unproven`].
    pub unproven: bool,
    /// As it came, for the dead-letter stream: an encoded [`IngestItem`].
    pub encoded: Bytes,
    /// What hops of its trace are behind, where it is traced.
    pub trace: Option<TraceContext>,
}

impl Item {
    /// What is no item, ids that do not parse or a body that is not there can never be applied.
    pub fn decode(encoded: Bytes, partition: i16, seq: i64) -> Result<Self, WireError> {
        let mut wire = IngestItem::decode(encoded.clone()).map_err(|e| WireError::Undecodable(e.to_string()))?;
        let project = wire.project()?;
        let (id, dedupe) = (wire.row_id()?, wire.dedupe()?);
        let (received, timestamp) = (from_ms(wire.received_ms), from_ms(wire.timestamp_ms));
        let unproven = wire.unproven;
        let who = Who::new(project, wire.user_id.take(), wire.anonymous_id.take());
        let (action, who) = match wire.body.ok_or(WireError::Missing("body"))? {
            Body::Track(track) => (Action::Track { name: track.name, properties: Text::new(track.properties)? }, who),
            Body::Identify(identify) => (Action::Identify { patch: object(&identify.properties)? }, who),
            // Whoever was known by the previous id is merged, as by an identify with both.
            Body::Alias(alias) => {
                let previous = Who::new(project, None, Some(alias.previous_id));
                (Action::Identify { patch: Map::new() }, Who { known: who.known, ..previous })
            }
            Body::Timer(timer) => {
                let action =
                    Action::Timer { run: event::uuid("run_id", &timer.run_id)?, wait_seq: timer.wait_seq as i32 };
                (action, Who::default())
            }
            Body::Answer(answer) => {
                let outcome = serde_json::from_slice(&answer.outcome);
                let outcome = outcome.map_err(|e| WireError::Undecodable(format!("outcome: {e}")))?;
                let (run, wait_seq) = (event::uuid("run_id", &answer.run_id)?, answer.wait_seq as i32);
                (Action::Answer { run, wait_seq, answer: outcome }, Who::default())
            }
            Body::Start(start) => {
                let date = (start.date_ms != 0).then(|| from_ms(start.date_ms));
                let automation = event::uuid("automation_id", &start.automation_id)?;
                (Action::Start { automation, date, trigger: object(&start.trigger)? }, who)
            }
            Body::Erase(erase) => (Action::Erase { person: event::uuid("user_id", &erase.user_id)? }, who),
            Body::Subscribe(chosen) => (Action::Subscribe(Subscribe::decode(&chosen)?), who),
            Body::RegisterToken(new) => {
                let unknown = || WireError::Undecodable(format!("platform {:?}", new.platform));
                let platform = Platform::parse(&new.platform).ok_or_else(unknown)?;
                (Action::RegisterToken { platform, token: new.token }, who)
            }
            Body::Webhook(told) => (Action::Webhook { kind: told.kind, properties: Text::new(told.data)? }, who),
            Body::RemoveToken(gone) => (Action::RemoveToken { token: gone.token }, Who::default()),
        };
        let needs_nobody = matches!(
            action,
            Action::Timer { .. }
                | Action::Answer { .. }
                | Action::RemoveToken { .. }
                | Action::Webhook { .. }
                | Action::Subscribe(_)
                | Action::Erase { .. }
        );
        if who.named().is_none() && !needs_nobody {
            return Err(WireError::Missing("user"));
        }
        let depth = i16::try_from(wire.depth).unwrap_or(i16::MAX);
        let trace = TraceContext::from_bytes(&wire.trace);
        Ok(Self {
            project,
            id,
            dedupe,
            who,
            received,
            timestamp,
            depth,
            partition,
            seq,
            action,
            unproven,
            encoded,
            trace,
        })
    }

    /// The id that repeats of it are looked up by. An event's row id finds them where none is given, and where the sender chose a
    /// UUIDv7, which the row id was derived from.
    pub fn claimed_id(&self) -> Option<Uuid> {
        let is_in_row_id =
            |id: &Uuid| id.get_version_num() == 7 && matches!(self.action, Action::Track { .. }) && self.depth == 0;
        self.dedupe.filter(|id| !is_in_row_id(id))
    }

    /// Whether it names its person by their internal id alone, as what steps of runs send does, and what starts runs.
    pub fn names_internally(&self) -> bool {
        self.depth > 0 || matches!(self.action, Action::Start { .. })
    }
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, WireError> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(bytes).map_err(|e| WireError::Undecodable(format!("properties: {e}")))
}

#[cfg(test)]
mod tests {
    use wire::event::{Alias, Identify, id_bytes};

    use super::*;

    fn decode(wire: IngestItem) -> Result<Item, WireError> {
        Item::decode(wire.encode_to_vec().into(), 0, 1)
    }

    fn wire(body: Body) -> IngestItem {
        IngestItem {
            project_id: id_bytes(Uuid::from_u128(1)),
            id: id_bytes(Uuid::from_u128(2)),
            user_id: Some("u".into()),
            body: Some(body),
            ..IngestItem::default()
        }
    }

    #[test]
    fn an_alias_is_a_merge_of_the_previous_id() {
        let item = decode(wire(Body::Alias(Alias { previous_id: "before".into() }))).unwrap();
        assert_eq!(item.action, Action::Identify { patch: Map::new() });
        let project = ProjectId(Uuid::from_u128(1));
        assert_eq!(item.who.anonymous.unwrap().id, UserKey::Anonymous("before").internal_id(project));
    }

    #[test]
    fn what_cannot_be_applied_says_why() {
        let broken = wire(Body::Identify(Identify { properties: "[1]".into() }));
        assert!(matches!(decode(broken), Err(WireError::Undecodable(_))));
        let nobody = IngestItem { user_id: None, ..wire(Body::Identify(Identify::default())) };
        assert_eq!(decode(nobody).unwrap_err(), WireError::Missing("user"));
        let empty = IngestItem { body: None, ..wire(Body::Identify(Identify::default())) };
        assert_eq!(decode(empty).unwrap_err(), WireError::Missing("body"));
    }
}
