//! Limits the calls per second to an account at a provider. All workers share the limit by tokens in Redis; while Redis is
//! unavailable, each worker has its own share.
//!
//! Tokens are taken before messages are begun; messages without tokens wait in their queue. Unspent tokens are reused by this worker
//! within a second, then expire.

mod local_bucket;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::ids::ProjectId;
use rate_limits::{BucketTerms, Buckets, Lease};
use secrets::MasterKeys;
use store_projects::channels::ChannelSettings;
use tokio::time::Instant;
use uuid::Uuid;

use local_bucket::LocalBucket;

/// How long an unspent token can be reused.
const TOKEN_TTL: Duration = Duration::from_secs(1);
/// Minimum delay before asking an empty bucket again, so that batches are not tiny.
const MIN_POLL: Duration = Duration::from_millis(20);
/// Upper limit on a provider-requested pause.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// All accounts that have a limit.
#[derive(Clone)]
pub struct Limits(Arc<Inner>);

struct Inner {
    /// The buckets in Redis, and the keys that derive their names.
    buckets: Option<(Arc<Buckets>, MasterKeys)>,
    /// How many workers share the limits while Redis is unavailable.
    replicas: u32,
    accounts: Mutex<HashMap<String, Weak<Account>>>,
}

impl Limits {
    pub fn new(buckets: Option<(Arc<Buckets>, MasterKeys)>, replicas: u32) -> Self {
        Self(Arc::new(Inner { buckets, replicas: replicas.max(1), accounts: Mutex::default() }))
    }

    /// Returns the limit of the account that `names` identify: provider, address, owner and credential. Projects that use the same
    /// account share its limit. The credential is one of the names, so that no project can use up the limit of an account it does not own.
    pub fn of(&self, names: &[&str], per_second: Option<u32>) -> Option<Limit> {
        let per_second = per_second.filter(|n| *n > 0)?;
        let bucket = self.0.bucket(names);
        let mut accounts = locked(&self.0.accounts);
        let account = accounts.get(&bucket).and_then(Weak::upgrade).unwrap_or_else(|| {
            accounts.retain(|_, account| account.strong_count() > 0);
            let account = Arc::new(Account::new(bucket.clone(), self.0.clone()));
            accounts.insert(bucket, Arc::downgrade(&account));
            account
        });
        Some(Limit { account, terms: local_bucket::terms(per_second.into()), per_second })
    }
}

/// Returns the value of a `…RateLimit` field of the channel's settings.
pub fn per_second(settings: &ChannelSettings, field: &str) -> Option<u32> {
    settings.settings.get(field)?.as_u64().and_then(|n| u32::try_from(n).ok())
}

impl Inner {
    /// Returns an account's key in Redis. The names include credentials, so it is a keyed hash: a copy of Redis alone does not allow
    /// them to be guessed.
    fn bucket(&self, names: &[&str]) -> String {
        let text: String = names.iter().flat_map(|name| [*name, "\0"]).collect();
        let hash = match &self.buckets {
            Some((_, keys)) => {
                URL_SAFE_NO_PAD.encode(keys.sign(ProjectId(Uuid::nil()), "provider-limit", text.as_bytes()))
            }
            None => URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes())),
        };
        format!("provider-limit:{hash}")
    }
}

struct Account {
    bucket: String,
    inner: Arc<Inner>,
    /// Used while Redis is unavailable.
    local: Mutex<LocalBucket>,
    /// When each unspent token was taken.
    spare: Mutex<Vec<Instant>>,
    /// When tokens may be available again: for other calls, for urgent ones.
    retry_at: Mutex<[Option<Instant>; 2]>,
}

impl Account {
    fn new(bucket: String, inner: Arc<Inner>) -> Self {
        Self { bucket, inner, local: Mutex::default(), spare: Mutex::default(), retry_at: Mutex::default() }
    }

    fn spare(&self, max: usize) -> usize {
        let mut spare = locked(&self.spare);
        spare.retain(|taken| taken.elapsed() < TOKEN_TTL);
        let left = spare.len().saturating_sub(max);
        spare.drain(left..).count()
    }
}

/// Permission for one call to the account.
pub struct Token {
    account: Arc<Account>,
    taken: Instant,
    spent: bool,
}

impl Token {
    pub fn spend(mut self) {
        self.spent = true;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if !self.spent {
            locked(&self.account.spare).push(self.taken);
        }
    }
}

/// An account's limit, as set by one channel.
#[derive(Clone)]
pub struct Limit {
    account: Arc<Account>,
    terms: BucketTerms,
    per_second: u32,
}

impl Limit {
    /// Returns when tokens may be available again, if the bucket was empty a moment ago.
    pub fn retry_at(&self, urgent: bool) -> Option<Instant> {
        locked(&self.account.retry_at)[usize::from(urgent)].filter(|at| *at > Instant::now())
    }

    /// Takes up to `max` tokens. Urgent calls may also take the reserve.
    pub async fn take(&self, urgent: bool, max: usize) -> Vec<Token> {
        let spare = self.account.spare(max);
        let count = if spare > 0 { spare } else { self.lease(urgent, max).await };
        let token = || Token { account: self.account.clone(), taken: Instant::now(), spent: false };
        (0..count).map(|_| token()).collect()
    }

    async fn lease(&self, urgent: bool, max: usize) -> usize {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let of = |terms| if urgent { local_bucket::urgent(terms) } else { terms };
        let (account, inner) = (&self.account, &self.account.inner);
        let shared = match &inner.buckets {
            Some((buckets, _)) => buckets.lease(&account.bucket, of(self.terms), max).await,
            None => None,
        };
        let mut local = locked(&account.local);
        let lease: Lease = match shared {
            Some(lease) => {
                local.forget();
                lease
            }
            None => local.lease(of(self.local_terms()), max, Instant::now()),
        };
        drop(local);
        let again = if lease.taken < max { lease.wait.max(MIN_POLL) } else { Duration::ZERO };
        locked(&account.retry_at)[usize::from(urgent)] = Some(Instant::now() + again);
        lease.taken as usize
    }

    /// Waits up to `max_wait` for a token; otherwise returns the delay until one is expected.
    pub async fn token(&self, urgent: bool, max_wait: Duration) -> Result<Token, Duration> {
        let until = Instant::now() + max_wait;
        loop {
            if let Some(token) = self.take(urgent, 1).await.pop() {
                return Ok(token);
            }
            let retry_at = self.retry_at(urgent).unwrap_or_else(Instant::now);
            if retry_at > until {
                return Err(retry_at.saturating_duration_since(Instant::now()));
            }
            tokio::time::sleep_until(retry_at).await;
        }
    }

    /// Whether a token belongs to this account.
    pub fn is_of(&self, token: &Token) -> bool {
        Arc::ptr_eq(&self.account, &token.account)
    }

    /// Pauses all calls to the account, on all workers.
    pub async fn pause(&self, time: Duration) {
        let time = time.min(MAX_PAUSE);
        let (account, inner) = (&self.account, &self.account.inner);
        locked(&account.local).pause(time, Instant::now());
        locked(&account.spare).clear();
        *locked(&account.retry_at) = [Some(Instant::now() + time); 2];
        if let Some((buckets, _)) = &inner.buckets {
            buckets.block(&account.bucket, self.terms, time).await;
        }
    }

    fn local_terms(&self) -> BucketTerms {
        local_bucket::terms(f64::from(self.per_second) / f64::from(self.account.inner.replicas))
    }

    /// Status reason of a deferred message.
    pub fn reason(&self) -> String {
        format!("the account's limit is {} a second", self.per_second)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_names_share_one_limit() {
        let limits = Limits::new(None, 1);
        let of = |names: &[&str]| limits.of(names, Some(10)).unwrap();
        let (first, second, other) = (of(&["sms", "AC1"]), of(&["sms", "AC1"]), of(&["smsA", "C1"]));
        assert!(Arc::ptr_eq(&first.account, &second.account) && !Arc::ptr_eq(&first.account, &other.account));
        assert!(!first.account.bucket.contains("AC1"), "{}", first.account.bucket);
        assert!(limits.of(&["sms", "AC1"], None).is_none() && limits.of(&["sms", "AC1"], Some(0)).is_none());
        drop((first, second, other));
        let _new = of(&["sms", "AC2"]);
        assert_eq!(locked(&limits.0.accounts).len(), 1, "unused accounts are removed");
    }

    #[tokio::test]
    async fn unspent_token_is_reused() {
        let limit = Limits::new(None, 1).of(&["sms"], Some(2)).unwrap();
        assert!(limit.take(true, 1).await.is_empty());
        let token = limit.token(true, TOKEN_TTL).await.unwrap();
        assert!(limit.is_of(&token) && limit.take(true, 1).await.is_empty());
        drop(token);
        let again = limit.take(true, 1).await.pop().unwrap();
        again.spend();
        assert!(limit.take(true, 1).await.is_empty());
    }

    #[tokio::test]
    async fn token_returns_the_delay_after_the_maximum_wait() {
        let limit = Limits::new(None, 4).of(&["sms"], Some(1)).unwrap();
        let after = limit.token(true, TOKEN_TTL).await.err().unwrap();
        assert!(after > Duration::from_secs(3) && after <= Duration::from_secs(4), "{after:?}");
    }
}
