//! Taking messages for sending: by a lease, and under a number that fences whoever held them before.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::by_id::{self, Lock};
use crate::ids::{self, ProjectId};
use crate::send::{Channel, Lane};
use crate::store::StoreError;
use crate::store::months::{self, Month};
use crate::trace::TraceContext;

/// A message that is this process's to send until its lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    pub project: ProjectId,
    pub id: Uuid,
    pub user_id: Uuid,
    pub channel: Channel,
    pub lane: Lane,
    /// Of a campaign's message.
    pub sending: Option<Sending>,
    pub template_id: Option<Uuid>,
    /// Only whoever is subscribed to it is sent the message.
    pub subscription_group_id: Option<Uuid>,
    /// Object `{subject?, body?, title?, userIds?}`.
    pub content: Value,
    /// Object: what the template sees beside the user.
    pub data: Value,
    /// This claim's number: nothing may be settled under another.
    pub attempt: i32,
    /// Provider failures so far that count against the limit.
    pub failures: i32,
    /// Calls of which the outcome was never learned, since it was last sent again by hand.
    pub ambiguous: i32,
    /// The claim before this one was never settled; its call, if there was one, is counted in `ambiguous`.
    pub lapsed: bool,
    pub created_at: Timestamp,
    /// From when on it may be sent: of a campaign when it was released, or else when it was made.
    pub released_at: Timestamp,
    pub trace: Option<TraceContext>,
}

/// One occurrence of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sending {
    pub campaign: Uuid,
    pub occurrence: i32,
    /// When it began, in Unix milliseconds: the time in the ids of its messages.
    pub started_ms: i64,
}

impl Sending {
    /// What the ids of its messages are derived from, followed by the user's id.
    pub fn key(&self) -> String {
        format!("{}:{}", self.campaign, self.occurrence)
    }
}

/// What was handed over, as a `w` of [`by_id::look_up`]: the same message may have been twice.
const WANTED: &str =
    "(SELECT DISTINCT id, attempt FROM unnest($2::uuid[], $3::int[]) AS v (id, attempt) ORDER BY id) AS w";

/// What of it is still to be sent, with the first and the last of its ids.
const READY: &str = "m.id BETWEEN $4 AND $5 AND m.attempt = w.attempt AND m.status = 'queued' \
     AND (m.campaign_id IS NULL OR EXISTS (SELECT FROM campaign c WHERE c.project_id = $1 AND c.id = m.campaign_id \
     AND c.status IN ('SENDING', 'SCHEDULED', 'COMPLETED'))) \
     AND NOT EXISTS (SELECT FROM project_removal WHERE project_id = $1)";

/// Claims those of a project's messages that still stand at the attempt they were handed over with, until `lease`.
///
/// The attempt is the whole condition: a row under somebody's lease has moved past the attempt of every hand-over but
/// one that the scheduler made after it saw that lease run out. Such a row's last call was never settled, which is
/// counted as ambiguous. A campaign's rows are left alone unless it is sending, or has done so: then they are dead letters
/// that are to be sent again. A row that is locked just now is left out: see [`claim_locked`]. Of a project that was
/// deleted nothing is sent.
pub async fn claim(
    db: &impl GenericClient,
    project: ProjectId,
    wanted: &[(Uuid, i32)],
    lease: Timestamp,
    now: Timestamp,
) -> Result<Vec<Claimed>, StoreError> {
    claim_by(db, project, wanted, lease, now, Lock::Skip).await
}

/// As [`claim`], but waits for whoever holds a row just now: most often it is another's by then, and is left to them, but whoever
/// only noted when it is due (`due::handed_over`) has claimed nothing. To be called in a transaction of its own, and for what
/// [`claim`] left out: rows are locked in the order of their ids, and only who holds no other may wait for one.
pub async fn claim_locked(
    db: &impl GenericClient,
    project: ProjectId,
    wanted: &[(Uuid, i32)],
    lease: Timestamp,
    now: Timestamp,
) -> Result<Vec<Claimed>, StoreError> {
    claim_by(db, project, wanted, lease, now, Lock::Wait).await
}

/// Those of the messages that [`claim`] would take now, or [`claim_locked`], without taking them: the others have moved on since they
/// were handed over. In the order of their ids.
pub async fn standing(
    db: &impl GenericClient,
    project: ProjectId,
    wanted: &[(Uuid, i32)],
) -> Result<Vec<(Uuid, i32)>, StoreError> {
    let mut standing = Vec::new();
    for (month, wanted) in months::split(wanted, |row| row.0) {
        let (ids, attempts): (Vec<Uuid>, Vec<i32>) = wanted.into_iter().unzip();
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let found = by_id::look_up(month, WANTED, "id, attempt", READY, Lock::None);
        let statement = month.prepare(db, &format!("SELECT m.id, m.attempt FROM {found}")).await?;
        for row in db.query(&statement, &[&project, &ids, &attempts, &first, &last]).await? {
            standing.push((row.try_get(0)?, row.try_get(1)?));
        }
    }
    Ok(standing)
}

async fn claim_by(
    db: &impl GenericClient,
    project: ProjectId,
    wanted: &[(Uuid, i32)],
    lease: Timestamp,
    now: Timestamp,
    lock: Lock,
) -> Result<Vec<Claimed>, StoreError> {
    let mut claimed = Vec::with_capacity(wanted.len());
    for (month, wanted) in months::split(wanted, |row| row.0) {
        claimed.extend(claim_in(db, project, (month, wanted), lease, now, lock).await?);
    }
    Ok(claimed)
}

async fn claim_in(
    db: &impl GenericClient,
    project: ProjectId,
    (month, wanted): (Month, Vec<(Uuid, i32)>),
    lease: Timestamp,
    now: Timestamp,
    lock: Lock,
) -> Result<Vec<Claimed>, StoreError> {
    let (ids, attempts): (Vec<Uuid>, Vec<i32>) = wanted.into_iter().unzip();
    let (first, last) = (ids.iter().min(), ids.iter().max());
    let sql = format!(
        "WITH free AS (SELECT m.* FROM {free}), held AS ({change} RETURNING m.*) \
         SELECT m.project_id, m.id, m.user_id, m.channel, m.lane, m.template_id, m.content, m.data, m.attempt, m.failures, \
         m.ambiguous - m.forgiven, free.claimed, m.created_at, coalesce(m.released_at, m.created_at), m.subscription_group_id, m.trace, m.campaign_id, m.occurrence \
         FROM held m JOIN free ON free.id = m.id",
        free = by_id::look_up(month, WANTED, &format!("{}, claimed", by_id::KEPT), READY, lock),
        change = by_id::change(
            month,
            "free",
            "",
            "attempt = m.attempt + 1, ambiguous = m.ambiguous + m.claimed::int, claimed = true, due_at = $6, updated_at = $7",
        ),
    );
    let statement = month.prepare(db, &sql).await?;
    let rows = db.query(&statement, &[&project, &ids, &attempts, &first, &last, &lease, &now]).await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<Claimed, StoreError> {
    let (channel, lane): (&str, &str) = (row.try_get(3)?, row.try_get(4)?);
    let id: Uuid = row.try_get(1)?;
    let occurrence = row.try_get::<_, Option<Uuid>>(16)?.zip(row.try_get::<_, Option<i32>>(17)?);
    Ok(Claimed {
        project: row.try_get(0)?,
        id,
        sending: occurrence.map(|(campaign, occurrence)| Sending {
            campaign,
            occurrence,
            started_ms: ids::time_ms(id),
        }),
        user_id: row.try_get(2)?,
        channel: super::channel(channel)?,
        lane: super::lane(lane)?,
        template_id: row.try_get(5)?,
        content: row.try_get(6)?,
        data: row.try_get(7)?,
        attempt: row.try_get(8)?,
        failures: row.try_get(9)?,
        ambiguous: row.try_get(10)?,
        lapsed: row.try_get(11)?,
        created_at: row.try_get(12)?,
        released_at: row.try_get(13)?,
        subscription_group_id: row.try_get(14)?,
        trace: TraceContext::from_column(row.try_get(15)?),
    })
}
