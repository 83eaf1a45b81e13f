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

type TaskFn = fn(Arc<App>) -> Pin<Box<dyn Future<Output = Result<(), TickError>> + Send>>;

/// A task with its period. It also runs at the start.
pub struct Task {
    name: &'static str,
    interval: Duration,
    run: TaskFn,
}

pub const TASKS: [Task; 30] = [
    Task {
        name: "create time partitions",
        interval: Duration::from_hours(1),
        run: |app| Box::pin(create_partitions(app)),
    },
    Task {
        name: "analyze new time partitions",
        interval: Duration::from_secs(5),
        run: |app| Box::pin(analyze_new(app)),
    },
    Task { name: "stale workers", interval: Duration::from_mins(5), run: |app| Box::pin(forget_workers(app)) },
    Task { name: "purge ingest stream", interval: Duration::from_secs(5), run: |app| Box::pin(purge(app)) },
    Task { name: "purge send stream", interval: Duration::from_secs(30), run: |app| Box::pin(purge_acknowledged(app)) },
    Task {
        name: "stranded campaign messages",
        interval: Duration::from_secs(30),
        run: |app| Box::pin(campaigns::stranded::clear(app)),
    },
    Task {
        name: "runs of deleted automations",
        interval: Duration::from_mins(1),
        run: |app| Box::pin(thaw::end_deleted(app)),
    },
    Task { name: "due-row lag gauges", interval: Duration::from_secs(10), run: |app| Box::pin(backlog::measure(app)) },
    Task { name: "expired goal listeners", interval: Duration::from_mins(10), run: |app| Box::pin(forget_goals(app)) },
    Task { name: "search index", interval: Duration::from_secs(2), run: |app| Box::pin(settle_search(app)) },
    Task { name: "rows of erased users", interval: Duration::from_secs(1), run: |app| Box::pin(erasures::finish(app)) },
    Task {
        name: "rows of deleted projects",
        interval: Duration::from_secs(1),
        run: |app| Box::pin(removals::clear(app)),
    },
    Task {
        name: "collect dead letters",
        interval: Duration::from_secs(1),
        run: |app| Box::pin(dead_letters::collect(app)),
    },
    Task { name: "event retention", interval: Duration::from_hours(1), run: |app| Box::pin(retention::clear(app)) },
    Task {
        name: "client ID retention",
        interval: Duration::from_hours(24),
        run: |app| Box::pin(retention::forget_client_ids(app)),
    },
    Task {
        name: "in-app message retention",
        interval: Duration::from_hours(1),
        run: |app| Box::pin(retention::clear_inboxes(app)),
    },
    Task {
        name: "click retention",
        interval: Duration::from_hours(1),
        run: |app| Box::pin(retention::clear_clicks(app)),
    },
    Task {
        name: "capped send retention",
        interval: Duration::from_hours(1),
        run: |app| Box::pin(retention::clear_capped_sends(app)),
    },
    Task {
        name: "message retention",
        interval: Duration::from_hours(1),
        run: |app| Box::pin(ledger::clear_messages(app)),
    },
    Task { name: "run retention", interval: Duration::from_hours(6), run: |app| Box::pin(ledger::clear_runs(app)) },
    Task {
        name: "dead letter retention",
        interval: Duration::from_hours(1),
        run: |app| Box::pin(ledger::forget_dead_letters(app)),
    },
    Task {
        name: "fold message counts",
        interval: Duration::from_hours(1),
        run: |app| Box::pin(ledger::fold_counts(app)),
    },
    Task {
        name: "erasure record retention",
        interval: Duration::from_hours(1),
        run: |app| Box::pin(erasures::forget(app)),
    },
    Task {
        name: "replay unknown erasures",
        interval: Duration::from_hours(24),
        run: |app| Box::pin(erasures::repeat_unknown(app)),
    },
    Task {
        name: "dead letters without a user",
        interval: Duration::from_mins(10),
        run: |app| Box::pin(erasures::forget_unnamed(app)),
    },
    Task {
        name: "expired sessions and login attempts",
        interval: Duration::from_mins(10),
        run: |app| Box::pin(end_sessions(app)),
    },
    Task {
        name: "deleted subscription groups",
        interval: Duration::from_mins(1),
        run: |app| Box::pin(subscriptions::clear(app)),
    },
    Task {
        name: "webhook delivery retention",
        interval: Duration::from_mins(1),
        run: |app| Box::pin(webhooks::clear(app)),
    },
    Task { name: "import retention", interval: Duration::from_hours(1), run: |app| Box::pin(forget_imports(app)) },
    Task {
        name: "daily user count retention",
        interval: Duration::from_hours(6),
        run: |app| Box::pin(forget_days(app)),
    },
];

/// How long an import is shown and can be resumed.
const IMPORT_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Days for which users are counted by the day they were last seen: more than any report covers.
const DAY_COUNT_RETENTION_DAYS: i64 = 100;
/// Delay before a failed task is retried, unless its period is shorter.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Runs every task once, as at the start; for tests.
pub async fn run_once(app: &Arc<App>) -> Result<(), TickError> {
    for task in TASKS {
        (task.run)(app.clone()).await?;
    }
    Ok(())
}

/// Repeats a task until shutdown.
pub async fn repeat(task: Task, app: Arc<App>, shutdown: Shutdown) {
    loop {
        let pause = match (task.run)(app.clone()).await {
            Ok(()) => task.interval,
            Err(error) => {
                tracing::warn!(task = task.name, %error, "maintenance task failed; retrying");
                RETRY_DELAY.min(task.interval)
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn create_partitions(app: Arc<App>) -> Result<(), TickError> {
    let ensured = time_partitions::ensure(&mut app.store.connection().await?, app.clock.now_ms()).await?;
    if ensured.created > 0 {
        tracing::info!(made = ensured.created, "created time partitions");
    }
    if ensured.deferred {
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
    workers::delete_stale(&app.store.connection().await?).await?;
    Ok(())
}

async fn forget_imports(app: Arc<App>) -> Result<(), TickError> {
    user_imports::forget(&app.store.connection().await?, app.now() - IMPORT_RETENTION).await?;
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
    seen::forget(&app.store.connection().await?, today.saturating_sub(DAY_COUNT_RETENTION_DAYS.days())).await?;
    Ok(())
}

async fn settle_search(app: Arc<App>) -> Result<(), TickError> {
    Ok(search::settle_index(&app.store.connection().await?).await?)
}
