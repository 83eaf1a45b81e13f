//! How a request names a user.

use uuid::Uuid;

use kernel::ids::{ProjectId, UserKey};

/// The kind of ID that names a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdType {
    /// The external ID or, if no user has it, the internal ID. An external ID can equal another user's internal ID.
    #[default]
    Either,
    Internal,
    External,
}

/// The ID by which a request names a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRef<'a> {
    pub id: &'a str,
    pub id_type: IdType,
}

impl<'a> UserRef<'a> {
    pub fn new(id: &'a str, id_type: IdType) -> Self {
        Self { id, id_type }
    }

    /// Reports whether it can name a user at all: an internal ID is a UUID.
    pub fn is_well_formed(self) -> bool {
        self.id_type != IdType::Internal || self.internal().is_some()
    }

    fn internal(self) -> Option<Uuid> {
        Uuid::try_parse(self.id).ok()
    }

    /// Returns the internal IDs of the users it may refer to; the first that exists is meant.
    ///
    /// Never includes an anonymous user by their anonymous ID: anyone with a public key can create one under any ID.
    pub fn candidates(self, project: ProjectId) -> Vec<Uuid> {
        let external = || UserKey::External(self.id).internal_id(project);
        match self.id_type {
            IdType::Either => std::iter::once(external()).chain(self.internal()).collect(),
            IdType::Internal => self.internal().into_iter().collect(),
            IdType::External => vec![external()],
        }
    }

    /// As [`candidates`](Self::candidates), plus the anonymous user with this ID if either kind is accepted. For read
    /// access only.
    pub(super) fn readable(self, project: ProjectId) -> Vec<Uuid> {
        let mut candidates = self.candidates(project);
        if self.id_type == IdType::Either {
            candidates.push(UserKey::Anonymous(self.id).internal_id(project));
        }
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(1));

    fn of(key: UserKey<'_>) -> Uuid {
        key.internal_id(PROJECT)
    }

    #[test]
    fn id_is_tried_as_external_then_internal_and_for_reads_as_anonymous() {
        let user = UserRef::new("u1", IdType::Either);
        assert_eq!(user.candidates(PROJECT), [of(UserKey::External("u1"))]);
        assert_eq!(user.readable(PROJECT), [of(UserKey::External("u1")), of(UserKey::Anonymous("u1"))]);
        let id = Uuid::from_u128(9);
        assert_eq!(UserRef::new(&id.to_string(), IdType::Either).candidates(PROJECT)[1], id);
    }

    #[test]
    fn id_type_limits_the_lookup_to_that_kind() {
        let id = of(UserKey::External("u1"));
        let text = id.to_string();
        for (id_type, only) in [(IdType::Internal, id), (IdType::External, of(UserKey::External(&text)))] {
            let user = UserRef::new(&text, id_type);
            assert_eq!((user.candidates(PROJECT), user.readable(PROJECT)), (vec![only], vec![only]));
            assert!(user.is_well_formed());
        }
        let none = UserRef::new("u1", IdType::Internal);
        assert!(none.readable(PROJECT).is_empty() && !none.is_well_formed());
        assert!(UserRef::new("u1", IdType::External).is_well_formed());
    }
}
