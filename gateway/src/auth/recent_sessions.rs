//! Recently valid sessions. Their requests are not refused because other clients at the same address, for example behind one
//! NAT, failed to authenticate. They are still looked up, so an ended session is refused at once.

use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use store_projects::sessions::SessionHash;

const CAPACITY: usize = 10_000;
const TTL: Duration = Duration::from_hours(1);

/// A bounded set of session hashes, each with the time at which it was last valid.
pub struct RecentSessions(Cache<SessionHash, Instant>);

impl Default for RecentSessions {
    fn default() -> Self {
        Self(Cache::new(CAPACITY))
    }
}

impl RecentSessions {
    pub fn contains(&self, session: &SessionHash) -> bool {
        self.contains_at(session, Instant::now())
    }

    fn contains_at(&self, session: &SessionHash, now: Instant) -> bool {
        self.0.get(session).is_some_and(|valid| now.saturating_duration_since(valid) < TTL)
    }

    /// Records that a session is valid now.
    pub fn insert(&self, session: SessionHash) {
        self.0.insert(session, Instant::now());
    }

    pub fn remove(&self, session: &SessionHash) {
        self.0.remove(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_recent_for_one_hour_unless_it_ends() {
        let sessions = RecentSessions::default();
        let (known, unknown) = ([1; 32], [2; 32]);
        sessions.insert(known);
        assert!(sessions.contains(&known) && !sessions.contains(&unknown));
        assert!(!sessions.contains_at(&known, Instant::now() + TTL));
        sessions.remove(&known);
        assert!(!sessions.contains(&known));
    }

    #[test]
    fn number_of_recent_sessions_is_bounded() {
        let sessions = RecentSessions::default();
        for n in 0..3 * CAPACITY as u64 {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&n.to_le_bytes());
            sessions.insert(hash);
        }
        assert!(sessions.0.len() <= CAPACITY);
    }
}
