//! Users' subscription preferences. Only explicit choices are stored; without one, the group's default applies.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use crate::subscription_groups::{self, SubscriptionGroup};
use crate::users::record::ProjectUserId;
use database::StoreError;
use database::by_project::{self, ByProject};
use domain::subscription::Source;
use kernel::ids::ProjectId;

/// A user's choice for one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub user_id: Uuid,
    pub group_id: Uuid,
    pub subscribed: bool,
    pub source: Source,
    /// Time at which the API accepted it.
    pub changed_at: Timestamp,
}

/// Stores choices. The latest choice of a user and group wins, in whatever order they arrive.
///
/// Skips groups that no longer exist, and choices from the preference page for groups that it does not show.
pub async fn put(tx: &Transaction<'_>, project: ProjectId, choices: &[Choice]) -> Result<(), StoreError> {
    // ON CONFLICT cannot update the same row twice in one statement.
    let mut latest: HashMap<(Uuid, Uuid), &Choice> = HashMap::new();
    for choice in choices {
        let kept = latest.entry((choice.user_id, choice.group_id)).or_insert(choice);
        if choice.changed_at >= kept.changed_at {
            *kept = choice;
        }
    }
    if latest.is_empty() {
        return Ok(());
    }
    let mut choices: Vec<&Choice> = latest.into_values().collect();
    choices.sort_unstable_by_key(|choice| (choice.user_id, choice.group_id));
    let sql = "INSERT INTO subscription AS old (project_id, user_id, group_id, subscribed, source, changed_at) \
               SELECT $1, u, v.g, s, w, t \
               FROM unnest($2::uuid[], $3::uuid[], $4::boolean[], $5::text[], $6::timestamptz[]) AS v (u, g, s, w, t) \
               JOIN subscription_group g ON g.project_id = $1 AND g.id = v.g AND g.deleted_at IS NULL \
               AND (g.public OR v.w <> 'page') \
               ON CONFLICT (project_id, user_id, group_id) DO UPDATE SET subscribed = excluded.subscribed, \
               source = excluded.source, changed_at = excluded.changed_at WHERE excluded.changed_at >= old.changed_at";
    let users: Vec<Uuid> = choices.iter().map(|choice| choice.user_id).collect();
    let groups: Vec<Uuid> = choices.iter().map(|choice| choice.group_id).collect();
    let subscribed: Vec<bool> = choices.iter().map(|choice| choice.subscribed).collect();
    let sources: Vec<&str> = choices.iter().map(|choice| choice.source.as_str()).collect();
    let times: Vec<Timestamp> = choices.iter().map(|choice| choice.changed_at).collect();
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&project, &users, &groups, &subscribed, &sources, &times]).await?;
    Ok(())
}

/// Moves the choices of merged users to the users they were merged into.
///
/// Both are the same human, so the latest choice for a group wins: a user who has just unsubscribed is not resubscribed
/// by logging in.
pub async fn reassign(tx: &Transaction<'_>, merges: &[(ProjectUserId, Uuid)]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "WITH gone AS (DELETE FROM subscription s USING unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v (p, f, t) \
         WHERE s.project_id = v.p AND s.user_id = v.f RETURNING s.project_id, v.t, s.group_id, s.subscribed, \
         s.source, s.changed_at), latest AS (SELECT DISTINCT ON (project_id, t, group_id) * FROM gone \
         ORDER BY project_id, t, group_id, changed_at DESC) \
         INSERT INTO subscription AS old (project_id, user_id, group_id, subscribed, source, changed_at) \
         SELECT project_id, t, group_id, subscribed, source, changed_at FROM latest \
         ON CONFLICT (project_id, user_id, group_id) DO UPDATE \
         SET subscribed = excluded.subscribed, source = excluded.source, changed_at = excluded.changed_at \
         WHERE excluded.changed_at > old.changed_at",
        &["v.p"],
    );
    let write = async |statement: Statement, part: &[(ProjectUserId, Uuid)]| {
        let (projects, from, into) = by_project::merge_columns(part);
        Ok(tx.execute(&statement, &[&projects, &from, &into]).await?)
    };
    by_project::each(tx, merges, |merge| merge.0.0, sql, write).await?;
    Ok(())
}

/// A user's subscription to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub group: SubscriptionGroup,
    /// The user's choice, its source and its time; none if the user has made no choice.
    pub chosen: Option<(bool, Source, Timestamp)>,
}

impl Subscription {
    pub fn is_subscribed(&self) -> bool {
        self.chosen.map_or(self.group.default_subscribed, |(subscribed, ..)| subscribed)
    }
}

/// Returns a user's subscriptions to all groups of the project, the oldest group first.
pub async fn of_user(db: &impl GenericClient, project: ProjectId, user: Uuid) -> Result<Vec<Subscription>, StoreError> {
    let sql = "SELECT g.id, g.name, g.description, g.default_subscribed, g.public, g.created_at, g.updated_at, \
               s.subscribed, s.source, s.changed_at FROM subscription_group g LEFT JOIN subscription s \
               ON s.project_id = $1 AND s.user_id = $2 AND s.group_id = g.id WHERE g.project_id = $1 \
               AND g.deleted_at IS NULL ORDER BY g.id";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &user]).await?;
    rows.iter()
        .map(|row| Ok(Subscription { group: subscription_groups::from_row(row)?, chosen: chosen(row)? }))
        .collect()
}

fn chosen(row: &Row) -> Result<Option<(bool, Source, Timestamp)>, StoreError> {
    let Some(subscribed) = row.try_get("subscribed")? else { return Ok(None) };
    let source: &str = row.try_get("source")?;
    let corrupt = || StoreError::Corrupt(format!("a subscription's source {source:?}"));
    Ok(Some((subscribed, Source::parse(source).ok_or_else(corrupt)?, row.try_get("changed_at")?)))
}

/// Returns whether each user is subscribed to the group, by pair of user and group. Pairs with a group that does not
/// exist are omitted.
pub async fn subscribed(
    db: &impl GenericClient,
    project: ProjectId,
    pairs: &[(Uuid, Uuid)],
) -> Result<HashMap<(Uuid, Uuid), bool>, StoreError> {
    if pairs.is_empty() {
        return Ok(HashMap::new());
    }
    let (users, groups): (Vec<Uuid>, Vec<Uuid>) = pairs.iter().copied().unzip();
    let sql = "SELECT v.u AS user_id, v.g AS group_id, coalesce(s.subscribed, g.default_subscribed) AS subscribed \
               FROM unnest($2::uuid[], $3::uuid[]) AS v (u, g) \
               JOIN subscription_group g ON g.project_id = $1 AND g.id = v.g AND g.deleted_at IS NULL \
               LEFT JOIN subscription s ON s.project_id = $1 AND s.user_id = v.u AND s.group_id = v.g";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &users, &groups]).await?;
    rows.iter()
        .map(|row| Ok(((row.try_get("user_id")?, row.try_get("group_id")?), row.try_get("subscribed")?)))
        .collect()
}

/// Removes up to 5,000 choices for a group; returns how many.
pub async fn remove_of(db: &impl GenericClient, project: ProjectId, group: Uuid) -> Result<u64, StoreError> {
    let sql = "DELETE FROM subscription WHERE project_id = $1 AND group_id = $2 AND ctid = ANY(ARRAY(SELECT ctid \
               FROM subscription WHERE project_id = $1 AND group_id = $2 LIMIT 5000))";
    Ok(db.execute(sql, &[&project, &group]).await?)
}
