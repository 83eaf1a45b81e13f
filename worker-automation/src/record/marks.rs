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
use rules::change::ChangeKind;
use store_profiles::segments::{dirty, follow};
use store_profiles::users::record::ProjectUserId;

use crate::record::new_event::NewEvent;

/// What one project's segments depend on.
#[derive(Clone, Debug, Default)]
struct ProjectDependencies {
    /// Event names, with the text of their `ChangeKind`.
    events: HashMap<String, String>,
    profile: bool,
    seen: bool,
    devices: bool,
}

impl ProjectDependencies {
    fn of(change_kinds: BTreeSet<ChangeKind>) -> Self {
        let mut watched = Self::default();
        for change_kind in change_kinds {
            let text = change_kind.text();
            match change_kind {
                ChangeKind::Event(name) => _ = watched.events.insert(name, text),
                ChangeKind::Profile => watched.profile = true,
                ChangeKind::Seen => watched.seen = true,
                ChangeKind::Devices => watched.devices = true,
                // The code that changes messages and lists marks them; user changes are always marked.
                ChangeKind::Messages | ChangeKind::Segment(_) | ChangeKind::User => {}
            }
        }
        watched
    }
}

/// What the segments of all projects depend on, as of a change sequence number.
#[derive(Clone, Debug, Default)]
pub struct SegmentDependencies {
    seq: i64,
    projects: HashMap<ProjectId, Arc<ProjectDependencies>>,
}

/// Cache of the current [`SegmentDependencies`].
pub struct DependencyCache(ArcSwap<SegmentDependencies>);

impl Default for DependencyCache {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(SegmentDependencies { seq: -1, projects: HashMap::default() }))
    }
}

impl DependencyCache {
    /// Returns the current dependencies; `seq` is the number of the newest change.
    pub async fn refresh(&self, tx: &Transaction<'_>, seq: i64) -> Result<Arc<SegmentDependencies>, StoreError> {
        let cached = self.0.load_full();
        if cached.seq == seq {
            return Ok(cached);
        }
        // A lower number means that the database was restored to an earlier state: read everything.
        let mut dependencies =
            if cached.seq > seq { SegmentDependencies::default() } else { SegmentDependencies::clone(&cached) };
        let after = if cached.seq > seq { -1 } else { cached.seq };
        for (project, change_kinds) in follow::watched_after(tx, after).await? {
            if change_kinds.is_empty() {
                dependencies.projects.remove(&project);
            } else {
                dependencies.projects.insert(project, Arc::new(ProjectDependencies::of(change_kinds)));
            }
        }
        dependencies.seq = seq;
        let dependencies = Arc::new(dependencies);
        self.0.store(dependencies.clone());
        Ok(dependencies)
    }
}

/// The marks for one part of a batch.
pub struct SegmentMarks<'w> {
    dependencies: &'w SegmentDependencies,
    /// Keyed by the text of the `ChangeKind`.
    entries: HashSet<(&'w str, ProjectUserId)>,
}

impl<'w> SegmentMarks<'w> {
    pub fn new(dependencies: &'w SegmentDependencies) -> Self {
        Self { dependencies, entries: HashSet::default() }
    }

    fn watched(&self, project: ProjectId) -> Option<&'w ProjectDependencies> {
        self.dependencies.projects.get(&project).map(Arc::as_ref)
    }

    /// Returns whether no project has followed segments.
    fn is_idle(&self) -> bool {
        self.dependencies.projects.is_empty()
    }

    fn mark(
        &mut self,
        user: ProjectUserId,
        change_kind: &'w str,
        is_watched: impl FnOnce(&ProjectDependencies) -> bool,
    ) {
        if self.watched(user.0).is_some_and(is_watched) {
            self.entries.insert((change_kind, user));
        }
    }

    /// Marks the users of new events that a segment depends on.
    pub fn events(&mut self, new: &[NewEvent<'_>]) {
        if self.is_idle() {
            return;
        }
        for event in new.iter().filter(|event| !event.is_unattributed()) {
            let change_kind = self.watched(event.user.0).and_then(|watched| watched.events.get(event.name));
            if let Some(change_kind) = change_kind {
                self.entries.insert((change_kind, event.user));
            }
        }
    }

    /// Marks users whose devices were registered.
    pub fn devices(&mut self, registered: impl IntoIterator<Item = ProjectUserId>) {
        if self.is_idle() {
            return;
        }
        registered.into_iter().for_each(|user| self.mark(user, "devices", |watched| watched.devices));
    }

    pub fn profiles(&mut self, changed: impl IntoIterator<Item = ProjectUserId>) {
        changed.into_iter().for_each(|user| self.mark(user, "profile", |watched| watched.profile));
    }

    pub fn seen(&mut self, seen: impl IntoIterator<Item = ProjectUserId>) {
        seen.into_iter().for_each(|user| self.mark(user, "seen", |watched| watched.seen));
    }

    /// Marks users for all segments: those who were created, merged or erased.
    pub fn users(&mut self, users: impl IntoIterator<Item = ProjectUserId>) {
        users.into_iter().for_each(|user| self.mark(user, "person", |_| true));
    }

    /// Stores the marks.
    pub async fn store(self, tx: &Transaction<'_>, now: Timestamp) -> Result<(), StoreError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let marks: Vec<(&str, ProjectUserId)> = self.entries.into_iter().collect();
        dirty::insert(tx, ids::fresh(now.as_millisecond()), &marks).await
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_segment_dependencies_are_marked_once() {
        let [tracking, other] = [1, 2].map(|n| ProjectId(Uuid::from_u128(n)));
        let change_kinds = BTreeSet::from([ChangeKind::Profile, ChangeKind::User]);
        let projects = HashMap::from_iter([(tracking, Arc::new(ProjectDependencies::of(change_kinds)))]);
        let dependencies = SegmentDependencies { seq: 1, projects };
        let mut marks = SegmentMarks::new(&dependencies);
        let (user, stranger) = ((tracking, Uuid::from_u128(7)), (other, Uuid::from_u128(8)));
        marks.profiles([user, user, stranger]);
        marks.seen([user]);
        marks.users([user, stranger]);
        let mut found: Vec<_> = marks.entries.into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [("person", user), ("profile", user)]);
    }

    #[test]
    fn mark_texts_match_dependency_texts() {
        for text in ["devices", "profile", "seen", "person"] {
            assert_eq!(ChangeKind::parse(text).unwrap().text(), text);
        }
    }
}
