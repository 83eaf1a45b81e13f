//! Which automations an event starts: an index in memory, by project and event name.

use std::sync::Arc;

use foldhash::HashMap;
use shared::automation::{Definition, TriggerType};
use shared::ids::ProjectId;
use shared::store::automations::{ActiveAutomation, AutomationChange};
use uuid::Uuid;

/// An automation that may start runs now.
#[derive(Clone, Debug)]
pub struct Startable {
    pub id: Uuid,
    pub version: i32,
    pub definition: Arc<Definition>,
}

#[derive(Clone, Debug, Default)]
struct OfProject {
    automations: HashMap<Uuid, Startable>,
    by_trigger: HashMap<TriggerType, HashMap<String, Vec<Uuid>>>,
}

/// All active automations, as of a sequence of changes. Copied when it changes; projects are shared between copies.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The sequence up to which changes are in it.
    pub seq: i64,
    projects: HashMap<ProjectId, Arc<OfProject>>,
}

impl Index {
    pub fn new(seq: i64, active: Vec<ActiveAutomation>) -> Self {
        let mut by_project: HashMap<ProjectId, OfProject> = HashMap::default();
        for automation in active {
            let entry = by_project.entry(automation.project).or_default();
            entry.automations.insert(automation.id, startable(automation));
        }
        let projects = by_project.into_iter().map(|(project, entry)| (project, Arc::new(entry.indexed()))).collect();
        Self { seq, projects }
    }

    /// The index after changes, as of their sequence.
    #[must_use]
    pub fn changed(&self, seq: i64, changes: Vec<AutomationChange>) -> Self {
        let mut index = self.clone();
        index.seq = seq;
        for change in changes {
            let project = match &change {
                AutomationChange::Active(automation) => automation.project,
                AutomationChange::Inactive { project, .. } => *project,
            };
            let mut entry = index.projects.get(&project).map(|e| OfProject::clone(e)).unwrap_or_default();
            match change {
                AutomationChange::Active(automation) => {
                    entry.automations.insert(automation.id, startable(automation));
                }
                AutomationChange::Inactive { id, .. } => {
                    entry.automations.remove(&id);
                }
            }
            index.projects.insert(project, Arc::new(entry.indexed()));
        }
        index
    }

    /// Those that an event (or a webhook) of this name starts, oldest first.
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

    pub fn is_active(&self, project: ProjectId, automation: Uuid) -> bool {
        self.projects.get(&project).is_some_and(|p| p.automations.contains_key(&automation))
    }
}

fn startable(automation: ActiveAutomation) -> Startable {
    Startable { id: automation.id, version: automation.version, definition: Arc::new(automation.definition) }
}

impl OfProject {
    fn indexed(mut self) -> Self {
        self.by_trigger.clear();
        for (id, automation) in &self.automations {
            let definition = &automation.definition;
            if let Some(name) = &definition.trigger_event {
                let by_name = self.by_trigger.entry(definition.trigger_type).or_default();
                by_name.entry(name.clone()).or_default().push(*id);
            }
        }
        // Ids hold the time of their making.
        self.by_trigger.values_mut().flat_map(HashMap::values_mut).for_each(|ids| ids.sort_unstable());
        self
    }
}

#[cfg(test)]
mod tests {
    use shared::automation::Reentry;

    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(1));

    fn automation(id: u128, event: &str) -> ActiveAutomation {
        let definition = Definition {
            trigger_type: TriggerType::Event,
            trigger_event: Some(event.to_owned()),
            reentry: Reentry::Always,
            steps: vec![],
        };
        ActiveAutomation { project: PROJECT, id: Uuid::from_u128(id), version: 1, definition }
    }

    fn started(index: &Index, project: ProjectId, event: &str) -> Vec<u128> {
        index.started_by(project, Some(TriggerType::Event), event).map(|a| a.id.as_u128()).collect()
    }

    #[test]
    fn an_event_starts_the_automations_of_its_project_and_name() {
        let index = Index::new(3, vec![automation(2, "a"), automation(1, "a"), automation(3, "b")]);
        assert_eq!(started(&index, PROJECT, "a"), [1, 2]);
        assert_eq!(started(&index, PROJECT, "A"), [0u128; 0]);
        assert_eq!(started(&index, ProjectId(Uuid::from_u128(9)), "a"), [0u128; 0]);
    }

    #[test]
    fn a_webhook_starts_only_what_waits_for_webhooks() {
        let mut by_webhook = automation(2, "a");
        by_webhook.definition.trigger_type = TriggerType::Webhook;
        let index = Index::new(3, vec![automation(1, "a"), by_webhook]);
        assert_eq!(started(&index, PROJECT, "a"), [1]);
        let started: Vec<_> =
            index.started_by(PROJECT, Some(TriggerType::Webhook), "a").map(|a| a.id.as_u128()).collect();
        assert_eq!(started, [2]);
    }

    #[test]
    fn changes_take_and_leave() {
        let index = Index::new(3, vec![automation(1, "a"), automation(2, "a")]);
        let gone = AutomationChange::Inactive { project: PROJECT, id: Uuid::from_u128(1) };
        let changed = index.changed(5, vec![gone, AutomationChange::Active(automation(2, "b"))]);
        assert_eq!((changed.seq, started(&changed, PROJECT, "a").len()), (5, 0));
        assert_eq!(started(&changed, PROJECT, "b"), [2]);
        assert!(!changed.is_active(PROJECT, Uuid::from_u128(1)) && changed.is_active(PROJECT, Uuid::from_u128(2)));
        assert_eq!(started(&index, PROJECT, "a"), [1, 2]);
    }
}
