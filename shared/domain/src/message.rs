//! A message: its channel, its lane, and the states it goes through.

use kernel::ids::ProjectId;

/// The messages of one project, channel and lane that are to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Queue {
    pub project: ProjectId,
    pub channel: Channel,
    pub lane: Lane,
}

/// The priority class of a message, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    Direct,
    Automation,
    Campaign,
}

impl Lane {
    pub const ALL: [Self; 3] = [Self::Direct, Self::Automation, Self::Campaign];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Automation => "automation",
            Self::Campaign => "campaign",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.as_str() == text)
    }
}

/// By what a message reaches a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    Email,
    Push,
    InApp,
    Sms,
}

impl Channel {
    pub const ALL: [Self; 4] = [Self::Email, Self::Push, Self::InApp, Self::Sms];

    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Email => "EMAIL",
            Self::Push => "PUSH",
            Self::InApp => "IN_APP",
            Self::Sms => "SMS",
        }
    }

    /// As subjects and the channel table write it.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Push => "push",
            Self::InApp => "in_app",
            Self::Sms => "sms",
        }
    }

    /// In either case, as both forms of the request are accepted.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str().eq_ignore_ascii_case(text))
    }
}

/// How far a message has come. A status never goes backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    Queued,
    Sent,
    Delivered,
    Opened,
    Clicked,
    Failed,
    Bounced,
    Complained,
    Suppressed,
    Cancelled,
}

impl DeliveryState {
    pub const ALL: [Self; 10] = [
        Self::Queued,
        Self::Sent,
        Self::Delivered,
        Self::Opened,
        Self::Clicked,
        Self::Failed,
        Self::Bounced,
        Self::Complained,
        Self::Suppressed,
        Self::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Opened => "opened",
            Self::Clicked => "clicked",
            Self::Failed => "failed",
            Self::Bounced => "bounced",
            Self::Complained => "complained",
            Self::Suppressed => "suppressed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    /// The state that a webhook of this kind tells of, for example `message.delivered`; `None` for other kinds.
    pub fn told_by(kind: &str) -> Option<Self> {
        let state = Self::parse(kind.strip_prefix("message.")?)?;
        let told = [Self::Delivered, Self::Opened, Self::Clicked, Self::Bounced, Self::Complained, Self::Failed];
        told.contains(&state).then_some(state)
    }

    /// How far on the way from the queue to a click.
    fn progress(self) -> Option<u8> {
        match self {
            Self::Queued => Some(0),
            Self::Sent => Some(1),
            Self::Delivered => Some(2),
            Self::Opened => Some(3),
            Self::Clicked => Some(4),
            Self::Failed | Self::Bounced | Self::Complained | Self::Suppressed | Self::Cancelled => None,
        }
    }

    /// The state after word has come of `next`. It only ever moves forward: what has arrived has not failed, what was
    /// read has not bounced, and after such an end nothing follows. A complaint may follow anything that arrived.
    #[must_use]
    pub fn after(self, next: Self) -> Self {
        let Some(now) = self.progress() else { return self };
        let moves = match (next, next.progress()) {
            (_, Some(then)) => then > now,
            (Self::Failed, _) => now < 2,
            (Self::Bounced, _) => now < 3,
            (Self::Complained, _) => true,
            // Ours to decide, before anything is sent.
            _ => now == 0,
        };
        if moves { next } else { self }
    }

    /// Whether no send can follow any more.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued)
    }
}

/// Codes of failures that lie with the system, the project's settings or its provider, and not with the message or its
/// recipient: once that is mended, the message can be sent again.
const MENDABLE: [&str; 7] = [
    "gave_up",
    "outcome_unknown",
    "internal_error",
    "channel_not_configured",
    "channel_not_supported",
    "template_not_found",
    "render_failed",
];

/// The code of a message's reason, without the details after the colon.
pub fn reason_code(reason: &str) -> &str {
    reason.split_once(':').map_or(reason, |(code, _)| code)
}

/// Whether a message that failed for this reason is kept as a dead letter. A reason is a code, and after a colon the details.
pub fn is_dead_letter(reason: &str) -> bool {
    let code = reason_code(reason);
    MENDABLE.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        assert!(Channel::ALL.iter().all(|c| Channel::parse(&c.as_str().to_lowercase()) == Some(*c)));
        assert!(DeliveryState::ALL.iter().all(|s| DeliveryState::parse(s.as_str()) == Some(*s)));
        assert!(Lane::ALL.iter().all(|l| Lane::parse(l.as_str()) == Some(*l)));
    }

    #[test]
    fn a_state_only_moves_forward() {
        use DeliveryState::{Bounced, Cancelled, Clicked, Complained, Delivered, Failed, Opened, Queued, Sent};
        for (before, told, after) in [
            (Queued, Delivered, Delivered),
            (Sent, Delivered, Delivered),
            (Sent, Clicked, Clicked),
            (Clicked, Opened, Clicked),
            (Opened, Sent, Opened),
            (Sent, Failed, Failed),
            (Delivered, Failed, Delivered),
            (Delivered, Bounced, Bounced),
            (Opened, Bounced, Opened),
            (Clicked, Complained, Complained),
            (Queued, Cancelled, Cancelled),
            (Sent, Cancelled, Sent),
            (Failed, Delivered, Failed),
            (Bounced, Complained, Bounced),
            (Cancelled, Opened, Cancelled),
        ] {
            assert_eq!(before.after(told), after, "{before:?}, {told:?}");
        }
        for state in DeliveryState::ALL {
            assert_eq!(state.after(state), state);
        }
    }

    /// Whatever word comes, in whatever order: no state is ever come back to.
    #[test]
    fn no_word_leads_back() {
        fn reached(from: DeliveryState, found: &mut Vec<DeliveryState>) {
            for next in DeliveryState::ALL.map(|word| from.after(word)) {
                if next != from && !found.contains(&next) {
                    found.push(next);
                    reached(next, found);
                }
            }
        }
        for state in DeliveryState::ALL {
            let mut found = Vec::new();
            reached(state, &mut found);
            assert!(!found.contains(&state), "{state:?} again, by {found:?}");
        }
        let mut from_queue = Vec::new();
        reached(DeliveryState::Queued, &mut from_queue);
        assert_eq!(from_queue.len(), DeliveryState::ALL.len() - 1, "{from_queue:?}");
    }

    #[test]
    fn only_what_happens_after_the_sending_is_told_by_webhooks() {
        assert_eq!(DeliveryState::told_by("message.bounced"), Some(DeliveryState::Bounced));
        for kind in
            ["message.queued", "message.sent", "message.cancelled", "message.unsubscribed", "bounced", "message."]
        {
            assert_eq!(DeliveryState::told_by(kind), None, "{kind}");
        }
    }

    #[test]
    fn what_can_be_mended_can_be_sent_again() {
        for (reason, dead) in [
            ("gave_up: 421 try later", true),
            ("render_failed: body: line 2", true),
            ("channel_not_configured", true),
            ("rejected: 550 no such user", false),
            ("user_not_found", false),
            ("gave up", false),
            ("", false),
        ] {
            assert_eq!(is_dead_letter(reason), dead, "{reason}");
        }
    }
}
