//! Calls per second that an account at a provider takes. All workers share the limit by tokens in Redis; while Redis is
//! unavailable, each worker keeps its own share.
//!
//! Tokens are taken before messages are begun. Tokens that are not spent are returned. Messages without tokens wait in their queue.

mod level;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use shared::buckets::{Buckets, Lease, Terms};
use shared::ids::ProjectId;
use shared::secrets::MasterKeys;
use shared::store::channels::ChannelSettings;
use tokio::time::Instant;
use uuid::Uuid;

use level::Level;

/// A token that was not spent is good for so long; afterwards it would only add to what comes then.
const KEPT: Duration = Duration::from_secs(1);
/// Whoever has taken all that there was comes again after so long, so that a claim is worth its statement. The bucket
/// holds what comes meanwhile.
const GATHER: Duration = Duration::from_millis(20);
/// No wish for a pause is followed by all for longer.
const REST_MOST: Duration = Duration::from_mins(1);

/// All accounts that have a limit.
#[derive(Clone)]
pub struct Limits(Arc<Inner>);

struct Inner {
    /// In Redis, with the keys that name them there.
    buckets: Option<(Arc<Buckets>, MasterKeys)>,
    /// How many workers share the limits while Redis is away.
    replicas: u32,
    accounts: Mutex<HashMap<String, Weak<Account>>>,
}

impl Limits {
    pub fn new(buckets: Option<(Arc<Buckets>, MasterKeys)>, replicas: u32) -> Self {
        Self(Arc::new(Inner { buckets, replicas: replicas.max(1), accounts: Mutex::default() }))
    }

    /// The limit of an account, which `names` tell from all others: provider, address, owner and credential. Two projects that
    /// use one account share its limit. Without the credential among the names, a project could use up another's by naming it.
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
        Some(Limit { account, terms: level::terms(per_second.into()), per_second })
    }
}

/// What the channel's settings say in one of the fields `…RateLimit`.
pub fn per_second(settings: &ChannelSettings, field: &str) -> Option<u32> {
    settings.settings.get(field)?.as_u64().and_then(|n| u32::try_from(n).ok())
}

impl Inner {
    /// An account's key in Redis. Credentials are among the names, so it is a keyed hash: without the key, a copy of Redis does
    /// not allow passwords to be guessed.
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
    /// While Redis is away.
    own: Mutex<Level>,
    /// When those were taken that nobody has spent.
    spare: Mutex<Vec<Instant>>,
    /// When there may be something again for who can wait, and for who is urgent.
    again_at: Mutex<[Option<Instant>; 2]>,
}

impl Account {
    fn new(bucket: String, inner: Arc<Inner>) -> Self {
        Self { bucket, inner, own: Mutex::default(), spare: Mutex::default(), again_at: Mutex::default() }
    }

    fn spare(&self, wanted: usize) -> usize {
        let mut spare = locked(&self.spare);
        spare.retain(|taken| taken.elapsed() < KEPT);
        let left = spare.len().saturating_sub(wanted);
        spare.drain(left..).count()
    }
}

/// One call that the account has room for.
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

/// An account's limit, as one channel's settings have it.
#[derive(Clone)]
pub struct Limit {
    account: Arc<Account>,
    terms: Terms,
    per_second: u32,
}

impl Limit {
    /// When there may be tokens again, where there were none a moment ago.
    pub fn again_at(&self, urgent: bool) -> Option<Instant> {
        locked(&self.account.again_at)[usize::from(urgent)].filter(|at| *at > Instant::now())
    }

    /// Takes up to `wanted` tokens; none where there are none. What is urgent also gets what is left for it.
    pub async fn take(&self, urgent: bool, wanted: usize) -> Vec<Token> {
        let spare = self.account.spare(wanted);
        let count = if spare > 0 { spare } else { self.lease(urgent, wanted).await };
        let token = || Token { account: self.account.clone(), taken: Instant::now(), spent: false };
        (0..count).map(|_| token()).collect()
    }

    async fn lease(&self, urgent: bool, wanted: usize) -> usize {
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let of = |terms| if urgent { level::urgent(terms) } else { terms };
        let (account, inner) = (&self.account, &self.account.inner);
        let shared = match &inner.buckets {
            Some((buckets, _)) => buckets.lease(&account.bucket, of(self.terms), wanted).await,
            None => None,
        };
        let mut own = locked(&account.own);
        let lease: Lease = match shared {
            Some(lease) => {
                own.forget();
                lease
            }
            None => own.lease(of(self.own_share()), wanted, Instant::now()),
        };
        drop(own);
        let again = if lease.taken < wanted { lease.wait.max(GATHER) } else { Duration::ZERO };
        locked(&account.again_at)[usize::from(urgent)] = Some(Instant::now() + again);
        lease.taken as usize
    }

    /// A token for what is claimed already, if there is one within `patience`; else when there may be one.
    pub async fn token(&self, urgent: bool, patience: Duration) -> Result<Token, Duration> {
        let until = Instant::now() + patience;
        loop {
            if let Some(token) = self.take(urgent, 1).await.pop() {
                return Ok(token);
            }
            let again_at = self.again_at(urgent).unwrap_or_else(Instant::now);
            if again_at > until {
                return Err(again_at.saturating_duration_since(Instant::now()));
            }
            tokio::time::sleep_until(again_at).await;
        }
    }

    /// Whether a token is one of this account's.
    pub fn is_of(&self, token: &Token) -> bool {
        Arc::ptr_eq(&self.account, &token.account)
    }

    /// Lets no worker call for a time, as the provider has asked for.
    pub async fn rest(&self, time: Duration) {
        let time = time.min(REST_MOST);
        let (account, inner) = (&self.account, &self.account.inner);
        locked(&account.own).rest(time, Instant::now());
        locked(&account.spare).clear();
        *locked(&account.again_at) = [Some(Instant::now() + time); 2];
        if let Some((buckets, _)) = &inner.buckets {
            buckets.rest(&account.bucket, self.terms, time).await;
        }
    }

    fn own_share(&self) -> Terms {
        level::terms(f64::from(self.per_second) / f64::from(self.account.inner.replicas))
    }

    /// What is said of a message that waits.
    pub fn words(&self) -> String {
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
    fn one_account_is_one_limit_whoever_uses_it() {
        let limits = Limits::new(None, 1);
        let of = |names: &[&str]| limits.of(names, Some(10)).unwrap();
        let (first, second, other) = (of(&["sms", "AC1"]), of(&["sms", "AC1"]), of(&["smsA", "C1"]));
        assert!(Arc::ptr_eq(&first.account, &second.account) && !Arc::ptr_eq(&first.account, &other.account));
        assert!(!first.account.bucket.contains("AC1"), "{}", first.account.bucket);
        assert!(limits.of(&["sms", "AC1"], None).is_none() && limits.of(&["sms", "AC1"], Some(0)).is_none());
        drop((first, second, other));
        let _new = of(&["sms", "AC2"]);
        assert_eq!(locked(&limits.0.accounts).len(), 1, "what nobody uses is forgotten");
    }

    #[tokio::test]
    async fn what_was_not_spent_goes_to_the_next() {
        let limit = Limits::new(None, 1).of(&["sms"], Some(2)).unwrap();
        assert!(limit.take(true, 1).await.is_empty());
        let token = limit.token(true, KEPT).await.unwrap();
        assert!(limit.is_of(&token) && limit.take(true, 1).await.is_empty());
        drop(token);
        let again = limit.take(true, 1).await.pop().unwrap();
        again.spend();
        assert!(limit.take(true, 1).await.is_empty());
    }

    #[tokio::test]
    async fn who_has_no_patience_hears_when_to_come_again() {
        let limit = Limits::new(None, 4).of(&["sms"], Some(1)).unwrap();
        let after = limit.token(true, KEPT).await.err().unwrap();
        assert!(after > Duration::from_secs(3) && after <= Duration::from_secs(4), "{after:?}");
    }
}
