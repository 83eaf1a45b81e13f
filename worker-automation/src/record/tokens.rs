//! Stores push tokens within the recording transaction.

use std::collections::BTreeMap;

use database::{StoreError, Transaction};
use domain::push_token;
use store_profiles::push_tokens::{self, Device, TokenChange};
use store_profiles::users::record::ProjectUserId;

use crate::ingest::item::{Action, Item};
use crate::record::batch_users::BatchUsers;

/// Returns the users whose devices the items register.
pub fn registered<'a>(items: &'a [&Item], users: &'a BatchUsers) -> impl Iterator<Item = ProjectUserId> + 'a {
    let registers = |item: &&&Item| matches!(item.action, Action::RegisterToken { .. });
    items.iter().filter(registers).filter_map(|item| users.of(item))
}

/// Stores the latest registration or removal of each token by acceptance time, across partitions.
///
/// A late registration thus cannot take a token from its current owner. The users that the items name must be locked.
pub async fn store(tx: &Transaction<'_>, items: &[&Item], users: &BatchUsers) -> Result<(), StoreError> {
    let mut last = BTreeMap::new();
    for item in items {
        let (token, device) = match &item.action {
            Action::RegisterToken { platform, token } => {
                let Some((_, user_id)) = users.of(item) else { continue };
                (token, Some(Device { user_id, platform: *platform, token }))
            }
            Action::RemoveToken { token } => (token, None),
            _ => continue,
        };
        let id = push_token::id(item.project, token);
        let change = TokenChange { project: item.project, id, device, at: item.received, seq: item.seq };
        let kept = last.entry((change.project, id)).or_insert_with(|| change.clone());
        if (change.at, change.seq) >= (kept.at, kept.seq) {
            *kept = change;
        }
    }
    push_tokens::store(tx, &last.into_values().collect::<Vec<_>>()).await
}
