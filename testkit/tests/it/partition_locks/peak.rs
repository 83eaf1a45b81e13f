//! Measures the locks held while an operation is repeated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::Client;

/// Minimum time for which each operation is observed, so that its locks are seen.
const WATCHED: Duration = Duration::from_secs(1);

/// Returns the maximum number of relations that one connection locked while it repeated an operation until PostgreSQL had made generic
/// plans, from the sixth execution on.
pub async fn peak(monitor: &Client, work: impl AsyncFn()) -> i64 {
    let is_done = AtomicBool::new(false);
    let often = async {
        let (since, mut times) = (Instant::now(), 0);
        while times < 7 || since.elapsed() < WATCHED {
            work().await;
            times += 1;
        }
        is_done.store(true, Ordering::Relaxed);
    };
    let watch = async {
        let sql = "SELECT coalesce(max(n), 0) FROM (SELECT count(DISTINCT l.relation) AS n FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
                   WHERE l.locktype = 'relation' AND a.application_name LIKE 'rekindle-test%' GROUP BY l.pid) AS held";
        let mut peak = 0;
        while !is_done.load(Ordering::Relaxed) {
            peak = peak.max(monitor.query_one(sql, &[]).await.unwrap().get::<_, i64>(0));
        }
        peak
    };
    tokio::join!(often, watch).1
}
