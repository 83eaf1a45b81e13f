//! New events and receipts, which daily counts, segments and runs consume.

use automation::TriggerType;
use kernel::ids;
use store_profiles::users::record::ProjectUserId;
use uuid::Uuid;

use crate::automations::matching::{Index, Startable};
use crate::ingest::item::{Item, NamedUser};

/// Stands in for a user's ID if a webhook names no user.
pub const NO_USER: Uuid = Uuid::nil();

/// A new event or a receipt, and its user.
pub struct NewEvent<'a> {
    pub item: &'a Item,
    pub user: ProjectUserId,
    pub name: &'a str,
    pub properties: &'a str,
}

impl NewEvent<'_> {
    /// Returns whether the event is attributed to no user.
    pub fn is_unattributed(&self) -> bool {
        let refused = |anonymous: &NamedUser| self.user.1 == ids::unproven(anonymous.id);
        self.user.1 == NO_USER || (self.item.unproven && self.item.user.anonymous.as_ref().is_some_and(refused))
    }

    /// Returns the trigger type of automations that may wait for the event, or `None` if it is unattributed.
    pub fn trigger(&self) -> Option<TriggerType> {
        self.item.action.trigger().filter(|_| !self.is_unattributed())
    }

    /// Returns the automations that the event starts.
    pub fn starts<'i>(&self, index: &'i Index) -> impl Iterator<Item = &'i Startable> + use<'i> {
        index.started_by(self.user.0, self.trigger(), self.name)
    }
}
