//! Receipts: what providers, devices and the project's own systems report about sent messages.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;

use super::counts;
use crate::campaigns::clicks::{self, Click};
use crate::campaigns::counts::{self as campaign_counts, Counts};
use database::months::{self, Month};
use database::{StoreError, by_project};
use domain::message::{Channel, DeliveryState};
use kernel::ids::ProjectId;
use store_profiles::segments::dirty;

/// A report that a message has reached a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    pub message: Uuid,
    pub state: DeliveryState,
    pub at: Timestamp,
    /// For a failure: the reporter's text.
    pub reason: Option<String>,
    /// For a click: the URL of the link.
    pub url: Option<String>,
}

/// The result of applying receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The states that messages reached for the first time.
    pub reached: Vec<(Uuid, DeliveryState)>,
    /// Number of receipts for messages that are not in the ledger.
    pub unknown: usize,
}

/// The state of a message, and when it reached each state.
#[derive(Clone, Debug, PartialEq)]
struct MessageProgress {
    channel: Channel,
    status: DeliveryState,
    reason: Option<String>,
    delivered_at: Option<Timestamp>,
    opened_at: Option<Timestamp>,
    clicked_at: Option<Timestamp>,
    failed_at: Option<Timestamp>,
    bounced_at: Option<Timestamp>,
    complained_at: Option<Timestamp>,
}

impl MessageProgress {
    /// Returns the states that it has reached since `before`.
    fn reached_since(&self, before: &Self) -> impl Iterator<Item = DeliveryState> {
        use DeliveryState::{Bounced, Clicked, Complained, Delivered, Failed, Opened};
        let times = [
            (Delivered, before.delivered_at, self.delivered_at),
            (Opened, before.opened_at, self.opened_at),
            (Clicked, before.clicked_at, self.clicked_at),
            (Failed, before.failed_at, self.failed_at),
            (Bounced, before.bounced_at, self.bounced_at),
            (Complained, before.complained_at, self.complained_at),
        ];
        times.into_iter().filter(|(_, before, after)| before.is_none() && after.is_some()).map(|(state, ..)| state)
    }

    /// Applies a receipt. The state only moves forward; each state keeps the time that is reported first, even if it is
    /// reported late.
    fn apply(&mut self, receipt: &Receipt) {
        let next = self.status.after(receipt.state);
        let moved = next != self.status;
        if moved {
            self.status = next;
            self.reason = receipt.reason.clone().or(self.reason.take());
        }
        let time = match receipt.state {
            DeliveryState::Delivered => &mut self.delivered_at,
            DeliveryState::Opened => &mut self.opened_at,
            DeliveryState::Clicked => &mut self.clicked_at,
            // Of the final states, only the one that was reached has a time.
            DeliveryState::Failed if moved => &mut self.failed_at,
            DeliveryState::Bounced if moved => &mut self.bounced_at,
            DeliveryState::Complained if moved => &mut self.complained_at,
            _ => return,
        };
        *time = time.or(Some(receipt.at));
    }
}

/// Applies receipts to one project's messages. Ignores unknown IDs, and reports of states that are already recorded. If
/// a message is being sent, its outcome is written as well, but it is never sent again.
pub async fn apply(
    tx: &Transaction<'_>,
    project: ProjectId,
    receipts: &[Receipt],
    now: Timestamp,
) -> Result<Applied, StoreError> {
    let ids: Vec<Uuid> = receipts.iter().map(|r| r.message).collect();
    let mut rows = Vec::new();
    for (month, ids) in months::split_existing(tx, "message", &ids, |id| *id).await? {
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let within = month.condition("m.id");
        let sql = format!(
            "SELECT m.* FROM (SELECT DISTINCT unnest($2::uuid[]) AS id ORDER BY 1) AS w CROSS JOIN LATERAL \
             (SELECT m.id, m.status, m.status_reason, m.delivered_at, m.opened_at, m.clicked_at, m.failed_at, \
             m.bounced_at, m.complained_at, m.channel, m.campaign_id, m.user_id, m.variant, m.occurrence \
             FROM message m WHERE m.project_id = $1 AND m.id = w.id AND {within} AND m.id BETWEEN $3 AND $4 OFFSET 0 \
             FOR UPDATE OF m) AS m"
        );
        let statement = month.prepare(tx, &sql).await?;
        rows.extend(tx.query(&statement, &[&project, &ids, &first, &last]).await?);
    }
    let mut messages: BTreeMap<Uuid, (MessageProgress, MessageProgress)> = BTreeMap::new();
    let mut clicked: BTreeMap<Uuid, Vec<&str>> = BTreeMap::new();
    for receipt in receipts {
        if let Some(url) = &receipt.url {
            clicked.entry(receipt.message).or_default().push(url);
        }
    }
    let (mut clicks, mut users, mut occurrences) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for row in rows {
        let (status, channel): (&str, &str) = (row.try_get("status")?, row.try_get("channel")?);
        let progress = MessageProgress {
            channel: super::channel(channel)?,
            status: super::status(status)?,
            reason: row.try_get("status_reason")?,
            delivered_at: row.try_get("delivered_at")?,
            opened_at: row.try_get("opened_at")?,
            clicked_at: row.try_get("clicked_at")?,
            failed_at: row.try_get("failed_at")?,
            bounced_at: row.try_get("bounced_at")?,
            complained_at: row.try_get("complained_at")?,
        };
        let id = row.try_get("id")?;
        messages.insert(id, (progress.clone(), progress));
        let user: Uuid = row.try_get("user_id")?;
        users.insert(id, user);
        if let Some(campaign) = row.try_get("campaign_id")? {
            let variant: Option<String> = row.try_get("variant")?;
            if let Some(occurrence) = row.try_get("occurrence")? {
                occurrences.insert(id, ((campaign, occurrence), variant.clone()));
            }
            let urls = clicked.remove(&id).unwrap_or_default().into_iter().map(str::to_owned);
            clicks.extend(urls.map(|url| Click { campaign, message: id, user, variant: variant.clone(), url }));
        }
    }
    clicks::add(tx, project, &clicks).await?;
    let unknown = ids.iter().filter(|id| !messages.contains_key(id)).count();
    for receipt in receipts {
        if let Some((_, progress)) = messages.get_mut(&receipt.message) {
            progress.apply(receipt);
        }
    }
    messages.retain(|_, (before, after)| before != after);
    let (mut reached, mut counted, mut stepped) = (Vec::new(), BTreeMap::new(), Counts::default());
    for (id, (before, after)) in &messages {
        if let Some((of, variant)) = occurrences.get(id)
            && before.status != after.status
        {
            stepped.step(*of, variant.as_deref(), (before.status, after.status), 1);
        }
        for state in after.reached_since(before) {
            reached.push((*id, state));
            *counted.entry((after.channel, state.as_str())).or_default() += 1;
        }
    }
    counts::add(tx, project, &counted, now).await?;
    campaign_counts::add(tx, project, &stepped).await?;
    let moved: BTreeSet<Uuid> = messages.keys().filter_map(|id| users.get(id)).copied().collect();
    dirty::mark_messages(tx, project, &moved.into_iter().collect::<Vec<_>>(), now).await?;
    let changed: Vec<(Uuid, MessageProgress)> = messages.into_iter().map(|(id, (_, after))| (id, after)).collect();
    for (month, changed) in months::split(&changed, |row| row.0) {
        write(tx, project, month, &changed, now).await?;
    }
    Ok(Applied { reached, unknown })
}

async fn write(
    tx: &Transaction<'_>,
    project: ProjectId,
    month: Month,
    changed: &[(Uuid, MessageProgress)],
    now: Timestamp,
) -> Result<(), StoreError> {
    let (Some((first, _)), Some((last, _))) = (changed.first(), changed.last()) else { return Ok(()) };
    let time = |of: fn(&MessageProgress) -> Option<Timestamp>| changed.iter().map(|(_, p)| of(p)).collect::<Vec<_>>();
    let ids: Vec<Uuid> = changed.iter().map(|(id, _)| *id).collect();
    let statuses: Vec<&str> = changed.iter().map(|(_, p)| p.status.as_str()).collect();
    let reasons: Vec<Option<&str>> = changed.iter().map(|(_, p)| p.reason.as_deref()).collect();
    let within = month.condition("m.id");
    let sql = if by_project::is_distributed() {
        format!(
            "UPDATE message AS m SET status = excluded.status, status_reason = excluded.status_reason, \
             delivered_at = excluded.delivered_at, opened_at = excluded.opened_at, clicked_at = excluded.clicked_at, \
             failed_at = excluded.failed_at, bounced_at = excluded.bounced_at, \
             complained_at = excluded.complained_at, updated_at = $13 FROM \
             (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at, status_reason, \
             delivered_at, opened_at, clicked_at, failed_at, bounced_at, complained_at FROM \
             (SELECT m.*, w.status, w.status_reason, delivered_at, opened_at, clicked_at, failed_at, bounced_at, \
             complained_at FROM (SELECT * FROM unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[], \
             $6::timestamptz[], $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], \
             $10::timestamptz[]) AS v (id, status, status_reason, delivered_at, opened_at, clicked_at, failed_at, \
             bounced_at, complained_at)) AS w CROSS JOIN LATERAL \
             (SELECT m.project_id, m.id, m.user_id, m.channel, m.lane, m.created_at, m.updated_at FROM message m \
             WHERE m.project_id = $1 AND m.id = w.id AND {within} \
             AND m.id BETWEEN $11 AND $12 OFFSET 0) AS m) AS v) AS excluded WHERE m.project_id = $1 \
             AND m.id = excluded.id AND {within}"
        )
    } else {
        format!(
            "INSERT INTO message AS m (project_id, id, user_id, channel, lane, status, created_at, updated_at, \
             status_reason, delivered_at, opened_at, clicked_at, failed_at, bounced_at, complained_at) \
             SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at, status_reason, \
             delivered_at, opened_at, clicked_at, failed_at, bounced_at, complained_at FROM \
             (SELECT m.*, w.status, w.status_reason, delivered_at, opened_at, clicked_at, failed_at, bounced_at, \
             complained_at FROM (SELECT * FROM unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[], \
             $6::timestamptz[], $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], \
             $10::timestamptz[]) AS v (id, status, status_reason, delivered_at, opened_at, clicked_at, failed_at, \
             bounced_at, complained_at)) AS w CROSS JOIN LATERAL \
             (SELECT m.project_id, m.id, m.user_id, m.channel, m.lane, m.created_at, m.updated_at FROM message m \
             WHERE m.project_id = $1 AND m.id = w.id AND {within} AND m.id BETWEEN $11 AND $12 OFFSET 0) AS m) AS v \
             ON CONFLICT (project_id, id) DO UPDATE SET status = excluded.status, \
             status_reason = excluded.status_reason, delivered_at = excluded.delivered_at, \
             opened_at = excluded.opened_at, clicked_at = excluded.clicked_at, failed_at = excluded.failed_at, \
             bounced_at = excluded.bounced_at, complained_at = excluded.complained_at, updated_at = $13"
        )
    };
    let statement = month.prepare(tx, &sql).await?;
    tx.execute(
        &statement,
        &[
            &project,
            &ids,
            &statuses,
            &reasons,
            &time(|p| p.delivered_at),
            &time(|p| p.opened_at),
            &time(|p| p.clicked_at),
            &time(|p| p.failed_at),
            &time(|p| p.bounced_at),
            &time(|p| p.complained_at),
            first,
            last,
            &now,
        ],
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(state: DeliveryState, second: i64) -> Receipt {
        Receipt { message: Uuid::nil(), state, at: Timestamp::from_second(second).unwrap(), reason: None, url: None }
    }

    #[test]
    fn late_receipt_sets_its_time_and_never_moves_the_state_back() {
        let mut progress = MessageProgress {
            channel: Channel::Push,
            status: DeliveryState::Sent,
            reason: None,
            delivered_at: None,
            opened_at: None,
            clicked_at: None,
            failed_at: None,
            bounced_at: None,
            complained_at: None,
        };
        let before = progress.clone();
        progress.apply(&receipt(DeliveryState::Opened, 5));
        progress.apply(&receipt(DeliveryState::Delivered, 4));
        progress.apply(&receipt(DeliveryState::Opened, 9));
        progress.apply(&receipt(DeliveryState::Failed, 9));
        let second = |at: Option<Timestamp>| at.map(Timestamp::as_second);
        assert_eq!(progress.status, DeliveryState::Opened);
        assert_eq!((second(progress.delivered_at), second(progress.opened_at)), (Some(4), Some(5)));
        assert_eq!(progress.failed_at, None);
        let reached: Vec<_> = progress.reached_since(&before).collect();
        assert_eq!(reached, [DeliveryState::Delivered, DeliveryState::Opened]);
        let complaint = Receipt { reason: Some("spam".into()), ..receipt(DeliveryState::Complained, 10) };
        progress.apply(&complaint);
        assert_eq!((progress.status, progress.reason.as_deref()), (DeliveryState::Complained, Some("spam")));
        assert_eq!(second(progress.complained_at), Some(10));
    }
}
