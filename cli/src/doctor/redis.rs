//! Redis: only limits are shared through it, so nothing is worse than notable unless it refuses writes.

pub mod observe;

use tls::TlsFault;

use super::finding::Finding;

/// Observations about Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisState {
    /// `REDIS_URL` is not set, or is malformed, which the settings check reports.
    Unset,
    /// The reason, and the TLS fault if no TLS was negotiated.
    Unreachable(String, Option<TlsFault>),
    Reachable(RedisInfo),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisInfo {
    pub version: String,
    pub policy: String,
    /// In bytes; 0 means unlimited.
    pub max_memory: u64,
}

pub fn judge(seen: &RedisState) -> Vec<Finding> {
    const LOCAL_LIMITS: &str =
        "each process enforces its own share of the limits, by GATEWAY_REPLICAS and DELIVERY_REPLICAS";
    match seen {
        RedisState::Unset => {
            let what = format!("REDIS_URL is not set: {LOCAL_LIMITS}");
            vec![Finding::notable("redis.connection", what, "set it if more than one gateway or worker-delivery runs")]
        }
        RedisState::Unreachable(why, tls) => {
            let what = format!("cannot be used ({why}): {LOCAL_LIMITS}");
            let remedy = match tls {
                Some(fault) => fault.remedy("REDIS_CA_FILE"),
                None => "check REDIS_URL and its password, and that Redis is running; everything else works without it"
                    .to_owned(),
            };
            vec![Finding::notable("redis.connection", what, remedy)]
        }
        RedisState::Reachable(info) => {
            vec![Finding::well("redis.connection", format!("reached, Redis {}", info.version)), eviction(info)]
        }
    }
}

fn eviction(RedisInfo { policy, max_memory, .. }: &RedisInfo) -> Finding {
    const CHECK: &str = "redis.eviction";
    let remedy = "set maxmemory 256mb and maxmemory-policy volatile-lru: all keys of this system have a time to live";
    match (policy.as_str(), *max_memory) {
        (_, 0) => Finding::notable(CHECK, "maxmemory is not set: Redis may use all memory of the machine", remedy),
        ("noeviction", _) => {
            let what = "maxmemory-policy is noeviction: once full, it refuses writes, and limits are no longer shared";
            Finding::wrong(CHECK, what, remedy)
        }
        (policy, _) if policy.starts_with("volatile-") => Finding::well(CHECK, format!("maxmemory-policy is {policy}")),
        (policy, _) => {
            let what = format!("maxmemory-policy is {policy}: it may drop persistent keys of other applications");
            Finding::notable(CHECK, what, remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn eviction_policy_decides_the_verdict() {
        let verdict = |policy: &str, max_memory| {
            eviction(&RedisInfo { version: "7".into(), policy: policy.to_owned(), max_memory }).verdict
        };
        assert_eq!(verdict("volatile-lru", 1), Verdict::Well);
        assert_eq!(verdict("noeviction", 1), Verdict::Wrong);
        assert_eq!(verdict("noeviction", 0), Verdict::Notable);
        assert_eq!(verdict("allkeys-lru", 1), Verdict::Notable);
    }

    #[test]
    fn unavailable_redis_is_only_notable() {
        for seen in [RedisState::Unset, RedisState::Unreachable("refused".into(), None)] {
            assert_eq!(judge(&seen)[0].verdict, Verdict::Notable);
        }
        let unknown = judge(&RedisState::Unreachable("x".into(), Some(TlsFault::UnknownAuthority)));
        assert!(unknown[0].remedy.as_deref().is_some_and(|remedy| remedy.contains("REDIS_CA_FILE")));
    }
}
