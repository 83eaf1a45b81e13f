//! Counts events by the day of their receipt in their project's timezone, so that reports need only the counts.
//!
//! Existing counts stay unchanged when a project's timezone changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use database::{StoreError, Transaction};
use foldhash::HashMap;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use kernel::ids::{self, ProjectId};
use store_profiles::events::counters;
use store_projects::projects;

use crate::record::new_event::NewEvent;

/// Timezones of projects that do not use UTC, as of a change sequence number.
#[derive(Debug, Default)]
struct Zones {
    seq: Option<i64>,
    by_project: HashMap<ProjectId, TimeZone>,
}

impl Zones {
    fn new(seq: i64, named: Vec<(ProjectId, String)>) -> Self {
        // An unknown timezone name counts as UTC.
        let zone = |(project, name): (ProjectId, String)| Some((project, TimeZone::get(&name).ok()?));
        Self { seq: Some(seq), by_project: named.into_iter().filter_map(zone).collect() }
    }

    fn of(&self, project: ProjectId) -> TimeZone {
        self.by_project.get(&project).cloned().unwrap_or(TimeZone::UTC)
    }

    fn day(&self, project: ProjectId, at: Timestamp) -> Date {
        at.to_zoned(self.of(project)).date()
    }
}

/// Cache of the projects' timezones.
#[derive(Default)]
pub struct TimezoneCache(ArcSwap<Zones>);

impl TimezoneCache {
    /// Reloads the timezones if `seq`, the number of the newest project change, has changed.
    pub async fn refresh(&self, tx: &Transaction<'_>, seq: i64) -> Result<(), StoreError> {
        if self.0.load().seq != Some(seq) {
            self.0.store(Arc::new(Zones::new(seq, projects::timezones_other_than_utc(tx).await?)));
        }
        Ok(())
    }

    /// Returns a project's timezone.
    pub fn timezone(&self, project: ProjectId) -> TimeZone {
        self.0.load().of(project)
    }

    /// Counts new events by project, day and name. Returns the projects.
    pub async fn count(
        &self,
        tx: &Transaction<'_>,
        now: Timestamp,
        new: &[NewEvent<'_>],
    ) -> Result<Vec<ProjectId>, StoreError> {
        let zones = self.0.load();
        // UTC offsets are whole minutes, so one lookup per project and minute is enough.
        let mut days: HashMap<(ProjectId, i64), Date> = HashMap::default();
        let mut counts: BTreeMap<(ProjectId, Date), counters::NameCounts<'_>> = BTreeMap::new();
        for event in new {
            let (project, received) = (event.item.project, event.item.received);
            let minute = received.as_second().div_euclid(60);
            let day = *days.entry((project, minute)).or_insert_with(|| zones.day(project, received));
            *counts.entry((project, day)).or_default().entry(event.name).or_default() += 1;
        }
        counters::add(tx, ids::fresh(now.as_millisecond()), &counts).await?;
        Ok(counts.into_keys().map(|(project, _)| project).collect())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn day_depends_on_project_timezone() {
        let [utc, tokyo, kolkata, lost] = [1, 2, 3, 4].map(|n| ProjectId(Uuid::from_u128(n)));
        let named = [(tokyo, "Asia/Tokyo"), (kolkata, "Asia/Kolkata"), (lost, "Atlantis/Capital")];
        let zones = Zones::new(7, named.map(|(p, name)| (p, name.to_owned())).to_vec());
        for (at, project, day) in [
            ("2026-03-01T14:59:59Z", tokyo, "2026-03-01"),
            ("2026-03-01T15:00:00Z", tokyo, "2026-03-02"),
            ("2026-03-01T18:29:59Z", kolkata, "2026-03-01"),
            ("2026-03-01T18:30:00Z", kolkata, "2026-03-02"),
            ("2026-03-01T23:59:59Z", utc, "2026-03-01"),
            ("2026-03-01T23:59:59Z", lost, "2026-03-01"),
        ] {
            assert_eq!(zones.day(project, at.parse().unwrap()).to_string(), day, "{at}");
        }
    }
}
