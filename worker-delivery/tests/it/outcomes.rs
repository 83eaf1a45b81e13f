//! Runs every provider client through the same outcomes, each against a server that imitates its vendor.

mod apns;
mod fcm;
mod onesignal;
mod resend;
mod sms;
mod web_push;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use domain::push_token::Platform;
use kernel::clock::Clock;
use kernel::env::Env;
use providers::Outcome;
use providers::apns::Tokens;
use providers::push::Push;
use testkit::{Fault, ProviderServer, Reply, Vendor};
use uuid::Uuid;
use worker_delivery::config::DeliveryConfig;
use worker_delivery::limits::Limits;
use worker_delivery::provider_context::ProviderContext;

use crate::fixture::KEY;

/// Dependencies of provider clients, with test addresses allowed.
pub fn provider_context(more: &[(&str, &str)]) -> ProviderContext {
    let own = [("MASTER_KEY", KEY), ("OUTBOUND_ALLOW", "127.0.0.0/8,::1/128")];
    let config = DeliveryConfig::from_env(&Env::from_pairs(own.into_iter().chain(more.iter().copied()))).unwrap();
    ProviderContext {
        http: config.http,
        provider_urls: config.provider_urls,
        clock: Clock::system(),
        apns_tokens: Tokens::default(),
        limits: Limits::new(None, 1),
    }
}

/// Numbers messages, from 1. A repeat has the number of the previous message.
#[derive(Default)]
pub struct Numbers(AtomicU64);

impl Numbers {
    pub fn next(&self, again: bool) -> u64 {
        let new = u64::from(!again);
        self.0.fetch_add(new, Ordering::Relaxed) + new
    }
}

/// A push whose ID is its number.
pub fn push(n: u64, platform: Platform, token: &str) -> Push {
    Push {
        id: Uuid::from_u128(n.into()),
        title: "Hello ✓".to_owned(),
        body: "Your order is on its way".to_owned(),
        url: Some("https://shop.example/orders/1".to_owned()),
        platform,
        token: token.to_owned(),
    }
}

/// A provider client and the server of its vendor.
pub trait ProviderTest {
    type Vendor: Vendor;
    const RESPONSES: VendorResponses;

    fn server(&self) -> &ProviderServer<Self::Vendor>;
    /// Sends a new message, or repeats the previous one.
    async fn send(&self, again: bool) -> Outcome;
    /// Number of messages that the vendor has processed.
    fn done(&self) -> usize;
    /// Sends with the same provider at another base URL.
    async fn send_to(&self, url: &str) -> Outcome;
}

/// Responses of the vendor that mean: retry later, permanently refused, invalid settings (if the vendor reports them reliably), and
/// address gone (if addresses can expire).
pub struct VendorResponses {
    pub throttled: fn() -> Reply,
    pub rejected: fn() -> Reply,
    pub misconfigured: Option<fn() -> Reply>,
    pub gone: Option<fn() -> Reply>,
    /// The provider deduplicates by message ID.
    pub is_idempotent: bool,
}

/// Checks every outcome.
pub async fn assert_every_outcome<R: ProviderTest>(test: &R) {
    let next = async |fault: Fault| {
        test.server().fail_next(fault);
        test.send(false).await
    };
    let Outcome::Accepted(id) = test.send(false).await else { panic!("the first message was not accepted") };
    assert!(!id.is_empty());
    assert_eq!(test.done(), 1);

    let throttled = (R::RESPONSES.throttled)().with("retry-after", "7");
    let outcome = next(Fault::Respond(throttled)).await;
    assert!(
        matches!(outcome, Outcome::Throttled { after: Some(after), .. } if after >= Duration::from_secs(7)),
        "{outcome:?}"
    );
    let outcome = next(Fault::Respond((R::RESPONSES.rejected)())).await;
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    if let Some(misconfigured) = R::RESPONSES.misconfigured {
        let outcome = next(Fault::Respond(misconfigured())).await;
        assert!(matches!(outcome, Outcome::Misconfigured(_)), "{outcome:?}");
    }
    if let Some(gone) = R::RESPONSES.gone {
        let outcome = next(Fault::Respond(gone())).await;
        assert!(matches!(outcome, Outcome::Gone(_)), "{outcome:?}");
    }
    for status in [500, 503] {
        let outcome = next(Fault::Respond(Reply::empty(status).with("retry-after", "9"))).await;
        let is_expected = matches!(&outcome, Outcome::Unavailable { after: Some(after), .. } if after.as_secs() == 9);
        assert!(is_expected, "{status}: {outcome:?}");
    }
    assert_eq!(test.done(), 1);
    // Redirects are not followed.
    let elsewhere = Reply::empty(307).with("location", test.server().url());
    let calls = test.server().received().len();
    let outcome = next(Fault::Respond(elsewhere)).await;
    assert!(matches!(outcome, Outcome::Misconfigured(_) | Outcome::Rejected(_)), "{outcome:?}");
    assert_eq!(test.server().received().len(), calls + 1);

    // Processed without a response: ambiguous. A repeat makes a second copy only if the provider does not deduplicate.
    let outcome = next(Fault::Reset).await;
    assert!(matches!(outcome, Outcome::Ambiguous(_)), "{outcome:?}");
    assert_eq!(test.done(), 2);
    let outcome = test.send(true).await;
    assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
    assert_eq!(test.done(), if R::RESPONSES.is_idempotent { 2 } else { 3 });

    // A response without an end is truncated, but still a response.
    let done = test.done();
    let started = Instant::now();
    let outcome = next(Fault::Flood).await;
    assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "the whole answer was read");
    assert_eq!(test.done(), done + 1);

    // Nothing listens there, and an address that must not be called.
    let closed = ProviderServer::start(|_: &testkit::Received| Reply::empty(200)).await;
    let url = closed.url();
    drop(closed);
    let outcome = test.send_to(&url).await;
    assert!(matches!(outcome, Outcome::Unavailable { .. }), "{outcome:?}");
    let outcome = test.send_to("https://10.0.0.1").await;
    let expected = if R::RESPONSES.misconfigured.is_some() { "misconfigured" } else { "rejected" };
    assert!(outcome.name() == expected && outcome.text().contains("may not be called"), "{outcome:?}");

    // Processed without a response: the call times out.
    let started = Instant::now();
    let outcome = next(Fault::Hang).await;
    assert!(matches!(outcome, Outcome::Ambiguous(_)), "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(25), "the call took {:?}", started.elapsed());
    assert_eq!(test.done(), done + 2);
}
