//! Push tokens within the recording transaction: whose device is whose.

use std::collections::BTreeMap;

use database::{StoreError, Transaction};
use domain::push_token;
use store_profiles::push_tokens::{self, Device, Said};
use store_profiles::users::record::PersonKey;

use crate::ingest::item::{Action, Item};
use crate::record::people::People;

/// The people whose devices the items register.
pub fn registered<'a>(items: &'a [&Item], people: &'a People) -> impl Iterator<Item = PersonKey> + 'a {
    let registers = |item: &&&Item| matches!(item.action, Action::RegisterToken { .. });
    items.iter().filter(registers).filter_map(|item| people.of(item))
}

/// Writes what the items say about tokens: of each the last word by its acceptance, whatever partition it comes by, so that
/// nobody's late registration takes back what is another's by now. Whom they name must be locked.
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
