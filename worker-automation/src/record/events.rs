//! Writes a batch's events and finds out which were new.

use database::{StoreError, Transaction};
use foldhash::HashSet;
use kernel::ids::ProjectId;
use store_profiles::events::record::{self, NewEvent as Row};
use uuid::Uuid;

use crate::record::new_event::NewEvent;
use crate::record::recent::RecentEvents;

pub struct Inserted<'a> {
    pub events: Vec<NewEvent<'a>>,
    pub repeats: u64,
}

/// Inserts events; their IDs must be distinct.
///
/// With `trusted`, events that it does not remember are taken to be new. If one is not, this fails with a unique
/// violation.
pub async fn insert<'a>(
    tx: &Transaction<'_>,
    trusted: Option<&RecentEvents>,
    tracked: Vec<NewEvent<'a>>,
) -> Result<Inserted<'a>, StoreError> {
    let mut rows: Vec<Row<'_>> = tracked
        .iter()
        .map(|e| Row {
            project: e.item.project,
            id: e.item.id,
            client_id: e.item.dedupe,
            name: e.name,
            user_id: e.user.1,
            anonymous_id: e.item.user.anonymous.as_ref().map(|n| n.name.as_str()),
            properties: e.properties,
            ts: e.item.timestamp,
            received_at: e.item.received,
        })
        .collect();
    // Sorts by the widest index, so that neighboring rows touch the same pages.
    rows.sort_unstable_by_key(|e| (e.project, e.user_id, e.id));
    let suspect: Vec<bool> = match trusted {
        Some(recent) => recent.are_suspect(rows.iter().map(|e| (e.project, e.id))),
        None => vec![true; rows.len()],
    };
    let (mut new, mut doubtful) = (Vec::with_capacity(rows.len()), Vec::new());
    for (row, suspect) in rows.into_iter().zip(suspect) {
        if suspect { &mut doubtful } else { &mut new }.push(row);
    }
    let inserted = record::insert(tx, &doubtful).await?;
    record::copy(tx, &new).await?;
    let repeats: HashSet<(ProjectId, Uuid)> =
        doubtful.iter().map(|e| (e.project, e.id)).filter(|key| !inserted.contains(key)).collect();
    let events = tracked.into_iter().filter(|e| repeats.is_empty() || !repeats.contains(&(e.item.project, e.item.id)));
    Ok(Inserted { events: events.collect(), repeats: repeats.len() as u64 })
}
