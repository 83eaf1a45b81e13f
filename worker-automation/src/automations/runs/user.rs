//! Loads a run's user, as far as its automation needs it.

use std::collections::{BTreeSet, HashSet};

use automation::journey::{Program, RunUser};
use database::StoreError;
use jiff::Timestamp;
use serde_json::Value;
use store_profiles::segments::{evaluate, user_facts};
use store_profiles::users::read;
use store_profiles::users::record::ProjectUserId;

use super::RunContext;

/// Loads a user as of the transaction, including changes by earlier items of the batch and earlier steps.
///
/// Returns `None` if the user no longer exists.
pub async fn load(
    ctx: &RunContext<'_>,
    key: ProjectUserId,
    program: &Program,
    now: Timestamp,
) -> Result<Option<RunUser>, StoreError> {
    let rules = program.user_rules();
    let profile = ctx.users.profile(key).filter(|profile| profile.merged_into.is_none());
    if let Some(profile) = profile
        && !Program::needs_more_than_profile(rules)
    {
        return Ok(Some(RunUser {
            id: key.1,
            external_id: profile.external_id.clone(),
            anonymous_id: profile.anonymous_id.clone(),
            email: profile.email.clone(),
            name: profile.name.clone(),
            properties: profile.properties.clone(),
            // Unused: the automation's rules need only the profile.
            created_at: profile.last_seen_at,
            last_seen_at: profile.last_seen_at,
            platforms: BTreeSet::new(),
            counted: Vec::new(),
            segments: HashSet::new(),
            segments_change_at: None,
        }));
    }
    let Some(mut user) = read::get(ctx.tx, key.0, key.1).await? else { return Ok(None) };
    if let Some(profile) = profile {
        user.email.clone_from(&profile.email);
        user.name.clone_from(&profile.name);
        user.properties = Value::Object(profile.properties.clone());
    }
    let segments = evaluate::definitions(ctx.tx, key.0, &rules::segments(rules)).await?;
    Ok(Some(user_facts::load(ctx.tx, key.0, user, (rules, &segments), now).await?.into()))
}
