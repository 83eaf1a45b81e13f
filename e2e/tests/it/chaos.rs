//! Injects all faults for a while, and checks that every guarantee holds. The long form is `make chaos`.
//!
//! `CHAOS_SEED` repeats a plan of faults, `CHAOS_SECONDS` (120) sets its duration.

use std::time::Duration;

use e2e::chaos::{Settings, run};

use crate::shop::number;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_promises_hold_under_faults() {
    let seed = number("CHAOS_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    let span = Duration::from_secs(number("CHAOS_SECONDS").unwrap_or(120));
    let report = Box::pin(run(Settings { seed, span, cluster: false, clock: false, disk: false, load: 1 })).await;
    println!("{report}");
    assert!(report.is_sound(), "CHAOS_SEED={seed}");
}
