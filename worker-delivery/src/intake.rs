//! What arrives on the send stream: decoded, and direct messages given their rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use serde_json::{Value, json};
use shared::clock::from_ms;
use shared::event::{WireError, uuid};
use shared::ids::{self, ProjectId};
use shared::metric_name::Metric;
use shared::send::{Channel, DirectMessage, Lane, MessageRef, SendChunk};
use shared::store::messages::insert::{NewMessage, any_lane, queued};
use shared::store::users::recipient;
use shared::store::users::record::PersonKey;
use shared::store::users::removals;
use shared::store::{Connection, StoreError, erasures, project_removals, time_partitions};
use shared::trace::TraceContext;
use uuid::Uuid;

use crate::App;

/// When the scheduler looks after a direct message whose hand-over was lost.
const SWEEP: Duration = Duration::from_mins(1);
/// Reason for refusing a message whose partition was dropped. Whether it was sent before is no longer known.
const EXPIRED: &str = "the message is older than the messages that are kept";

/// Rows to be worked on: by project, each with the attempt it was handed over at.
pub type Wanted = BTreeMap<ProjectId, BTreeMap<Uuid, i32>>;

/// What cannot be worked on, and why.
pub struct Refused {
    pub payload: Bytes,
    pub reason: String,
}

/// One message of the stream, read.
#[derive(Default)]
pub struct Intake {
    pub wanted: Wanted,
    pub direct: Vec<(Candidate, DirectMessage)>,
    pub refused: Vec<Refused>,
}

/// A direct message, checked; its user is still to be found.
#[derive(Clone)]
pub struct Candidate {
    row: NewMessage,
    users: Vec<Uuid>,
}

impl Intake {
    /// Reads one payload. What is wrong in it costs nothing else in it.
    pub fn read(&mut self, payload: Bytes) {
        let chunk = match SendChunk::decode_checked(payload.clone()) {
            Ok(chunk) => chunk,
            Err(error) => return self.refused.push(Refused { payload, reason: error.to_string() }),
        };
        for hand_over in chunk.refs {
            match read_ref(&hand_over) {
                Ok((project, id, attempt)) => {
                    want(&mut self.wanted, project, id, attempt);
                }
                Err(error) => {
                    let payload = SendChunk::of(vec![hand_over]).encode_to_vec().into();
                    self.refused.push(Refused { payload, reason: error.to_string() });
                }
            }
        }
        for direct in chunk.direct {
            match read_direct(&direct) {
                Ok(candidate) => self.direct.push((candidate, direct)),
                Err(reason) => self.refuse_direct(direct, reason),
            }
        }
    }

    /// Nobody is left who asked for these.
    async fn drop_of_deleted(&mut self, db: &Connection) -> Result<(), StoreError> {
        let projects: BTreeSet<ProjectId> = self.direct.iter().map(|(c, _)| c.row.project).collect();
        let removed = project_removals::among(db, &projects.into_iter().collect::<Vec<_>>()).await?;
        let before = self.direct.len();
        self.direct.retain(|(c, _)| !removed.contains(&c.row.project));
        let dropped = (before - self.direct.len()) as u64;
        if dropped > 0 {
            metrics::counter!(Metric::DroppedOfDeleted, "what" => "message").increment(dropped);
        }
        Ok(())
    }

    fn refuse_direct(&mut self, direct: DirectMessage, reason: String) {
        let chunk = SendChunk { direct: vec![direct], ..SendChunk::of(Vec::new()) };
        self.refused.push(Refused { payload: chunk.encode_to_vec().into(), reason });
    }

    /// Gives the direct messages their rows, so that from here on they are as safe as any.
    pub async fn record_direct(&mut self, app: &App) -> Result<(), StoreError> {
        if self.direct.is_empty() {
            return Ok(());
        }
        self.drop_of_deleted(&app.store.connection().await?).await?;
        let (candidates, direct): (Vec<Candidate>, Vec<DirectMessage>) =
            std::mem::take(&mut self.direct).into_iter().unzip();
        match insert(app, &candidates).await {
            Ok(rows) => rows.iter().for_each(|row| want(&mut self.wanted, row.project, row.id, 0)),
            Err(error) if !error.is_of_data() && !error.is_missing_partition() => return Err(error),
            Err(_) => self.record_each(app, candidates.into_iter().zip(direct)).await?,
        }
        Ok(())
    }

    /// Records direct messages one by one, and refuses those that can never be recorded.
    async fn record_each(
        &mut self,
        app: &App,
        messages: impl Iterator<Item = (Candidate, DirectMessage)>,
    ) -> Result<(), StoreError> {
        // Read before the inserts: a partition that is made in between must not make its messages look expired.
        let newest_end = time_partitions::newest_end(&app.store.connection().await?, "message").await?;
        for (candidate, direct) in messages {
            let is_past = newest_end.is_some_and(|end| ids::time_ms(candidate.row.id) < end);
            match insert(app, std::slice::from_ref(&candidate)).await {
                Ok(rows) => rows.iter().for_each(|row| want(&mut self.wanted, row.project, row.id, 0)),
                Err(error) if error.is_of_data() => self.refuse_direct(direct, error.to_string()),
                Err(error) if error.is_missing_partition() && is_past => self.refuse_direct(direct, EXPIRED.to_owned()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Gives direct messages their rows, which it returns; none to those of users who were erased after these were accepted. An
/// erasure of the users either waits for these rows and removes them, or is seen here.
async fn insert(app: &App, candidates: &[Candidate]) -> Result<Vec<NewMessage>, StoreError> {
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await?;
    removals::edition(&tx).await?;
    let named: Vec<PersonKey> = candidates.iter().flat_map(|c| c.users.iter().map(|id| (c.row.project, *id))).collect();
    removals::lock(&tx, &[], &removals::pending(&tx, &named).await?).await?;
    let erased = erasures::of(&tx, &named).await?;
    let is_erased =
        |c: &Candidate, id: &Uuid| erased.get(&(c.row.project, *id)).is_some_and(|at| c.row.created_at <= *at);
    let kept = candidates.iter().filter(|c| !c.users.iter().any(|id| is_erased(c, id)));
    let kept: Vec<&Candidate> = kept.collect();
    let mut by_project: BTreeMap<ProjectId, Vec<Uuid>> = BTreeMap::new();
    for candidate in &kept {
        by_project.entry(candidate.row.project).or_default().extend(&candidate.users);
    }
    let mut people: HashMap<PersonKey, Uuid> = HashMap::new();
    for (project, ids) in by_project {
        let found = recipient::load(&tx, project, &ids).await?;
        people.extend(found.into_iter().map(|(asked, person)| ((project, asked), person.id)));
    }
    let resolved = |c: &Candidate| c.clone().resolved(|id| people.get(&(c.row.project, id)).copied());
    let rows: Vec<NewMessage> = kept.into_iter().map(resolved).collect();
    queued(&tx, any_lane(), &rows).await?;
    tx.commit().await?;
    Ok(rows)
}

/// Of several hand-overs of a row the latest counts: the row has moved past the attempts of the others.
fn want(wanted: &mut Wanted, project: ProjectId, id: Uuid, attempt: i32) {
    let latest = wanted.entry(project).or_default().entry(id).or_insert(attempt);
    *latest = attempt.max(*latest);
}

impl Candidate {
    /// The row, for the first of the ids that leads to somebody; while none does, the row keeps them all.
    fn resolved(self, lookup: impl Fn(Uuid) -> Option<Uuid>) -> NewMessage {
        let mut row = self.row;
        match self.users.iter().find_map(|id| lookup(*id)) {
            Some(user) => row.user_id = user,
            None if self.users.len() > 1 => {
                if let Some(content) = row.content.as_object_mut() {
                    content.insert("userIds".to_owned(), json!(self.users));
                }
            }
            None => {}
        }
        row
    }
}

fn read_ref(hand_over: &MessageRef) -> Result<(ProjectId, Uuid, i32), WireError> {
    let project = ProjectId(uuid("project_id", &hand_over.project_id)?);
    Ok((project, uuid("message_id", &hand_over.message_id)?, i32::try_from(hand_over.attempt).unwrap_or(i32::MAX)))
}

fn read_direct(direct: &DirectMessage) -> Result<Candidate, String> {
    let wire = |e: WireError| e.to_string();
    let users: Result<Vec<Uuid>, WireError> = direct.user_ids.iter().map(|id| uuid("user_ids", id)).collect();
    let users = users.map_err(wire)?;
    let template_id = match direct.template_id.as_ref() {
        [] => None,
        id => Some(uuid("template_id", id).map_err(wire)?),
    };
    let created_at = from_ms(direct.accepted_ms);
    Ok(Candidate {
        row: NewMessage {
            project: ProjectId(uuid("project_id", &direct.project_id).map_err(wire)?),
            id: uuid("message_id", &direct.message_id).map_err(wire)?,
            user_id: *users.first().ok_or("a direct message without a user")?,
            channel: Channel::parse(&direct.channel).ok_or_else(|| format!("channel {:?}", direct.channel))?,
            lane: Lane::Direct,
            template_id,
            content: object("content", &direct.content)?,
            data: object("data", &direct.data)?,
            automation_id: None,
            run_id: None,
            subscription_group_id: None,
            trace: TraceContext::from_bytes(&direct.trace),
            created_at,
            due_at: created_at.checked_add(SWEEP).unwrap_or(created_at),
        },
        users,
    })
}

fn object(field: &str, json: &[u8]) -> Result<Value, String> {
    if json.is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_slice(json) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err(format!("{field} is no object")),
        Err(error) => Err(format!("{field}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use shared::event::id_bytes;

    use super::*;

    fn direct(content: &'static [u8]) -> DirectMessage {
        DirectMessage {
            project_id: id_bytes(Uuid::from_u128(1)),
            message_id: id_bytes(Uuid::from_u128(2)),
            user_ids: vec![id_bytes(Uuid::from_u128(3)), id_bytes(Uuid::from_u128(4))],
            channel: "email".to_owned(),
            content: Bytes::from_static(content),
            accepted_ms: 1_000,
            ..DirectMessage::default()
        }
    }

    #[test]
    fn what_is_wrong_in_a_chunk_costs_nothing_else_in_it() {
        let bad_ref = MessageRef { project_id: Bytes::from_static(b"x"), ..MessageRef::default() };
        let good_ref = MessageRef::at(ProjectId(Uuid::from_u128(1)), Uuid::from_u128(9), 3);
        let chunk = SendChunk {
            direct: vec![direct(b"{}"), direct(b"[]"), direct(b"{"), DirectMessage::default()],
            ..SendChunk::of(vec![bad_ref, good_ref])
        };
        let mut intake = Intake::default();
        intake.read(chunk.encode_to_vec().into());
        intake.read(Bytes::from_static(b"\xff\xff"));
        assert_eq!(intake.wanted[&ProjectId(Uuid::from_u128(1))], BTreeMap::from([(Uuid::from_u128(9), 3)]));
        assert_eq!((intake.direct.len(), intake.refused.len()), (1, 5));
    }

    #[test]
    fn the_first_id_that_leads_to_somebody_wins() {
        let candidate = read_direct(&direct(br#"{"subject":"s"}"#)).unwrap();
        let found = candidate.clone().resolved(|id| (id == Uuid::from_u128(4)).then_some(Uuid::from_u128(5)));
        assert_eq!((found.user_id, found.content), (Uuid::from_u128(5), json!({ "subject": "s" })));
        let nobody = candidate.resolved(|_| None);
        assert_eq!(nobody.user_id, Uuid::from_u128(3));
        assert_eq!(nobody.content["userIds"], json!([Uuid::from_u128(3), Uuid::from_u128(4)]));
        assert_eq!(nobody.due_at, from_ms(61_000));
    }

    #[test]
    fn of_two_hand_overs_of_a_row_the_later_attempt_counts() {
        let (project, id) = (ProjectId(Uuid::from_u128(1)), Uuid::from_u128(2));
        for attempts in [[3, 1], [1, 3]] {
            let mut intake = Intake::default();
            for attempt in attempts {
                intake.read(SendChunk::of(vec![MessageRef::at(project, id, attempt)]).encode_to_vec().into());
            }
            assert_eq!(intake.wanted[&project][&id], 3);
        }
    }
}
