//! Marks users whose segments may have changed, within the recording transaction.
//!
//! Marks only what a project's followed segments depend on, so that projects without followed segments cost nothing.
//! The scheduler evaluates the segments separately.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use database::{StoreError, Transaction};
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use kernel::ids::{self, ProjectId};
use rules::look::Look;
use store_profiles::segments::{dirty, follow};
use store_profiles::users::record::PersonKey;

use crate::record::new_event::NewEvent;

/// What one project's segments depend on.
#[derive(Clone, Debug, Default)]
struct Watched {
    /// Event names, with the text of their `Look`.
    events: HashMap<String, String>,
    profile: bool,
    seen: bool,
    devices: bool,
}

impl Watched {
    fn of(looks: BTreeSet<Look>) -> Self {
        let mut watched = Self::default();
        for look in looks {
            let text = look.text();
            match look {
                Look::Event(name) => _ = watched.events.insert(name, text),
                Look::Profile => watched.profile = true,
                Look::Seen => watched.seen = true,
                Look::Devices => watched.devices = true,
                // The code that changes messages and lists marks them; user changes are always marked.
                Look::Messages | Look::Segment(_) | Look::Person => {}
            }
        }
        watched
    }
}

/// What the segments of all projects depend on, as of a change sequence number.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    seq: i64,
    projects: HashMap<ProjectId, Arc<Watched>>,
}

/// Cache of the current [`Watches`].
pub struct Watching(ArcSwap<Watches>);

impl Default for Watching {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(Watches { seq: -1, projects: HashMap::default() }))
    }
}

impl Watching {
    /// Returns the current dependencies; `seq` is the number of the newest change.
    pub async fn follow(&self, tx: &Transaction<'_>, seq: i64) -> Result<Arc<Watches>, StoreError> {
        let known = self.0.load_full();
        if known.seq == seq {
            return Ok(known);
        }
        // A lower number means that the database was restored to an earlier state: read everything.
        let mut watches = if known.seq > seq { Watches::default() } else { Watches::clone(&known) };
        let after = if known.seq > seq { -1 } else { known.seq };
        for (project, looks) in follow::watched_after(tx, after).await? {
            if looks.is_empty() {
                watches.projects.remove(&project);
            } else {
                watches.projects.insert(project, Arc::new(Watched::of(looks)));
            }
        }
        watches.seq = seq;
        let watches = Arc::new(watches);
        self.0.store(watches.clone());
        Ok(watches)
    }
}

/// The marks for one part of a batch.
pub struct Marks<'w> {
    watches: &'w Watches,
    /// Keyed by the text of the `Look`.
    found: HashSet<(&'w str, PersonKey)>,
}

impl<'w> Marks<'w> {
    pub fn new(watches: &'w Watches) -> Self {
        Self { watches, found: HashSet::default() }
    }

    fn watched(&self, project: ProjectId) -> Option<&'w Watched> {
        self.watches.projects.get(&project).map(Arc::as_ref)
    }

    /// Returns whether no project has followed segments.
    fn is_idle(&self) -> bool {
        self.watches.projects.is_empty()
    }

    fn mark(&mut self, person: PersonKey, look: &'w str, is_watched: impl FnOnce(&Watched) -> bool) {
        if self.watched(person.0).is_some_and(is_watched) {
            self.found.insert((look, person));
        }
    }

    /// Marks the users of new events that a segment depends on.
    pub fn events(&mut self, new: &[NewEvent<'_>]) {
        if self.is_idle() {
            return;
        }
        for event in new.iter().filter(|event| !event.is_unattributed()) {
            let look = self.watched(event.person.0).and_then(|watched| watched.events.get(event.name));
            if let Some(look) = look {
                self.found.insert((look, event.person));
            }
        }
    }

    /// Marks users whose devices were registered.
    pub fn devices(&mut self, registered: impl IntoIterator<Item = PersonKey>) {
        if self.is_idle() {
            return;
        }
        registered.into_iter().for_each(|person| self.mark(person, "devices", |watched| watched.devices));
    }

    pub fn profiles(&mut self, changed: impl IntoIterator<Item = PersonKey>) {
        changed.into_iter().for_each(|person| self.mark(person, "profile", |watched| watched.profile));
    }

    pub fn seen(&mut self, seen: impl IntoIterator<Item = PersonKey>) {
        seen.into_iter().for_each(|person| self.mark(person, "seen", |watched| watched.seen));
    }

    /// Marks users for all segments: those who were created, merged or erased.
    pub fn people(&mut self, people: impl IntoIterator<Item = PersonKey>) {
        people.into_iter().for_each(|person| self.mark(person, "person", |_| true));
    }

    /// Stores the marks.
    pub async fn store(self, tx: &Transaction<'_>, now: Timestamp) -> Result<(), StoreError> {
        if self.found.is_empty() {
            return Ok(());
        }
        let marks: Vec<(&str, PersonKey)> = self.found.into_iter().collect();
        dirty::insert(tx, ids::fresh(now.as_millisecond()), &marks).await
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_what_is_looked_at_is_marked_and_once() {
        let [watching, other] = [1, 2].map(|n| ProjectId(Uuid::from_u128(n)));
        let looks = BTreeSet::from([Look::Profile, Look::Person]);
        let projects = HashMap::from_iter([(watching, Arc::new(Watched::of(looks)))]);
        let watches = Watches { seq: 1, projects };
        let mut marks = Marks::new(&watches);
        let (person, stranger) = ((watching, Uuid::from_u128(7)), (other, Uuid::from_u128(8)));
        marks.profiles([person, person, stranger]);
        marks.seen([person]);
        marks.people([person, stranger]);
        let mut found: Vec<_> = marks.found.into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [("person", person), ("profile", person)]);
    }

    #[test]
    fn the_texts_are_those_of_the_looks() {
        for text in ["devices", "profile", "seen", "person"] {
            assert_eq!(Look::parse(text).unwrap().text(), text);
        }
    }
}
