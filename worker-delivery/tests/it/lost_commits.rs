//! The connection breaks after a commit that begins messages took effect, and before its response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use database::Store;
use database::config::DatabaseConfig;
use providers::stub::Stub;
use providers::{Email, Outcome};
use serde_json::json;
use testkit::TestDatabase;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;
use worker_delivery::channels::Channels;

use crate::fixture::Fixture;

/// A link to the database that breaks once, in place of the response to the first commit of a begun chunk.
#[derive(Clone)]
struct Link {
    database: SocketAddr,
    is_broken: Arc<AtomicBool>,
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

impl Link {
    /// Returns the link and a store whose connections go over it.
    async fn to(database: &TestDatabase) -> (Self, Store) {
        let address = |url: &str| url.split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
        let config = database.config();
        let direct = address(&config.url);
        let link = Self { database: direct.parse().unwrap(), is_broken: Arc::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = config.url.replace(&direct, &listener.local_addr().unwrap().to_string());
        let accepting = link.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(accepting.clone().connect(client));
            }
        });
        (link, Store::new(&DatabaseConfig { url, pool_size: 1 }, "test").unwrap())
    }

    /// Forwards bytes until either side closes.
    async fn connect(self, client: TcpStream) {
        let Ok(server) = TcpStream::connect(self.database).await else { return };
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.into_split(), server.into_split());
        let swallow = AtomicBool::new(false);
        let there = async {
            let (mut buffer, mut sent) = ([0; 16_384], Vec::new());
            while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                sent.extend_from_slice(&buffer[..count]);
                if contains(&sent, b"INSERT INTO send_chunk")
                    && contains(&buffer[..count], b"COMMIT")
                    && !self.is_broken.swap(true, Ordering::SeqCst)
                {
                    swallow.store(true, Ordering::SeqCst);
                }
                if to_server.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        };
        let back = async {
            let mut buffer = [0; 16_384];
            while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
                if swallow.load(Ordering::SeqCst) || to_client.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = there => {}
            () = back => {}
        }
    }
}

/// Returns a project whose worker uses such a link, and a user.
async fn fixture() -> (Fixture, Link, Uuid) {
    let database = TestDatabase::create().await;
    let (link, store) = Link::to(&database).await;
    let mut fixture = Fixture::on(database.config(), Some(database)).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let stub = Stub::new(|_: &Email| Outcome::Accepted("1".to_owned()));
    fixture.run_with(Channels::with_stub(stub), store).await;
    (fixture, link, ann)
}

/// Checks that a message is sent long before its lease ends.
async fn is_sent(fixture: &mut Fixture, link: &Link, id: Uuid) {
    let row = fixture.settled(id, 1).await;
    assert!(link.is_broken.load(Ordering::SeqCst));
    assert_eq!((row.status.as_str(), row.attempt, row.ambiguous), ("sent", 1, 0), "{row:?}");
    fixture.assert_queue_is_whole().await;
    fixture.stop().await;
}

#[tokio::test]
async fn queued_messages_are_sent_if_the_commit_response_is_lost() {
    let (mut fixture, link, ann) = fixture().await;
    let message = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&message)).await;
    is_sent(&mut fixture, &link, message.id).await;
}

#[tokio::test]
async fn direct_messages_are_sent_if_the_commit_response_is_lost() {
    let (mut fixture, link, ann) = fixture().await;
    let (id, direct) = fixture.direct(&[ann], &json!({ "subject": "Code", "body": "1" }));
    fixture.send_direct(vec![direct]).await;
    is_sent(&mut fixture, &link, id).await;
}
