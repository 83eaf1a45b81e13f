//! Where somebody's choice of a subscription group comes from. Pure.

/// Groups of a project at most: a page shows all of them.
pub const GROUPS_MAX: usize = 50;
/// As the ledger says why a message was not sent: its person is not subscribed to its group.
pub const UNSUBSCRIBED_FROM_GROUP: &str = "unsubscribed_from_group";
/// The group was deleted meanwhile, and with it what its people chose.
pub const GROUP_DELETED: &str = "subscription_group_deleted";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The person, on the preference page.
    Page,
    /// The person, by a message's unsubscribe link or one click in a mail program.
    Link,
    /// The project.
    Api,
}

impl Source {
    pub const ALL: [Self; 3] = [Self::Page, Self::Link, Self::Api];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Link => "link",
            Self::Api => "api",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == text)
    }
}
