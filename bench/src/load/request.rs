//! Prebuilt requests. IDs are written into a request's bytes just before it is sent.

use crate::dice::Dice;
use crate::load::item::{self, ANONYMOUS, ID, UserRef};
use crate::load::shape::{Kind, Shape};
use crate::tenants;

/// A request's bytes and the positions that change.
#[derive(Debug)]
pub struct Request {
    pub bytes: Vec<u8>,
    pub counts: Counts,
    changes: Vec<Change>,
}

/// What an accepted request adds to the totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All items.
    pub items: u64,
    /// Events among the items, without repeats.
    pub events: u64,
}

/// Positions in a request's bytes that change.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// A new ID.
    Id { at: usize },
    /// The ID at `of` in the previous request, so that this item repeats that one.
    Repeat { at: usize, of: usize },
    /// A new anonymous user.
    Anonymous { at: usize },
    /// This request's anonymous user, named a second time.
    Same { at: usize, of: usize },
    /// The anonymous user of the previous request.
    SameAsBefore { at: usize, of: usize },
}

/// The requests of one connection, sent round-robin.
#[derive(Debug)]
pub struct Requests {
    all: Vec<Request>,
    next: usize,
    ids: Ids,
}

/// ID generator of one connection. Its IDs differ in each run.
#[derive(Debug)]
struct Ids {
    dice: Dice,
}

/// Single requests per connection. Every hundredth identifies a user, and the one before it is an event of that user.
const SINGLES: usize = 200;
/// Batches per connection. Both batches of a pair belong to one project, so that the second can repeat events of the
/// first.
const BATCHES: usize = 16;

impl Requests {
    /// Builds the requests. `seed` fixes their content except for the IDs; `ids` separates the IDs from those of other
    /// connections and runs.
    pub fn new(shape: Shape, host: &str, seed: u64, ids: u64, sent_at: &str) -> Self {
        let mut dice = Dice::new(seed);
        let all = match shape.kind {
            Kind::Single => singles(shape, host, &mut dice, sent_at),
            Kind::BatchOfOne | Kind::BatchOfMany => batches(shape, host, &mut dice, sent_at),
            Kind::Message => messages(shape, host, &mut dice),
        };
        Self { all, next: 0, ids: Ids { dice: Dice::new(ids) } }
    }

    /// Returns the next request, with new IDs created at `now_ms`.
    pub fn next(&mut self, now_ms: i64) -> &Request {
        let at = self.next;
        self.next = (at + 1) % self.all.len();
        let (before, rest) = self.all.split_at_mut(at);
        if let Some(request) = rest.first_mut() {
            request.renew(before.last(), &mut self.ids, now_ms);
        }
        &self.all[at]
    }
}

impl Request {
    fn renew(&mut self, before: Option<&Self>, ids: &mut Ids, now_ms: i64) {
        let bytes = &mut self.bytes;
        for change in &self.changes {
            match *change {
                Change::Id { at } => ids.write(&mut bytes[at..at + ID.len()], now_ms),
                Change::Anonymous { at } => hex(ids.dice.number(), &mut bytes[at + 5..at + ANONYMOUS.len()]),
                Change::Same { at, of } => bytes.copy_within(of..of + ANONYMOUS.len(), at),
                Change::Repeat { at, of } => copy(before, of, &mut bytes[at..at + ID.len()]),
                Change::SameAsBefore { at, of } => copy(before, of, &mut bytes[at..at + ANONYMOUS.len()]),
            }
        }
    }
}

fn copy(from: Option<&Request>, of: usize, to: &mut [u8]) {
    if let Some(found) = from.and_then(|request| request.bytes.get(of..of + to.len())) {
        to.copy_from_slice(found);
    }
}

impl Ids {
    /// Writes a UUIDv7 as text.
    fn write(&mut self, to: &mut [u8], now_ms: i64) {
        let mut digits = [0; 32];
        hex((now_ms as u64) << 16 | 0x7000 | (self.dice.number() & 0xfff), &mut digits[..16]);
        hex(self.dice.number() >> 2 | 1 << 63, &mut digits[16..]);
        for (start, at) in [(0, 0..8), (9, 8..12), (14, 12..16), (19, 16..20), (24, 20..32)] {
            to[start..start + at.len()].copy_from_slice(&digits[at]);
        }
    }
}

/// Writes the lowest bits of `number` as hexadecimal digits, as many as fit.
fn hex(mut number: u64, to: &mut [u8]) {
    for digit in to.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

fn singles(shape: Shape, host: &str, dice: &mut Dice, sent_at: &str) -> Vec<Request> {
    let mut all: Vec<Request> = Vec::with_capacity(SINGLES);
    let (mut project, mut user) = (0, 0);
    for nth in 0..SINGLES {
        // Requests 1 and 2 share a user, and so does each repeat (4, 24, …) with the request that it repeats.
        let (merges, repeats) = (nth % 100 == 2, nth % 20 == 4);
        if !merges && !repeats {
            (project, user) = (shape.first + dice.below(shape.projects), dice.below(shape.users));
        }
        let anonymous = nth % 100 == 1;
        let who = if anonymous { UserRef::Anonymous } else { UserRef::Known(user) };
        let (path, body) = if merges {
            ("/api/v1/users/identify", item::identify(dice, user, ""))
        } else {
            (shape.kind.path(), item::track(dice, who, sent_at, ""))
        };
        let bytes = post(host, path, &tenants::public_key(project), &body);
        let before = all.last().map_or(&[][..], |request| request.bytes.as_slice());
        let mut changes = Vec::new();
        if let Some(at) = find(&bytes, ID) {
            let of = find_id(before);
            changes.push(if repeats { Change::Repeat { at, of } } else { Change::Id { at } });
        }
        if let Some(at) = find(&bytes, ANONYMOUS) {
            let of = find(before, ANONYMOUS).unwrap_or_default();
            changes.push(if merges { Change::SameAsBefore { at, of } } else { Change::Anonymous { at } });
        }
        let counts = Counts { items: 1, events: u64::from(!merges && !repeats) };
        all.push(Request { bytes, counts, changes });
    }
    all
}

fn batches(shape: Shape, host: &str, dice: &mut Dice, sent_at: &str) -> Vec<Request> {
    let kind = r#""type":"track","#;
    let mut all: Vec<Request> = Vec::with_capacity(BATCHES);
    let (mut project, mut one) = (0, 0);
    let mut last: Vec<String> = Vec::new();
    for nth in 0..BATCHES {
        if nth % 2 == 0 {
            (project, one) = (shape.first + dice.below(shape.projects), dice.below(shape.users));
        }
        // Every tenth item of every second batch: 5 % of all items.
        let repeats = |position: usize| nth % 2 == 1 && position % 10 == 7;
        let items: Vec<String> = (0..Kind::BATCH as usize)
            .map(|position| {
                let user = if shape.kind == Kind::BatchOfOne { one } else { dice.below(shape.users) };
                match position {
                    50 => item::track(dice, UserRef::Anonymous, sent_at, kind),
                    51 => item::identify(dice, user, r#""type":"identify","#),
                    _ if repeats(position) => last[position].clone(),
                    _ => item::track(dice, UserRef::Known(user), sent_at, kind),
                }
            })
            .collect();
        let body = format!(r#"{{"batch":[{}]}}"#, items.join(","));
        let bytes = post(host, shape.kind.path(), &tenants::public_key(project), &body);
        let ids = find_all(&bytes, ID);
        let before = all.last().map(Request::id_positions).unwrap_or_default();
        let mut changes: Vec<Change> = (0..)
            .zip(&ids)
            .map(|(position, at)| match before.get(position) {
                Some(of) if repeats(position) => Change::Repeat { at: *at, of: *of },
                _ => Change::Id { at: *at },
            })
            .collect();
        if let [first, second] = find_all(&bytes, ANONYMOUS)[..] {
            changes.push(Change::Anonymous { at: first });
            changes.push(Change::Same { at: second, of: first });
        }
        let repeated = (0..ids.len()).filter(|p| repeats(*p)).count() as u64;
        let counts = Counts { items: u64::from(Kind::BATCH), events: u64::from(Kind::BATCH) - 1 - repeated };
        all.push(Request { bytes, counts, changes });
        last = items;
    }
    all
}

fn messages(shape: Shape, host: &str, dice: &mut Dice) -> Vec<Request> {
    let one = |_| {
        let (project, user) = (shape.first + dice.below(shape.projects), dice.below(shape.users));
        let body = item::message(user);
        let bytes = post(host, shape.kind.path(), &tenants::secret_key(project), &body);
        Request { bytes, counts: Counts { items: 1, events: 0 }, changes: Vec::new() }
    };
    (0..SINGLES).map(one).collect()
}

impl Request {
    fn id_positions(&self) -> Vec<usize> {
        let position = |change: &Change| match *change {
            Change::Id { at } | Change::Repeat { at, .. } => Some(at),
            _ => None,
        };
        self.changes.iter().filter_map(position).collect()
    }
}

/// Returns the position of the ID in a request whose ID has not been written yet.
fn find_id(bytes: &[u8]) -> usize {
    find(bytes, ID).unwrap_or_default()
}

fn find(bytes: &[u8], text: &str) -> Option<usize> {
    find_all(bytes, text).first().copied()
}

fn find_all(bytes: &[u8], text: &str) -> Vec<usize> {
    let text = text.as_bytes();
    (0..(bytes.len() + 1).saturating_sub(text.len())).filter(|at| bytes[*at..].starts_with(text)).collect()
}

fn post(host: &str, path: &str, key: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

    fn sent(kind: Kind, requests: usize) -> (Vec<(String, Value)>, u64, u64) {
        let shape = Shape { projects: 3, users: 20, ..Shape::new(kind) };
        let mut source = Requests::new(shape, "localhost", 1, 2, "2026-01-01T00:00:00.000Z");
        let (mut all, mut items, mut events) = (Vec::new(), 0, 0);
        for _ in 0..requests {
            let request = source.next(1_790_000_000_000);
            (items, events) = (items + request.counts.items, events + request.counts.events);
            let text = std::str::from_utf8(&request.bytes).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("content-length: {}", body.len())));
            let key = head.split("x-api-key: ").nth(1).unwrap().lines().next().unwrap().to_owned();
            let body: Value = serde_json::from_str(body).unwrap();
            match body["batch"].as_array() {
                Some(batch) => all.extend(batch.iter().map(|item| (key.clone(), item.clone()))),
                None => all.push((key, body)),
            }
        }
        (all, items, events)
    }

    #[test]
    fn loads_contain_the_specified_requests() {
        for (kind, requests) in [(Kind::Single, 1_000), (Kind::BatchOfMany, 20), (Kind::BatchOfOne, 20)] {
            let (all, items, events) = sent(kind, requests);
            assert_eq!(all.len() as u64, items);
            let merges: Vec<_> = all.iter().filter(|(_, item)| item.get("event").is_none()).collect();
            assert_eq!(merges.len() * 100, all.len(), "{kind:?}: one percent");
            let ids: BTreeSet<_> = all.iter().map(|(key, item)| (key, item["id"].as_str().unwrap())).collect();
            assert_eq!(ids.len() * 100, all.len() * 95, "{kind:?}: five percent repeat");
            assert_eq!(events as usize, ids.len() - merges.len(), "{kind:?}");
            // Every identified user was seen before, in the same project.
            let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
            for (key, item) in &all {
                let Some(anonymous) = item["anonymous_id"].as_str() else { continue };
                match item.get("event") {
                    Some(_) => assert_eq!(seen.insert(anonymous, key), None),
                    None => assert_eq!(seen.remove(anonymous), Some(key.as_str())),
                }
            }
        }
    }

    #[test]
    fn ids_are_uuids_of_version_7() {
        let (all, ..) = sent(Kind::Single, 50);
        for (_, item) in all {
            let id = uuid::Uuid::try_parse(item["id"].as_str().unwrap()).unwrap();
            assert_eq!((id.get_version_num(), kernel::ids::time_ms(id)), (7, 1_790_000_000_000));
            assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
        }
    }
}
