use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::expected::MailKind;
use super::requests::Route;
use super::*;

fn recipe(run: &str, people: usize) -> Recipe {
    Recipe { seed: 1, run: run.to_owned(), people, start_ms: 1_790_000_000_000 }
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
fn the_same_recipe_gives_the_same_bytes() {
    let (a, b) = (Day::generate(&recipe("run", 120)), Day::generate(&recipe("run", 120)));
    assert_eq!(format!("{:?}", a.requests), format!("{:?}", b.requests));
    let other = Day::generate(&recipe("other", 120));
    assert_eq!(a.events_by_name(), other.events_by_name(), "another run has the same day");
    assert_ne!(a.requests[0].json, other.requests[0].json);
}

#[test]
fn runs_share_no_id_and_no_address() {
    let of = |run: &str| {
        let day = Day::generate(&recipe(run, 120));
        let events = day.books.iter().flat_map(|b| b.events.iter().map(|e| e.id.clone()));
        let people = day.people.iter().flat_map(|p| p.devices.iter().cloned().chain([p.external_id.clone()]));
        let addresses = day.people.iter().filter_map(|p| p.mailbox().map(str::to_owned));
        events.chain(people).chain(addresses).collect::<HashSet<_>>()
    };
    assert!(of("run-a").is_disjoint(&of("run-b")));
}

#[test]
fn a_whole_day_is_about_fifty_thousand_events() {
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
fn the_expectations_add_up_to_what_is_sent() {
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
    let expected: HashSet<_> = day.books.iter().flat_map(|b| b.events.iter().map(|e| e.id.clone())).collect();
    assert_eq!(expected, sent.into_keys().collect());
    assert_eq!(day.events_by_name().values().sum::<u64>(), day.events());
}

#[test]
fn nobody_signs_up_before_being_identified_and_no_member_checks_out_unknown() {
    let day = Day::generate(&recipe("run", 400));
    let mut identified = HashSet::new();
    for request in day.requests.iter().filter(|r| !r.repeat) {
        for item in items(request) {
            let name = item.get("event").or(item.get("eventName")).and_then(Value::as_str).unwrap_or_default();
            let identifies = request.route == Route::Identify || item["type"] == "identify";
            if identifies && item["properties"].get("email").is_some() {
                identified.insert(request.person);
            }
            let mailable = day.people[request.person].mailbox().is_some();
            if mailable && (name == "signed_up" || (name == "checkout_started" && item.get("user_id").is_some())) {
                assert!(identified.contains(&request.person), "{name} of {}", request.person);
            }
        }
    }
}

#[test]
fn a_reminder_is_due_for_every_checkout_that_mail_can_reach() {
    let day = Day::generate(&recipe("run", 400));
    let carts: BTreeSet<_> = day.requests.iter().flat_map(|r| r.carts.iter().cloned()).collect();
    assert_eq!(carts.len(), day.events_by_name()["checkout_started"] as usize);
    let reminded: BTreeSet<_> = day.due_mails().into_iter().filter_map(|mail| mail.cart_id).collect();
    assert!(reminded.is_subset(&carts) && reminded.len() < carts.len());
    let subjects: HashSet<_> = day.due_mails().into_iter().map(|mail| (mail.to, mail.subject)).collect();
    assert_eq!(subjects.len(), day.due_mails().len(), "address and subject identify a mail");
}

#[test]
fn the_two_wrong_clocks_write_only_batches() {
    let day = Day::generate(&recipe("run", 60));
    for (person, skew) in clocks::WRONG {
        let theirs: Vec<_> = day.requests.iter().filter(|r| r.person == person).collect();
        assert!(!theirs.is_empty() && theirs.iter().all(|r| r.skew_ms == skew && r.route != Route::Event));
    }
}

#[test]
fn a_phone_is_registered_before_it_is_told_of_and_belongs_to_one_member() {
    let day = Day::generate(&recipe("run", 400));
    let mut registered = HashSet::new();
    for request in day.requests.iter().filter(|r| !r.repeat) {
        for item in items(request) {
            if request.route == Route::Device {
                assert!(registered.insert(request.person), "a second phone of {}", request.person);
                assert!(item["token"].as_str().is_some_and(|token| token.starts_with("mailbox:anon-run-")), "{item}");
            }
            let name = item.get("event").or(item.get("eventName")).and_then(Value::as_str);
            assert!(name != Some("push_enabled") || registered.contains(&request.person), "{}", request.person);
        }
    }
    assert_eq!(registered.len(), day.due_pushes().len());
    assert_eq!(day.events_by_name()["push_enabled"] as usize, registered.len());
    assert!(registered.len() > 100 && registered.len() < day.due_in_app().len());
}
