//! A project with followed segments and users.

use std::collections::HashSet;

use automation::{Definition, Reentry, TriggerType};
use kernel::ids::{self, ProjectId, UserKey};
use rules::change::ChangeKind;
use serde_json::{Value, json};
use store_profiles::segments::follow::{self, Follow};
use store_profiles::segments::{self, Segment, SegmentType, dirty};
use store_sending::automations::{self, Automation};
use testkit::{eventually, eventually_true};
use uuid::Uuid;
use wire::event::{Body, IngestBatch};

use crate::fixture::{Fixture, SOON};

/// A project, with helpers to create its contents.
pub struct World {
    pub fixture: Fixture,
}

impl World {
    pub async fn new() -> Self {
        let fixture = Fixture::new().await;
        let world = Self { fixture };
        world.insert_project().await;
        world
    }

    async fn insert_project(&self) {
        let project = self.project();
        self.execute(&format!(
            "INSERT INTO project (project_id, name, secrets, created_at, updated_at, changed_seq) \
             VALUES ('{project}', 'p', '', now(), now(), 1)"
        ))
        .await;
    }

    /// Switches to a new project until `fixture.project` is set again. Returns the previous one.
    pub async fn other_project(&mut self) -> ProjectId {
        let other = ProjectId(ids::fresh(self.fixture.clock.now_ms()));
        let before = std::mem::replace(&mut self.fixture.project, other);
        self.insert_project().await;
        before
    }

    pub fn project(&self) -> ProjectId {
        self.fixture.project
    }

    pub async fn execute(&self, sql: &str) {
        self.fixture.store.connection().await.unwrap().batch_execute(sql).await.unwrap();
    }

    /// Creates a segment with rules, or a manual one without.
    pub async fn segment(&self, rules: Option<Value>) -> Uuid {
        let (id, now) = (ids::fresh(self.fixture.clock.now_ms()), self.fixture.clock.now());
        let segment_type = if rules.is_some() { SegmentType::Rules } else { SegmentType::Manual };
        let rules = rules.unwrap_or_else(|| json!([]));
        let (name, description) = (String::from("s"), String::new());
        let segment = Segment { id, name, description, segment_type, rules, created_at: now, updated_at: now };
        let mut db = self.fixture.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        segments::insert(&tx, self.project(), &segment).await.unwrap();
        tx.commit().await.unwrap();
        id
    }

    /// Changes the rules as `PUT /segments/:id` does.
    pub async fn change_rules(&self, segment: Uuid, rules: Value) {
        let mut db = self.fixture.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        segments::begin_change(&tx).await.unwrap();
        let mut changed = segments::get_for_update(&tx, self.project(), segment).await.unwrap().unwrap();
        changed.rules = rules;
        segments::update(&tx, self.project(), &changed).await.unwrap();
        follow::rules_changed(&tx, self.project(), segment, self.fixture.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Returns how a segment is followed.
    pub async fn follow(&self, segment: Uuid) -> Follow {
        let db = self.fixture.store.connection().await.unwrap();
        follow::get(&db, self.project(), segment).await.unwrap().unwrap()
    }

    /// Waits until another session waits for a table.
    pub async fn until_waited_for(&self, table: &str) {
        let sql = format!(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        );
        eventually_true("a session waits for the table", SOON, async || self.fixture.count(&sql).await > 0).await;
    }

    /// Creates an active automation that a segment triggers.
    pub async fn automation(&self, segment: Uuid, trigger: TriggerType) -> Uuid {
        let (id, now) = (ids::fresh(self.fixture.clock.now_ms()), self.fixture.clock.now());
        let mut definition = Definition::new(trigger, None, Reentry::Always, vec![]);
        definition.trigger_segment_id = Some(segment);
        let name = "a".to_owned();
        let automation =
            Automation { id, name, active: true, version: 1, definition, created_at: now, updated_at: now };
        let mut db = self.fixture.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        automations::insert(&tx, self.project(), &automation).await.unwrap();
        tx.commit().await.unwrap();
        id
    }

    /// Makes two automations follow a segment. Returns those of entering and leaving.
    pub async fn followed(&self, segment: Uuid) -> [Uuid; 2] {
        let enter = self.automation(segment, TriggerType::SegmentEnter).await;
        let exit = self.automation(segment, TriggerType::SegmentExit).await;
        self.filled(segment).await;
        [enter, exit]
    }

    pub async fn filled(&self, segment: Uuid) {
        eventually_true("the segment is filled", SOON, async || {
            let db = self.fixture.store.connection().await.unwrap();
            follow::get(&db, self.project(), segment).await.unwrap().is_some_and(|follow| follow.filled)
        })
        .await;
    }

    /// Creates a user with properties.
    pub async fn user(&self, name: &str, properties: Value) -> Uuid {
        let id = UserKey::External(name).internal_id(self.project());
        let sql = format!(
            "INSERT INTO users (project_id, id, external_id, properties, created_at, last_seen_at, updated_at) \
             VALUES ('{}', '{id}', '{name}', '{properties}', now() - interval '1 day', now(), now())",
            self.project()
        );
        self.execute(&sql).await;
        id
    }

    pub async fn properties(&self, user: Uuid, properties: Value) {
        self.execute(&format!("UPDATE users SET properties = '{properties}' WHERE id = '{user}'")).await;
        self.mark(&ChangeKind::Profile, user).await;
    }

    /// Inserts an event from `seconds_ago` seconds ago, marked as recording does.
    pub async fn event(&self, user: Uuid, name: &str, seconds_ago: i64) {
        self.event_with(user, name, seconds_ago, &json!({})).await;
    }

    pub async fn event_with(&self, user: Uuid, name: &str, seconds_ago: i64, properties: &Value) {
        let id = ids::fresh(self.fixture.clock.now_ms() - seconds_ago * 1_000);
        let sql = format!(
            "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
             VALUES ('{}', '{id}', '{name}', '{user}', '{properties}', now() - interval '{seconds_ago} seconds', now())",
            self.project()
        );
        self.execute(&sql).await;
        self.mark(&ChangeKind::Event(name.to_owned()), user).await;
    }

    /// Inserts a direct mail with this status.
    pub async fn message(&self, user: Uuid, status: &str) -> Uuid {
        let id = ids::fresh(self.fixture.clock.now_ms());
        let sql = format!(
            "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at, {status}_at) \
             VALUES ('{}', '{id}', '{user}', 'EMAIL', 'direct', '{status}', now(), now(), now())",
            self.project()
        );
        self.execute(&sql).await;
        id
    }

    pub async fn mark(&self, change_kind: &ChangeKind, user: Uuid) {
        let mut db = self.fixture.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        dirty::mark(&tx, self.project(), change_kind, &[user], self.fixture.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Returns the requested runs in order: automation, user, and the name of the trigger. Repeats are omitted.
    pub async fn started(&self) -> Vec<(Uuid, Uuid, String)> {
        let names = &self.fixture.bus.names;
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        for (subject, payload) in self.fixture.payloads(&names.ingest_stream(), "").await {
            for item in IngestBatch::decode_checked(payload).unwrap().items {
                let Some(Body::Start(start)) = &item.body else { panic!("{item:?}") };
                let user: Uuid = item.user_id.as_deref().unwrap().parse().unwrap();
                let trigger: Value = serde_json::from_slice(&start.trigger).unwrap();
                assert_eq!(trigger["id"], json!(item.row_id().unwrap()));
                assert!(subject.starts_with(names.ingest(0).trim_end_matches('0')), "{subject}");
                if seen.insert(item.dedupe().unwrap().unwrap()) {
                    let automation = Uuid::from_slice(&start.automation_id).unwrap();
                    found.push((automation, user, trigger["name"].as_str().unwrap().to_owned()));
                }
            }
        }
        found
    }

    pub async fn until_started(&self, expected: &[(Uuid, Uuid)]) {
        eventually(SOON, async || {
            let found: Vec<(Uuid, Uuid)> = self.started().await.into_iter().map(|(a, p, _)| (a, p)).collect();
            if found == expected { Ok(()) } else { Err(format!("{found:?}, expected {expected:?}")) }
        })
        .await;
    }

    /// Waits until all marked users are evaluated and the resulting starts are published.
    pub async fn settled(&self) {
        self.fixture.eventually_none("SELECT count(*) FROM segment_dirty").await;
        self.fixture.eventually_none("SELECT count(*) FROM segment_start").await;
    }

    pub async fn members(&self, segment: Uuid) -> i64 {
        let sql =
            format!("SELECT count(*) FROM segment_membership WHERE segment_id = '{segment}' AND since IS NOT NULL");
        self.fixture.count(&sql).await
    }
}
