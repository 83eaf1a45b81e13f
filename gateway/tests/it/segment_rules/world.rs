//! A random world of users and their activity, in the database and in memory.

use std::collections::BTreeSet;

use database::Store;
use domain::push_token::Platform;
use jiff::{SignedDuration, Timestamp};
use kernel::ids::{self, ProjectId, UserKey};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rules::eval::{self, Actual, Facts, Stats};
use rules::sql::{IdRange, users_in_range};
use rules::{Activity, Aggregate, Behaviour, Rule, Source, segments};
use serde_json::{Map, Value, json};
use store_profiles::segments::{Segment, SegmentType, evaluate, insert};
use testkit::TestDatabase;
use uuid::Uuid;

use super::reference;
use super::strategy::{self, CHANNELS, EVENTS, KEYS, PLATFORMS};

#[derive(Clone, Debug)]
pub struct Event {
    pub name: &'static str,
    pub at: Timestamp,
    pub properties: Map<String, Value>,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub channel: &'static str,
    pub status: &'static str,
    /// Times of created, sent, delivered, opened, clicked and, for failures, failed.
    pub at: [Option<Timestamp>; 6],
}

/// A user, including everything from the users merged into them.
#[derive(Clone, Debug)]
pub struct TestUser {
    pub id: Uuid,
    pub ids: Vec<Uuid>,
    pub email: Option<String>,
    pub name: Option<String>,
    pub external_id: Option<String>,
    pub created_at: Timestamp,
    pub properties: Map<String, Value>,
    pub events: Vec<Event>,
    pub messages: Vec<Message>,
    pub platforms: BTreeSet<Platform>,
    pub lists: BTreeSet<Uuid>,
}

pub struct World {
    pub store: Store,
    pub project: ProjectId,
    pub now: Timestamp,
    pub users: Vec<TestUser>,
    /// Two manual segments, and two with rules, of which the second may depend on the first.
    pub segments: Vec<Uuid>,
    pub rules: Vec<(Uuid, Value)>,
}

fn now() -> Timestamp {
    "2026-06-15T12:00:00Z".parse().unwrap()
}

/// Generates a time up to two years back.
fn past() -> BoxedStrategy<Timestamp> {
    let minutes = prop_oneof![0_i64..120, 0_i64..5_000, 0_i64..1_000_000];
    minutes.prop_map(|minutes| now() - SignedDuration::from_mins(minutes)).boxed()
}

fn properties() -> BoxedStrategy<Map<String, Value>> {
    prop::collection::btree_map(select(KEYS.to_vec()).prop_map(str::to_owned), strategy::property(), 0..4)
        .prop_map(|map| map.into_iter().collect())
        .boxed()
}

fn event() -> impl Strategy<Value = Event> {
    (select(EVENTS.to_vec()), past(), properties(), prop::option::of(-8_i32..20)).prop_map(
        |(name, at, mut properties, number)| {
            // The values must add up exactly.
            properties.insert("age".to_owned(), number.map_or(json!("x"), |n| json!(f64::from(n) / 4.0)));
            Event { name, at, properties }
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    let states = select(vec!["queued", "sent", "delivered", "opened", "clicked", "failed", "bounced"]);
    let reported = prop::collection::vec(any::<bool>(), 6);
    (select(CHANNELS.to_vec()), states, past(), reported).prop_map(|(channel, status, made, reported)| {
        let steps = ["queued", "sent", "delivered", "opened", "clicked"];
        let last = steps.iter().position(|step| *step == status);
        let at = std::array::from_fn(|i| match (i, last) {
            (0, _) => Some(made),
            // The last step is always reported, earlier ones only sometimes.
            (1..5, Some(last)) if i == last || (i < last && reported[i]) => {
                Some(made + SignedDuration::from_secs(i as i64))
            }
            (5, None) if status == "failed" => Some(made),
            _ => None,
        });
        Message { channel, status, at }
    })
}

fn user(project: ProjectId, number: usize, lists: Vec<Uuid>) -> impl Strategy<Value = TestUser> {
    let known = any::<bool>();
    let texts =
        (prop::option::of(Just(format!("u{number}@example.com"))), prop::option::of(select(vec!["Ana", "Ben"])));
    let activity = (prop::collection::vec(event(), 0..5), prop::collection::vec(message(), 0..3));
    let belongs =
        (prop::collection::btree_set(select(PLATFORMS.to_vec()), 0..3), prop::sample::subsequence(lists, 0..=2));
    (known, texts, past(), properties(), activity, belongs, 0_usize..3).prop_map(
        move |(known, (email, name), created_at, properties, (events, messages), (platforms, lists), merged)| {
            let external = format!("u{number}");
            let (key, anonymous) = (UserKey::External(&external), format!("a{number}"));
            let id = if known { key } else { UserKey::Anonymous(&anonymous) }.internal_id(project);
            let before = (0..merged).map(|i| UserKey::Anonymous(&format!("m{number}-{i}")).internal_id(project));
            TestUser {
                id,
                ids: std::iter::once(id).chain(before).collect(),
                email,
                name: name.map(str::to_owned),
                external_id: known.then_some(external.clone()),
                created_at,
                properties,
                events,
                messages,
                platforms: platforms.into_iter().filter_map(Platform::parse).collect(),
                lists: lists.into_iter().collect(),
            }
        },
    )
}

impl World {
    pub async fn make(database: &TestDatabase, runner: &mut TestRunner, size: usize) -> Self {
        let store = database.store();
        let project = ProjectId(ids::fresh(now().as_millisecond()));
        let fresh = || ids::fresh(now().as_millisecond());
        let lists = vec![fresh(), fresh()];
        let users = (0..size).map(|i| user(project, i, lists.clone()).new_tree(runner).unwrap().current()).collect();
        let mut world = Self { store, project, now: now(), users, segments: lists, rules: Vec::new() };
        world.write().await;
        for id in world.segments.clone() {
            world.segment(id, SegmentType::Manual, json!([])).await;
        }
        for _ in 0..2 {
            let rules = strategy::rule_list(&world.segments).new_tree(runner).unwrap().current();
            let id = fresh();
            world.segment(id, SegmentType::Rules, rules.clone()).await;
            world.segments.push(id);
            world.rules.push((id, rules));
        }
        world
    }

    pub async fn found(&self, rules: &[Rule]) -> BTreeSet<Uuid> {
        let mut db = self.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        evaluate::configure_search(&tx, std::time::Duration::from_secs(20)).await.unwrap();
        let users = evaluate::satisfying(&tx, self.project, rules, self.now).await.unwrap();
        let ids = evaluate::ids(&tx, &users).await.unwrap();
        assert_eq!(evaluate::count(&tx, &users).await.unwrap(), ids.len() as i64);
        ids.into_iter().collect()
    }

    /// Like [`Self::found`], but evaluates the IDs in this many separate ranges.
    pub async fn found_in_ranges(&self, rules: &[Rule], ranges: usize) -> BTreeSet<Uuid> {
        let mut db = self.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        evaluate::configure_range_scans(&tx, true).await.unwrap();
        let definitions = evaluate::definitions(&tx, self.project, &segments(rules)).await.unwrap();
        let mut bounds: Vec<Uuid> = self.users.iter().flat_map(|user| &user.ids).copied().collect();
        bounds.sort_unstable();
        let step = bounds.len().div_ceil(ranges);
        let ends = bounds.chunks(step).filter_map(|chunk| chunk.last().copied());
        let (mut found, mut after) = (BTreeSet::new(), Uuid::nil());
        for to in ends {
            let range = IdRange { after, to };
            let users = users_in_range(self.project, rules, &definitions, self.now, range);
            for id in evaluate::ids(&tx, &users).await.unwrap() {
                assert!(id > after && id <= to && found.insert(id), "{id} is outside its range or was found twice");
            }
            after = to;
        }
        found
    }

    async fn segment(&self, id: Uuid, segment_type: SegmentType, rules: Value) {
        let mut db = self.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        let (name, description) = ("s".to_owned(), String::new());
        let (created_at, updated_at) = (self.now, self.now);
        let segment = Segment { id, name, description, segment_type, rules, created_at, updated_at };
        insert(&tx, self.project, &segment).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Writes each record under one of the user's IDs in rotation.
    async fn write(&self) {
        let db = self.store.connection().await.unwrap();
        for user in &self.users {
            let mut of = user.ids.iter().cycle();
            let mut one = || of.next().unwrap();
            for (i, id) in user.ids.iter().enumerate() {
                // A chain: each was merged into the previous one.
                let into = i.checked_sub(1).map(|before| user.ids[before]);
                let sql = "INSERT INTO users (project_id, id, external_id, email, name, properties, merged_into, created_at, \
                           last_seen_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $8)";
                let own = i == 0;
                let (email, name) = (user.email.as_ref().filter(|_| own), user.name.as_ref().filter(|_| own));
                let external = user.external_id.as_ref().filter(|_| own);
                let properties = if own { Value::Object(user.properties.clone()) } else { json!({}) };
                db.execute(sql, &[&self.project, id, &external, &email, &name, &properties, &into, &user.created_at])
                    .await
                    .unwrap();
            }
            for event in &user.events {
                // The ID carries the time of receipt, which lies in an existing partition.
                let id = ids::fresh(kernel::clock::Clock::system().now_ms());
                let sql = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                           VALUES ($1, $2, $3, $4, $5, $6, $6)";
                let properties = Value::Object(event.properties.clone());
                db.execute(sql, &[&self.project, &id, &event.name, one(), &properties, &event.at]).await.unwrap();
            }
            for message in &user.messages {
                let id = ids::fresh(kernel::clock::Clock::system().now_ms());
                let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, sent_at, delivered_at, \
                           opened_at, clicked_at, failed_at, updated_at) \
                           VALUES ($1, $2, $3, $4, 'direct', $5, $6, $7, $8, $9, $10, $11, $6)";
                let [made, sent, delivered, opened, clicked, failed] = &message.at;
                let (channel, status) = (&message.channel, &message.status);
                db.execute(
                    sql,
                    &[&self.project, &id, one(), channel, status, made, sent, delivered, opened, clicked, failed],
                )
                .await
                .unwrap();
            }
            for list in &user.lists {
                let sql =
                    "INSERT INTO segment_member (project_id, segment_id, user_id, added_at) VALUES ($1, $2, $3, now())";
                db.execute(sql, &[&self.project, list, one()]).await.unwrap();
            }
            for platform in &user.platforms {
                let sql = "INSERT INTO push_token (project_id, id, user_id, platform, token, created_at, updated_at) \
                           VALUES ($1, $2, $3, $4, 'token', now(), now())";
                db.execute(
                    sql,
                    &[&self.project, &Uuid::new_v5(&user.id, platform.as_str().as_bytes()), one(), &platform.as_str()],
                )
                .await
                .unwrap();
            }
        }
    }
}

impl TestUser {
    pub fn facts<'a>(&'a self, world: &'a World) -> UserFacts<'a> {
        UserFacts { user: self, world }
    }
}

/// Answers from the user's own record, without a database.
pub struct UserFacts<'a> {
    user: &'a TestUser,
    world: &'a World,
}

impl Facts for UserFacts<'_> {
    fn value(&self, source: &Source) -> Actual<'_> {
        let p = self.user;
        match source {
            Source::Email => p.email.as_deref().map_or(Actual::Missing, Actual::Text),
            Source::Name => p.name.as_deref().map_or(Actual::Missing, Actual::Text),
            Source::ExternalId => p.external_id.as_deref().map_or(Actual::Missing, Actual::Text),
            Source::CreatedAt | Source::LastSeenAt => Actual::Time(p.created_at),
            Source::Property(keys) => eval::property(&p.properties, keys),
        }
    }

    fn is_member(&self, segment: Uuid) -> bool {
        match self.world.rules.iter().find(|(id, _)| *id == segment) {
            Some((_, rules)) => {
                let parsed = rules::parse(rules, "rules").unwrap();
                assert!(!segments(&parsed).contains(&segment));
                eval::holds(&parsed, self, self.world.now)
            }
            None => self.user.lists.contains(&segment),
        }
    }

    fn platforms(&self) -> &BTreeSet<Platform> {
        &self.user.platforms
    }

    fn stats(&self, behaviour: &Behaviour) -> Stats {
        let now = self.world.now;
        let recent = |at: Timestamp| behaviour.within.is_none_or(|within| at >= within.before(now));
        match &behaviour.activity {
            Activity::Event { name, filter } => {
                let counts =
                    |e: &&Event| e.name == name && recent(e.at) && eval::holds_for_event(filter, &e.properties, now);
                let events: Vec<&Event> = self.user.events.iter().filter(counts).collect();
                let numbers: Vec<f64> = events.iter().filter_map(|e| e.properties.get("age")?.as_f64()).collect();
                let sum: f64 = numbers.iter().sum();
                let total = |aggregate: &Aggregate| match aggregate {
                    _ if numbers.is_empty() => None,
                    Aggregate::Sum => Some(sum),
                    Aggregate::Average => Some(sum / numbers.len() as f64),
                    Aggregate::Min => numbers.iter().copied().reduce(f64::min),
                    Aggregate::Max => numbers.iter().copied().reduce(f64::max),
                };
                let totals = behaviour.totals.iter().map(|asked| total(&asked.aggregate)).collect();
                Stats { count: events.len() as i64, totals }
            }
            Activity::Message { channel, reached } => {
                let counts = |m: &&Message| {
                    m.channel == channel.as_str() && reference::reached(m, reached.as_str()).is_some_and(recent)
                };
                Stats { count: self.user.messages.iter().filter(counts).count() as i64, totals: Vec::new() }
            }
        }
    }
}
