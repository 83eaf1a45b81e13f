//! `rekindle setup` on a migrated database and an empty broker.

use std::path::Path;
use std::process::Command;

use domain::message::Channel;
use secrets::MasterKeys;
use serde_json::Value;
use store_projects::api_keys::{self, KeyType};
use store_projects::{channels, projects};
use testkit::{TestDatabase, TestNats};

use crate::program::{rekindle, succeed};

/// A deployment whose master key is to be stored in a file.
struct Deployment {
    database: TestDatabase,
    nats: TestNats,
    folder: tempfile::TempDir,
}

impl Deployment {
    async fn create() -> Self {
        let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
        Self { database, nats, folder: tempfile::tempdir().unwrap() }
    }

    fn key_file(&self) -> std::path::PathBuf {
        self.folder.path().join("master.key")
    }

    fn setup(&self, run_dir: &Path, args: &[&str]) -> Command {
        let mut command = rekindle(run_dir, &[&["setup"], args].concat());
        command
            .env("DATABASE_URL", self.database.url())
            .env("NATS_URL", self.nats.url())
            .env("STREAM_PREFIX", self.nats.prefix())
            .env("MASTER_KEY_FILE", self.key_file())
            .env("PUBLIC_BASE_URL", "https://rekindle.example.com");
        for name in ["INGEST_MAX_BYTES", "SEND_MAX_BYTES", "DEAD_MAX_BYTES"] {
            command.env(name, "67108864");
        }
        command
    }
}

#[tokio::test]
async fn first_project_is_created_and_its_keys_are_shown_once() {
    let deployment = Deployment::create().await;
    let run_dir = deployment.folder.path().join("setup");
    let shown = succeed(&mut deployment.setup(&run_dir, &[]));
    let text = std::fs::read_to_string(run_dir.join("credentials.json")).unwrap();
    let credentials: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(credentials["baseUrl"], "https://rekindle.example.com/api/v1");
    let secret = credentials["secretKey"].as_str().unwrap();
    assert!(shown.contains(secret), "{shown}");

    let connection = deployment.database.store().connection().await.unwrap();
    let active = api_keys::find_active(&connection, &api_keys::hash(secret)).await.unwrap().unwrap();
    assert_eq!(
        (active.project.to_string(), active.key_type),
        (credentials["projectId"].as_str().unwrap().to_owned(), KeyType::Secret)
    );
    let stream = format!("{}INGEST", deployment.nats.prefix());
    deployment.nats.jetstream().await.get_stream(stream).await.unwrap();

    let key = std::fs::read_to_string(deployment.key_file()).unwrap();
    let again = succeed(&mut deployment.setup(&run_dir, &[]));
    assert!(!again.contains(secret) && again.contains("credentials.json"), "{again}");
    assert_eq!(std::fs::read_to_string(deployment.key_file()).unwrap(), key);
    assert_eq!(projects::list(&connection).await.unwrap().len(), 1);
}

#[tokio::test]
async fn mail_is_sent_to_the_mailbox_unless_configured_otherwise() {
    let deployment = Deployment::create().await;
    let run_dir = deployment.folder.path().join("setup");
    succeed(&mut deployment.setup(&run_dir, &[]));
    let connection = deployment.database.store().connection().await.unwrap();
    let id = projects::list(&connection).await.unwrap()[0].id;
    let keys = MasterKeys::parse(&std::fs::read_to_string(deployment.key_file()).unwrap()).unwrap();
    let email = async || channels::get(&connection, &keys, id, Channel::Email).await.unwrap().unwrap().settings;
    assert!(email().await.is_empty());

    succeed(&mut deployment.setup(&run_dir, &["--mailbox", "mailbox:2525", "--mailbox-dir", "/srv/mailbox"]));
    let settings = email().await;
    assert_eq!((&settings["smtpHost"], settings["smtpPort"].as_u64()), (&Value::from("mailbox"), Some(2525)));
    let credentials = std::fs::read_to_string(run_dir.join("credentials.json")).unwrap();
    assert!(credentials.contains("/srv/mailbox/mail") && credentials.contains("/srv/mailbox/push"), "{credentials}");

    succeed(&mut deployment.setup(&run_dir, &["--mailbox", "other:25"]));
    assert_eq!(email().await["smtpHost"], "mailbox");
}

#[tokio::test]
async fn no_first_project_is_created_if_projects_exist() {
    let deployment = Deployment::create().await;
    succeed(&mut deployment.setup(&deployment.folder.path().join("one"), &[]));
    let shown = succeed(&mut deployment.setup(&deployment.folder.path().join("two"), &[]));
    assert!(shown.contains("no first project is created") && !shown.contains("sk_live_"), "{shown}");
    let connection = deployment.database.store().connection().await.unwrap();
    assert_eq!(projects::list(&connection).await.unwrap().len(), 1);
}
