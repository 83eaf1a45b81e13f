//! Room for what takes long: so much at a time in one gateway, and less of one project, so that none takes all of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shared::ids::ProjectId;

type Taken = Arc<Mutex<HashMap<ProjectId, usize>>>;

/// The places there are.
pub struct Places {
    taken: Taken,
    most: usize,
    of_project: usize,
}

/// One of them, free again when it is dropped.
pub struct Place {
    project: ProjectId,
    taken: Taken,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    Gateway,
    Project,
}

fn locked(taken: &Taken) -> MutexGuard<'_, HashMap<ProjectId, usize>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    pub fn new(most: usize, of_project: usize) -> Self {
        Self { taken: Arc::default(), most, of_project }
    }

    pub fn take(&self, project: ProjectId) -> Result<Place, Full> {
        let mut taken = locked(&self.taken);
        if taken.get(&project).is_some_and(|own| *own >= self.of_project) {
            return Err(Full::Project);
        }
        if taken.values().sum::<usize>() >= self.most {
            return Err(Full::Gateway);
        }
        *taken.entry(project).or_default() += 1;
        Ok(Place { project, taken: self.taken.clone() })
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        locked(&self.taken).values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = locked(&self.taken);
        if let Some(own) = taken.get_mut(&self.project) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.project);
            }
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn no_project_takes_all_places() {
        let project = |n| ProjectId(Uuid::from_u128(n));
        let places = Places::new(3, 2);
        let mut held: Vec<Place> = (0..2).map(|_| places.take(project(1)).ok().unwrap()).collect();
        assert_eq!(places.take(project(1)).err(), Some(Full::Project));
        held.push(places.take(project(2)).ok().unwrap());
        assert_eq!(places.take(project(2)).err(), Some(Full::Gateway));
        assert_eq!(places.taken(), 3);
        held.clear();
        assert!(places.taken() == 0 && locked(&places.taken).is_empty());
    }
}
