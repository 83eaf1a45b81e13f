//! `migrate`, `project` and `key` on a database of their own.

use std::path::Path;
use std::process::Command;

use shared::ids::ProjectId;
use shared::password;
use shared::secrets::MasterKeys;
use shared::store::api_keys::{self, KeyType};
use shared::store::members::{self, Role};
use shared::store::{accounts, projects};
use testkit::TestDatabase;
use uuid::Uuid;

use crate::program::{fail, rekindle, succeed};

const MASTER_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// `rekindle` on this database, as an operator calls it who has no run directory.
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
async fn a_project_is_created_with_secrets_of_its_own() {
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
    let nobody = Uuid::nil().to_string();
    let said = fail(&mut operate(&database, &["key", "create", "--project", &nobody]));
    assert!(said.contains("no project"), "{said}");
}

#[test]
fn without_a_database_it_says_what_to_do() {
    let said = fail(&mut rekindle(Path::new("/nonexistent"), &["migrate"]));
    assert!(said.contains("DATABASE_URL") && said.contains("rekindle up"), "{said}");
}

#[tokio::test]
async fn a_project_needs_the_master_key() {
    let database = TestDatabase::create().await;
    let create = ["project", "create", "--name", "Shop"];
    let said = fail(operate(&database, &create).env_remove("MASTER_KEY"));
    assert!(said.contains("MASTER_KEY"), "{said}");
    let said = fail(operate(&database, &create).env("MASTER_KEY", "abc"));
    assert!(said.contains("MASTER_KEY") && !said.contains("abc"), "{said}");
}

#[tokio::test]
async fn an_account_logs_in_with_the_password_that_was_printed() {
    let database = TestDatabase::create().await;
    let project = succeed(&mut operate(&database, &["project", "create", "--name", "Shop"]));
    let create = ["account", "create", "--email", "ada@example.com", "--project", project.trim()];
    let made = succeed(&mut operate(&database, &create));
    let connection = database.store().connection().await.unwrap();
    let fits = async |printed: &str| {
        let known = accounts::find(&connection, "ADA@example.com").await.unwrap().unwrap();
        password::fits(field(printed, "password"), &known.password_hash)
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
    let nobody = ["account", "reset-password", "--email", "eve@example.com"];
    assert!(fail(&mut operate(&database, &nobody)).contains("no account"));
}
