//! Orders projects by when they were last served, longest ago first. This module does no I/O.

use std::collections::{HashMap, HashSet};

use kernel::ids::ProjectId;

/// Remembers when projects with due calls were last served.
///
/// Without it, projects with the oldest backlogs would take every slot that becomes free.
#[derive(Default)]
pub struct Rotation {
    served: HashMap<ProjectId, u64>,
    count: u64,
}

impl Rotation {
    /// Sorts projects with due calls: first those not served yet, in the given order, then those served longest ago.
    pub fn sort(&mut self, due: &mut [ProjectId]) {
        let with_due_calls: HashSet<ProjectId> = due.iter().copied().collect();
        self.served.retain(|project, _| with_due_calls.contains(project));
        due.sort_by_key(|project| self.served.get(project).copied().unwrap_or(0));
    }

    /// Records that a project is served now.
    pub fn serve(&mut self, project: ProjectId) {
        self.count += 1;
        self.served.insert(project, self.count);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn every_project_is_served_before_one_is_served_again() {
        let projects: Vec<ProjectId> = (0..150).map(|n| ProjectId(Uuid::from_u128(n))).collect();
        let mut rotation = Rotation::default();
        let mut served = HashMap::<ProjectId, u32>::new();
        // All stay due, and each poll has slots for 64.
        for _ in 0..75 {
            let mut due = projects.clone();
            rotation.sort(&mut due);
            for project in &due[..64] {
                rotation.serve(*project);
                *served.entry(*project).or_default() += 1;
            }
        }
        assert!(projects.iter().all(|project| served[project] == 32), "{served:?}");
    }

    #[test]
    fn projects_without_due_calls_are_forgotten() {
        let [one, two] = [1, 2].map(|n| ProjectId(Uuid::from_u128(n)));
        let mut rotation = Rotation::default();
        rotation.serve(one);
        rotation.sort(&mut [two]);
        assert!(rotation.served.is_empty());
    }
}
