//! Rules on random users: PostgreSQL, the in-memory evaluation, and a simple reference implementation find the same
//! users.

mod reference;
mod strategy;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rules::sql::Membership;
use rules::{Rule, eval};
use serde_json::{Value, json};
use store_profiles::segments::evaluate;
use store_profiles::segments::user_facts::{self, batch};
use store_profiles::users::read;
use testkit::TestDatabase;
use tokio::runtime::Handle;
use uuid::Uuid;

use world::World;

/// Number of rule lists per world.
const CASES: u32 = 300;

async fn agree(world: &World, rules: &Value) -> Result<(), TestCaseError> {
    let parsed = rules::parse(rules, "rules").map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
    let expected: BTreeSet<Uuid> =
        world.users.iter().filter(|p| reference::all(rules, p, world)).map(|p| p.id).collect();
    let found = world.found(&parsed).await;
    prop_assert_eq!(&found, &expected, "PostgreSQL, {}", rules);
    let in_ranges = world.found_in_ranges(&parsed, 1 + rules.to_string().len() % 4).await;
    prop_assert_eq!(&in_ranges, &expected, "PostgreSQL by ranges of ids, {}", rules);
    let in_memory: BTreeSet<Uuid> =
        world.users.iter().filter(|p| eval::holds(&parsed, &p.facts(world), world.now)).map(|p| p.id).collect();
    prop_assert_eq!(&in_memory, &expected, "memory, {}", rules);
    one_user(world, rules, &parsed, &expected).await?;
    let crowd = in_a_batch(world, parsed).await;
    prop_assert_eq!(&crowd, &expected, "a crowd, {}", rules);
    Ok(())
}

const LIMITS: batch::TimeLimits =
    batch::TimeLimits { statement: Duration::from_secs(10), whole: Duration::from_mins(1) };

/// Returns the users who satisfy the rules, evaluated in one batch as for a tracked segment.
async fn in_a_batch(world: &World, rules: Vec<Rule>) -> BTreeSet<Uuid> {
    let mut db = world.store.connection().await.unwrap();
    let mut tx = db.transaction().await.unwrap();
    batch::for_lookups(&tx).await.unwrap();
    let segment = Uuid::max();
    let mut definitions = evaluate::definitions(&tx, world.project, &rules::segments(&rules)).await.unwrap();
    definitions.insert(segment, Membership::Rules(rules));
    let pairs = BTreeMap::from([(segment, world.users.iter().map(|p| p.id).collect())]);
    let verdicts = batch::evaluate(&mut tx, world.project, &pairs, &definitions, (world.now, LIMITS)).await.unwrap();
    assert_eq!((verdicts.by_pair.len(), verdicts.timed_out.len()), (world.users.len(), 0));
    verdicts.by_pair.into_iter().filter(|(_, verdict)| verdict.is_member).map(|((_, person), _)| person).collect()
}

/// Asserts that the facts that the store reads for one user lead to the same verdict.
async fn one_user(
    world: &World,
    rules: &Value,
    parsed: &[Rule],
    expected: &BTreeSet<Uuid>,
) -> Result<(), TestCaseError> {
    let db = world.store.connection().await.unwrap();
    let chosen = &world.users[rules.to_string().len() % world.users.len()];
    let user = read::follow(&db, world.project, chosen.id).await.unwrap().unwrap();
    let definitions = evaluate::definitions(&db, world.project, &rules::segments(parsed)).await.unwrap();
    let facts = user_facts::load(&db, world.project, user, (parsed, &definitions), world.now).await.unwrap();
    let holds = eval::holds(parsed, &facts, world.now);
    prop_assert_eq!(holds, expected.contains(&chosen.id), "the user {}, {}", chosen.id, rules);
    let explained = eval::explain(parsed, rules, &facts, world.now);
    prop_assert_eq!(explained.iter().all(|rule| rule["matches"] == json!(true)), holds);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_memory_and_reference_find_the_same_users() {
    let database = TestDatabase::create().await;
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    for size in [1, 12, 40] {
        let world = World::make(&database, &mut runner, size).await;
        let lists = strategy::rule_list(&world.segments);
        let outcome = tokio::task::block_in_place(|| {
            runner.run(&lists, |rules| Handle::current().block_on(agree(&world, &rules)))
        });
        outcome.unwrap_or_else(|error| panic!("with {size} users: {error}"));
    }
}

/// The schema's function and the program parse the same texts to the same times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_and_rust_parse_the_same_times() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    client.batch_execute("SET timezone = 'UTC'").await.unwrap();
    let statement = client.prepare("SELECT rule_time($1::jsonb)").await.unwrap();
    let mut runner = TestRunner::new(Config { cases: 1_000, failure_persistence: None, ..Config::default() });
    let outcome = tokio::task::block_in_place(|| {
        runner.run(&strategy::time_text(), |text| {
            let row = Handle::current().block_on(client.query_one(&statement, &[&json!(text)]));
            let row = row.map_err(|e| TestCaseError::fail(format!("{text:?}: {e:?}")))?;
            let read: Option<jiff::Timestamp> = row.try_get(0).unwrap();
            prop_assert_eq!(read, rules::time::parse(&text), "{:?}", text);
            Ok(())
        })
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    for value in [json!(5), json!(null), json!(true), json!(["2026-01-01"]), json!({"a": 1})] {
        let read: Option<jiff::Timestamp> = client.query_one(&statement, &[&value]).await.unwrap().get(0);
        assert_eq!(read, None, "{value}");
    }
}
