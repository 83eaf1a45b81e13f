//! One run, from its start to its report.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use kernel::clock::{Clock, rfc3339};
use tokio::time::Instant;

use super::books::{Found, Limited};
use super::found::Drained;
use super::load::{self, Load, Scale, clients, doors, poison};
use super::oracle::{Oracle, Told};
use super::plan::{EACH, End, Fault, Ground, What, plan};
use super::product::Product;
use super::pulse::Pulse;
use super::report::{Report, Seen};
use super::settings::Settings;
use super::shops::SHOPS;
use super::strike::{self, FAILPOINT_LOG, Strange};
use super::struck::Struck;
use super::{checks, found};
use crate::storm;

/// Interval between progress lines.
const PROGRESS: Duration = Duration::from_secs(10);
/// Time limit for draining after all faults are healed; longer for each minute of the run.
const DRAIN: Duration = Duration::from_mins(2);
const DRAIN_A_MINUTE: Duration = Duration::from_secs(20);
/// Failpoints that a run never reaches: no date or segment triggers anything, no step calls a webhook, there are no pushes, in-app
/// messages or notified endpoints, and users are imported before the first fault.
const NOT_MET: [&str; 12] = [
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
    let shop = load::open(&product, scale).await;
    product.began = Instant::now();
    println!("prepared after {:.1} s; directory: {}", began.elapsed().as_secs_f64(), product.dir().display());

    let path = product.dir().join("oracle.ndjson");
    let oracle = Oracle::create(&path).expect("creating the record file");
    let (pulse, strange) = (Pulse::default(), Strange::default());
    let load = Load::new(&product, &oracle, shop, scale);
    let faults = plan(seed, span, &ground(settings));
    let rage = async {
        let struck = carry_out(&product, faults, &strange).await;
        tokio::time::sleep_until(product.began + span).await;
        load.end();
        strike::heal(&product).await.unwrap_or_else(|problem| strange.note(problem));
        load.healed();
        struck
    };
    let (struck, ()) = tokio::select! {
        both = async { tokio::join!(rage, all_clients(&load)) } => both,
        () = strike::watch(&product, &strange) => unreachable!("the watch never ends"),
        () = beating(&product, &oracle, &pulse) => unreachable!("the probes never end"),
        () = progress(&product, &load) => unreachable!("the progress report never ends"),
    };
    let limited = Limited { took: product.began.elapsed(), bursts: bursts(&struck) };
    let answers = &load.answers;
    let answers = [&answers.accepted, &answers.put_off, &answers.missing].map(|count| count.load(Ordering::Relaxed));

    // On return, all earlier lines are written too.
    oracle.note(Vec::new()).await;
    let told = Told::read(&path).expect("reading the record file");
    let minutes = u32::try_from(span.as_secs() / 60).unwrap_or(u32::MAX);
    let watched = async {
        let drained = found::drained(&product, &told, clock, DRAIN + DRAIN_A_MINUTE * minutes).await;
        (drained, found::read(&product, &told, scale).await)
    };
    let (drained, found) = tokio::select! {
        both = watched => both,
        () = strike::watch(&product, &strange) => unreachable!("the watch never ends"),
    };
    let Drained { leftovers, misqueued, took } = drained;
    let found = Found { leftovers, misqueued, deaths: strange.all(), clock_moved: clock, limited, ..found };
    let against = checks::judge(&told, &found);
    let beats = pulse.beats();
    let died = storm::hits(&product.dir().join(FAILPOINT_LOG)).values().sum();
    let seen = Seen {
        settings,
        began: rfc3339(began_at),
        struck: &struck,
        died,
        beats: &beats,
        told: &told,
        found: &found,
        against: &against,
        drained: &took,
        felt: product.temper.felt(),
        answers,
    };
    let mut report = seen.report();
    if !report.is_sound() {
        std::fs::write(product.dir().join("report.txt"), &report.text).expect("writing the report");
        // Writing to a string cannot fail.
        let _ = writeln!(report.text, "  logs and records: {}", product.keep());
    }
    report
}

fn ground(Settings { cluster, clock, disk, .. }: Settings) -> Ground {
    let met = |name: &String| !NOT_MET.contains(&name.as_str());
    let failpoints = storm::failpoints().into_iter();
    let failpoints = failpoints.map(|(program, names)| (program, names.into_iter().filter(met).collect()));
    Ground { failpoints: failpoints.collect(), cluster, clock, disk }
}

/// Injects each fault at its time, even if earlier ones are still in progress.
async fn carry_out(product: &Product, faults: Vec<Fault>, strange: &Strange) -> Vec<Struck> {
    let strikes = faults.into_iter().map(|fault| async move {
        tokio::time::sleep_until(product.began + fault.at).await;
        strike::strike(product, fault, strange).await
    });
    join_all(strikes).await
}

/// Returns how many bursts a rate limit may have admitted: one at the start, in Redis and in the gateways; one for each
/// interruption of a gateway or of its connection to Redis; and for each loss of the tokens in Redis, both.
fn bursts(struck: &[Struck]) -> u32 {
    let of = |what: &What| match what {
        What::RedisGone | What::RedisHung | What::RedisFlushed => 2,
        What::Network(link, _) => u32::from(link.to == End::Redis && link.process.program == "gateway"),
        What::Killed(process) | What::Stopped(process) | What::Suspended(process) | What::Dies(process, ..) => {
            u32::from(process.program == "gateway")
        }
        _ => 0,
    };
    2 + struck.iter().map(|struck| of(&struck.what)).sum::<u32>()
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
        join_all((0..doors::FLOODING).map(|client| doors::flood(load, client))),
        doors::keys(load),
        poison::poison(load),
    );
}

async fn beating(product: &Product, oracle: &Oracle, pulse: &Pulse) {
    let beats = (0..EACH).map(|gateway| Box::pin(pulse.beat(product, oracle, gateway)));
    tokio::select! {
        _ = select_all(beats) => {}
        () = pulse.watch(product) => {}
    }
}

async fn progress(product: &Product, load: &Load<'_>) {
    let mut turns = tokio::time::interval(PROGRESS);
    loop {
        turns.tick().await;
        let counts = [&load.answers.accepted, &load.answers.put_off, &load.answers.missing];
        let [accepted, put_off, missing] = counts.map(|count| count.load(Ordering::Relaxed));
        let at = product.began.elapsed().as_secs_f64();
        println!("{at:>7.1} s  {accepted} accepted, {put_off} throttled, {missing} without a response");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_comes_by_is_there() {
        let there: Vec<String> = storm::failpoints().into_values().flatten().collect();
        for name in NOT_MET {
            assert!(there.iter().any(|found| found == name), "unknown failpoint {name}");
        }
    }
}
