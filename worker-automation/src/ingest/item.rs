//! Decoded items, with the internal IDs of the users that they name.

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

/// A user as named by an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedUser {
    pub id: Uuid,
    pub name: String,
}

/// The user of an item: by known ID, anonymous ID, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemUser {
    pub known: Option<NamedUser>,
    pub anonymous: Option<NamedUser>,
}

impl ItemUser {
    fn new(project: ProjectId, user_id: Option<String>, anonymous_id: Option<String>) -> Self {
        let known = user_id.map(|name| NamedUser { id: UserKey::External(&name).internal_id(project), name });
        let anonymous = anonymous_id.map(|name| NamedUser { id: UserKey::Anonymous(&name).internal_id(project), name });
        Self { known, anonymous }
    }

    /// Returns the user that the item is attributed to, before merges are followed.
    pub fn named(&self) -> Option<&NamedUser> {
        self.known.as_ref().or(self.anonymous.as_ref())
    }
}

/// UTF-8 text that shares the buffer of its message.
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

/// The event as which an item is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub name: &'a str,
    /// JSON text.
    pub properties: &'a str,
}

/// The action of an item.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Track {
        name: String,
        /// JSON text.
        properties: Text,
    },
    /// With both IDs, it also merges the anonymous user into the known one.
    Identify {
        patch: Map<String, Value>,
    },
    Timer {
        run: Uuid,
        wait_seq: i32,
    },
    CallOutcome {
        run: Uuid,
        wait_seq: i32,
        answer: journey::CallOutcome,
    },
    /// Starts a run, for another automation or for a date.
    Start {
        automation: Uuid,
        date: Option<Timestamp>,
        /// The trigger object that the run's steps see.
        trigger: Map<String, Value>,
    },
    /// Erases a user, by internal ID.
    Erase {
        user: Uuid,
    },
    /// [`Subscribe::user`] holds the user; the item itself need not name one.
    Subscribe(Subscribe),
    RegisterToken {
        platform: Platform,
        token: String,
    },
    /// Names no user.
    RemoveToken {
        token: String,
    },
    /// May name no user.
    Webhook {
        kind: String,
        /// JSON text.
        properties: Text,
    },
}

/// A change of a user's subscription preferences.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscribe {
    pub user: Uuid,
    /// Groups, and whether the user is subscribed to each.
    pub choices: Vec<(Uuid, bool)>,
    pub source: Source,
    /// The message whose link the user followed.
    pub message: Option<Uuid>,
    /// Also ends the user's unsubscription from everything.
    pub resubscribe: bool,
}

impl Subscribe {
    fn decode(wire: &event::Subscribe) -> Result<Self, WireError> {
        let choices = wire.choices.iter().map(|c| Ok((event::uuid("group_id", &c.group_id)?, c.subscribed)));
        let unknown = || WireError::Undecodable(format!("source {:?}", wire.source));
        let message = Some(&wire.message_id).filter(|id| !id.is_empty());
        Ok(Self {
            user: event::uuid("user_id", &wire.user_id)?,
            choices: choices.collect::<Result<_, WireError>>()?,
            source: Source::parse(&wire.source).ok_or_else(unknown)?,
            message: message.map(|id| event::uuid("message_id", id)).transpose()?,
            resubscribe: wire.resubscribe,
        })
    }
}

impl Action {
    /// Returns the trigger type of automations that may wait for it.
    pub fn trigger(&self) -> Option<TriggerType> {
        match self {
            Self::Track { .. } => Some(TriggerType::Event),
            Self::Webhook { .. } => Some(TriggerType::Webhook),
            _ => None,
        }
    }

    /// Returns its name in metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Track { .. } => "track",
            Self::Identify { .. } => "identify",
            Self::RegisterToken { .. } => "push_token",
            _ => "other",
        }
    }

    /// Returns the event to record. A webhook about a message is a receipt, not an event.
    pub fn event(&self) -> Option<Event<'_>> {
        match self {
            Self::Track { name, properties } => Some(Event { name, properties: properties.as_str() }),
            Self::Webhook { kind, properties } if DeliveryState::from_webhook_kind(kind).is_none() => {
                Some(Event { name: kind, properties: properties.as_str() })
            }
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Item {
    pub project: ProjectId,
    /// ID of the row.
    pub id: Uuid,
    /// Identifies repeats if the row's ID cannot.
    pub dedupe: Option<Uuid>,
    pub user: ItemUser,
    pub received: Timestamp,
    pub timestamp: Timestamp,
    /// Number of automations in the chain that caused it.
    pub depth: i16,
    pub partition: i16,
    /// Stream sequence number of its message.
    pub seq: i64,
    pub action: Action,
    /// See [`IngestItem::unproven`].
    pub unproven: bool,
    /// The encoded [`IngestItem`], for the dead-letter stream.
    pub encoded: Bytes,
    /// Parent of its trace's next spans, if it is traced.
    pub trace: Option<TraceContext>,
}

impl Item {
    /// Decodes an item. An error means that it can never be applied: it is malformed, an ID does not parse, or its body
    /// is missing.
    pub fn decode(encoded: Bytes, partition: i16, seq: i64) -> Result<Self, WireError> {
        let mut wire = IngestItem::decode(encoded.clone()).map_err(|e| WireError::Undecodable(e.to_string()))?;
        let project = wire.project()?;
        let (id, dedupe) = (wire.row_id()?, wire.dedupe()?);
        let (received, timestamp) = (from_ms(wire.received_ms), from_ms(wire.timestamp_ms));
        let unproven = wire.unproven;
        let user = ItemUser::new(project, wire.user_id.take(), wire.anonymous_id.take());
        let (action, user) = match wire.body.ok_or(WireError::Missing("body"))? {
            Body::Track(track) => (Action::Track { name: track.name, properties: Text::new(track.properties)? }, user),
            Body::Identify(identify) => (Action::Identify { patch: object(&identify.properties)? }, user),
            // The user with the previous ID is merged, as by an identify with both IDs.
            Body::Alias(alias) => {
                let previous = ItemUser::new(project, None, Some(alias.previous_id));
                (Action::Identify { patch: Map::new() }, ItemUser { known: user.known, ..previous })
            }
            Body::Timer(timer) => {
                let action =
                    Action::Timer { run: event::uuid("run_id", &timer.run_id)?, wait_seq: timer.wait_seq as i32 };
                (action, ItemUser::default())
            }
            Body::Answer(answer) => {
                let outcome = serde_json::from_slice(&answer.outcome);
                let outcome = outcome.map_err(|e| WireError::Undecodable(format!("outcome: {e}")))?;
                let (run, wait_seq) = (event::uuid("run_id", &answer.run_id)?, answer.wait_seq as i32);
                (Action::CallOutcome { run, wait_seq, answer: outcome }, ItemUser::default())
            }
            Body::Start(start) => {
                let date = (start.date_ms != 0).then(|| from_ms(start.date_ms));
                let automation = event::uuid("automation_id", &start.automation_id)?;
                (Action::Start { automation, date, trigger: object(&start.trigger)? }, user)
            }
            Body::Erase(erase) => (Action::Erase { user: event::uuid("user_id", &erase.user_id)? }, user),
            Body::Subscribe(chosen) => (Action::Subscribe(Subscribe::decode(&chosen)?), user),
            Body::RegisterToken(new) => {
                let unknown = || WireError::Undecodable(format!("platform {:?}", new.platform));
                let platform = Platform::parse(&new.platform).ok_or_else(unknown)?;
                (Action::RegisterToken { platform, token: new.token }, user)
            }
            Body::Webhook(webhook) => {
                (Action::Webhook { kind: webhook.kind, properties: Text::new(webhook.data)? }, user)
            }
            Body::RemoveToken(removal) => (Action::RemoveToken { token: removal.token }, ItemUser::default()),
        };
        let may_lack_user = matches!(
            action,
            Action::Timer { .. }
                | Action::CallOutcome { .. }
                | Action::RemoveToken { .. }
                | Action::Webhook { .. }
                | Action::Subscribe(_)
                | Action::Erase { .. }
        );
        if user.named().is_none() && !may_lack_user {
            return Err(WireError::Missing("user"));
        }
        let depth = i16::try_from(wire.depth).unwrap_or(i16::MAX);
        let trace = TraceContext::from_bytes(&wire.trace);
        Ok(Self {
            project,
            id,
            dedupe,
            user,
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

    /// Returns the ID by which repeats are looked up.
    ///
    /// `None` if the row's ID identifies them: the sender gave no ID, or gave an event a UUIDv7, from which the row's
    /// ID was derived.
    pub fn claimed_id(&self) -> Option<Uuid> {
        let is_in_row_id =
            |id: &Uuid| id.get_version_num() == 7 && matches!(self.action, Action::Track { .. }) && self.depth == 0;
        self.dedupe.filter(|id| !is_in_row_id(id))
    }

    /// Returns whether it names its user by internal ID alone, as items that start runs or come from the steps of runs
    /// do.
    pub fn uses_internal_id(&self) -> bool {
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
    fn alias_merges_the_previous_id() {
        let item = decode(wire(Body::Alias(Alias { previous_id: "before".into() }))).unwrap();
        assert_eq!(item.action, Action::Identify { patch: Map::new() });
        let project = ProjectId(Uuid::from_u128(1));
        assert_eq!(item.user.anonymous.unwrap().id, UserKey::Anonymous("before").internal_id(project));
    }

    #[test]
    fn invalid_item_is_rejected_with_its_reason() {
        let broken = wire(Body::Identify(Identify { properties: "[1]".into() }));
        assert!(matches!(decode(broken), Err(WireError::Undecodable(_))));
        let without_user = IngestItem { user_id: None, ..wire(Body::Identify(Identify::default())) };
        assert_eq!(decode(without_user).unwrap_err(), WireError::Missing("user"));
        let empty = IngestItem { body: None, ..wire(Body::Identify(Identify::default())) };
        assert_eq!(decode(empty).unwrap_err(), WireError::Missing("body"));
    }
}
