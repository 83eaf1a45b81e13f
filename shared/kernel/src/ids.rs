//! IDs: which are derived, and which contain a time.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use postgres_types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::{Uuid, Version};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

/// The ID of a project, the tenant. It is the first part of every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProjectId(pub Uuid);

/// The owner of one or more projects: the account that created them, or the project itself if the operator created it.
/// Limits on shared resources apply per owner, so that all projects of an account share one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub Uuid);

impl From<ProjectId> for OwnerId {
    fn from(project: ProjectId) -> Self {
        Self(project.0)
    }
}

impl std::fmt::Display for ProjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl ToSql for ProjectId {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }
    fn accepts(ty: &Type) -> bool {
        <Uuid as ToSql>::accepts(ty)
    }
    to_sql_checked!();
}

impl<'a> FromSql<'a> for ProjectId {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Uuid::from_sql(ty, raw).map(Self)
    }
    fn accepts(ty: &Type) -> bool {
        <Uuid as FromSql<'_>>::accepts(ty)
    }
}

/// The user of an item, as the sender identifies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserKey<'a> {
    External(&'a str),
    Anonymous(&'a str),
}

impl<'a> UserKey<'a> {
    /// Returns the key of a user. The user ID takes precedence over the anonymous ID; `None` if both are missing.
    pub fn of(user_id: Option<&'a str>, anonymous_id: Option<&'a str>) -> Option<Self> {
        user_id.map(Self::External).or(anonymous_id.map(Self::Anonymous))
    }

    fn name(self) -> String {
        match self {
            Self::External(id) => format!("user:{id}"),
            Self::Anonymous(id) => format!("anonymous:{id}"),
        }
    }

    /// Returns the internal ID: a UUIDv5 in the project's namespace (RFC 9562), so that the API can return it
    /// before the row exists.
    pub fn internal_id(self, project: ProjectId) -> Uuid {
        Uuid::new_v5(&project.0, self.name().as_bytes())
    }

    /// Returns the partition of the ingest stream for this user's items, less than `partitions`.
    pub fn partition(self, project: ProjectId, partitions: u16) -> u16 {
        let (seed, id) = match self {
            Self::External(id) => (1, id),
            Self::Anonymous(id) => (2, id),
        };
        let hash = xxh3_64_with_seed(id.as_bytes(), seed ^ project.0.as_u64_pair().1);
        (hash % u64::from(partitions.max(1))) as u16
    }
}

/// Returns the user ID for events sent under a merged anonymous ID without proof of identity.
///
/// These events count for no user, and an erasure that includes the anonymous user finds them.
pub fn unproven(anonymous: Uuid) -> Uuid {
    Uuid::new_v5(&anonymous, b"unproven")
}

/// Maximum age of a client's UUIDv7 at receipt for use as the event's own ID.
pub const CLIENT_ID_PAST_MS: i64 = 30 * 86_400_000;
/// Maximum time by which a client's UUIDv7 may be ahead of its receipt for use as the event's own ID.
pub const CLIENT_ID_FUTURE_MS: i64 = 86_400_000;

/// The row ID of an event, and the public ID if it differs: the client's UUIDv7, or an ID derived from the client's ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    pub row: Uuid,
    pub derived: Option<Uuid>,
}

impl EventId {
    /// Returns the ID shown by the API.
    pub fn public(self) -> Uuid {
        self.derived.unwrap_or(self.row)
    }

    /// Creates the ID of an event from the client's ID, if it sent one, and the time of receipt.
    pub fn new(project: ProjectId, space: IdSpace, client_id: Option<&str>, received_ms: i64) -> Self {
        let fresh = || fresh(received_ms);
        let Some(client_id) = client_id else { return Self { row: fresh(), derived: None } };
        match Uuid::try_parse(client_id).ok().filter(|id| usable_as_own(*id, received_ms)) {
            Some(own) if space == IdSpace::PublicKey && !is_marked(own) => Self { row: own, derived: None },
            Some(own) => Self { row: own_row_id(project, space, own), derived: Some(own) },
            None => Self { row: fresh(), derived: Some(derived_event_id(project, space, client_id)) },
        }
    }
}

/// The origin of an ID. IDs of different spaces never collide, so that a public key, which anyone may read, cannot
/// use up the IDs of a backend's events or of a provider's notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdSpace {
    PublicKey,
    /// Secret keys and sessions.
    SecretKey,
    Webhook,
    /// The product itself, for example for clicks.
    Product,
}

impl IdSpace {
    /// Returns the prefix of an ID's name. The prefixes are unambiguous, because all names continue with `event:`
    /// or `update:`.
    fn prefix(self) -> &'static str {
        match self {
            Self::PublicKey => "",
            Self::SecretKey => "secret-key/",
            Self::Webhook => "webhook/",
            Self::Product => "product/",
        }
    }
}

/// The index, within the 80 bits of [`timed`], of the byte that marks a derived row ID. In other UUIDv7s it is random.
const MARKED_BYTE: usize = 3;
const DERIVED_MARK: u8 = 0xff;

/// Derives the row ID of an event whose sender chose a UUIDv7: the same time, the mark, and a hash of project,
/// space and ID.
///
/// Anyone who knows the sender's ID can compute it. But a marked ID from a client is never used as a row ID itself,
/// so only a hash collision (66 bits of SHA-256) can make row IDs of two spaces equal.
pub fn own_row_id(project: ProjectId, space: IdSpace, own: Uuid) -> Uuid {
    let hash = Sha256::new().chain_update(space.prefix()).chain_update(project.0).chain_update(own).finalize();
    let mut random = [0; 10];
    random.copy_from_slice(&hash[..10]);
    random[MARKED_BYTE] = DERIVED_MARK;
    timed(time_ms(own), random)
}

/// Returns the row ID of a backend's event with a UUIDv7 that was recorded before derived row IDs were marked.
pub fn unmarked_row_id(project: ProjectId, own: Uuid) -> Uuid {
    let prefix = IdSpace::SecretKey.prefix().as_bytes();
    timed_for(time_ms(own), &[prefix, project.0.as_bytes(), own.as_bytes()])
}

/// Returns whether a UUIDv7 has the mark of [`own_row_id`]. So does one in 256 of those that clients choose.
pub fn is_marked(id: Uuid) -> bool {
    id.as_bytes()[6 + MARKED_BYTE] == DERIVED_MARK
}

fn usable_as_own(id: Uuid, received_ms: i64) -> bool {
    id.get_version() == Some(Version::SortRand)
        && id.get_variant() == uuid::Variant::RFC4122
        && (received_ms - CLIENT_ID_PAST_MS..=received_ms + CLIENT_ID_FUTURE_MS).contains(&time_ms(id))
}

/// Returns the public ID of an event whose client sent an ID that cannot serve as a row ID.
pub fn derived_event_id(project: ProjectId, space: IdSpace, client_id: &str) -> Uuid {
    Uuid::new_v5(&project.0, format!("{}event:{client_id}", space.prefix()).as_bytes())
}

/// Returns the ID by which duplicates of a profile update are detected. It differs from event IDs, so that one
/// client ID may serve both.
pub fn derived_update_id(project: ProjectId, space: IdSpace, client_id: &str) -> Uuid {
    Uuid::new_v5(&project.0, format!("{}update:{client_id}", space.prefix()).as_bytes())
}

/// Like [`derived_update_id`], for an ID that must be recognized as long as its project exists. Its version, UUIDv8,
/// distinguishes it from IDs that are deleted with the project's events.
pub fn lasting_update_id(project: ProjectId, space: IdSpace, client_id: &str) -> Uuid {
    let derived = derived_update_id(project, space, client_id);
    uuid::Builder::from_bytes(derived.into_bytes()).with_version(Version::Custom).into_uuid()
}

/// Returns whether an ID was made by [`lasting_update_id`].
pub fn is_lasting(id: Uuid) -> bool {
    id.get_version() == Some(Version::Custom)
}

/// Creates a UUIDv7 from a time (Unix milliseconds) and 80 bits, of which 74 are used (RFC 9562, 5.7).
pub fn timed(ms: i64, random: [u8; 10]) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(ms.max(0) as u64, &random).into_uuid()
}

/// Creates a UUIDv7 from a time and a hash of `what` it identifies. The same input always gives the same ID.
pub fn timed_for(ms: i64, what: &[&[u8]]) -> Uuid {
    let mut whole = Vec::with_capacity(64);
    for part in what {
        whole.extend_from_slice(&(part.len() as u32).to_be_bytes());
        whole.extend_from_slice(part);
    }
    let hash = xxh3_128(&whole).to_be_bytes();
    let mut random = [0; 10];
    random.copy_from_slice(&hash[..10]);
    timed(ms, random)
}

/// Returns a new UUIDv7, never marked.
///
/// IDs of one process strictly increase, even within a millisecond, unless its clock is set back (RFC 9562, 6.2: a
/// counter replaces the fraction of the time and carries into the next millisecond when it overflows).
pub fn fresh(now_ms: i64) -> Uuid {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = (now_ms.max(0) as u64) << 12;
    // If the clock was set back, start over instead of freezing the time of all new IDs.
    let next = |last: u64| if now + (1 << 16) < last { now } else { now.max(last + 1) };
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last))).unwrap_or_default();
    let ticket = next(last);
    let mut random: [u8; 10] = rand::random();
    [random[0], random[1]] = ((ticket & 0xfff) as u16).to_be_bytes();
    random[MARKED_BYTE] &= DERIVED_MARK >> 1;
    timed((ticket >> 12) as i64, random)
}

/// Returns the time of a UUIDv7, in Unix milliseconds.
pub fn time_ms(id: Uuid) -> i64 {
    (id.as_u128() >> 80) as i64
}

/// Returns the smallest ID with this time, as the bound of a partition.
pub fn lower_bound(ms: i64) -> Uuid {
    Uuid::from_u128((ms.max(0) as u128) << 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));
    const NOW: i64 = 1_790_000_000_000;

    #[test]
    fn external_and_anonymous_ids_identify_different_users() {
        let (external, anonymous) = (UserKey::External("a"), UserKey::Anonymous("a"));
        assert_ne!(external.internal_id(PROJECT), anonymous.internal_id(PROJECT));
        assert_ne!(external.internal_id(PROJECT), external.internal_id(ProjectId(Uuid::from_u128(8))));
        assert_eq!(external.internal_id(PROJECT), external.internal_id(PROJECT));
    }

    #[test]
    fn partitions_are_stable_and_even() {
        // Must never change: one user's items would end up in two partitions.
        assert_eq!(
            UserKey::External("user-1").partition(PROJECT, 8),
            UserKey::External("user-1").partition(PROJECT, 8)
        );
        let mut counts = [0; 8];
        for i in 0..8_000 {
            counts[usize::from(UserKey::External(&format!("u{i}")).partition(PROJECT, 8))] += 1;
        }
        assert!(counts.iter().all(|c| (800..1200).contains(c)), "{counts:?}");
        assert_eq!(UserKey::External("x").partition(PROJECT, 1), 0);
    }

    #[test]
    fn recent_uuid_v7_is_used_as_event_id() {
        let id = timed(NOW - CLIENT_ID_PAST_MS, [9; 10]);
        let made = EventId::new(PROJECT, IdSpace::PublicKey, Some(&id.to_string()), NOW);
        assert_eq!(made, EventId { row: id, derived: None });
        for space in [IdSpace::PublicKey, IdSpace::SecretKey] {
            let shouting = id.to_string().to_uppercase();
            let shouted = EventId::new(PROJECT, space, Some(&shouting), NOW);
            assert_eq!(shouted.public(), id);
            assert_eq!(time_ms(shouted.row), time_ms(id));
        }
    }

    #[test]
    fn id_spaces_are_disjoint() {
        let own = timed(NOW, [9; 10]).to_string();
        for client_id in ["order-1", "secret-key/event:order-1", &own] {
            let spaces = [IdSpace::PublicKey, IdSpace::SecretKey, IdSpace::Webhook, IdSpace::Product];
            let found = |space| {
                let id = EventId::new(PROJECT, space, Some(client_id), NOW);
                let found_by = id.derived.filter(|derived| derived.get_version_num() != 7).unwrap_or(id.row);
                [found_by, derived_update_id(PROJECT, space, client_id)]
            };
            let ids: std::collections::BTreeSet<Uuid> = spaces.into_iter().flat_map(found).collect();
            assert_eq!(ids.len(), 8, "{client_id}");
            assert_eq!(found(IdSpace::SecretKey), found(IdSpace::SecretKey));
        }
    }

    #[test]
    fn public_key_cannot_take_row_id_of_backend_event() {
        let event = |space, id: Uuid| EventId::new(PROJECT, space, Some(&id.to_string()), NOW);
        for _ in 0..10_000 {
            let own = timed(NOW, rand::random());
            let backend = event(IdSpace::SecretKey, own);
            assert_eq!(backend, event(IdSpace::SecretKey, own));
            assert_eq!((backend.public(), time_ms(backend.row), is_marked(backend.row)), (own, NOW, true));
            // The second is the row ID itself, which anyone who knows the backend's ID can compute and send.
            for sent in [own, backend.row] {
                let public = event(IdSpace::PublicKey, sent);
                assert_eq!(public, event(IdSpace::PublicKey, sent));
                assert_ne!(public.row, backend.row);
                assert_eq!((public.public(), time_ms(public.row)), (sent, NOW));
                assert_eq!(is_marked(public.row), is_marked(sent));
                assert!([public.row, backend.row].into_iter().all(|row| usable_as_own(row, NOW)));
            }
        }
    }

    #[test]
    fn lasting_ids_are_recognizable() {
        let lasting = lasting_update_id(PROJECT, IdSpace::Webhook, "a");
        assert_eq!(lasting, lasting_update_id(PROJECT, IdSpace::Webhook, "a"));
        assert_ne!(lasting, lasting_update_id(PROJECT, IdSpace::Webhook, "b"));
        assert!(is_lasting(lasting) && lasting.to_string().as_bytes()[14] == b'8');
        assert_eq!(lasting.get_variant(), uuid::Variant::RFC4122);
        assert!(!is_lasting(derived_update_id(PROJECT, IdSpace::Webhook, "a")) && !is_lasting(fresh(NOW)));
    }

    #[test]
    fn other_client_ids_are_derived() {
        for client_id in [
            "order-1".to_owned(),
            Uuid::from_u128(4).to_string(),
            timed(NOW - CLIENT_ID_PAST_MS - 1, [9; 10]).to_string(),
            timed(NOW + CLIENT_ID_FUTURE_MS + 1_000, [9; 10]).to_string(),
        ] {
            let first = EventId::new(PROJECT, IdSpace::PublicKey, Some(&client_id), NOW);
            let again = EventId::new(PROJECT, IdSpace::PublicKey, Some(&client_id), NOW + 5);
            assert_eq!(first.public(), again.public(), "{client_id}");
            assert_ne!(first.row, again.row);
            assert_eq!(first.public(), derived_event_id(PROJECT, IdSpace::PublicKey, &client_id));
        }
    }

    #[test]
    fn fresh_ids_sort_by_creation() {
        let made: Vec<Uuid> = (0..10_000).map(|i| fresh(NOW + i / 9_000)).collect();
        assert!(made.windows(2).all(|w| w[0] < w[1]));
        assert!(made.iter().all(|id| id.get_version_num() == 7 && (NOW..NOW + 5).contains(&time_ms(*id))));
        assert!(!made.into_iter().any(is_marked));
        assert_eq!(time_ms(fresh(NOW - 3_600_000)), NOW - 3_600_000);
    }

    #[test]
    fn timed_id_contains_time_and_sorts_by_it() {
        let id = timed_for(NOW, &[b"automation", b"trigger"]);
        assert_eq!((time_ms(id), id.get_version_num()), (NOW, 7));
        assert_eq!(id, timed_for(NOW, &[b"automation", b"trigger"]));
        assert_ne!(id, timed_for(NOW, &[b"automationt", b"rigger"]));
        assert!(lower_bound(NOW) < id && id < lower_bound(NOW + 1));
    }
}
