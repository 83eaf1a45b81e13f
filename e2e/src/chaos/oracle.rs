//! Records what clients tried and which responses they got, durably, before the client continues.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::mpsc;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use uuid::Uuid;

/// A fact to compare with the final state. A shop is a project, by its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Line {
    /// An event is about to be sent, possibly again.
    Tried { shop: usize, name: String, reference: String },
    /// The event got a 2xx response.
    Accepted { shop: usize, name: String, reference: String },
    /// The n-th update of a user's profile got a 2xx response. Each removes what the previous one added.
    Profile { shop: usize, user: String, n: u64 },
    /// Both IDs were sent together, and the user has this number of events under them.
    Merged { anonymous: String, user: String, events: u64 },
    /// A message is about to be sent with an idempotency key, possibly again.
    TriedSend { key: String },
    /// The message got a 2xx response with this ID.
    Sent { shop: usize, key: String, id: Uuid },
    /// An inapplicable item is about to be published, possibly again.
    TriedPoison { id: Uuid },
    /// The stream has acknowledged the item.
    Poison { id: Uuid },
    /// A key was revoked.
    Revoked { key: String },
    /// The key was accepted this many seconds after its revocation.
    LateUse { key: String, seconds: u64 },
    /// A campaign was started.
    Campaign { id: Uuid },
    /// A response that must not occur.
    UnexpectedResponse { answer: String },
}

/// All lines combined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRecord {
    /// Events by shop and reference.
    pub tried: BTreeSet<(usize, String)>,
    /// The names of accepted events, by shop and reference.
    pub accepted: BTreeMap<(usize, String), String>,
    /// The last update by shop and user.
    pub profiles: BTreeMap<(usize, String), u64>,
    /// By anonymous ID: the external ID, and the number of events.
    pub merges: BTreeMap<String, (String, u64)>,
    pub tried_sends: BTreeSet<String>,
    /// The IDs returned for each key.
    pub sends: BTreeMap<String, BTreeSet<Uuid>>,
    /// The shop that sent each message.
    pub shop_of_message: BTreeMap<Uuid, usize>,
    pub campaigns: BTreeSet<Uuid>,
    pub tried_poison: BTreeSet<Uuid>,
    pub poison: BTreeSet<Uuid>,
    pub revoked: BTreeSet<String>,
    /// Descriptions of revoked keys that were accepted too late.
    pub late_uses: Vec<String>,
    pub unexpected_responses: Vec<String>,
}

impl ClientRecord {
    pub fn add(&mut self, line: Line) {
        match line {
            Line::Tried { shop, reference, .. } => {
                self.tried.insert((shop, reference));
            }
            Line::Accepted { shop, name, reference } => {
                self.accepted.insert((shop, reference), name);
            }
            Line::Profile { shop, user, n } => {
                self.profiles.insert((shop, user), n);
            }
            Line::Merged { anonymous, user, events } => {
                self.merges.insert(anonymous, (user, events));
            }
            Line::TriedSend { key } => {
                self.tried_sends.insert(key);
            }
            Line::Sent { shop, key, id } => {
                self.sends.entry(key).or_default().insert(id);
                self.shop_of_message.insert(id, shop);
            }
            Line::TriedPoison { id } => {
                self.tried_poison.insert(id);
            }
            Line::Poison { id } => {
                self.poison.insert(id);
            }
            Line::Revoked { key } => {
                self.revoked.insert(key);
            }
            Line::LateUse { key, seconds } => {
                self.late_uses.push(format!("{key} was accepted {seconds} s after its revocation"));
            }
            Line::Campaign { id } => {
                self.campaigns.insert(id);
            }
            Line::UnexpectedResponse { answer } => self.unexpected_responses.push(answer),
        }
    }

    /// Reads the recorded lines.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut record = Self::default();
        for line in BufReader::new(File::open(path)?).lines() {
            record.add(serde_json::from_str(&line?)?);
        }
        Ok(record)
    }
}

type Lines = (Vec<Line>, oneshot::Sender<()>);

/// Writes the lines; those that arrive together share one sync.
#[derive(Clone, Debug)]
pub struct Oracle {
    sender: mpsc::Sender<Lines>,
}

impl Oracle {
    /// Creates the file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::create_new(path)?;
        let (sender, lines) = mpsc::channel();
        // The thread ends with the last sender.
        std::thread::spawn(move || write_lines(file, &lines));
        Ok(Self { sender })
    }

    /// Returns once the lines are on disk.
    ///
    /// Panics if they cannot be written.
    pub async fn record(&self, lines: Vec<Line>) {
        let (done, written) = oneshot::channel();
        let sent = self.sender.send((lines, done));
        assert!(sent.is_ok() && written.await.is_ok(), "the record cannot be written");
    }
}

fn write_lines(mut file: File, lines: &mpsc::Receiver<Lines>) {
    while let Ok(first) = lines.recv() {
        let together: Vec<Lines> = std::iter::once(first).chain(lines.try_iter()).collect();
        let mut text = Vec::new();
        for line in together.iter().flat_map(|(lines, _)| lines) {
            if serde_json::to_writer(&mut text, line).is_err() {
                return;
            }
            text.push(b'\n');
        }
        if file.write_all(&text).and_then(|()| file.sync_data()).is_err() {
            return;
        }
        for (_, done) in together {
            // The caller may have been cancelled.
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn recorded_lines_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oracle.ndjson");
        let oracle = Oracle::create(&path).unwrap();
        let (name, reference) = ("counted".to_owned(), "e1".to_owned());
        let (key, id) = ("send-1".to_owned(), Uuid::from_u128(7));
        let lines = [
            Line::Tried { shop: 1, name: name.clone(), reference: reference.clone() },
            Line::Accepted { shop: 1, name: name.clone(), reference: reference.clone() },
            Line::Profile { shop: 0, user: "u1".to_owned(), n: 1 },
            Line::Profile { shop: 0, user: "u1".to_owned(), n: 2 },
            Line::Merged { anonymous: "a1".to_owned(), user: "m1".to_owned(), events: 3 },
            Line::TriedSend { key: key.clone() },
            Line::Sent { shop: 1, key: key.clone(), id },
            Line::TriedPoison { id },
            Line::Poison { id },
            Line::Revoked { key: key.clone() },
            Line::LateUse { key: key.clone(), seconds: 61 },
            Line::Campaign { id },
            Line::UnexpectedResponse { answer: "500".to_owned() },
        ];
        for line in &lines {
            oracle.record(vec![line.clone()]).await;
        }
        let record = ClientRecord::read(&path).unwrap();
        assert!(record.tried.contains(&(1, reference.clone())));
        assert_eq!(record.accepted, [((1, reference), name)].into());
        assert_eq!(record.profiles, [((0, "u1".to_owned()), 2)].into());
        assert_eq!(record.merges, [("a1".to_owned(), ("m1".to_owned(), 3))].into());
        assert_eq!(record.sends, [(key.clone(), [id].into())].into());
        assert!(record.tried_sends.contains(&key) && record.campaigns.contains(&id));
        assert_eq!((record.shop_of_message, record.tried_poison), ([(id, 1)].into(), [id].into()));
        assert_eq!((record.poison, record.revoked), ([id].into(), [key.clone()].into()));
        assert_eq!(record.late_uses, [format!("{key} was accepted 61 s after its revocation")]);
        assert_eq!(record.unexpected_responses, ["500"]);
    }

    #[tokio::test]
    async fn existing_record_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oracle.ndjson");
        let _first = Oracle::create(&path).unwrap();
        assert!(Oracle::create(&path).is_err());
    }
}
