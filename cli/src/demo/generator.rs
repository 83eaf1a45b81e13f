//! Generates the shop's day: the same bytes for the same seed, run and start.

pub mod catalog;
pub mod clocks;
mod dice;
pub mod expected;
mod names;
pub mod people;
pub mod requests;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};

use expected::{DueInApp, DueMail, PersonBooks, due_in_app, due_mails};
use people::{Kind, Person};
use requests::Request;

/// The inputs of a generated day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    pub seed: u64,
    /// Part of every ID and address, so that runs do not collide.
    pub run: String,
    pub people: usize,
    /// When the run began, which is when the generated day ends.
    pub start_ms: i64,
}

pub struct Day {
    pub people: Vec<Person>,
    /// Expected results of each user, in the order of `people`.
    pub books: Vec<PersonBooks>,
    /// In sending order. Each user's requests are in the order of the user's actions.
    pub requests: Vec<Request>,
}

impl Day {
    pub fn generate(recipe: &Recipe) -> Self {
        let mut day = Self { people: Vec::new(), books: Vec::new(), requests: Vec::new() };
        for index in 0..recipe.people {
            let person = people::person(recipe.seed, &recipe.run, index);
            let actions = sessions::day(recipe.seed, &recipe.run, index, &person, recipe.start_ms);
            let (requests, books) = requests::requests(recipe.seed, &recipe.run, index, &person, &actions);
            day.people.push(person);
            day.books.push(books);
            day.requests.extend(requests);
        }
        // The sort is stable: a user's simultaneous requests keep their order.
        day.requests.sort_by_key(|request| request.at_ms);
        day
    }

    /// Counts distinct events by name.
    pub fn events_by_name(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for event in self.books.iter().flat_map(|books| &books.events) {
            *counts.entry(event.name).or_default() += 1;
        }
        counts
    }

    /// Counts distinct events.
    pub fn events(&self) -> u64 {
        self.books.iter().map(|books| books.events.len() as u64).sum()
    }

    /// Counts events that are sent again.
    pub fn repeats(&self) -> u64 {
        self.books.iter().map(|books| books.repeats).sum()
    }

    /// Counts the users whom a search for the run's ID finds: members by ID, guests by address.
    pub fn findable(&self) -> u64 {
        self.people.iter().filter(|person| person.kind != Kind::Visitor).count() as u64
    }

    pub fn due_mails(&self) -> Vec<DueMail> {
        self.people.iter().zip(&self.books).flat_map(|(person, books)| due_mails(person, books)).collect()
    }

    pub fn due_in_app(&self) -> Vec<DueInApp> {
        self.people.iter().zip(&self.books).filter_map(|(person, books)| due_in_app(person, books)).collect()
    }

    /// Returns the tokens of the phones to which one push each is due.
    pub fn due_pushes(&self) -> BTreeSet<&str> {
        self.books.iter().filter_map(|books| books.device.as_deref()).collect()
    }
}

#[cfg(test)]
mod tests;
