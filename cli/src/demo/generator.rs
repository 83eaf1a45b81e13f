//! The shop's day, generated: the same bytes for the same seed, run and start.

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

/// What a day is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    pub seed: u64,
    /// Goes into every id and address, so that runs do not collide.
    pub run: String,
    pub people: usize,
    /// When the run began, and the day ended.
    pub start_ms: i64,
}

pub struct Day {
    pub people: Vec<Person>,
    /// One for each person, in the same order.
    pub books: Vec<PersonBooks>,
    /// In the order of their sending; one person's are in the order of their doing.
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
        // Stable: a person's requests of one moment stay in their order.
        day.requests.sort_by_key(|request| request.at_ms);
        day
    }

    /// Distinct events by name.
    pub fn events_by_name(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for event in self.books.iter().flat_map(|books| &books.events) {
            *counts.entry(event.name).or_default() += 1;
        }
        counts
    }

    /// Distinct events.
    pub fn events(&self) -> u64 {
        self.books.iter().map(|books| books.events.len() as u64).sum()
    }

    /// Events that are sent once more.
    pub fn repeats(&self) -> u64 {
        self.books.iter().map(|books| books.repeats).sum()
    }

    /// Whom the run's id finds: members by their id, guests by their address.
    pub fn findable(&self) -> u64 {
        self.people.iter().filter(|person| person.kind != Kind::Visitor).count() as u64
    }

    pub fn due_mails(&self) -> Vec<DueMail> {
        self.people.iter().zip(&self.books).flat_map(|(person, books)| due_mails(person, books)).collect()
    }

    pub fn due_in_app(&self) -> Vec<DueInApp> {
        self.people.iter().zip(&self.books).filter_map(|(person, books)| due_in_app(person, books)).collect()
    }

    /// The tokens of the phones to which one push each is due.
    pub fn due_pushes(&self) -> BTreeSet<&str> {
        self.books.iter().filter_map(|books| books.device.as_deref()).collect()
    }
}

#[cfg(test)]
mod tests;
