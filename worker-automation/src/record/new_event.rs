//! Events that were not recorded before, and word of messages: what days count, segments look at, and runs hear of.

use automation::TriggerType;
use kernel::ids;
use store_profiles::users::record::PersonKey;
use uuid::Uuid;

use crate::automations::matching::{Index, Startable};
use crate::ingest::item::{Item, Named};

/// In place of a person's id where a webhook named nobody.
pub const NOBODY: Uuid = Uuid::nil();

/// An event that was really new, or word of a message, and whose it is.
pub struct NewEvent<'a> {
    pub item: &'a Item,
    pub person: PersonKey,
    pub name: &'a str,
    pub properties: &'a str,
}

impl NewEvent<'_> {
    /// Returns whether the event is attributed to no user.
    pub fn is_unattributed(&self) -> bool {
        let refused = |anonymous: &Named| self.person.1 == ids::unproven(anonymous.id);
        self.person.1 == NOBODY || (self.item.unproven && self.item.who.anonymous.as_ref().is_some_and(refused))
    }

    /// By what kind of automation it may be waited for; none where it is nobody's.
    pub fn trigger(&self) -> Option<TriggerType> {
        self.item.action.trigger().filter(|_| !self.is_unattributed())
    }

    /// The automations that it starts.
    pub fn starts<'i>(&self, index: &'i Index) -> impl Iterator<Item = &'i Startable> + use<'i> {
        index.started_by(self.person.0, self.trigger(), self.name)
    }
}
