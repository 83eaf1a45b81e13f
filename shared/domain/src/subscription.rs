//! Subscription groups: limits, status reasons, and the source of a user's choice. Pure.

/// Maximum number of groups per project: one page shows all of them.
pub const GROUPS_MAX: usize = 50;
/// Status reason of a message that was not sent: the user is not subscribed to its group.
pub const UNSUBSCRIBED_FROM_GROUP: &str = "unsubscribed_from_group";
/// Status reason of a message that was not sent: its group was deleted, and with it the users' choices.
pub const GROUP_DELETED: &str = "subscription_group_deleted";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The user, on the preference page.
    Page,
    /// The user, by a message's unsubscribe link or the one-click unsubscribe of a mail client.
    Link,
    /// The project, through the API.
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
