//! Stores subscription preferences in the order in which they were accepted, across partitions.

use std::collections::BTreeMap;

use database::{StoreError, Transaction};
use kernel::ids::ProjectId;
use store_profiles::subscriptions::{self, Choice};
use store_profiles::users::record::ProjectUserId;

use crate::ingest::item::{Action, Item, Subscribe};
use crate::record::batch_users::BatchUsers;
use crate::record::suppression;

fn chosen<'a>(items: &'a [&Item]) -> impl Iterator<Item = (&'a Item, &'a Subscribe)> {
    items.iter().filter_map(|item| match &item.action {
        Action::Subscribe(chosen) => Some((*item, chosen)),
        _ => None,
    })
}

/// Returns the users whose preferences change.
///
/// They must be locked: this prevents a concurrent merge and reveals an earlier one.
pub fn users_to_lock(items: &[&Item]) -> impl Iterator<Item = ProjectUserId> {
    chosen(items).map(|(item, chosen)| (item.project, chosen.user))
}

/// Stores the preferences of users that exist.
pub async fn store(tx: &Transaction<'_>, items: &[&Item], users: &BatchUsers) -> Result<(), StoreError> {
    let mut choices: BTreeMap<ProjectId, Vec<Choice>> = BTreeMap::new();
    for (item, chosen) in chosen(items) {
        let user = users.resolve((item.project, chosen.user));
        if users.profile(user).is_none() {
            continue;
        }
        let of_project = choices.entry(item.project).or_default();
        of_project.extend(chosen.choices.iter().map(|(group_id, subscribed)| Choice {
            user_id: user.1,
            group_id: *group_id,
            subscribed: *subscribed,
            source: chosen.source,
            changed_at: item.timestamp,
        }));
        if chosen.resubscribe {
            suppression::resubscribe(tx, user, chosen.message, item.timestamp).await?;
        }
    }
    for (project, choices) in choices {
        subscriptions::put(tx, project, &choices).await?;
    }
    Ok(())
}
