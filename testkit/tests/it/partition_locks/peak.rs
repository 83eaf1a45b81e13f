//! Locks held while work is repeated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::Client;

/// For how long each kind of work is watched at least, so that its locks are seen.
const WATCHED: Duration = Duration::from_secs(1);

/// The most relations that one connection locked while it repeated some work until PostgreSQL had made generic plans, which
/// it does from the sixth execution on.
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
