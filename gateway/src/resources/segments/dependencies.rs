//! Checks the dependencies between segments: rules may refer to other segments.

use deadpool_postgres::Transaction;
use rules::sql::Membership;
use store_profiles::segments::{self, Segment, evaluate};
use uuid::Uuid;

use crate::context::Context;
use crate::http::error::{ApiError, Problem};

/// Maximum number of segments that one segment may depend on, directly or indirectly.
const MAX_DEPENDENCIES: usize = 20;

/// Checks that every segment in the rules exists, that none depends on this segment, and that there are not too many.
pub async fn check(cx: &Context<'_>, tx: &Transaction<'_>, segment: &Segment) -> Result<(), ApiError> {
    let references = rules::parse::named_segments(&segment.rules, "rules");
    if references.is_empty() {
        return Ok(());
    }
    let direct: Vec<Uuid> = references.iter().map(|(_, id)| *id).collect();
    let existing = segments::existing(tx, cx.project, &direct).await?;
    let mut problems = Vec::new();
    for (path, id) in &references {
        if *id == segment.id {
            problems.push(Problem::new(path, "a segment cannot depend on itself"));
        } else if !existing.contains(id) {
            problems.push(Problem::new(path, "no such segment in this project"));
        } else {
            let dependencies = evaluate::definitions(tx, cx.project, &[*id].into()).await?;
            if dependencies.values().any(|membership| refers_to(membership, segment.id)) {
                problems.push(Problem::new(path, "that segment depends on this one through its own rules"));
            }
        }
    }
    let all = evaluate::definitions(tx, cx.project, &direct.into_iter().collect()).await?;
    if all.len() > MAX_DEPENDENCIES {
        problems.push(Problem::new(
            "rules",
            format!("may depend on at most {MAX_DEPENDENCIES} segments, directly or indirectly"),
        ));
    }
    if problems.is_empty() { Ok(()) } else { Err(ApiError::Invalid(problems)) }
}

/// Checks that every segment in unsaved rules exists.
pub async fn check_references(
    cx: &Context<'_>,
    tx: &Transaction<'_>,
    rules: &serde_json::Value,
) -> Result<(), ApiError> {
    let references = rules::parse::named_segments(rules, "rules");
    if references.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = references.iter().map(|(_, id)| *id).collect();
    let existing = segments::existing(tx, cx.project, &ids).await?;
    let missing = references.into_iter().filter(|(_, id)| !existing.contains(id));
    let problems: Vec<Problem> =
        missing.map(|(path, _)| Problem::new(path, "no such segment in this project")).collect();
    if problems.is_empty() { Ok(()) } else { Err(ApiError::Invalid(problems)) }
}

fn refers_to(membership: &Membership, segment: Uuid) -> bool {
    match membership {
        Membership::Rules(rules) => rules::segments(rules).contains(&segment),
        Membership::List => false,
    }
}
