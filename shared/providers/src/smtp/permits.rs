//! Limits the sessions of a client. Mails of automations and campaigns never delay direct ones.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Outcome;

/// Maximum sessions of one client, that is, of one project's settings in one worker. Servers limit the connections from an address
/// (Postfix: 50 by default).
pub const MAX_SESSIONS: usize = 32;
/// Sessions that only urgent mails use.
const RESERVED: usize = MAX_SESSIONS / 4;
/// How long a mail waits for a session before it is deferred. `routes` asserts that all waits and the send fit into the drain.
pub const MAX_SESSION_WAIT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Permits {
    sessions: Semaphore,
    /// Taken first by mails that are not urgent. Most of them wait here, so few of them precede urgent mails.
    common: Semaphore,
}

/// The right to use a session.
#[derive(Debug)]
pub struct SessionPermit<'a> {
    _session: SemaphorePermit<'a>,
    _common: Option<SemaphorePermit<'a>>,
}

impl Permits {
    pub fn new() -> Self {
        Self { sessions: Semaphore::new(MAX_SESSIONS), common: Semaphore::new(MAX_SESSIONS - RESERVED) }
    }

    /// Waits up to [`MAX_SESSION_WAIT`] for a session.
    pub async fn acquire(&self, is_urgent: bool) -> Result<SessionPermit<'_>, Outcome> {
        let acquire = async {
            let common = if is_urgent { None } else { Some(self.common.acquire().await.ok()?) };
            Some(SessionPermit { _session: self.sessions.acquire().await.ok()?, _common: common })
        };
        tokio::time::timeout(MAX_SESSION_WAIT, acquire).await.ok().flatten().ok_or_else(|| {
            let why = "no session with the mail server was free".to_owned();
            Outcome::Limited { after: MAX_SESSION_WAIT, why }
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;

    async fn acquire(permits: &Permits, is_urgent: bool, count: usize) -> Vec<SessionPermit<'_>> {
        join_all((0..count).map(async |_| permits.acquire(is_urgent).await.unwrap())).await
    }

    #[tokio::test(start_paused = true)]
    async fn urgent_mails_have_reserved_sessions() {
        let permits = Permits::new();
        let _common = acquire(&permits, false, MAX_SESSIONS - RESERVED).await;
        let refused = permits.acquire(false).await.unwrap_err();
        assert!(matches!(refused, Outcome::Limited { after: MAX_SESSION_WAIT, .. }), "{refused:?}");
        let _reserved = acquire(&permits, true, RESERVED).await;
        assert!(permits.acquire(true).await.is_err());
    }

    #[tokio::test]
    async fn waiting_urgent_mail_gets_the_next_session() {
        let permits = Permits::new();
        let mut common = acquire(&permits, false, MAX_SESSIONS - RESERVED).await;
        let _reserved = acquire(&permits, true, RESERVED).await;
        let (mut campaign, mut direct) = (Box::pin(permits.acquire(false)), Box::pin(permits.acquire(true)));
        assert!((&mut campaign).now_or_never().is_none() && (&mut direct).now_or_never().is_none());
        common.pop();
        assert!((&mut campaign).now_or_never().is_none(), "it waited longer, but is not urgent");
        assert!((&mut direct).now_or_never().is_some_and(|permit| permit.is_ok()));
    }

    #[tokio::test]
    async fn urgent_mails_use_all_sessions_while_no_others_do() {
        let permits = Permits::new();
        assert_eq!(acquire(&permits, true, MAX_SESSIONS).await.len(), MAX_SESSIONS);
    }
}
