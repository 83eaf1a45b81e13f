//! Messages: channels, lanes and delivery states.

use kernel::ids::ProjectId;

/// Identifies a delivery queue: the queued messages of one project, channel and lane.
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

/// The channel by which a message reaches a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    Email,
    Push,
    InApp,
    Sms,
}

impl Channel {
    pub const ALL: [Self; 4] = [Self::Email, Self::Push, Self::InApp, Self::Sms];

    /// Returns the API name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Email => "EMAIL",
            Self::Push => "PUSH",
            Self::InApp => "IN_APP",
            Self::Sms => "SMS",
        }
    }

    /// Returns the name used in broker subjects and in the channel table.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Push => "push",
            Self::InApp => "in_app",
            Self::Sms => "sms",
        }
    }

    /// Parses the API name, in upper or lower case: requests may use both.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str().eq_ignore_ascii_case(text))
    }
}

/// The delivery state of a message. It never goes backwards.
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

    /// Returns the state that a webhook of this kind reports, for example `message.delivered`; `None` for other kinds.
    pub fn from_webhook_kind(kind: &str) -> Option<Self> {
        let state = Self::parse(kind.strip_prefix("message.")?)?;
        let reported = [Self::Delivered, Self::Opened, Self::Clicked, Self::Bounced, Self::Complained, Self::Failed];
        reported.contains(&state).then_some(state)
    }

    /// Returns the position between the queue and a click; `None` for states outside that sequence.
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

    /// Returns the state after `next` is reported. States only move forward.
    ///
    /// A delivered message cannot fail, an opened one cannot bounce, and only a queued one can be suppressed or
    /// cancelled. Nothing follows a failure, bounce, complaint, suppression or cancellation. A complaint may follow
    /// every other state.
    #[must_use]
    pub fn after(self, next: Self) -> Self {
        let Some(now) = self.progress() else { return self };
        let moves = match (next, next.progress()) {
            (_, Some(then)) => then > now,
            (Self::Failed, _) => now < 2,
            (Self::Bounced, _) => now < 3,
            (Self::Complained, _) => true,
            // Suppressed or cancelled: decided here before anything is sent.
            _ => now == 0,
        };
        if moves { next } else { self }
    }

    /// Returns whether the message can no longer be sent.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued)
    }
}

/// Codes of failures caused by the system, the project's settings or its provider rather than by the message or its
/// recipient. Once the cause is fixed, the message can be sent again.
const RETRYABLE: [&str; 7] = [
    "gave_up",
    "outcome_unknown",
    "internal_error",
    "channel_not_configured",
    "channel_not_supported",
    "template_not_found",
    "render_failed",
];

/// Returns the code of a failure reason, without the details after the colon.
pub fn reason_code(reason: &str) -> &str {
    reason.split_once(':').map_or(reason, |(code, _)| code)
}

/// Returns whether a message that failed for this reason is kept as a dead letter. A reason is a code, optionally
/// followed by a colon and details.
pub fn is_dead_letter(reason: &str) -> bool {
    let code = reason_code(reason);
    RETRYABLE.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        assert!(Channel::ALL.iter().all(|c| Channel::parse(&c.as_str().to_lowercase()) == Some(*c)));
        assert!(DeliveryState::ALL.iter().all(|s| DeliveryState::parse(s.as_str()) == Some(*s)));
        assert!(Lane::ALL.iter().all(|l| Lane::parse(l.as_str()) == Some(*l)));
    }

    #[test]
    fn state_only_moves_forward() {
        use DeliveryState::{Bounced, Cancelled, Clicked, Complained, Delivered, Failed, Opened, Queued, Sent};
        for (before, reported, after) in [
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
            assert_eq!(before.after(reported), after, "{before:?}, {reported:?}");
        }
        for state in DeliveryState::ALL {
            assert_eq!(state.after(state), state);
        }
    }

    /// No sequence of reports leads back to an earlier state.
    #[test]
    fn no_report_leads_back() {
        fn reached(from: DeliveryState, found: &mut Vec<DeliveryState>) {
            for next in DeliveryState::ALL.map(|reported| from.after(reported)) {
                if next != from && !found.contains(&next) {
                    found.push(next);
                    reached(next, found);
                }
            }
        }
        for state in DeliveryState::ALL {
            let mut found = Vec::new();
            reached(state, &mut found);
            assert!(!found.contains(&state), "{state:?} is reached again through {found:?}");
        }
        let mut from_queue = Vec::new();
        reached(DeliveryState::Queued, &mut from_queue);
        assert_eq!(from_queue.len(), DeliveryState::ALL.len() - 1, "{from_queue:?}");
    }

    #[test]
    fn webhooks_report_only_states_after_sending() {
        assert_eq!(DeliveryState::from_webhook_kind("message.bounced"), Some(DeliveryState::Bounced));
        for kind in
            ["message.queued", "message.sent", "message.cancelled", "message.unsubscribed", "bounced", "message."]
        {
            assert_eq!(DeliveryState::from_webhook_kind(kind), None, "{kind}");
        }
    }

    #[test]
    fn retryable_failures_are_dead_letters() {
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
