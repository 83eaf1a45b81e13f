//! The kinds of faults, drawn like cards from a deck.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::{End, FURTHEST_MINUTES, Ground, Link, NODES, Process, What};
use crate::chaos::provider::Mood;
use crate::chaos::proxy::{Trouble, Way};

/// A failpoint triggers at a hit from the first to this one.
const LATEST_HIT: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Card {
    Killed,
    Stopped,
    Suspended,
    Dies,
    PostgresGone,
    BackendsKilled,
    NatsGone,
    NatsHung,
    NatsFull,
    RedisGone,
    RedisHung,
    RedisFlushed,
    Late,
    Stalls,
    BlackHole,
    Deaf,
    Reset,
    Provider(Mood),
    ClockAhead,
    ClockBehind,
    PostgresDiskFull,
    NatsDiskFull,
}

/// The cards of one round; a card may occur several times.
pub(super) const DECK: [Card; 37] = [
    Card::Killed,
    Card::Killed,
    Card::Killed,
    Card::Killed,
    Card::Stopped,
    Card::Stopped,
    Card::Suspended,
    Card::Suspended,
    Card::Suspended,
    Card::Dies,
    Card::Dies,
    Card::Dies,
    Card::Dies,
    Card::PostgresGone,
    Card::BackendsKilled,
    Card::BackendsKilled,
    Card::NatsGone,
    Card::NatsGone,
    Card::NatsHung,
    Card::NatsFull,
    Card::RedisGone,
    Card::RedisHung,
    Card::RedisFlushed,
    Card::Late,
    Card::Stalls,
    Card::BlackHole,
    Card::Deaf,
    Card::Reset,
    Card::Provider(Mood::Throttled),
    Card::Provider(Mood::Broken),
    Card::Provider(Mood::Late),
    Card::Provider(Mood::Silent),
    Card::Provider(Mood::ClosedAfter),
    Card::Provider(Mood::ClosedBefore),
    Card::Provider(Mood::Refusing),
    Card::ClockAhead,
    Card::ClockBehind,
];

/// Additional cards for disks that can be filled.
pub(super) const DISKS: [Card; 4] =
    [Card::PostgresDiskFull, Card::PostgresDiskFull, Card::NatsDiskFull, Card::NatsDiskFull];

/// Draws the details of a fault. Returns `None` if the run has no such target.
pub(super) fn draw(card: Card, random: &mut StdRng, ground: &Ground) -> Option<What> {
    let processes: Vec<Process> = Process::all().collect();
    let process = *processes.choose(random)?;
    let linked: Vec<End> = End::ALL.into_iter().filter(|end| !(ground.cluster && *end == End::Nats)).collect();
    let to = *linked.choose(random)?;
    let links = Link::all().filter(|link| link.to == to).collect::<Vec<Link>>();
    let link = *links.choose(random)?;
    Some(match card {
        Card::Killed => What::Killed(process),
        Card::Stopped => What::Stopped(process),
        Card::Suspended => What::Suspended(process),
        Card::Dies => {
            let called = process.program.trim_start_matches("worker-");
            let failpoint = ground.failpoints.get(called)?.choose(random)?.clone();
            What::Dies(process, failpoint, random.random_range(1..=LATEST_HIT))
        }
        Card::PostgresGone => What::PostgresGone,
        Card::BackendsKilled => What::BackendsKilled,
        Card::NatsGone => What::NatsGone(random.random_range(0..=NODES)),
        Card::NatsHung | Card::NatsFull if ground.cluster => return None,
        Card::ClockAhead | Card::ClockBehind if !ground.clock => return None,
        Card::NatsHung => What::NatsHung,
        Card::NatsFull => What::NatsFull,
        Card::PostgresDiskFull => What::PostgresDiskFull,
        Card::NatsDiskFull => What::NatsDiskFull,
        Card::RedisGone => What::RedisGone,
        Card::RedisHung => What::RedisHung,
        Card::RedisFlushed => What::RedisFlushed,
        Card::Late => What::Network(link, Trouble::Latency(Duration::from_millis(random.random_range(50..300)))),
        Card::Stalls => What::Network(link, Trouble::Stalls),
        Card::BlackHole => What::Network(link, Trouble::BlackHole),
        Card::Deaf => {
            let way = if random.random() { Way::There } else { Way::Back };
            What::Network(link, Trouble::Deaf(way))
        }
        Card::Reset => What::Network(link, Trouble::Reset),
        Card::Provider(mood) => What::Provider(mood),
        Card::ClockAhead => What::ClockMoved(random.random_range(1..=FURTHEST_MINUTES)),
        Card::ClockBehind => What::ClockMoved(-random.random_range(1..=FURTHEST_MINUTES)),
    })
}
