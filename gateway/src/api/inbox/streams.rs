//! Who follows which inbox: so many at a time, and no one person's clients more than a few.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use shared::bus::Bus;
use shared::ids::ProjectId;
use shared::shutdown::Shutdown;
use uuid::Uuid;

use crate::error::ApiError;

/// Streams for one inbox at a time: tabs and devices of one person.
const OF_ONE: usize = 10;
/// The part of all streams that those of one project may be.
const OF_PROJECT: usize = 2;

type Inbox = (ProjectId, Uuid);

/// The streams that are open.
pub struct Inboxes {
    open: Arc<Mutex<HashMap<Inbox, usize>>>,
    most: usize,
    /// Streams end with it: who follows one goes on at another gateway.
    pub shutdown: Shutdown,
}

/// A place for one stream, free again when it is dropped.
pub struct Place {
    inbox: Inbox,
    open: Arc<Mutex<HashMap<Inbox, usize>>>,
}

fn locked(open: &Mutex<HashMap<Inbox, usize>>) -> MutexGuard<'_, HashMap<Inbox, usize>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inboxes {
    pub fn new(most: usize, shutdown: Shutdown) -> Self {
        Self { open: Arc::default(), most, shutdown }
    }

    /// Takes a place, where there is one.
    pub fn enter(&self, inbox: Inbox) -> Result<Place, ApiError> {
        let mut open = locked(&self.open);
        if open.values().sum::<usize>() >= self.most {
            return Err(ApiError::Unavailable("this gateway follows as many inboxes as it may"));
        }
        let of_project = open.iter().filter(|((project, _), _)| *project == inbox.0).map(|(_, n)| n).sum::<usize>();
        if of_project >= self.most.div_ceil(OF_PROJECT) {
            return Err(ApiError::TooMany("this project's streams are half of all that this gateway follows"));
        }
        let of_one = open.entry(inbox).or_default();
        if *of_one >= OF_ONE {
            return Err(ApiError::TooMany("10 streams of this inbox are open, which is the limit; close one"));
        }
        *of_one += 1;
        Ok(Place { inbox, open: self.open.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = locked(&self.open);
        if let Some(of_one) = open.get_mut(&self.inbox) {
            *of_one -= 1;
            if *of_one == 0 {
                open.remove(&self.inbox);
            }
        }
    }
}

/// Tells those who follow one of these inboxes, at any gateway, to look now. Only a hint.
pub async fn announce(bus: &Bus, project: ProjectId, users: &[Uuid]) {
    if !bus.is_connected() {
        return;
    }
    for user in users {
        let _ = bus.client.publish(bus.names.inbox(project, *user), Bytes::new()).await;
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_free_again() {
        let of = |project, n| (ProjectId(Uuid::from_u128(project)), Uuid::from_u128(n));
        let inbox = |n| of(0, n);
        let inboxes = Inboxes::new(24, Shutdown::new());
        let mut places: Vec<Place> = (0..OF_ONE).map(|_| inboxes.enter(inbox(1)).ok().unwrap()).collect();
        assert_eq!(inboxes.enter(inbox(1)).err().unwrap().status().as_u16(), 429);
        places.extend((0..2).map(|_| inboxes.enter(inbox(2)).ok().unwrap()));
        assert_eq!(inboxes.enter(inbox(3)).err().unwrap().status().as_u16(), 429);
        places.extend((0..12).map(|n| inboxes.enter(of(1 + n % 2, n)).ok().unwrap()));
        assert_eq!(inboxes.enter(of(3, 1)).err().unwrap().status().as_u16(), 503);
        places.clear();
        assert!(locked(&inboxes.open).is_empty());
        assert!(inboxes.enter(inbox(1)).is_ok());
    }
}
