//! The kinds of faults, drawn like cards from a deck.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::{CLUSTER_SIZE, Endpoint, FaultKind, Link, MAX_CLOCK_SHIFT_MINUTES, Process, Targets};
use crate::chaos::provider::FaultMode;
use crate::chaos::proxy::{Direction, LinkFault};

/// A failpoint triggers at a hit from the first to this one.
const MAX_HIT: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Card {
    Killed,
    Stopped,
    Suspended,
    DiesAtFailpoint,
    PostgresStopped,
    BackendsKilled,
    NatsKilled,
    NatsHung,
    NatsFull,
    RedisKilled,
    RedisHung,
    RedisFlushed,
    Latency,
    Stalls,
    BlackHole,
    Blocked,
    Reset,
    Provider(FaultMode),
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
    Card::DiesAtFailpoint,
    Card::DiesAtFailpoint,
    Card::DiesAtFailpoint,
    Card::DiesAtFailpoint,
    Card::PostgresStopped,
    Card::BackendsKilled,
    Card::BackendsKilled,
    Card::NatsKilled,
    Card::NatsKilled,
    Card::NatsHung,
    Card::NatsFull,
    Card::RedisKilled,
    Card::RedisHung,
    Card::RedisFlushed,
    Card::Latency,
    Card::Stalls,
    Card::BlackHole,
    Card::Blocked,
    Card::Reset,
    Card::Provider(FaultMode::Throttled),
    Card::Provider(FaultMode::Broken),
    Card::Provider(FaultMode::Late),
    Card::Provider(FaultMode::Silent),
    Card::Provider(FaultMode::ClosedAfter),
    Card::Provider(FaultMode::ClosedBefore),
    Card::Provider(FaultMode::Refusing),
    Card::ClockAhead,
    Card::ClockBehind,
];

/// Additional cards for disks that can be filled.
pub(super) const DISKS: [Card; 4] =
    [Card::PostgresDiskFull, Card::PostgresDiskFull, Card::NatsDiskFull, Card::NatsDiskFull];

/// Draws the details of a fault. Returns `None` if the run has no such target.
pub(super) fn draw(card: Card, random: &mut StdRng, targets: &Targets) -> Option<FaultKind> {
    let processes: Vec<Process> = Process::all().collect();
    let process = *processes.choose(random)?;
    let endpoints: Vec<Endpoint> =
        Endpoint::ALL.into_iter().filter(|end| !(targets.cluster && *end == Endpoint::Nats)).collect();
    let to = *endpoints.choose(random)?;
    let links = Link::all().filter(|link| link.to == to).collect::<Vec<Link>>();
    let link = *links.choose(random)?;
    Some(match card {
        Card::Killed => FaultKind::Killed(process),
        Card::Stopped => FaultKind::Stopped(process),
        Card::Suspended => FaultKind::Suspended(process),
        Card::DiesAtFailpoint => {
            let name = process.program.trim_start_matches("worker-");
            let failpoint = targets.failpoints.get(name)?.choose(random)?.clone();
            FaultKind::DiesAtFailpoint(process, failpoint, random.random_range(1..=MAX_HIT))
        }
        Card::PostgresStopped => FaultKind::PostgresStopped,
        Card::BackendsKilled => FaultKind::BackendsKilled,
        Card::NatsKilled => FaultKind::NatsKilled(random.random_range(0..=CLUSTER_SIZE)),
        Card::NatsHung | Card::NatsFull if targets.cluster => return None,
        Card::ClockAhead | Card::ClockBehind if !targets.clock => return None,
        Card::NatsHung => FaultKind::NatsHung,
        Card::NatsFull => FaultKind::NatsFull,
        Card::PostgresDiskFull => FaultKind::PostgresDiskFull,
        Card::NatsDiskFull => FaultKind::NatsDiskFull,
        Card::RedisKilled => FaultKind::RedisKilled,
        Card::RedisHung => FaultKind::RedisHung,
        Card::RedisFlushed => FaultKind::RedisFlushed,
        Card::Latency => {
            FaultKind::Network(link, LinkFault::Latency(Duration::from_millis(random.random_range(50..300))))
        }
        Card::Stalls => FaultKind::Network(link, LinkFault::Stalls),
        Card::BlackHole => FaultKind::Network(link, LinkFault::BlackHole),
        Card::Blocked => {
            let direction = if random.random() { Direction::ToServer } else { Direction::ToClient };
            FaultKind::Network(link, LinkFault::Blocked(direction))
        }
        Card::Reset => FaultKind::Network(link, LinkFault::Reset),
        Card::Provider(mode) => FaultKind::Provider(mode),
        Card::ClockAhead => FaultKind::ClockShifted(random.random_range(1..=MAX_CLOCK_SHIFT_MINUTES)),
        Card::ClockBehind => FaultKind::ClockShifted(-random.random_range(1..=MAX_CLOCK_SHIFT_MINUTES)),
    })
}
