//! Checks that everything an automation refers to exists: templates, other automations, segments and subscription
//! groups.

use std::collections::HashMap;

use automation::Action;
use deadpool_postgres::Transaction;
use domain::message::Channel;
use rules::parse::named_segments;
use serde_json::Value;
use store_profiles::{segments, subscription_groups};
use store_projects::templates;
use store_sending::automations::{self, Automation};
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::{ApiError, Problem};

/// Checks all references.
///
/// Referenced templates, segments and groups cannot be deleted until the transaction ends. If the automation has, or
/// had, a segment trigger, the caller must have called `segments::begin_change`.
pub async fn check(cx: &Context<'_>, tx: &Transaction<'_>, automation: &Automation) -> Result<(), ApiError> {
    let mut problems = check_templates(cx, tx, automation).await?;
    problems.extend(check_started(cx, tx, automation).await?);
    problems.extend(check_segments(cx, tx, automation).await?);
    problems.extend(check_groups(cx, tx, automation).await?);
    if problems.is_empty() { Ok(()) } else { Err(ApiError::Invalid(problems)) }
}

/// Checks that each step's template exists and matches the step's channel.
async fn check_templates(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    automation: &Automation,
) -> Result<Vec<Problem>, ApiError> {
    let references = automation.definition.templates();
    let ids: Vec<Uuid> = references.iter().map(|(.., id)| *id).collect();
    let channels: HashMap<Uuid, Channel> =
        if ids.is_empty() { HashMap::new() } else { templates::channels_of(tx, cx.project, &ids).await? };
    let problem = |(path, channel, id): (String, Channel, Uuid)| {
        let needed = channel.as_str();
        let problem = match channels.get(&id) {
            Some(found) if *found == channel => return None,
            Some(other) => format!("is a template for channel {}; this step requires one for {needed}", other.as_str()),
            None => "no such template in this project".to_owned(),
        };
        Some(Problem::new(format!("{path}.templateId"), problem))
    };
    Ok(references.into_iter().filter_map(problem).collect())
}

async fn check_groups(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    automation: &Automation,
) -> Result<Vec<Problem>, ApiError> {
    let references = automation.definition.subscription_groups();
    if references.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = references.iter().map(|(_, id)| *id).collect();
    let existing = subscription_groups::existing(tx, cx.project, &ids).await?;
    let missing = references.into_iter().filter(|(_, id)| !existing.contains(id));
    let problem = "no such subscription group in this project";
    Ok(missing.map(|(path, _)| Problem::new(format!("{path}.subscriptionGroupId"), problem)).collect())
}

async fn check_started(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    automation: &Automation,
) -> Result<Vec<Problem>, ApiError> {
    let mut problems = Vec::new();
    for (path, id) in automation.definition.started_automations() {
        if id != automation.id && automations::get(tx, cx.project, id).await?.is_none() {
            problems.push(Problem::new(format!("{path}.automationId"), "no such automation in this project"));
        }
    }
    Ok(problems)
}

async fn check_segments(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    automation: &Automation,
) -> Result<Vec<Problem>, ApiError> {
    let definition = &automation.definition;
    let mut references: Vec<(String, Uuid)> = Vec::new();
    references.extend(definition.trigger_segment_id.map(|id| ("triggerSegmentId".to_owned(), id)));
    let mut collect = |rules: Option<&Value>, path: &str| {
        references.extend(rules.into_iter().flat_map(|rules| named_segments(rules, path)));
    };
    collect(definition.entry_rules.as_ref(), "entryRules");
    collect(definition.exit_rules.as_ref(), "exitRules");
    for (path, step) in definition.all_steps() {
        let Action::Branch { branches, .. } = &step.action else { continue };
        for (i, arm) in branches.iter().enumerate() {
            collect(Some(&arm.rules), &format!("{path}.branches[{i}].rules"));
        }
    }
    if references.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = references.iter().map(|(_, id)| *id).collect();
    let existing = segments::existing(tx, cx.project, &ids).await?;
    let missing = references.into_iter().filter(|(_, id)| !existing.contains(id));
    Ok(missing.map(|(path, _)| Problem::new(path, "no such segment in this project")).collect())
}
