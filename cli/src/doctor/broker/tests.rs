use async_nats::jetstream::stream::{DiscardPolicy, StorageType};
use kernel::env::Env;

use super::super::finding::Verdict;
use super::*;

fn wanted(replicas: &str) -> Config {
    let config = BusConfig::from_env(&Env::from_pairs([("STREAM_REPLICAS", replicas)])).unwrap();
    let [ingest, ..] = topology::stream_configs(&Names::new(""), &config);
    ingest
}

fn found(config: Config) -> StreamState {
    StreamState::Present(Box::new(StreamInfo { config, bytes: 0, cluster: None }))
}

fn verdicts(wanted: &Config, state: &StreamState) -> Vec<Verdict> {
    stream("nats.stream.ingest", wanted, state).iter().map(|finding| finding.verdict).collect()
}

#[test]
fn stream_is_compared_with_its_configuration() {
    let ours = wanted("1");
    let with = |change: fn(&mut Config)| {
        let mut config = ours.clone();
        change(&mut config);
        verdicts(&ours, &found(config))
    };
    assert_eq!(with(|_| {}), [Verdict::Well]);
    for change in [
        |c: &mut Config| c.subjects = vec!["x".into()],
        |c: &mut Config| c.retention = RetentionPolicy::Interest,
        |c: &mut Config| c.storage = StorageType::Memory,
        |c: &mut Config| c.discard = DiscardPolicy::Old,
        |c: &mut Config| c.max_bytes = -1,
        |c: &mut Config| c.max_age = std::time::Duration::from_hours(1),
        |c: &mut Config| c.max_messages = 5,
        |c: &mut Config| c.metadata.clear(),
    ] {
        assert_eq!(with(change), [Verdict::Wrong]);
    }
    assert_eq!(with(|c| c.max_bytes += 1), [Verdict::Notable]);
    assert_eq!(with(|c| c.num_replicas = 3), [Verdict::Notable]);
    assert_eq!(verdicts(&wanted("3"), &found(ours.clone())), [Verdict::Wrong]);
    assert_eq!(verdicts(&ours, &StreamState::Missing), [Verdict::Wrong]);
    assert_eq!(verdicts(&ours, &StreamState::Unseen("x".into())), [Verdict::Unseen]);
}

#[test]
fn free_space_is_checked_for_streams_that_reject_when_full() {
    let config = Config { max_bytes: 100 << 20, ..wanted("1") };
    let of = |percent: u64, config: &Config| {
        stream_usage("nats.stream.ingest", &StreamInfo { config: config.clone(), bytes: percent << 20, cluster: None })
            .map(|f| f.verdict)
    };
    assert_eq!([50, 85, 95].map(|p| of(p, &config)), [None, Some(Verdict::Notable), Some(Verdict::Wrong)]);
    assert_eq!(of(100, &Config { discard: DiscardPolicy::Old, ..config.clone() }), None);
}

#[test]
fn rare_syncs_are_wrong() {
    let verdict = |milliseconds| sync(&Sync::Every { milliseconds }).verdict;
    assert_eq!((verdict(1_000), verdict(120_000)), (Verdict::Well, Verdict::Wrong));
    assert_eq!((sync(&Sync::Always).verdict, sync(&Sync::NotRequested).verdict), (Verdict::Well, Verdict::Unseen));
}

#[test]
fn connection_failure_has_a_specific_remedy() {
    let remedy = |kind| connection_failure(&BrokerFailure { kind, tls: None, message: "x".into() }).remedy.unwrap();
    assert!(remedy(Some(ConnectErrorKind::AuthorizationViolation)).contains("password"));
    assert!(remedy(Some(ConnectErrorKind::Io)).contains("host and port"));
    let unknown = BrokerFailure { kind: None, tls: Some(TlsFault::UnknownAuthority), message: "x".into() };
    assert!(connection_failure(&unknown).remedy.unwrap().contains("NATS_CA_FILE"));
    assert!(rights(&["a".into(), "b".into()]).what.ends_with("a (and 1 more)"));
}
