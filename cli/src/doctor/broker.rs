//! NATS: whether it is reachable, with sufficient rights, and with streams that keep what is published.

pub mod observe;

use async_nats::ConnectErrorKind;
use async_nats::jetstream::stream::{ClusterInfo, Config, RetentionPolicy};
use bus::config::BusConfig;
use bus::topology::{self, partitions_of};
use bus::{Names, PublishError};
use tls::TlsFault;

use super::finding::Finding;

/// Minimum payload size that the programs need, in bytes.
const MIN_PAYLOAD_BYTES: usize = 1_000_000;
/// Percentage of a stream's byte limit from which it is nearly full. The scheduler purges from 70 on.
const WRONG_PERCENT: u128 = 90;
const NOTABLE_PERCENT: u128 = 80;
/// Maximum acceptable interval between syncs to disk, in milliseconds.
const MAX_SYNC_INTERVAL_MS: u64 = 1_000;

/// Why the connection failed.
#[derive(Clone, Debug)]
pub struct BrokerFailure {
    pub kind: Option<ConnectErrorKind>,
    /// Set if no TLS was negotiated.
    pub tls: Option<TlsFault>,
    pub message: String,
}

/// Observations about NATS.
#[derive(Clone, Debug)]
pub struct BrokerState {
    pub version: String,
    pub max_payload: usize,
    /// JetStream's own report.
    pub jetstream: JetStream,
    /// The ingest, send and dead-letter streams, in this order. Empty if JetStream is off.
    pub streams: Vec<StreamState>,
    /// Result of publishing an empty message to the ingest stream.
    pub canary: Option<Result<(), PublishError>>,
    /// Requests that the server rejected meanwhile, in its own words.
    pub violations: Vec<String>,
    pub sync: Sync,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JetStream {
    On,
    Off,
    /// This user may not read it.
    Unreadable(String),
}

#[derive(Clone, Debug)]
pub enum StreamState {
    Present(Box<StreamInfo>),
    Missing,
    Unseen(String),
}

#[derive(Clone, Debug)]
pub struct StreamInfo {
    pub config: Config,
    pub bytes: u64,
    pub cluster: Option<ClusterInfo>,
}

/// How often acknowledged messages are synced to disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The monitoring address is not set.
    NotRequested,
    Unseen(String),
    Always,
    Every {
        milliseconds: u64,
    },
}

pub fn judge(config: &BusConfig, seen: &Result<BrokerState, BrokerFailure>) -> Vec<Finding> {
    let seen = match seen {
        Ok(seen) => seen,
        Err(failure) => return vec![connection_failure(failure)],
    };
    let mut findings = vec![Finding::well("nats.connection", format!("reached, nats-server {}", seen.version))];
    if seen.max_payload < MIN_PAYLOAD_BYTES {
        let what = format!("messages over {} bytes are rejected", seen.max_payload);
        findings.push(Finding::wrong("nats.max_payload", what, "set max_payload: 1MB"));
    }
    findings.push(rights(&seen.violations));
    match &seen.jetstream {
        JetStream::On => findings.push(Finding::well("nats.jetstream", "is on")),
        JetStream::Off => {
            let remedy = "add `jetstream { store_dir: … }` to the server's configuration, as in deploy/nats/nats.conf";
            findings.push(Finding::wrong("nats.jetstream", "is disabled for this account", remedy));
        }
        JetStream::Unreadable(why) => {
            findings.push(Finding::unseen("nats.jetstream", format!("this user may not read its state: {why}")));
        }
    }
    let checks = ["nats.stream.ingest", "nats.stream.send", "nats.stream.dead"];
    let wanted = topology::stream_configs(&Names::new(&config.stream_prefix), config);
    for ((check, wanted), state) in checks.into_iter().zip(&wanted).zip(&seen.streams) {
        findings.extend(stream(check, wanted, state));
    }
    findings.extend(seen.canary.as_ref().map(canary));
    findings.push(sync(&seen.sync));
    findings
}

fn connection_failure(BrokerFailure { kind, tls, message }: &BrokerFailure) -> Finding {
    if let Some(fault) = tls {
        return Finding::wrong("nats.connection", message.clone(), fault.remedy("NATS_CA_FILE"));
    }
    let remedy = match kind {
        Some(ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication) => {
            "correct the user and password in NATS_URL (nats://user:password@host:4222), or in the server's configuration"
        }
        Some(ConnectErrorKind::Tls) => "check the server's certificate, and whether NATS_URL must begin with tls://",
        Some(ConnectErrorKind::Dns) => "the host name cannot be resolved: correct NATS_URL",
        _ => {
            "check the host and port in NATS_URL, that NATS is running, and the network in between (firewall, NetworkPolicy)"
        }
    };
    Finding::wrong("nats.connection", message.clone(), remedy)
}

fn rights(violations: &[String]) -> Finding {
    const CHECK: &str = "nats.rights";
    let Some(first) = violations.first() else { return Finding::well(CHECK, "no request was refused") };
    let more = match violations.len() {
        1 => String::new(),
        more => format!(" (and {} more)", more - 1),
    };
    let remedy = "grant the user of NATS_URL these permissions, as in deploy/nats/users.conf; there, the doctor runs as the user operator";
    Finding::wrong(CHECK, format!("the server refuses: {first}{more}"), remedy)
}

fn stream(check: &'static str, wanted: &Config, state: &StreamState) -> Vec<Finding> {
    let name = &wanted.name;
    let found = match state {
        StreamState::Present(found) => found,
        StreamState::Missing => {
            let remedy = "start the scheduler, which creates it within seconds, or run `rekindle setup`, or any program whose user has the permission";
            return vec![Finding::wrong(check, format!("{name} is missing"), remedy)];
        }
        StreamState::Unseen(why) => return vec![Finding::unseen(check, format!("{name} cannot be read: {why}"))],
    };
    let mut findings = differences(check, wanted, &found.config);
    findings.extend(replicas(check, wanted, found));
    findings.extend(stream_usage(check, found));
    if findings.is_empty() {
        findings.push(Finding::well(check, format!("{name} is configured correctly, {}", used_text(found))));
    }
    findings
}

fn used_text(StreamInfo { config, bytes, .. }: &StreamInfo) -> String {
    format!("{} of {} MiB used", bytes >> 20, config.max_bytes >> 20)
}

fn differences(check: &'static str, wanted: &Config, found: &Config) -> Vec<Finding> {
    let name = &wanted.name;
    let mut findings = Vec::new();
    let mut wrong =
        |what: String, remedy: String| findings.push(Finding::wrong(check, format!("{name}: {what}"), remedy));
    let edit = |flag: &str| format!("`nats stream edit {name} {flag}`");
    if found.subjects != wanted.subjects {
        let remedy = "it belongs to another system or STREAM_PREFIX: once it is empty, remove it; a program then creates it again";
        wrong(format!("its subjects are {:?} instead of {:?}", found.subjects, wanted.subjects), remedy.to_owned());
    }
    if found.retention != wanted.retention {
        let loses = if wanted.retention == RetentionPolicy::Limits {
            ": messages may be removed before they are applied"
        } else {
            ""
        };
        let remedy =
            "it cannot be changed: once the stream is empty, remove it; a program then creates it again".to_owned();
        wrong(format!("its retention is {:?} instead of {:?}{loses}", found.retention, wanted.retention), remedy);
    }
    if found.storage != wanted.storage {
        wrong(
            format!("its storage is {:?}: a restart loses its messages", found.storage),
            "once it is empty, remove it; a program then creates it again".to_owned(),
        );
    }
    if found.discard != wanted.discard {
        let discard = format!("{:?}", wanted.discard).to_lowercase();
        let loses = "once full, it drops the wrong messages";
        wrong(format!("it discards {:?}: {loses}", found.discard), edit(&format!("--discard={discard}")));
    }
    if found.max_bytes <= 0 {
        wrong(
            "has no max_bytes: it grows until the disk is full".to_owned(),
            edit(&format!("--max-bytes={}", wanted.max_bytes)),
        );
    }
    if !found.max_age.is_zero() || found.max_messages > 0 {
        let what = "has a max_age or max_msgs: it may drop messages before they are applied".to_owned();
        wrong(what, edit("--max-age=0 --max-msgs=-1"));
    }
    let (has, wants) = (partitions_of(found), partitions_of(wanted));
    if has != wants {
        let has = has.map_or("an unknown number of".to_owned(), |number| number.to_string());
        let remedy = format!("set INGEST_PARTITIONS={has} everywhere; the number is fixed when the stream is created");
        wrong(format!("has {has} partitions, but INGEST_PARTITIONS says {}", wants.unwrap_or_default()), remedy);
    }
    if found.max_bytes > 0 && found.max_bytes != wanted.max_bytes {
        let what = format!("{name}: its max_bytes is {}, but its variable says {}", found.max_bytes, wanted.max_bytes);
        let remedy = format!(
            "the variable applies only when the stream is created; to change it now, run {}",
            edit(&format!("--max-bytes={}", wanted.max_bytes))
        );
        findings.push(Finding::notable(check, what, remedy));
    }
    findings
}

fn replicas(check: &'static str, wanted: &Config, StreamInfo { config, cluster, .. }: &StreamInfo) -> Vec<Finding> {
    let (name, has, wants) = (&wanted.name, config.num_replicas, wanted.num_replicas);
    let mut findings = Vec::new();
    if has < wants {
        let what = format!("{name}: {has} server stores it, but STREAM_REPLICAS says {wants}");
        findings.push(Finding::wrong(check, what, format!("`nats stream edit {name} --replicas={wants}`")));
    } else if has > wants {
        let what = format!("{name}: {has} servers store it, but STREAM_REPLICAS says {wants}");
        findings.push(Finding::notable(check, what, format!("set STREAM_REPLICAS={has}")));
    }
    let Some(cluster) = cluster.as_ref().filter(|_| has > 1) else { return findings };
    if cluster.leader.as_deref().unwrap_or_default().is_empty() {
        findings.push(Finding::wrong(
            check,
            format!("{name} has no leader"),
            "start its servers: more than half of them must run",
        ));
    }
    let behind: Vec<&str> =
        cluster.replicas.iter().filter(|peer| peer.offline || !peer.current).map(|peer| peer.name.as_str()).collect();
    if !behind.is_empty() {
        let what = format!("{name} is not up to date on {}", behind.join(", "));
        findings.push(Finding::notable(
            check,
            what,
            "start these servers, or wait until they have caught up; until then no other server may stop",
        ));
    }
    findings
}

fn stream_usage(check: &'static str, found: &StreamInfo) -> Option<Finding> {
    let StreamInfo { config, bytes, .. } = found;
    // A full stream of this kind drops its oldest messages, so being full is normal.
    if config.max_bytes <= 0 || config.discard != async_nats::jetstream::stream::DiscardPolicy::New {
        return None;
    }
    let percent = u128::from(*bytes) * 100 / u128::from(config.max_bytes.unsigned_abs());
    let what = || format!("{}: {}, {percent} %", config.name, used_text(found));
    let remedy = "once it is full, no event is accepted: check that the workers keep up (work.partitions) and that the scheduler runs, which purges applied events";
    match percent {
        WRONG_PERCENT.. => Some(Finding::wrong(check, what(), remedy)),
        NOTABLE_PERCENT.. => Some(Finding::notable(check, what(), remedy)),
        _ => None,
    }
}

fn canary(outcome: &Result<(), PublishError>) -> Finding {
    const CHECK: &str = "nats.accepts";
    match outcome {
        Ok(()) => Finding::well(CHECK, "the ingest stream acknowledges messages"),
        Err(error) => {
            let remedy = match error {
                PublishError::Timeout => {
                    "check NATS's /healthz: if it reports a write error, free space on its disk and restart it; otherwise check the server's log"
                }
                _ => "fix the problems above, then check the server's log",
            };
            Finding::wrong(CHECK, format!("the ingest stream accepts no messages: {error}"), remedy)
        }
    }
}

fn sync(sync: &Sync) -> Finding {
    const CHECK: &str = "nats.sync_interval";
    let remedy =
        "set sync_interval: 1s in its jetstream block, or always (NATS_SYNC_INTERVAL of deploy/nats/nats.conf)";
    match sync {
        Sync::NotRequested => {
            Finding::unseen(CHECK, "not checked: --nats-monitor or NATS_MONITOR_URL names http://host:8222")
        }
        Sync::Unseen(why) => Finding::unseen(CHECK, format!("not checked: {why}")),
        Sync::Always => Finding::well(CHECK, "always: acknowledged messages are on disk"),
        Sync::Every { milliseconds } if *milliseconds <= MAX_SYNC_INTERVAL_MS => {
            Finding::well(CHECK, format!("every {milliseconds} ms"))
        }
        Sync::Every { milliseconds } => {
            let seconds = milliseconds.div_ceil(1_000);
            Finding::wrong(
                CHECK,
                format!("every {seconds} s: a power failure loses the events accepted since the last sync"),
                remedy,
            )
        }
    }
}

#[cfg(test)]
mod tests;
