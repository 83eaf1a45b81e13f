//! Applies the results of evaluation: memberships, starts and counts.

use std::collections::BTreeMap;

use database::{StoreError, Transaction};
use jiff::Timestamp;
use kernel::ids::{ProjectId, UserKey};
use store_profiles::segments::membership::{self, State};
use store_profiles::segments::starts::{self, EntryCount, NewStart};
use store_profiles::segments::user_facts::batch::{Evaluation, Evaluations, Pair};
use store_projects::projects;
use store_sending::automations;
use uuid::Uuid;

/// Returns the membership after a verdict; the default value means no row.
fn settled(before: State, verdict: Evaluation, now: Timestamp) -> State {
    let since = verdict.is_member.then(|| before.since.unwrap_or(now));
    // Keeps an earlier due time although it is outdated: an evaluation at that time costs less than a write for each
    // event that moves it.
    let due_at = match before.due_at.filter(|due| *due > now) {
        Some(due) => Some(verdict.due_at.map_or(due, |next| next.min(due))),
        None => verdict.due_at,
    };
    State { since, due_at }
}

/// How verdicts are applied.
#[derive(Clone, Copy)]
pub struct Settling {
    pub now: Timestamp,
    /// Number of partitions of the ingest stream.
    pub partitions: u16,
    /// The number of starts so far. If `None`, users who enter or leave are not counted and start nothing.
    pub starts: Option<i64>,
}

/// Writes changed memberships, and the starts and counts that follow.
pub async fn settle(
    tx: &Transaction<'_>,
    project: ProjectId,
    verdicts: &Evaluations,
    settling: Settling,
) -> Result<(), StoreError> {
    let pairs: Vec<Pair> = verdicts.by_pair.keys().copied().collect();
    let states = membership::states(tx, project, &pairs).await?;
    let (mut put, mut removed, mut transitions) = (Vec::new(), Vec::new(), Vec::new());
    for (pair, verdict) in &verdicts.by_pair {
        let before = states.get(pair).copied().unwrap_or_default();
        let after = settled(before, *verdict, settling.now);
        if before.since.is_some() != after.since.is_some() {
            transitions.push((*pair, after.since.is_some()));
        }
        if after == State::default() {
            removed.extend(states.contains_key(pair).then_some(*pair));
        } else if after != before {
            put.push((*pair, after));
        }
    }
    membership::put(tx, project, &put).await?;
    membership::remove(tx, project, &removed).await?;
    match settling.starts {
        Some(starts) if !transitions.is_empty() => {
            record_transitions(tx, project, verdicts, &transitions, settling, starts).await
        }
        _ => Ok(()),
    }
}

/// Counts users who entered or left, and starts the automations that wait for it.
async fn record_transitions(
    tx: &Transaction<'_>,
    project: ProjectId,
    verdicts: &Evaluations,
    transitions: &[(Pair, bool)],
    Settling { now, partitions, .. }: Settling,
    before: i64,
) -> Result<(), StoreError> {
    let waiting = automations::by_segments(tx, project).await?;
    let mut counts: BTreeMap<Uuid, EntryCount> = BTreeMap::new();
    let mut new = Vec::new();
    for ((segment, user_id), entered) in transitions {
        let count = counts.entry(*segment).or_default();
        *(if *entered { &mut count.entered } else { &mut count.exited }) += 1;
        let Some(user) = verdicts.users.get(user_id) else { continue };
        let key = UserKey::of(user.external_id.as_deref(), user.anonymous_id.as_deref());
        let partition = key.map_or(0, |key| key.partition(project, partitions)).cast_signed();
        let by_this = waiting.iter().filter(|by| by.segment == *segment && by.entered == *entered);
        new.extend(by_this.map(|by| NewStart {
            automation: by.automation,
            segment: *segment,
            user_id: *user_id,
            partition,
            entered: *entered,
            at: now,
        }));
    }
    starts::insert(tx, project, before, &new).await?;
    let day = now.to_zoned(projects::timezone(tx, project).await?).date();
    starts::count(tx, project, day, &counts).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn remaining_member_keeps_entry_time() {
        let verdict = |is_member, due: Option<i64>| Evaluation { is_member, due_at: due.map(at) };
        let state = |since: Option<i64>, due: Option<i64>| State { since: since.map(at), due_at: due.map(at) };
        for (before, verdict, after) in [
            (state(None, None), verdict(true, None), state(Some(100), None)),
            (state(Some(5), None), verdict(true, None), state(Some(5), None)),
            (state(Some(5), Some(90)), verdict(false, None), state(None, None)),
            (state(None, None), verdict(false, Some(120)), state(None, Some(120))),
            // A future due time is kept or moved earlier; a past one is replaced.
            (state(Some(5), Some(110)), verdict(true, Some(120)), state(Some(5), Some(110))),
            (state(Some(5), Some(130)), verdict(true, Some(120)), state(Some(5), Some(120))),
            (state(Some(5), Some(130)), verdict(true, None), state(Some(5), Some(130))),
            (state(Some(5), Some(100)), verdict(true, Some(120)), state(Some(5), Some(120))),
        ] {
            assert_eq!(settled(before, verdict, at(100)), after, "{before:?} {verdict:?}");
        }
    }
}
