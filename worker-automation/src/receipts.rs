//! What is told about messages that were sent: by devices, in the events that the SDKs record, and by providers and the
//! project's own systems, in webhooks.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use shared::ids::ProjectId;
use shared::send::DeliveryState;
use shared::store::messages::receipts::{self, Receipt};
use shared::store::{StoreError, Transaction};
use uuid::Uuid;

use crate::item::{Action, Item};
use crate::suppression::{self, Told, ToldOf};

/// The SDKs' own events about a push.
fn of_event(name: &str) -> Option<DeliveryState> {
    match name {
        "push_received" => Some(DeliveryState::Delivered),
        "push_opened" => Some(DeliveryState::Opened),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    message_id: Uuid,
    /// A string, if it is to be of use.
    #[serde(default)]
    reason: serde_json::Value,
}

/// What an item tells about a message.
fn told(item: &Item) -> Option<Receipt> {
    let (state, properties) = match &item.action {
        Action::Track { name, properties } => (of_event(name)?, properties),
        Action::Webhook { kind, properties } => (DeliveryState::told_by(kind)?, properties),
        _ => return None,
    };
    // An event may hold anything; one that names no message is an event like any other.
    let about: About = serde_json::from_str(properties.as_str()).ok()?;
    let reason = about.reason.as_str().map(|text| text.chars().take(REASON_MAX).collect());
    Some(Receipt { message: about.message_id, state, at: item.timestamp, reason })
}

/// Characters of a reason that are kept.
const REASON_MAX: usize = 500;

/// Moves on the messages that the items tell about.
pub async fn store(tx: &Transaction<'_>, items: &[&Item], now: Timestamp) -> Result<(), StoreError> {
    let mut by_project: BTreeMap<ProjectId, Vec<Receipt>> = BTreeMap::new();
    for item in items {
        if let Some(receipt) = told(item) {
            by_project.entry(item.project).or_default().push(receipt);
        }
    }
    for (project, told) in by_project {
        receipts::apply(tx, project, &told, now).await?;
    }
    let mut of_addresses: BTreeMap<ProjectId, Vec<ToldOf<'_>>> = BTreeMap::new();
    for item in items {
        if let Some((message, told)) = Told::of(item) {
            of_addresses.entry(item.project).or_default().push((item, message, told));
        }
    }
    for (project, told) in of_addresses {
        suppression::store(tx, project, &told).await?;
    }
    Ok(())
}
