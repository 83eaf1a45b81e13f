//! The operator commands `migrate`, `project`, `key`, `account`, `dead-letters` and `secrets` on a separate database.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use database::clock_jumps::{self, ClockJump};
use domain::message::Channel;
use kernel::clock::Clock;
use kernel::ids::ProjectId;
use secrets::MasterKeys;
use secrets::password;
use secrets::vapid::VapidKeys;
use store_projects::accounts::Account;
use store_projects::api_keys::{self, KeyType};
use store_projects::channels::{self, ChannelSettings};
use store_projects::invites::{self, Invite, LinkHolder, MailStatus};
use store_projects::members::{self, Role};
use store_projects::sealed_columns::SEALED;
use store_projects::{accounts, projects, vapid_keys};
use testkit::TestDatabase;
use uuid::Uuid;

use crate::program::{fail, rekindle, succeed};

const MASTER_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Returns a `rekindle` command for this database, as an operator without a run directory calls it.
fn operate(database: &TestDatabase, args: &[&str]) -> Command {
    let mut command = rekindle(Path::new("/nonexistent"), args);
    command.env("DATABASE_URL", database.url()).env("MASTER_KEY", MASTER_KEY);
    command
}

fn field<'a>(output: &'a str, name: &str) -> &'a str {
    output.lines().find_map(|l| l.strip_prefix(name)).map(str::trim).unwrap()
}

#[tokio::test]
async fn an_empty_database_is_migrated_once() {
    let database = TestDatabase::create_empty().await;
    let early = fail(&mut operate(&database, &["project", "create", "--name", "Shop"]));
    assert!(early.contains("rekindle migrate"), "{early}");
    assert!(succeed(&mut operate(&database, &["migrate"])).contains("applied 0001"));
    assert_eq!(succeed(&mut operate(&database, &["migrate"])), "The schema is up to date.\n");
}

#[tokio::test]
async fn project_is_created_with_its_own_secrets() {
    let database = TestDatabase::create().await;
    let create = || succeed(&mut operate(&database, &["project", "create", "--name", " My shop "]));
    let (first, second) = (create(), create());
    assert_ne!(first, second);
    let id = ProjectId(first.trim().parse().unwrap());
    let connection = database.store().connection().await.unwrap();
    assert_eq!(projects::get(&connection, id).await.unwrap().unwrap().name, "My shop");
    let keys = MasterKeys::parse(MASTER_KEY).unwrap();
    let secrets = projects::secrets(&connection, &keys, id).await.unwrap().unwrap();
    assert_eq!((secrets.webhook.len(), secrets.identity.len()), (64, 64));
}

#[tokio::test]
async fn a_key_works_until_it_is_revoked() {
    let database = TestDatabase::create().await;
    let project = succeed(&mut operate(&database, &["project", "create", "--name", "Shop"]));
    let project = project.trim();
    let made = succeed(&mut operate(&database, &["key", "create", "--project", project, "--type", "public"]));
    let (id, key) = (field(&made, "id"), field(&made, "key"));
    let connection = database.store().connection().await.unwrap();
    let active = api_keys::find_active(&connection, &api_keys::hash(key)).await.unwrap().unwrap();
    assert_eq!((active.project.to_string().as_str(), active.key_type), (project, KeyType::Public));
    succeed(&mut operate(&database, &["key", "revoke", "--project", project, id]));
    assert_eq!(api_keys::find_active(&connection, &api_keys::hash(key)).await.unwrap(), None);
    let again = fail(&mut operate(&database, &["key", "revoke", "--project", project, id]));
    assert!(again.contains(id), "{again}");
}

#[tokio::test]
async fn a_key_needs_its_project() {
    let database = TestDatabase::create().await;
    let unknown = Uuid::nil().to_string();
    let error_output = fail(&mut operate(&database, &["key", "create", "--project", &unknown]));
    assert!(error_output.contains("no project"), "{error_output}");
}

#[test]
fn missing_database_is_reported_with_a_remedy() {
    let error_output = fail(&mut rekindle(Path::new("/nonexistent"), &["migrate"]));
    assert!(error_output.contains("DATABASE_URL") && error_output.contains("rekindle up"), "{error_output}");
}

#[tokio::test]
async fn a_project_needs_the_master_key() {
    let database = TestDatabase::create().await;
    let create = ["project", "create", "--name", "Shop"];
    let error_output = fail(operate(&database, &create).env_remove("MASTER_KEY"));
    assert!(error_output.contains("MASTER_KEY"), "{error_output}");
    let error_output = fail(operate(&database, &create).env("MASTER_KEY", "abc"));
    assert!(error_output.contains("MASTER_KEY") && !error_output.contains("abc"), "{error_output}");
}

#[tokio::test]
async fn account_logs_in_with_the_printed_password() {
    let database = TestDatabase::create().await;
    let project = succeed(&mut operate(&database, &["project", "create", "--name", "Shop"]));
    let create = ["account", "create", "--email", "ada@example.com", "--project", project.trim()];
    let made = succeed(&mut operate(&database, &create));
    let connection = database.store().connection().await.unwrap();
    let fits = async |printed: &str| {
        let known = accounts::find(&connection, "ADA@example.com").await.unwrap().unwrap();
        password::verify(field(printed, "password"), &known.password_hash)
    };
    assert!(fits(&made).await);
    let team = members::list(&connection, ProjectId(project.trim().parse().unwrap())).await.unwrap();
    assert_eq!(team.iter().map(|m| m.role).collect::<Vec<_>>(), [Role::Admin]);
    assert!(fail(&mut operate(&database, &create)).contains("reset-password"));

    let reset = succeed(&mut operate(&database, &["account", "reset-password", "--email", "ada@example.com"]));
    assert!(fits(&reset).await && !fits(&made).await);
    let join = ["account", "join", "--email", "ada@example.com", "--project", project.trim(), "--role", "member"];
    succeed(&mut operate(&database, &join));
    let team = members::list(&connection, ProjectId(project.trim().parse().unwrap())).await.unwrap();
    assert_eq!(team.iter().map(|m| m.role).collect::<Vec<_>>(), [Role::Member]);
    let unknown = ["account", "reset-password", "--email", "eve@example.com"];
    assert!(fail(&mut operate(&database, &unknown)).contains("no account"));
}

#[tokio::test]
async fn unverified_account_joins_no_project_until_the_operator_verifies_it() {
    let database = TestDatabase::create().await;
    let project = || succeed(&mut operate(&database, &["project", "create", "--name", "Shop"])).trim().to_owned();
    let (inviting, other) = (ProjectId(project().parse().unwrap()), project());
    let mut db = database.store().connection().await.unwrap();
    let now = Clock::system().now();
    let unverified = Account {
        id: Uuid::from_u128(1),
        email: "ceo@bigcorp.example".to_owned(),
        name: "Eve".to_owned(),
        is_verified: false,
    };
    let tx = db.transaction().await.unwrap();
    assert!(accounts::insert(&tx, &unverified, password::DUMMY_HASH, now).await.unwrap());
    members::join(&tx, inviting, unverified.id, Role::Admin, now).await.unwrap();
    tx.commit().await.unwrap();

    let join = ["account", "join", "--email", "ceo@bigcorp.example", "--project", &other, "--role", "admin"];
    let error_output = fail(&mut operate(&database, &join));
    assert!(error_output.contains("not verified") && error_output.contains("account verify"), "{error_output}");
    let other = ProjectId(other.parse().unwrap());
    assert!(members::list(&db, other).await.unwrap().is_empty());
    succeed(&mut operate(&database, &["account", "verify", "--email", "CEO@bigcorp.example"]));
    succeed(&mut operate(&database, &join));
    assert_eq!(members::list(&db, other).await.unwrap().len(), 1);
}

#[tokio::test]
async fn printed_invite_link_does_not_prove_the_mailbox() {
    let database = TestDatabase::create().await;
    let project = succeed(&mut operate(&database, &["project", "create", "--name", "Shop"]));
    let id = ProjectId(project.trim().parse().unwrap());
    let link = ["invite", "link", "--project", project.trim(), "--email", "GRACE@example.com"];
    let error_output = fail(&mut operate(&database, &link));
    assert!(error_output.contains("set PUBLIC_BASE_URL"), "{error_output}");
    let error_output = fail(operate(&database, &link).env("PUBLIC_BASE_URL", "https://app.example.com"));
    assert!(error_output.contains("no pending invitation"), "{error_output}");

    let mut db = database.store().connection().await.unwrap();
    let now = Clock::system().now();
    let invite = Invite {
        project: id,
        id: Uuid::from_u128(1),
        email: "grace@example.com".to_owned(),
        role: Role::Member,
        invited_by: Uuid::nil(),
        created_at: now,
        expires_at: now + std::time::Duration::from_hours(1),
        accepted_at: None,
        revoked_at: None,
        mail: MailStatus::None,
    };
    let (mailed, hash) = invites::new_token();
    let tx = db.transaction().await.unwrap();
    invites::insert(&tx, &invite, Some(&hash)).await.unwrap();
    tx.commit().await.unwrap();
    let print = || {
        let printed = succeed(operate(&database, &link).env("PUBLIC_BASE_URL", "https://app.example.com/"));
        let token = printed.trim().strip_prefix("https://app.example.com/accept-invite?token=").map(str::to_owned);
        token.unwrap_or_else(|| panic!("{printed}"))
    };
    let (first, second) = (print(), print());
    let holder = async |token: &str| {
        let found = invites::find(&db, &invites::token_hash(token)).await.unwrap();
        found.map(|(invite, holder)| (invite.id, holder))
    };
    assert_eq!(holder(&first).await, None, "the second link replaces the first");
    assert_eq!(holder(&second).await, Some((invite.id, LinkHolder::Unproven)));
    assert_eq!(holder(&mailed).await, Some((invite.id, LinkHolder::Mailbox)));
}

#[tokio::test]
async fn secrets_are_resealed_and_stay_readable() {
    const NEW: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let database = TestDatabase::create().await;
    let create = || succeed(&mut operate(&database, &["project", "create", "--name", "Shop"])).trim().parse().unwrap();
    let ids: Vec<ProjectId> = (0..3).map(|_| ProjectId(create())).collect();
    let (old, new) = (MasterKeys::parse(MASTER_KEY).unwrap(), MasterKeys::parse(NEW).unwrap());
    let store = database.store();
    let mut db = store.connection().await.unwrap();
    let now = Clock::system().now();
    let tx = db.transaction().await.unwrap();
    let password = BTreeMap::from([("smtpPassword".to_owned(), "p".to_owned())]);
    let mail = ChannelSettings { secrets: password.clone(), ..ChannelSettings::default() };
    channels::put(&tx, &old, ids[0], Channel::Email, &mail, now).await.unwrap();
    tx.commit().await.unwrap();
    let vapid = VapidKeys::generate().unwrap();
    vapid_keys::insert(&db, &old, ids[1], &vapid, now).await.unwrap();
    // One secret is sealed with a lost key.
    let lost = MasterKeys::parse(&"ab".repeat(32)).unwrap().seal(ids[2], "project", b"{}");
    db.execute("UPDATE project SET secrets = $2 WHERE project_id = $1", &[&ids[2], &lost]).await.unwrap();

    let both = format!("{NEW},{MASTER_KEY}");
    let rotate = || {
        let mut command = operate(&database, &["secrets", "rotate"]);
        command.env("MASTER_KEY", &both);
        command
    };
    let status = succeed(operate(&database, &["secrets", "status"]).env("MASTER_KEY", &both));
    assert_eq!((field(&status, "project"), field(&status, "channel"), field(&status, "vapid_key")), ("3", "1", "1"));
    let before = projects::secrets(&db, &old, ids[0]).await.unwrap().unwrap();
    let error_output = fail(&mut rotate());
    assert!(
        error_output.contains(&ids[2].to_string()) && !error_output.contains(&ids[0].to_string()),
        "{error_output}"
    );
    // All others are now sealed with the new key, with unchanged content.
    assert_eq!(projects::secrets(&db, &new, ids[0]).await.unwrap().unwrap().webhook, before.webhook);
    let read = channels::get(&db, &new, ids[0], Channel::Email).await.unwrap().unwrap();
    assert_eq!(read.secrets, password);
    assert!(vapid_keys::get(&db, &new, ids[1]).await.unwrap().unwrap() == vapid);
    assert!(projects::secrets(&db, &old, ids[1]).await.is_err());

    // With the lost key added, the rotation completes, and a repeat has nothing to do.
    let all = format!("{both},{}", "ab".repeat(32));
    let rotate_all = || succeed(operate(&database, &["secrets", "rotate"]).env("MASTER_KEY", &all));
    assert_eq!((field(&rotate_all(), "sealed anew"), field(&rotate_all(), "sealed anew")), ("1", "0"));
    let key = succeed(&mut operate(&database, &["secrets", "new-key"]));
    assert!(
        MasterKeys::parse(key.trim()).is_some() && key != succeed(&mut operate(&database, &["secrets", "new-key"]))
    );
}

#[tokio::test]
async fn every_sealed_column_is_listed() {
    let database = TestDatabase::create().await;
    let sql = "SELECT c.table_name::text || '.' || c.column_name FROM information_schema.columns c \
               JOIN information_schema.tables t USING (table_schema, table_name) \
               WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.data_type = 'bytea' ORDER BY 1";
    let rows = database.store().connection().await.unwrap().query(sql, &[]).await.unwrap();
    // Hashes, public keys, payloads of the outbox and trace IDs.
    let open = ["hash", "token_hash", "operator_token_hash", "address_hash", "public_key", "payload", "trace"];
    let found: Vec<String> = rows.iter().map(|row| row.get::<_, String>(0)).collect();
    let found: Vec<&String> = found.iter().filter(|name| !open.contains(&name.split('.').nth(1).unwrap())).collect();
    let mut known: Vec<String> = SEALED.iter().map(|sealed| format!("{}.{}", sealed.table, sealed.column)).collect();
    known.sort();
    assert_eq!(found, known.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn dead_letters_are_listed_and_replayed() {
    let database = TestDatabase::create().await;
    let project = succeed(&mut operate(&database, &["project", "create", "--name", "Shop"]));
    let project = project.trim();
    let db = database.store().connection().await.unwrap();
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, status_reason, dead, created_at, updated_at) \
               SELECT $1, uuidv7, gen_random_uuid(), 'EMAIL', 'direct', 'failed', 'gave_up: 421', true, now(), now() \
               FROM unnest($2::uuid[]) uuidv7";
    let ids: Vec<Uuid> = (0..3).map(|_| kernel::ids::fresh(Clock::system().now_ms())).collect();
    db.execute(sql, &[&project.parse::<Uuid>().unwrap(), &ids]).await.unwrap();
    let run = |more: &[&str]| {
        let args = [&["dead-letters", more[0], "--project", project], &more[1..]].concat();
        succeed(&mut operate(&database, &args))
    };
    let listed = run(&["list", "--limit", "2"]);
    assert_eq!(listed.lines().count(), 2);
    assert!(listed.starts_with(&ids[2].to_string()) && listed.contains("EMAIL  gave_up: 421"), "{listed}");
    assert_eq!(field(&run(&["replay", "--id", &ids[0].to_string()]), "messages"), "1");
    assert_eq!(field(&run(&["replay", "--channel", "push"]), "messages"), "0");
    assert_eq!(field(&run(&["replay", "--reason", "gave_up"]), "messages"), "2");
    assert_eq!(run(&["list"]), "");
    let unknown = Uuid::nil().to_string();
    assert!(fail(&mut operate(&database, &["dead-letters", "list", "--project", &unknown])).contains("no project"));
}

#[tokio::test]
async fn clock_jump_is_shown_and_accepted_once() {
    let database = TestDatabase::create().await;
    let clock = |verb: &str| succeed(&mut operate(&database, &["clock", verb]));
    assert_eq!((&*clock("status"), &*clock("accept")), ("Nothing is held.\n", "Nothing is held.\n"));
    let jump = ClockJump { ahead_ms: 7_200_000, jumped_at: Clock::system().now() };
    clock_jumps::record(&database.store().connection().await.unwrap(), jump).await.unwrap();
    assert!(clock("status").contains("ahead by 120 minutes"));
    assert_eq!((&*clock("accept"), &*clock("status")), ("The held work is due now.\n", "Nothing is held.\n"));
}
