//! Redis: only limits are shared through it, so nothing is worse than notable unless it refuses writes.

pub mod look;

use tls::TlsFault;

use super::finding::Finding;

/// Observations about Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// `REDIS_URL` is not set, or is malformed, which the settings check reports.
    Unset,
    /// The reason, and the TLS fault if no TLS was negotiated.
    Away(String, Option<TlsFault>),
    There(Standing),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub version: String,
    pub policy: String,
    /// In bytes; 0 means unlimited.
    pub max_memory: u64,
}

pub fn judge(seen: &Seen) -> Vec<Finding> {
    const ALONE: &str = "each process enforces its own share of the limits, by GATEWAY_REPLICAS and DELIVERY_REPLICAS";
    match seen {
        Seen::Unset => {
            let what = format!("REDIS_URL is not set: {ALONE}");
            vec![Finding::notable("redis.connection", what, "set it if more than one gateway or worker-delivery runs")]
        }
        Seen::Away(why, tls) => {
            let what = format!("cannot be used ({why}): {ALONE}");
            let remedy = match tls {
                Some(fault) => fault.remedy("REDIS_CA_FILE"),
                None => "check REDIS_URL and its password, and that Redis is running; everything else works without it"
                    .to_owned(),
            };
            vec![Finding::notable("redis.connection", what, remedy)]
        }
        Seen::There(standing) => {
            vec![Finding::well("redis.connection", format!("reached, Redis {}", standing.version)), eviction(standing)]
        }
    }
}

fn eviction(Standing { policy, max_memory, .. }: &Standing) -> Finding {
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
    fn what_happens_when_it_is_full_matters() {
        let verdict = |policy: &str, max_memory| {
            eviction(&Standing { version: "7".into(), policy: policy.to_owned(), max_memory }).verdict
        };
        assert_eq!(verdict("volatile-lru", 1), Verdict::Well);
        assert_eq!(verdict("noeviction", 1), Verdict::Wrong);
        assert_eq!(verdict("noeviction", 0), Verdict::Notable);
        assert_eq!(verdict("allkeys-lru", 1), Verdict::Notable);
    }

    #[test]
    fn without_it_the_rest_goes_on() {
        for seen in [Seen::Unset, Seen::Away("refused".into(), None)] {
            assert_eq!(judge(&seen)[0].verdict, Verdict::Notable);
        }
        let unknown = judge(&Seen::Away("x".into(), Some(TlsFault::UnknownAuthority)));
        assert!(unknown[0].remedy.as_deref().is_some_and(|remedy| remedy.contains("REDIS_CA_FILE")));
    }
}
