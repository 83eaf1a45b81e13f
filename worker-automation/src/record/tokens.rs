//! Stores push tokens within the recording transaction.

use std::collections::BTreeMap;

use database::{StoreError, Transaction};
use domain::push_token;
use store_profiles::push_tokens::{self, Device, Said};
use store_profiles::users::record::PersonKey;

use crate::ingest::item::{Action, Item};
use crate::record::people::People;

/// Returns the users whose devices the items register.
pub fn registered<'a>(items: &'a [&Item], people: &'a People) -> impl Iterator<Item = PersonKey> + 'a {
    let registers = |item: &&&Item| matches!(item.action, Action::RegisterToken { .. });
    items.iter().filter(registers).filter_map(|item| people.of(item))
}

/// Stores the latest registration or removal of each token by acceptance time, across partitions.
///
/// A late registration thus cannot take a token from its current owner. The users that the items name must be locked.
pub async fn store(tx: &Transaction<'_>, items: &[&Item], people: &People) -> Result<(), StoreError> {
    let mut last = BTreeMap::new();
    for item in items {
        let (token, device) = match &item.action {
            Action::RegisterToken { platform, token } => {
                let Some((_, user_id)) = people.of(item) else { continue };
                (token, Some(Device { user_id, platform: *platform, token }))
            }
            Action::RemoveToken { token } => (token, None),
            _ => continue,
        };
        let id = push_token::id(item.project, token);
        let said = Said { project: item.project, id, device, at: item.received, seq: item.seq };
        let kept = last.entry((said.project, id)).or_insert_with(|| said.clone());
        if (said.at, said.seq) >= (kept.at, kept.seq) {
            *kept = said;
        }
    }
    push_tokens::keep(tx, &last.into_values().collect::<Vec<_>>()).await
}
