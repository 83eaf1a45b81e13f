//! Generates the shop's day: the same bytes for the same seed, run and start.

pub mod catalog;
pub mod clocks;
pub mod expected;
mod names;
pub mod requests;
mod seeded_rng;
mod sessions;
pub mod users;

use std::collections::{BTreeMap, BTreeSet};

use expected::{DueInApp, DueMail, ExpectedUser, due_in_app, due_mails};
use requests::Request;
use users::{ShopUser, UserKind};

/// The inputs of a generated day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    pub seed: u64,
    /// Part of every ID and address, so that runs do not collide.
    pub run: String,
    pub users: usize,
    /// When the run began, which is when the generated day ends.
    pub start_ms: i64,
}

pub struct Day {
    pub users: Vec<ShopUser>,
    /// Expected results of each user, in the order of `users`.
    pub expected_users: Vec<ExpectedUser>,
    /// In sending order. Each user's requests are in the order of the user's actions.
    pub requests: Vec<Request>,
}

impl Day {
    pub fn generate(recipe: &Recipe) -> Self {
        let mut day = Self { users: Vec::new(), expected_users: Vec::new(), requests: Vec::new() };
        for index in 0..recipe.users {
            let user = users::user(recipe.seed, &recipe.run, index);
            let actions = sessions::day(recipe.seed, &recipe.run, index, &user, recipe.start_ms);
            let (requests, expected_user) = requests::requests(recipe.seed, &recipe.run, index, &user, &actions);
            day.users.push(user);
            day.expected_users.push(expected_user);
            day.requests.extend(requests);
        }
        // The sort is stable: a user's simultaneous requests keep their order.
        day.requests.sort_by_key(|request| request.at_ms);
        day
    }

    /// Counts distinct events by name.
    pub fn events_by_name(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for event in self.expected_users.iter().flat_map(|expected_user| &expected_user.events) {
            *counts.entry(event.name).or_default() += 1;
        }
        counts
    }

    /// Counts distinct events.
    pub fn events(&self) -> u64 {
        self.expected_users.iter().map(|expected_user| expected_user.events.len() as u64).sum()
    }

    /// Counts events that are sent again.
    pub fn repeats(&self) -> u64 {
        self.expected_users.iter().map(|expected_user| expected_user.repeats).sum()
    }

    /// Counts the users whom a search for the run's ID finds: members by ID, guests by address.
    pub fn findable(&self) -> u64 {
        self.users.iter().filter(|user| user.kind != UserKind::Visitor).count() as u64
    }

    pub fn due_mails(&self) -> Vec<DueMail> {
        self.users
            .iter()
            .zip(&self.expected_users)
            .flat_map(|(user, expected_user)| due_mails(user, expected_user))
            .collect()
    }

    pub fn due_in_app(&self) -> Vec<DueInApp> {
        self.users
            .iter()
            .zip(&self.expected_users)
            .filter_map(|(user, expected_user)| due_in_app(user, expected_user))
            .collect()
    }

    /// Returns the tokens of the phones to which one push each is due.
    pub fn due_pushes(&self) -> BTreeSet<&str> {
        self.expected_users.iter().filter_map(|expected_user| expected_user.device.as_deref()).collect()
    }
}

#[cfg(test)]
mod tests;
