//! Clicks on the links of a campaign's messages: one row per message and link, so that users are counted as exactly as
//! clicks and no transaction waits for another message's row. The recorder writes them with the messages' delivery
//! events.

use std::collections::BTreeSet;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::occurrence::OccurrenceRows;
use super::sending::{self, UnfinishedOccurrences};
use database::StoreError;
use kernel::ids::{self, ProjectId};

/// Number of links of a campaign that are counted separately, in the order of their first clicks: a link may be
/// different for each user. Concurrent recorders that meet new links may exceed it by a few.
pub const MAX_LINKS: i64 = 200;
/// Maximum number of rows removed by one statement.
pub const SLICE: i64 = 5_000;

/// A click in a message of a campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct Click {
    pub campaign: Uuid,
    pub message: Uuid,
    /// The recipient of the message.
    pub user: Uuid,
    pub variant: Option<String>,
    pub url: String,
}

/// Counts clicks of one project.
pub(crate) async fn add(tx: &impl GenericClient, project: ProjectId, clicks: &[Click]) -> Result<(), StoreError> {
    if clicks.is_empty() {
        return Ok(());
    }
    let campaigns: Vec<Uuid> = clicks.iter().map(|click| click.campaign).collect();
    let urls: Vec<&str> = clicks.iter().map(|click| click.url.as_str()).collect();
    let sql = "INSERT INTO campaign_link (project_id, campaign_id, link, url) \
               SELECT $1, n.campaign, n.link, n.url FROM \
               (SELECT *, row_number() OVER (PARTITION BY campaign ORDER BY link) AS nth FROM \
               (SELECT DISTINCT campaign, md5(url)::uuid AS link, url FROM unnest($2::uuid[], $3::text[]) AS v (campaign, url)) v \
               WHERE NOT EXISTS (SELECT FROM campaign_link l WHERE l.project_id = $1 AND l.campaign_id = v.campaign AND l.link = v.link)) n \
               WHERE nth + (SELECT count(*) FROM campaign_link l WHERE l.project_id = $1 AND l.campaign_id = n.campaign) <= $4 \
               ORDER BY n.campaign, n.link ON CONFLICT DO NOTHING";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &campaigns, &urls, &MAX_LINKS]).await?;
    let messages: Vec<Uuid> = clicks.iter().map(|click| click.message).collect();
    let users: Vec<Uuid> = clicks.iter().map(|click| click.user).collect();
    let variants: Vec<Option<&str>> = clicks.iter().map(|click| click.variant.as_deref()).collect();
    let sql = "INSERT INTO campaign_click AS c (project_id, campaign_id, message_id, link, user_id, variant, clicks) \
               SELECT $1, v.campaign, v.message, coalesce(l.link, $7), v.person, v.variant, count(*) \
               FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::uuid[], $6::text[]) AS v (campaign, url, message, person, variant) \
               LEFT JOIN campaign_link l ON l.project_id = $1 AND l.campaign_id = v.campaign AND l.link = md5(v.url)::uuid \
               GROUP BY v.campaign, v.message, coalesce(l.link, $7), v.person, v.variant ORDER BY 2, 3, 4 \
               ON CONFLICT (project_id, campaign_id, message_id, link) DO UPDATE SET clicks = c.clicks + excluded.clicks";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&project, &campaigns, &urls, &messages, &users, &variants, &Uuid::nil()]).await?;
    Ok(())
}

/// How often a link was clicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkCount {
    /// `None`: all links beyond those that are counted separately.
    pub url: Option<String>,
    pub variant: Option<String>,
    pub clicks: i64,
    /// Number of messages in which it was clicked.
    pub messages: i64,
}

/// Returns the link counts of one occurrence by variant.
pub async fn by_link(db: &impl GenericClient, of: &OccurrenceRows) -> Result<Vec<LinkCount>, StoreError> {
    let sql = "SELECT l.url, c.variant, c.clicks, c.messages FROM \
               (SELECT link, variant, sum(clicks)::bigint AS clicks, count(*) AS messages FROM campaign_click \
               WHERE project_id = $1 AND campaign_id = $2 AND message_id BETWEEN $3 AND $4 GROUP BY link, variant) c \
               LEFT JOIN campaign_link l ON l.project_id = $1 AND l.campaign_id = $2 AND l.link = c.link";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&of.project, &of.campaign, &of.first, &of.last]).await?;
    let count = |row: &Row| -> Result<LinkCount, StoreError> {
        Ok(LinkCount {
            url: row.try_get("url")?,
            variant: row.try_get("variant")?,
            clicks: row.try_get("clicks")?,
            messages: row.try_get("messages")?,
        })
    };
    rows.iter().map(count).collect()
}

/// Removes the clicks and links of a campaign that is deleted.
pub(super) async fn forget(tx: &impl GenericClient, project: ProjectId, campaign: Uuid) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM campaign_click WHERE project_id = $1 AND campaign_id = $2",
        "DELETE FROM campaign_link WHERE project_id = $1 AND campaign_id = $2",
    ] {
        tx.execute(sql, &[&project, &campaign]).await?;
    }
    Ok(())
}

/// Removes at most [`SLICE`] clicks of a project in messages of occurrences that began before a time, and the links
/// that have no other clicks. Returns the number of clicks. A message's ID contains the time of its occurrence. Clicks
/// of an occurrence that has not ended stay.
pub async fn remove_slice(tx: &Transaction<'_>, project: ProjectId, before: Timestamp) -> Result<u64, StoreError> {
    let bound = ids::lower_bound(before.as_millisecond());
    let sql = "DELETE FROM campaign_click WHERE project_id = $1 AND ctid = ANY(ARRAY(SELECT old.place FROM campaign g CROSS JOIN LATERAL \
               (SELECT ctid AS place FROM campaign_click c WHERE c.project_id = $1 AND c.campaign_id = g.id AND c.message_id < $2 \
               AND NOT EXISTS (SELECT FROM unnest($4::uuid[], $5::uuid[]) AS s (campaign, first) WHERE s.campaign = g.id AND s.first <= c.message_id) \
               ORDER BY c.message_id LIMIT $3) old WHERE g.project_id = $1 LIMIT $3)) RETURNING campaign_id";
    let UnfinishedOccurrences { campaigns, first_ids } = sending::under_way(tx, project).await?;
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&project, &bound, &SLICE, &campaigns, &first_ids]).await?;
    let campaigns: BTreeSet<Uuid> = rows.iter().map(|row| row.try_get("campaign_id")).collect::<Result<_, _>>()?;
    let sql = "DELETE FROM campaign_link l WHERE project_id = $1 AND campaign_id = ANY($2) AND NOT EXISTS (SELECT FROM campaign_click c \
               WHERE c.project_id = $1 AND c.campaign_id = l.campaign_id AND c.link = l.link)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &campaigns.into_iter().collect::<Vec<_>>()]).await?;
    Ok(rows.len() as u64)
}
