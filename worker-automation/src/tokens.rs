//! Push tokens within the recording transaction: whose device is whose.

use std::collections::BTreeMap;

use shared::ids::ProjectId;
use shared::push_token;
use shared::store::push_tokens::{self, Registration};
use shared::store::{StoreError, Transaction};
use uuid::Uuid;

use crate::item::{Action, Item};
use crate::people::People;

/// Writes what the items say about tokens: the last word on each counts. All items of one token come by one partition,
/// whoever they name, so that they take their turns; whom they name must be locked.
pub async fn store(tx: &Transaction<'_>, items: &[&Item], people: &People) -> Result<(), StoreError> {
    let mut last: BTreeMap<(ProjectId, Uuid), Option<Registration<'_>>> = BTreeMap::new();
    for item in items {
        let project = item.project;
        match &item.action {
            Action::RegisterToken { platform, token } => {
                let Some((_, user_id)) = people.of(item) else { continue };
                let id = push_token::id(project, token);
                let platform = *platform;
                let new = Registration { project, id, user_id, platform, token, at: item.received };
                last.insert((project, id), Some(new));
            }
            Action::RemoveToken { token } => {
                last.insert((project, push_token::id(project, token)), None);
            }
            _ => {}
        }
    }
    let removed: Vec<_> = last.iter().filter(|(_, new)| new.is_none()).map(|(key, _)| *key).collect();
    push_tokens::remove(tx, &removed).await?;
    let registered: Vec<_> = last.into_values().flatten().collect();
    push_tokens::register(tx, &registered).await
}
