//! An in-memory index, by project and name, of the automations that events start and the events that runs may listen
//! for.

use std::collections::BTreeSet;
use std::sync::Arc;

use automation::TriggerType;
use automation::journey::{ANY_CHANGE, Program};
use foldhash::{HashMap, HashSet};
use kernel::ids::ProjectId;
use store_sending::automations::{ActiveAutomation, FollowedAutomation};
use uuid::Uuid;

/// An active automation, which may start runs.
#[derive(Clone, Debug)]
pub struct Startable {
    pub id: Uuid,
    pub version: i32,
    trigger: (TriggerType, Option<String>),
    pub program: Arc<Program>,
}

#[derive(Clone, Debug, Default)]
struct ProjectIndex {
    automations: HashMap<Uuid, Startable>,
    by_trigger: HashMap<TriggerType, HashMap<String, Vec<Uuid>>>,
    /// Events that runs of each automation may listen for, including runs of inactive automations and earlier versions.
    events_by_automation: HashMap<Uuid, BTreeSet<String>>,
    listened_events: HashSet<String>,
    /// Automations that dates start.
    dated: Vec<Uuid>,
}

/// All automations that may start runs or have some, as of a change sequence number.
///
/// An update copies the index; the copies share unchanged projects.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Number of the newest change in the index.
    pub seq: i64,
    projects: HashMap<ProjectId, Arc<ProjectIndex>>,
}

impl Index {
    /// Returns a copy of the index with `changes` applied, as of `seq`.
    #[must_use]
    pub fn with_changes(&self, seq: i64, changes: Vec<FollowedAutomation>) -> Self {
        let mut index = self.clone();
        index.seq = seq;
        let mut changed: HashMap<ProjectId, ProjectIndex> = HashMap::default();
        for change in changes {
            let project = change.project;
            let current = || index.projects.get(&project).map(|e| ProjectIndex::clone(e)).unwrap_or_default();
            changed.entry(project).or_insert_with(current).apply(change);
        }
        for (project, entry) in changed {
            let entry = entry.indexed();
            if entry.is_empty() {
                index.projects.remove(&project);
            } else {
                index.projects.insert(project, Arc::new(entry));
            }
        }
        index
    }

    /// Returns the automations that an event or a webhook of this name starts, oldest first.
    pub fn started_by<'i>(
        &'i self,
        project: ProjectId,
        by: Option<TriggerType>,
        name: &str,
    ) -> impl Iterator<Item = &'i Startable> + use<'i> {
        let of_project = self.projects.get(&project);
        let by_name = of_project.and_then(|p| p.by_trigger.get(&by?));
        let ids = by_name.and_then(|n| n.get(name)).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(move |id| of_project?.automations.get(id))
    }

    /// Returns whether an event or a webhook of this name may start a run, or whether a run may listen for it.
    pub fn concerns(&self, project: ProjectId, by: Option<TriggerType>, name: &str) -> bool {
        self.listeners(project, name).exist() || self.started_by(project, by, name).next().is_some()
    }

    /// Returns an automation if it is active.
    pub fn get(&self, project: ProjectId, automation: Uuid) -> Option<&Startable> {
        self.projects.get(&project)?.automations.get(&automation)
    }

    /// Returns the automations that dates in user properties start.
    pub fn dated(&self, project: ProjectId) -> impl Iterator<Item = &Startable> {
        let of_project = self.projects.get(&project).into_iter();
        of_project.flat_map(|p| p.dated.iter().filter_map(|id| p.automations.get(id)))
    }

    /// Returns whether a profile change may affect a run or the next date of an automation.
    pub fn depends_on_profiles(&self, project: ProjectId) -> bool {
        self.listeners(project, ANY_CHANGE).any_event || self.dated(project).next().is_some()
    }

    pub fn is_active(&self, project: ProjectId, automation: Uuid) -> bool {
        self.get(project, automation).is_some()
    }

    /// Returns whether runs may listen for an event or a webhook of this name.
    pub fn listeners(&self, project: ProjectId, name: &str) -> Listeners {
        let events = self.projects.get(&project).map(|p| &p.listened_events).filter(|events| !events.is_empty());
        events.map_or(Listeners::default(), |events| Listeners {
            by_name: events.contains(name),
            any_event: events.contains(ANY_CHANGE),
        })
    }
}

/// Whether runs of a project may listen for an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listeners {
    /// By the event's name.
    pub by_name: bool,
    /// To any event.
    pub any_event: bool,
}

impl Listeners {
    pub fn exist(self) -> bool {
        self.by_name || self.any_event
    }
}

/// Builds an index of all automations, one page at a time: their definitions take far more memory than the index.
#[derive(Debug, Default)]
pub struct IndexBuilder(HashMap<ProjectId, ProjectIndex>);

impl IndexBuilder {
    /// Adds a page. Returns the cursor for the next page, or `None` at the end.
    pub fn add_page(&mut self, page: Vec<FollowedAutomation>) -> Option<(ProjectId, Uuid)> {
        let last = page.last().map(|last| (last.project, last.id));
        for automation in page {
            self.0.entry(automation.project).or_default().apply(automation);
        }
        last
    }

    /// Returns the index as of `seq`, which must have been read before the first page.
    pub fn build(self, seq: i64) -> Index {
        let projects = self.0.into_iter().map(|(project, entry)| (project, Arc::new(entry.indexed()))).collect();
        Index { seq, projects }
    }
}

fn startable(automation: &ActiveAutomation) -> Option<Startable> {
    let ActiveAutomation { project, id, version, definition } = automation;
    let trigger = (definition.trigger_type, definition.trigger_event.clone());
    match Program::compile(definition) {
        Ok(program) => Some(Startable { id: *id, version: *version, trigger, program: Arc::new(program) }),
        Err(error) => {
            tracing::error!(%project, automation = %id, error, "automation definition is invalid; it starts no runs");
            None
        }
    }
}

impl ProjectIndex {
    fn apply(&mut self, automation: FollowedAutomation) {
        let id = automation.id;
        self.automations.remove(&id);
        let mut events: BTreeSet<String> = automation.listens_for.into_iter().collect();
        if let Some(startable) = automation.active.as_ref().and_then(startable) {
            events.extend(startable.program.possible_events());
            self.automations.insert(id, startable);
        }
        self.events_by_automation.remove(&id);
        if !events.is_empty() {
            self.events_by_automation.insert(id, events);
        }
    }

    fn is_empty(&self) -> bool {
        self.automations.is_empty() && self.events_by_automation.is_empty()
    }

    fn indexed(mut self) -> Self {
        self.by_trigger.clear();
        for (id, automation) in &self.automations {
            if let (by, Some(name)) = &automation.trigger {
                self.by_trigger.entry(*by).or_default().entry(name.clone()).or_default().push(*id);
            }
        }
        // IDs start with their creation time, so this sorts the oldest first.
        self.by_trigger.values_mut().flat_map(HashMap::values_mut).for_each(|ids| ids.sort_unstable());
        let is_dated = |(_, automation): &(&Uuid, &Startable)| automation.program.trigger_date.is_some();
        self.dated = self.automations.iter().filter(is_dated).map(|(id, _)| *id).collect();
        self.listened_events = self.events_by_automation.values().flatten().cloned().collect();
        self
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use automation::{Definition, Reentry};
    use serde_json::json;

    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(1));

    impl Index {
        fn new(seq: i64, followed: Vec<FollowedAutomation>) -> Self {
            Self::default().with_changes(seq, followed)
        }
    }

    #[test]
    fn index_is_built_page_by_page() {
        let mut builder = IndexBuilder::default();
        assert_eq!(builder.add_page(vec![automation(1, "a"), automation(2, "a")]), Some((PROJECT, Uuid::from_u128(2))));
        assert_eq!(builder.add_page(vec![automation(3, "b")]), Some((PROJECT, Uuid::from_u128(3))));
        assert_eq!(builder.add_page(Vec::new()), None);
        let index = builder.build(7);
        assert_eq!((index.seq, started(&index, PROJECT, "a"), started(&index, PROJECT, "b")), (7, vec![1, 2], vec![3]));
    }

    fn automation(id: u128, event: &str) -> FollowedAutomation {
        let definition = Definition::new(TriggerType::Event, Some(event.to_owned()), Reentry::Always, vec![]);
        of(id, definition)
    }

    fn of(id: u128, definition: Definition) -> FollowedAutomation {
        let id = Uuid::from_u128(id);
        let active = ActiveAutomation { project: PROJECT, id, version: 1, definition };
        FollowedAutomation { project: PROJECT, id, active: Some(active), listens_for: vec![] }
    }

    fn gone(id: u128) -> FollowedAutomation {
        FollowedAutomation { project: PROJECT, id: Uuid::from_u128(id), active: None, listens_for: vec![] }
    }

    fn started(index: &Index, project: ProjectId, event: &str) -> Vec<u128> {
        index.started_by(project, Some(TriggerType::Event), event).map(|a| a.id.as_u128()).collect()
    }

    #[test]
    fn event_starts_automations_with_its_project_and_name() {
        let index = Index::new(3, vec![automation(2, "a"), automation(1, "a"), automation(3, "b")]);
        assert_eq!(started(&index, PROJECT, "a"), [1, 2]);
        assert_eq!(started(&index, PROJECT, "A"), [0u128; 0]);
        assert_eq!(started(&index, ProjectId(Uuid::from_u128(9)), "a"), [0u128; 0]);
        let concerns = |name: &str| index.concerns(PROJECT, Some(TriggerType::Event), name);
        assert_eq!((concerns("a"), concerns("A"), index.concerns(PROJECT, None, "a")), (true, false, false));
    }

    #[test]
    fn webhook_starts_only_webhook_triggered_automations() {
        let mut by_webhook = automation(2, "a");
        by_webhook.active.as_mut().unwrap().definition.trigger_type = TriggerType::Webhook;
        let index = Index::new(3, vec![automation(1, "a"), by_webhook]);
        assert_eq!(started(&index, PROJECT, "a"), [1]);
        let started: Vec<_> =
            index.started_by(PROJECT, Some(TriggerType::Webhook), "a").map(|a| a.id.as_u128()).collect();
        assert_eq!(started, [2]);
    }

    #[test]
    fn date_triggered_automations_are_indexed() {
        let date = json!({ "property": "birthday", "repeat": "yearly" });
        let by_date = json!({ "triggerType": "DATE_PROPERTY", "triggerDate": date, "steps": [] });
        let by_event = json!({ "triggerType": "EVENT", "triggerEvent": "a", "triggerDate": date, "steps": [] });
        let [by_date, by_event] = [by_date, by_event].map(|whole| Definition::decode(whole).unwrap());
        let index = Index::new(1, vec![of(1, by_date), of(2, by_event)]);
        let dated = |index: &Index| index.dated(PROJECT).map(|a| a.id.as_u128()).collect::<Vec<_>>();
        assert_eq!((dated(&index), index.depends_on_profiles(PROJECT)), (vec![1], true));
        let without = index.with_changes(2, vec![gone(1)]);
        assert_eq!((dated(&without), without.depends_on_profiles(PROJECT)), (vec![], false));
    }

    #[test]
    fn changes_replace_and_remove_automations() {
        let index = Index::new(3, vec![automation(1, "a"), automation(2, "a")]);
        let changed = index.with_changes(5, vec![gone(1), automation(2, "b")]);
        assert_eq!((changed.seq, started(&changed, PROJECT, "a").len()), (5, 0));
        assert_eq!(started(&changed, PROJECT, "b"), [2]);
        assert!(!changed.is_active(PROJECT, Uuid::from_u128(1)) && changed.is_active(PROJECT, Uuid::from_u128(2)));
        assert_eq!(started(&index, PROJECT, "a"), [1, 2]);
    }

    #[test]
    fn inactive_automations_keep_their_listeners() {
        let wait = json!({ "type": "WAIT_FOR_EVENT", "event": "bought", "timeout": 5, "then": [], "else": [] });
        let steps = serde_json::from_value(json!([wait])).unwrap();
        let index =
            Index::new(1, vec![of(1, Definition::new(TriggerType::Event, Some("a".into()), Reentry::Always, steps))]);
        let listeners = |by_name, any_event| Listeners { by_name, any_event };
        assert_eq!(index.listeners(PROJECT, "bought"), listeners(true, false));
        assert_eq!(index.listeners(PROJECT, "a"), listeners(false, false));
        // Inactive, with the events of earlier versions from the database.
        let inactive = FollowedAutomation { listens_for: vec!["bought".into(), ANY_CHANGE.into()], ..gone(1) };
        let changed = index.with_changes(2, vec![inactive]);
        assert_eq!(changed.listeners(PROJECT, "bought"), listeners(true, true));
        assert_eq!(changed.listeners(PROJECT, "x"), listeners(false, true));
        assert!(index.concerns(PROJECT, None, "bought") && changed.concerns(PROJECT, None, "x"));
        let removed = changed.with_changes(3, vec![gone(1)]);
        assert_eq!(removed.listeners(PROJECT, "bought"), listeners(false, false));
        assert!(removed.projects.is_empty());
    }
}
