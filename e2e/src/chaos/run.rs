//! One run, from its start to its report.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use kernel::clock::{Clock, rfc3339};
use tokio::time::Instant;

use super::final_state::{FinalState, RateLimitWindow};
use super::inject::{self, FAILPOINT_LOG, Problems};
use super::injected::InjectedFault;
use super::load::{self, Load, Scale, clients, poison, rejected_clients};
use super::oracle::{ClientRecord, Oracle};
use super::plan::{Endpoint, Fault, FaultKind, PROCESSES_PER_PROGRAM, Targets, plan};
use super::product::Product;
use super::read_state::DrainOutcome;
use super::recovery::RecoveryProbe;
use super::report::{Observations, Report};
use super::settings::Settings;
use super::shops::SHOPS;
use super::{checks, read_state};
use crate::failpoint_kills;

/// Interval between progress lines.
const PROGRESS: Duration = Duration::from_secs(10);
/// Time limit for draining after all faults are healed; longer for each minute of the run.
const DRAIN: Duration = Duration::from_mins(2);
const DRAIN_PER_MINUTE: Duration = Duration::from_secs(20);
/// Failpoints that a run never reaches: no date or segment triggers anything, no step calls a webhook, there are no pushes, in-app
/// messages or notified endpoints, and users are imported before the first fault.
const UNREACHED_FAILPOINTS: [&str; 12] = [
    "scheduler.after_dates_taken",
    "scheduler.after_dates_published",
    "scheduler.before_starts_published",
    "scheduler.after_starts_published",
    "automation.after_call_made",
    "automation.after_call_answered",
    "delivery.after_push_sent",
    "delivery.after_in_app_put",
    "delivery.after_webhooks_taken",
    "delivery.after_webhook_called",
    "gateway.after_import_published",
    "gateway.after_import_noted",
];

/// Starts the product, injects faults for a while, heals them, and checks every promise.
///
/// Panics if a server does not start, or does not respond after all faults are healed.
pub async fn run(settings: Settings) -> Report {
    let Settings { seed, span, clock, load, .. } = settings;
    let scale = Scale::of(load);
    println!("CHAOS_SEED={seed}, {:.1} minutes of faults, CHAOS_LOAD={load}", span.as_secs_f64() / 60.0);
    let (began, began_at) = (Instant::now(), Clock::system().now());
    let mut product = Box::pin(Product::start(settings)).await;
    let resources = load::create_resources(&product, scale).await;
    product.began = Instant::now();
    println!("prepared after {:.1} s; directory: {}", began.elapsed().as_secs_f64(), product.dir().display());

    let path = product.dir().join("oracle.ndjson");
    let oracle = Oracle::create(&path).expect("creating the record file");
    let (probe, problems) = (RecoveryProbe::default(), Problems::default());
    let load = Load::new(&product, &oracle, resources, scale);
    let faults = plan(seed, span, &targets(settings));
    let inject_faults = async {
        let injected = inject_all(&product, faults, &problems).await;
        tokio::time::sleep_until(product.began + span).await;
        load.end();
        inject::heal(&product).await.unwrap_or_else(|problem| problems.add(problem));
        load.mark_healed();
        injected
    };
    let (injected, ()) = tokio::select! {
        both = async { tokio::join!(inject_faults, all_clients(&load)) } => both,
        () = inject::restart_exited(&product, &problems) => unreachable!("the watch never ends"),
        () = run_probes(&product, &oracle, &probe) => unreachable!("the probes never end"),
        () = progress(&product, &load) => unreachable!("the progress report never ends"),
    };
    let limited = RateLimitWindow { took: product.began.elapsed(), bursts: bursts(&injected) };
    let responses = &load.responses;
    let responses =
        [&responses.accepted, &responses.throttled, &responses.missing].map(|count| count.load(Ordering::Relaxed));

    // On return, all earlier lines are written too.
    oracle.record(Vec::new()).await;
    let record = ClientRecord::read(&path).expect("reading the record file");
    let minutes = u32::try_from(span.as_secs() / 60).unwrap_or(u32::MAX);
    let watched = async {
        let drained =
            read_state::wait_until_drained(&product, &record, clock, DRAIN + DRAIN_PER_MINUTE * minutes).await;
        (drained, read_state::read(&product, &record, scale).await)
    };
    let (drained, state) = tokio::select! {
        both = watched => both,
        () = inject::restart_exited(&product, &problems) => unreachable!("the watch never ends"),
    };
    let DrainOutcome { leftovers, queue_inconsistencies, took } = drained;
    let state = FinalState {
        leftovers,
        queue_inconsistencies,
        unexpected_exits: problems.all(),
        clock_shifted: clock,
        limited,
        ..state
    };
    let violations = checks::check_all(&record, &state);
    let batches = probe.batches();
    let failpoint_deaths = failpoint_kills::count_kills(&product.dir().join(FAILPOINT_LOG)).values().sum();
    let observations = Observations {
        settings,
        began: rfc3339(began_at),
        injected: &injected,
        failpoint_deaths,
        batches: &batches,
        record: &record,
        state: &state,
        violations: &violations,
        drained: &took,
        affected: product.fault_injector.affected(),
        responses,
    };
    let mut report = observations.report();
    if !report.is_sound() {
        std::fs::write(product.dir().join("report.txt"), &report.text).expect("writing the report");
        // Writing to a string cannot fail.
        let _ = writeln!(report.text, "  logs and records: {}", product.keep());
    }
    report
}

fn targets(Settings { cluster, clock, disk, .. }: Settings) -> Targets {
    let is_reached = |name: &String| !UNREACHED_FAILPOINTS.contains(&name.as_str());
    let failpoints = failpoint_kills::failpoints().into_iter();
    let failpoints = failpoints.map(|(program, names)| (program, names.into_iter().filter(is_reached).collect()));
    Targets { failpoints: failpoints.collect(), cluster, clock, disk }
}

/// Injects each fault at its time, even if earlier ones are still in progress.
async fn inject_all(product: &Product, faults: Vec<Fault>, problems: &Problems) -> Vec<InjectedFault> {
    let injections = faults.into_iter().map(|fault| async move {
        tokio::time::sleep_until(product.began + fault.at).await;
        inject::inject(product, fault, problems).await
    });
    join_all(injections).await
}

/// Returns how many bursts a rate limit may have admitted: one at the start, in Redis and in the gateways; one for each
/// interruption of a gateway or of its connection to Redis; and for each loss of the tokens in Redis, both.
fn bursts(injected: &[InjectedFault]) -> u32 {
    let weight = |what: &FaultKind| match what {
        FaultKind::RedisKilled | FaultKind::RedisHung | FaultKind::RedisFlushed => 2,
        FaultKind::Network(link, _) => u32::from(link.to == Endpoint::Redis && link.process.program == "gateway"),
        FaultKind::Killed(process)
        | FaultKind::Stopped(process)
        | FaultKind::Suspended(process)
        | FaultKind::DiesAtFailpoint(process, ..) => u32::from(process.program == "gateway"),
        _ => 0,
    };
    2 + injected.iter().map(|injected| weight(&injected.kind)).sum::<u32>()
}

async fn all_clients(load: &Load<'_>) {
    let Scale { counting, sending, entering, .. } = load.scale;
    let each = |by_shop: [usize; SHOPS]| {
        by_shop.into_iter().enumerate().flat_map(|(shop, many)| (0..many).map(move |client| (shop, client)))
    };
    tokio::join!(
        join_all(each(counting).map(|(shop, client)| clients::count(load, shop, client))),
        join_all(each(sending).map(|(shop, client)| clients::send(load, shop, client))),
        clients::merge(load),
        join_all((0..entering).map(|client| clients::enter(load, client))),
        clients::campaign(load),
        join_all((0..rejected_clients::FLOODING).map(|client| rejected_clients::flood(load, client))),
        rejected_clients::keys(load),
        poison::run(load),
    );
}

async fn run_probes(product: &Product, oracle: &Oracle, probe: &RecoveryProbe) {
    let batches = (0..PROCESSES_PER_PROGRAM).map(|gateway| Box::pin(probe.run(product, oracle, gateway)));
    tokio::select! {
        _ = select_all(batches) => {}
        () = probe.watch(product) => {}
    }
}

async fn progress(product: &Product, load: &Load<'_>) {
    let mut turns = tokio::time::interval(PROGRESS);
    loop {
        turns.tick().await;
        let counts = [&load.responses.accepted, &load.responses.throttled, &load.responses.missing];
        let [accepted, throttled, missing] = counts.map(|count| count.load(Ordering::Relaxed));
        let at = product.began.elapsed().as_secs_f64();
        println!("{at:>7.1} s  {accepted} accepted, {throttled} throttled, {missing} without a response");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreached_failpoints_exist() {
        let known: Vec<String> = failpoint_kills::failpoints().into_values().flatten().collect();
        for name in UNREACHED_FAILPOINTS {
            assert!(known.iter().any(|state| state == name), "unknown failpoint {name}");
        }
    }
}
