use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::expected::MailKind;
use super::requests::Route;
use super::*;

fn recipe(run: &str, users: usize) -> Recipe {
    Recipe { seed: 1, run: run.to_owned(), users, start_ms: 1_790_000_000_000 }
}

fn items(request: &Request) -> Vec<Value> {
    let array = format!("[{}]", request.json);
    serde_json::from_str(&array).unwrap()
}

/// Returns the client's ID of an item that counts as an event.
fn client_id(request: &Request, item: &Value) -> Option<String> {
    if matches!(request.route, Route::Identify | Route::Device) || item["type"] == "identify" {
        return None;
    }
    let own = item.get("id").or(item.get("messageId")).and_then(Value::as_str);
    own.map(str::to_owned).or(request.idempotency_key.clone())
}

#[test]
fn same_recipe_generates_same_bytes() {
    let (a, b) = (Day::generate(&recipe("run", 120)), Day::generate(&recipe("run", 120)));
    assert_eq!(format!("{:?}", a.requests), format!("{:?}", b.requests));
    let other = Day::generate(&recipe("other", 120));
    assert_eq!(a.events_by_name(), other.events_by_name(), "another run has the same day");
    assert_ne!(a.requests[0].json, other.requests[0].json);
}

#[test]
fn runs_share_no_id_or_address() {
    let of = |run: &str| {
        let day = Day::generate(&recipe(run, 120));
        let events = day.expected_users.iter().flat_map(|b| b.events.iter().map(|e| e.id.clone()));
        let users = day.users.iter().flat_map(|p| p.devices.iter().cloned().chain([p.external_id.clone()]));
        let addresses = day.users.iter().filter_map(|p| p.mailbox().map(str::to_owned));
        events.chain(users).chain(addresses).collect::<HashSet<_>>()
    };
    assert!(of("run-a").is_disjoint(&of("run-b")));
}

#[test]
fn full_day_has_about_fifty_thousand_events() {
    let day = Day::generate(&recipe("run", 2_000));
    let mails = day.due_mails();
    let welcomes = mails.iter().filter(|mail| mail.kind == MailKind::Welcome).count();
    assert!((49_000..55_000).contains(&day.events()), "{}", day.events());
    assert!((1_500..2_000).contains(&welcomes), "{welcomes}");
    assert!((1_000..3_500).contains(&(mails.len() - welcomes)), "{}", mails.len() - welcomes);
    let batches = day.requests.iter().filter(|r| matches!(r.route, Route::Batch { .. }));
    let (again, first): (Vec<_>, Vec<_>) = batches.partition(|r| r.repeat);
    assert!((2.0..4.0).contains(&(100.0 * again.len() as f64 / first.len() as f64)), "{}", again.len());
    assert!(day.requests.iter().filter(|r| r.route == Route::Event && !r.repeat).count() > 1_000);
    assert!(day.requests.iter().any(|r| r.items == 100), "a phone that was offline");
    assert!(day.requests.iter().all(|r| r.items <= 100 && r.json.len() < 400_000));
}

#[test]
fn expectations_match_the_requests() {
    let day = Day::generate(&recipe("run", 400));
    let (mut sent, mut again) = (HashMap::<String, u32>::new(), 0);
    for request in &day.requests {
        let items = items(request);
        assert_eq!(items.len(), request.items as usize);
        let events: Vec<_> = items.iter().filter_map(|item| client_id(request, item)).collect();
        assert_eq!(events.len(), request.events as usize);
        again += if request.repeat { u64::from(request.events) } else { 0 };
        for id in events {
            *sent.entry(id).or_default() += 1;
        }
    }
    assert_eq!(sent.len() as u64, day.events());
    assert_eq!(u64::from(sent.values().sum::<u32>()), day.events() + day.repeats());
    assert_eq!(again, day.repeats());
    let expected: HashSet<_> = day.expected_users.iter().flat_map(|b| b.events.iter().map(|e| e.id.clone())).collect();
    assert_eq!(expected, sent.into_keys().collect());
    assert_eq!(day.events_by_name().values().sum::<u64>(), day.events());
}

#[test]
fn users_are_identified_before_sign_up_and_members_before_checkout() {
    let day = Day::generate(&recipe("run", 400));
    let mut identified = HashSet::new();
    for request in day.requests.iter().filter(|r| !r.repeat) {
        for item in items(request) {
            let name = item.get("event").or(item.get("eventName")).and_then(Value::as_str).unwrap_or_default();
            let identifies = request.route == Route::Identify || item["type"] == "identify";
            if identifies && item["properties"].get("email").is_some() {
                identified.insert(request.user);
            }
            let mailable = day.users[request.user].mailbox().is_some();
            if mailable && (name == "signed_up" || (name == "checkout_started" && item.get("user_id").is_some())) {
                assert!(identified.contains(&request.user), "{name} of {}", request.user);
            }
        }
    }
}

#[test]
fn reminder_is_due_for_every_checkout_of_a_mailable_user() {
    let day = Day::generate(&recipe("run", 400));
    let carts: BTreeSet<_> = day.requests.iter().flat_map(|r| r.carts.iter().cloned()).collect();
    assert_eq!(carts.len(), day.events_by_name()["checkout_started"] as usize);
    let reminded: BTreeSet<_> = day.due_mails().into_iter().filter_map(|mail| mail.cart_id).collect();
    assert!(reminded.is_subset(&carts) && reminded.len() < carts.len());
    let subjects: HashSet<_> = day.due_mails().into_iter().map(|mail| (mail.to, mail.subject)).collect();
    assert_eq!(subjects.len(), day.due_mails().len(), "address and subject identify a mail");
}

#[test]
fn devices_with_wrong_clocks_send_only_batches() {
    let day = Day::generate(&recipe("run", 60));
    for (user, skew) in clocks::WRONG_CLOCKS {
        let theirs: Vec<_> = day.requests.iter().filter(|r| r.user == user).collect();
        assert!(!theirs.is_empty() && theirs.iter().all(|r| r.skew_ms == skew && r.route != Route::Event));
    }
}

#[test]
fn phone_is_registered_before_events_refer_to_it() {
    let day = Day::generate(&recipe("run", 400));
    let mut registered = HashSet::new();
    for request in day.requests.iter().filter(|r| !r.repeat) {
        for item in items(request) {
            if request.route == Route::Device {
                assert!(registered.insert(request.user), "a second phone of {}", request.user);
                assert!(item["token"].as_str().is_some_and(|token| token.starts_with("mailbox:anon-run-")), "{item}");
            }
            let name = item.get("event").or(item.get("eventName")).and_then(Value::as_str);
            assert!(name != Some("push_enabled") || registered.contains(&request.user), "{}", request.user);
        }
    }
    assert_eq!(registered.len(), day.due_pushes().len());
    assert_eq!(day.events_by_name()["push_enabled"] as usize, registered.len());
    assert!(registered.len() > 100 && registered.len() < day.due_in_app().len());
}
