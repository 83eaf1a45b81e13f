//! The maintenance tasks, each with its period.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use database::{time_partitions, workers};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, ToSpan};
use kernel::shutdown::Shutdown;
use store_profiles::user_imports;
use store_profiles::users::{search, seen};
use store_projects::{login_attempts, sessions};
use store_sending::runs::listeners;

use super::{backlog, dead_letters, erasures, removals, retention, subscriptions, webhooks};
use crate::due::thaw;
use crate::maintenance::purge::{purge, purge_acknowledged};
use crate::maintenance::retention::ledger;
use crate::tick::TickError;
use crate::{App, campaigns};

type Work = fn(Arc<App>) -> Pin<Box<dyn Future<Output = Result<(), TickError>> + Send>>;

/// A task with its period. It also runs at the start.
pub struct Task {
    what: &'static str,
    every: Duration,
    work: Work,
}

pub const TASKS: [Task; 30] = [
    Task { what: "create time partitions", every: Duration::from_hours(1), work: |app| Box::pin(make_partitions(app)) },
    Task { what: "analyze new time partitions", every: Duration::from_secs(5), work: |app| Box::pin(analyze_new(app)) },
    Task { what: "stale workers", every: Duration::from_mins(5), work: |app| Box::pin(forget_workers(app)) },
    Task { what: "purge ingest stream", every: Duration::from_secs(5), work: |app| Box::pin(purge(app)) },
    Task { what: "purge send stream", every: Duration::from_secs(30), work: |app| Box::pin(purge_acknowledged(app)) },
    Task {
        what: "stranded campaign messages",
        every: Duration::from_secs(30),
        work: |app| Box::pin(campaigns::stranded::clear(app)),
    },
    Task {
        what: "runs of deleted automations",
        every: Duration::from_mins(1),
        work: |app| Box::pin(thaw::end_deleted(app)),
    },
    Task { what: "due-row lag gauges", every: Duration::from_secs(10), work: |app| Box::pin(backlog::measure(app)) },
    Task { what: "expired goal listeners", every: Duration::from_mins(10), work: |app| Box::pin(forget_goals(app)) },
    Task { what: "search index", every: Duration::from_secs(2), work: |app| Box::pin(settle_search(app)) },
    Task { what: "rows of erased users", every: Duration::from_secs(1), work: |app| Box::pin(erasures::finish(app)) },
    Task {
        what: "rows of deleted projects",
        every: Duration::from_secs(1),
        work: |app| Box::pin(removals::clear(app)),
    },
    Task {
        what: "collect dead letters",
        every: Duration::from_secs(1),
        work: |app| Box::pin(dead_letters::collect(app)),
    },
    Task { what: "event retention", every: Duration::from_hours(1), work: |app| Box::pin(retention::clear(app)) },
    Task {
        what: "client ID retention",
        every: Duration::from_hours(24),
        work: |app| Box::pin(retention::forget_client_ids(app)),
    },
    Task {
        what: "in-app message retention",
        every: Duration::from_hours(1),
        work: |app| Box::pin(retention::clear_inboxes(app)),
    },
    Task {
        what: "click retention",
        every: Duration::from_hours(1),
        work: |app| Box::pin(retention::clear_clicks(app)),
    },
    Task {
        what: "capped send retention",
        every: Duration::from_hours(1),
        work: |app| Box::pin(retention::clear_capped_sends(app)),
    },
    Task {
        what: "message retention",
        every: Duration::from_hours(1),
        work: |app| Box::pin(ledger::clear_messages(app)),
    },
    Task { what: "run retention", every: Duration::from_hours(6), work: |app| Box::pin(ledger::clear_runs(app)) },
    Task {
        what: "dead letter retention",
        every: Duration::from_hours(1),
        work: |app| Box::pin(ledger::forget_dead_letters(app)),
    },
    Task {
        what: "fold message counts",
        every: Duration::from_hours(1),
        work: |app| Box::pin(ledger::fold_counts(app)),
    },
    Task {
        what: "erasure record retention",
        every: Duration::from_hours(1),
        work: |app| Box::pin(erasures::forget(app)),
    },
    Task {
        what: "replay unknown erasures",
        every: Duration::from_hours(24),
        work: |app| Box::pin(erasures::repeat_unknown(app)),
    },
    Task {
        what: "dead letters without a user",
        every: Duration::from_mins(10),
        work: |app| Box::pin(erasures::forget_unnamed(app)),
    },
    Task {
        what: "expired sessions and login attempts",
        every: Duration::from_mins(10),
        work: |app| Box::pin(end_sessions(app)),
    },
    Task {
        what: "deleted subscription groups",
        every: Duration::from_mins(1),
        work: |app| Box::pin(subscriptions::clear(app)),
    },
    Task {
        what: "webhook delivery retention",
        every: Duration::from_mins(1),
        work: |app| Box::pin(webhooks::clear(app)),
    },
    Task { what: "import retention", every: Duration::from_hours(1), work: |app| Box::pin(forget_imports(app)) },
    Task { what: "daily user count retention", every: Duration::from_hours(6), work: |app| Box::pin(forget_days(app)) },
];

/// How long an import is shown and can be resumed.
const IMPORTS_KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Days for which users are counted by the day they were last seen: more than any report covers.
const DAYS_KEPT: i64 = 100;
/// Delay before a failed task is retried, unless its period is shorter.
const RETRY: Duration = Duration::from_secs(5);

/// Runs every task once, as at the start; for tests.
pub async fn run_once(app: &Arc<App>) -> Result<(), TickError> {
    for task in TASKS {
        (task.work)(app.clone()).await?;
    }
    Ok(())
}

/// Repeats a task until shutdown.
pub async fn repeat(task: Task, app: Arc<App>, shutdown: Shutdown) {
    loop {
        let pause = match (task.work)(app.clone()).await {
            Ok(()) => task.every,
            Err(error) => {
                tracing::warn!(what = task.what, %error, "maintenance task failed; retrying");
                RETRY.min(task.every)
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn make_partitions(app: Arc<App>) -> Result<(), TickError> {
    let ensured = time_partitions::ensure(&mut app.store.connection().await?, app.clock.now_ms()).await?;
    if ensured.made > 0 {
        tracing::info!(made = ensured.made, "created time partitions");
    }
    if ensured.put_off {
        tracing::warn!("time partitions not created because a table is locked; existing ones suffice for days");
    }
    Ok(())
}

async fn analyze_new(app: Arc<App>) -> Result<(), TickError> {
    time_partitions::analyze_new(&app.store.connection().await?).await?;
    Ok(())
}

async fn end_sessions(app: Arc<App>) -> Result<(), TickError> {
    let db = app.store.connection().await?;
    sessions::forget_expired(&db, app.now()).await?;
    login_attempts::forget_expired(&db, app.now()).await?;
    Ok(())
}

async fn forget_workers(app: Arc<App>) -> Result<(), TickError> {
    workers::forget_stale(&app.store.connection().await?).await?;
    Ok(())
}

async fn forget_imports(app: Arc<App>) -> Result<(), TickError> {
    user_imports::forget(&app.store.connection().await?, app.now() - IMPORTS_KEPT).await?;
    Ok(())
}

/// Removes expired goal listeners, with a day's grace for items that are still to be applied.
async fn forget_goals(app: Arc<App>) -> Result<(), TickError> {
    let before = app.now() - SignedDuration::from_hours(24);
    listeners::forget(&app.store.connection().await?, before).await?;
    Ok(())
}

async fn forget_days(app: Arc<App>) -> Result<(), TickError> {
    let today = app.now().to_zoned(TimeZone::UTC).date();
    seen::forget(&app.store.connection().await?, today.saturating_sub(DAYS_KEPT.days())).await?;
    Ok(())
}

async fn settle_search(app: Arc<App>) -> Result<(), TickError> {
    Ok(search::settle_index(&app.store.connection().await?).await?)
}
