//! Deliveries to endpoints with random responses: how often and when they are called.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

fn answer(status: u16, retry_after_s: Option<u64>) -> HttpResponse {
    let mut headers = HeaderMap::new();
    if let Some(retry_after) = retry_after_s {
        headers.insert(http::header::RETRY_AFTER, retry_after.into());
    }
    HttpResponse { status: StatusCode::from_u16(status).unwrap(), headers, body: Bytes::new(), complete: true }
}

/// Response status of an endpoint, and its `Retry-After` in seconds.
fn call() -> impl Strategy<Value = (Option<u16>, Option<u64>)> {
    let status = prop_oneof![
        1 => Just(Some(204)),
        1 => Just(Some(410)),
        30 => prop::sample::select(vec![None, Some(301), Some(400), Some(404), Some(429), Some(500), Some(503)]),
    ];
    (status, prop::option::of(prop_oneof![0..600_u64, 0..200_000_u64]))
}

/// Earliest due times of the calls, in minutes after the first.
const DUE_MINUTES: [f64; 8] = [0.0, 5.0 / 60.0, 5.0, 35.0, 155.0, 455.0, 1_055.0, 1_655.0];

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn delivery_is_retried_until_it_succeeds_or_eight_calls_have_failed(
        calls in prop::collection::vec((call(), 0.0..=1.0), 12),
        failed_before in 0..50_i32,
    ) {
        let start = Timestamp::from_second(1_790_000_000).unwrap();
        let (mut now, mut made, mut done, mut total_retry_after_s) = (start, 0, None, 0_u64);
        for ((status, retry_after_s), random) in calls {
            let waited = now.duration_since(start).as_secs_f64() / 60.0;
            prop_assert!(waited >= DUE_MINUTES[made] - 0.1, "the call {} after {} minutes", made + 1, waited);
            // At most a tenth later than planned, plus the requested delays.
            let planned = DUE_MINUTES[made] * 1.1 + 0.1 + total_retry_after_s as f64 / 60.0;
            prop_assert!(waited <= planned, "the call {} after {} minutes", made + 1, waited);
            let outcome = status.map_or(Err(CallError::Unreachable("down".to_owned())), |s| Ok(answer(s, retry_after_s)));
            let failures = failed_before + made as i32;
            let verdict = judge(&outcome, made as i32, failures, now, random);
            made += 1;
            let went_well = status == Some(204);
            prop_assert_eq!((verdict.error.is_none(), verdict.next == Next::Done), (went_well, went_well));
            let retry_after = retry_after_s.filter(|_| status.is_some() && !went_well);
            prop_assert!(verdict.back_off.is_none_or(|back_off| back_off <= Duration::from_hours(1) && !went_well));
            prop_assert!(verdict.back_off.is_some() || went_well || (failures < 4 && retry_after.is_none()));
            prop_assert!(verdict.back_off >= retry_after.map(|s| Duration::from_secs(s.min(3_600))));
            // Only a 410 response disables an endpoint that has failed for less than five days.
            let nearly = Duration::from_secs(5 * 86_400 - 1);
            prop_assert_eq!(verdict.disables(nearly, i32::MAX).is_some(), status == Some(410));
            prop_assert_eq!(verdict.disables(nearly * 2, 10).is_some(), !went_well);
            let Next::Again(wait) = verdict.next else {
                done = Some(status);
                break;
            };
            prop_assert!(status != Some(410), "a gone endpoint is called again");
            if let Some(retry_after) = retry_after {
                prop_assert!(wait >= Duration::from_secs(retry_after.min(86_400)));
                total_retry_after_s += retry_after.min(86_400);
            }
            now += SignedDuration::try_from(wait).unwrap();
        }
        let last = done.expect("the delivery does not end");
        prop_assert!(made == 8 || matches!(last, Some(204 | 410)), "{} calls, the last with {:?}", made, last);
    }
}
