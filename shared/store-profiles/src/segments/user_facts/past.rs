//! A user's past events and messages, one by one, for dry runs, whose simulated time is ahead of the present.

use std::collections::HashSet;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::super::evaluate::Definitions;
use super::{behaviours, in_order, lists, numbers, stats_of};
use crate::users::read;
use automation::journey;
use database::StoreError;
use kernel::ids::ProjectId;
use rules::eval::{self, Counted};
use rules::history::{History, PastActivity};
use rules::{Behaviour, Rule, slide, sql};

/// Maximum number of most recent events or messages of one behaviour that are loaded one by one.
const MAX_OCCURRENCES: usize = 10_000;

/// The part of a user's past that rules, and the segments they depend on, ask about.
#[derive(Debug)]
pub struct Past {
    histories: Vec<History>,
    /// The manual segments that contain the user.
    lists: HashSet<Uuid>,
    /// The segments that have rules, each after those that it depends on.
    segments: Vec<(Uuid, Vec<Rule>)>,
}

impl Past {
    /// Returns the past of an unknown user.
    pub fn of_unknown_user(rules: &[Rule], segments: &Definitions) -> Self {
        let none = |behaviour: &Behaviour| History::new(behaviour.clone(), Vec::new(), 0);
        Self {
            histories: behaviours(rules, segments).into_iter().map(none).collect(),
            lists: HashSet::new(),
            segments: in_order(segments).into_iter().map(|(id, rules)| (id, rules.to_vec())).collect(),
        }
    }

    /// Loads the past of a user.
    pub async fn load(
        db: &impl GenericClient,
        project: ProjectId,
        user: Uuid,
        (rules, segments): (&[Rule], &Definitions),
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let ids = read::all_ids(db, project, user).await?;
        let mut past = Self { lists: lists(db, project, &ids).await?, ..Self::of_unknown_user(rules, segments) };
        for history in &mut past.histories {
            *history = read_history(db, project, &ids, history.behaviour(), now).await?;
        }
        Ok(past)
    }

    /// Adds a simulated event.
    pub fn add_event(&mut self, event: &str, properties: &Map<String, Value>, at: Timestamp) {
        self.histories.iter_mut().for_each(|history| history.record(event, properties, at));
    }

    /// Sets the user's behaviour and segments as of `now`.
    pub fn apply_to(&self, person: &mut journey::RunUser, now: Timestamp) {
        person.counted = self.histories.iter().map(|history| history.counted(now)).collect();
        person.segments.clone_from(&self.lists);
        person.segments_change_at = None;
        for (id, rules) in &self.segments {
            if eval::holds(rules, person, now) {
                person.segments.insert(*id);
            }
            let edge = |behaviour: &Behaviour| Counted::of(&person.counted, behaviour)?.edge;
            let changes_at = slide::next_change(rules, person, edge, now);
            person.segments_change_at = person.segments_change_at.into_iter().chain(changes_at).min();
        }
    }
}

async fn read_history(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
    behaviour: &Behaviour,
    now: Timestamp,
) -> Result<History, StoreError> {
    let query = sql::user_activities(project, ids, behaviour, now, MAX_OCCURRENCES);
    let params: Vec<&(dyn ToSql + Sync)> = query.params.iter().map(|p| p as &(dyn ToSql + Sync)).collect();
    let mut occurrences = Vec::new();
    for row in db.query(&query.sql, &params).await? {
        occurrences.push(PastActivity { at: row.try_get("at")?, numbers: numbers(&row, "numbers")? });
    }
    let older = if occurrences.len() < MAX_OCCURRENCES {
        0
    } else {
        stats_of(db, project, ids, behaviour, now).await?.stats.count - occurrences.len() as i64
    };
    Ok(History::new(behaviour.clone(), occurrences, older))
}
