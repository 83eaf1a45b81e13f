//! Messages that schema version 5 queued, where a message's row held its due time and its claim, are each sent exactly
//! once after the upgrade.

use std::collections::BTreeMap;

use cli::provision::Provision;
use database::migrate::{self, MIGRATIONS};
use e2e::{System, inspect, mails};
use kernel::clock::Clock;
use serde_json::{Value, json};
use testkit::{eventually, eventually_true};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{SOON, database};

/// The last version whose ledger held the queue.
const BEFORE: usize = 5;

/// A message of the older ledger, and its expected outcome.
struct Case {
    /// The recipient's external ID.
    user: &'static str,
    lane: &'static str,
    campaign: Option<&'static str>,
    variant: Option<&'static str>,
    status: &'static str,
    reason: Option<&'static str>,
    attempt: i32,
    claimed: bool,
    /// Seconds from now; `None` for a message that its campaign had not released.
    due: Option<f64>,
    /// Whether the message waits for the winner of its campaign's test.
    after_test: bool,
    /// Expected status, calls with an unknown outcome, and mails after the upgrade.
    becomes: (&'static str, i32, u32),
}

const SENT: (&str, i32, u32) = ("sent", 0, 1);
/// A due message of an automation.
const DUE: Case = Case {
    user: "due",
    lane: "automation",
    campaign: None,
    variant: None,
    status: "queued",
    reason: None,
    attempt: 0,
    claimed: false,
    due: Some(-60.0),
    after_test: false,
    becomes: SENT,
};
/// A campaign's message that was not released.
const PARKED: Case = Case { user: "parked", lane: "campaign", campaign: Some("Sale"), due: None, ..DUE };

const CASES: [Case; 17] = [
    DUE,
    Case { user: "direct", lane: "direct", ..DUE },
    Case { user: "lease-ended", attempt: 1, claimed: true, becomes: ("sent", 1, 1), ..DUE },
    Case { user: "in-call", attempt: 1, claimed: true, due: Some(2.0), becomes: ("sent", 1, 1), ..DUE },
    Case { user: "retried-later", reason: Some("retrying: 451 later"), attempt: 1, due: Some(3_600.0), ..DUE },
    Case { user: "held", reason: Some("channel_misconfigured: 535 no"), attempt: 1, due: Some(3_600.0), ..DUE },
    // A receipt arrived before the outcome of the call was written.
    Case { user: "confirmed", status: "delivered", attempt: 1, claimed: true, becomes: ("delivered", 0, 0), ..DUE },
    PARKED,
    Case { user: "parked-too", ..PARKED },
    Case { user: "released", due: Some(60.0), ..PARKED },
    Case { user: "served", status: "sent", attempt: 1, becomes: ("sent", 0, 0), ..PARKED },
    // A campaign's message is not repeated after a call of unknown outcome.
    Case { user: "campaign-in-call", attempt: 1, claimed: true, due: Some(-1.0), becomes: ("failed", 1, 0), ..PARKED },
    Case { user: "campaign-retried", reason: Some("retrying: 451 later"), attempt: 1, due: Some(3_600.0), ..PARKED },
    Case { user: "tests-a", campaign: Some("Test"), variant: Some("A"), ..PARKED },
    Case { user: "tests-b", campaign: Some("Test"), variant: Some("B"), ..PARKED },
    Case { user: "gets-winner", campaign: Some("Test"), after_test: true, ..PARKED },
    Case { user: "gets-winner-too", campaign: Some("Test"), after_test: true, ..PARKED },
];

/// Moves the tables to another schema, but leaves the extensions where migrations expect them.
const DEAD_LETTERS: &str = "ALTER SCHEMA public RENAME TO kept; CREATE SCHEMA public; \
                         ALTER EXTENSION pg_trgm SET SCHEMA public; ALTER EXTENSION btree_gin SET SCHEMA public;";

/// Copies the rows of each table that both schemas have.
const COPY_BACK: &str = "DO $$ DECLARE name text; columns text; BEGIN \
    FOR name, columns IN SELECT t.relname, string_agg(quote_ident(c.column_name), ', ') FROM pg_class t \
        JOIN information_schema.columns c ON c.table_schema = 'public' AND c.table_name = t.relname AND c.is_generated = 'NEVER' \
        JOIN information_schema.columns k ON k.table_schema = 'kept' AND k.table_name = t.relname AND k.column_name = c.column_name \
        WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition \
        AND t.relname <> 'schema_migration' GROUP BY t.relname \
    LOOP \
        EXECUTE format('TRUNCATE public.%I', name); \
        EXECUTE format('INSERT INTO public.%1$I (%2$s) SELECT %2$s FROM kept.%1$I', name, columns); \
    END LOOP; END $$; DROP SCHEMA kept CASCADE;";

/// Both campaigns have snapshotted their audience and are sending.
const BEGIN_CAMPAIGNS: &str = "UPDATE campaign SET status = 'SENDING', occurrence = 1, taken = true, under_way = true, look_at = now(), \
    started_at = date_trunc('milliseconds', now()), meant_for = now(), paced_to = now(), recipients = (CASE name WHEN 'Sale' THEN 6 ELSE 4 END)";

/// IDs of campaign messages are derived from the sending and the user, as in both versions.
const INSERT: &str = "INSERT INTO message (project_id, id, user_id, channel, lane, status, status_reason, template_id, campaign_id, occurrence, \
    variant, attempt, failures, claimed, due_at, send_at, sent_at, created_at, updated_at) \
    SELECT u.project_id, (lpad(to_hex(m.ms), 12, '0') || '7' || substr(m.hash, 1, 3) || '8' || substr(m.hash, 4, 15))::uuid, u.id, 'EMAIL', \
    $2::text, $3::text, $4::text, CASE WHEN k.id IS NULL OR $6::text IS NOT NULL THEN t.id ELSE k.template_id END, k.id, k.occurrence, $6::text, $7::int, \
    CASE WHEN $4::text LIKE 'retrying%' THEN 1 ELSE 0 END, $8::boolean, now() + $9::float8 * interval '1 second', \
    CASE WHEN $10::boolean THEN timestamptz 'infinity' WHEN k.id IS NOT NULL THEN k.started_at END, CASE WHEN $3::text = 'sent' THEN now() END, now(), now() \
    FROM users u LEFT JOIN campaign k ON k.project_id = u.project_id AND k.name = $5::text \
    JOIN template t ON t.project_id = u.project_id AND t.name = coalesce($6::text, 'Sale') \
    CROSS JOIN LATERAL (SELECT (extract(epoch FROM coalesce(k.started_at, now())) * 1000)::bigint AS ms, \
        md5(coalesce(k.id || ':' || k.occurrence, 'single') || u.id) AS hash) AS m \
    WHERE u.external_id = $1::text";

/// Reverts the database to the older version, with all rows except those of the queue.
async fn downgrade(system: &System, db: &Client) {
    db.batch_execute(DEAD_LETTERS).await.expect("renaming the schema");
    let applied = migrate::apply(&database(system), &Clock::system(), &MIGRATIONS[..BEFORE]).await;
    assert_eq!(applied.unwrap_or_else(|error| panic!("migrating: {error:#}")).len(), BEFORE);
    db.batch_execute(COPY_BACK).await.expect("rows of the older version");
}

/// Creates the recipients, templates and campaigns through the API.
async fn prepare(system: &System) {
    let api = &system.api;
    let lines: Vec<String> = CASES
        .iter()
        .map(|case| json!({ "user_id": case.user, "email": address(case.user), "properties": { "plan": "pro" } }))
        .map(|user| user.to_string() + "\n")
        .collect();
    let imported = api.import("recipients", lines.concat()).await.expect("a response").expect(200);
    assert_eq!(imported["imported"], CASES.len());
    api.until("/users", SOON, |users| users["total"] == CASES.len()).await;
    let mut templates: BTreeMap<&str, String> = BTreeMap::new();
    for name in ["Sale", "A", "B"] {
        let template = json!({ "name": name, "channel": "EMAIL", "subject": name, "body": "<p>Today</p>" });
        templates.insert(name, api.create("/templates", &template).await);
    }
    let rules = json!([{ "field": "plan", "operator": "eq", "value": "pro" }]);
    let segment = api.create("/segments", &json!({ "name": "Pro", "rules": rules })).await;
    let sale = json!({ "name": "Sale", "channel": "EMAIL", "segmentId": segment, "templateId": templates["Sale"] });
    api.create("/campaigns", &sale).await;
    let variant = |name: &str| json!({ "name": name, "templateId": templates[name], "weight": 50 });
    let test = json!({ "name": "Test", "channel": "EMAIL", "segmentId": segment, "variants": [variant("A"), variant("B")],
                       "winner": { "metric": "opened", "testShare": 50, "afterMinutes": 60 } });
    api.create("/campaigns", &test).await;
}

async fn queue(db: &Client) {
    db.batch_execute(BEGIN_CAMPAIGNS).await.expect("campaigns");
    for case in &CASES {
        let (user, lane, status, reason) = (case.user, case.lane, case.status, case.reason);
        let (campaign, variant, attempt) = (case.campaign, case.variant, case.attempt);
        let rows = db
            .execute(
                INSERT,
                &[
                    &user,
                    &lane,
                    &status,
                    &reason,
                    &campaign,
                    &variant,
                    &attempt,
                    &case.claimed,
                    &case.due,
                    &case.after_test,
                ],
            )
            .await;
        assert_eq!(rows.unwrap_or_else(|error| panic!("{user}: {error}")), 1, "{user}");
    }
    let count = "INSERT INTO message_count (project_id, lane, count) SELECT project_id, 0, count(*) FROM message GROUP BY project_id";
    db.batch_execute(count).await.expect("the number of messages");
}

fn address(user: &str) -> String {
    format!("{user}@example.com")
}

/// Waits until only messages of these users are queued. Makes retries due, and decides the test.
async fn until_queued_for(db: &Client, users: &[&str]) {
    let probe = async || {
        inspect::make_retries_due(db).await;
        let decide = "UPDATE campaign SET test_sent_at = now() - interval '1 day', look_at = now() WHERE test_sent_at > now() - interval '1 hour'";
        db.batch_execute(decide).await.expect("campaigns");
        let sql = "SELECT u.external_id FROM send_chunk c JOIN users u ON u.project_id = c.project_id AND CASE WHEN c.is_audience \
                   THEN u.id = ANY(c.members) ELSE u.id IN (SELECT user_id FROM message WHERE id = ANY(c.members)) END ORDER BY 1";
        let rows = db.query(sql, &[]).await.expect("the chunks");
        let left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        if left == users { Ok(()) } else { Err(left) }
    };
    eventually(SOON, probe).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_queued_by_the_older_schema_are_sent_once_after_the_upgrade() {
    let mut system = System::start().await;
    prepare(&system).await;
    system.stop_programs().await;
    let db = inspect::database(&system).await;
    downgrade(&system, &db).await;
    queue(&db).await;

    let migrated = Provision::new(&system.database_url).expect("a valid database URL").migrate().await;
    migrated.unwrap_or_else(|error| panic!("migrating: {error:#}"));
    let contradictions = inspect::queue_inconsistencies(&db).await;
    assert!(contradictions.values().all(|count| *count == 0), "{contradictions:?}");
    system.start_programs().await;
    until_queued_for(&db, &["held"]).await;
    // Saving the settings retries the held messages.
    system.send_mail_to_mailbox(&system.api).await;
    until_queued_for(&db, &[]).await;
    inspect::until_drained(&system, &db, SOON).await;

    let sql = "SELECT u.external_id, m.id, m.status, m.ambiguous FROM message m JOIN users u ON u.id = m.user_id";
    let rows = db.query(sql, &[]).await.expect("the ledger");
    let copies = mails::copies(&system.mailbox);
    let became: BTreeMap<String, (String, i32, u32)> = rows
        .iter()
        .map(|row| (row.get(0), (row.get(2), row.get(3), copies.get(&row.get::<_, Uuid>(1)).copied().unwrap_or(0))))
        .collect();
    let expected = CASES.iter().map(|case| (case.user.to_owned(), case.becomes));
    let expected: BTreeMap<String, (String, i32, u32)> =
        expected.map(|(user, (status, ambiguous, mails))| (user, (status.to_owned(), ambiguous, mails))).collect();
    assert_eq!((rows.len(), became), (CASES.len(), expected));
    let mails: u32 = copies.values().sum();
    assert_eq!(mails, CASES.iter().map(|case| case.becomes.2).sum::<u32>(), "mails without a row: {copies:?}");
    reports_agree(&system, &db).await;
}

/// Both campaigns end, and report all of their recipients.
async fn reports_agree(system: &System, db: &Client) {
    let ended = "SELECT count(*) FROM campaign WHERE status = 'COMPLETED' AND NOT under_way";
    let both = async || db.query_one(ended, &[]).await.expect("the campaigns").get::<_, i64>(0) == 2;
    eventually_true("both campaigns end", SOON, both).await;
    for row in db.query("SELECT id::text, name FROM campaign", &[]).await.expect("the campaigns") {
        let (id, name): (String, String) = (row.get(0), row.get(1));
        let report = system.api.get(&format!("/campaigns/{id}/report")).await.expect(200);
        let by_status = if name == "Sale" { json!({ "sent": 5, "failed": 1 }) } else { json!({ "sent": 4 }) };
        let recipients: u64 =
            by_status.as_object().into_iter().flatten().filter_map(|(_, count)| Value::as_u64(count)).sum();
        assert_eq!((&report["recipients"], &report["byStatus"]), (&json!(recipients), &by_status), "{name}");
    }
    let sql = "SELECT (SELECT sum(count)::bigint FROM message_count), (SELECT count(*) FROM message)";
    let row = db.query_one(sql, &[]).await.expect("the number of messages");
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1));
}
