//! The provider clients that can carry a push.

use super::push::Push;
use super::stub::Stub;
use super::{Outcome, Provider, apns, fcm, onesignal, push_mailbox, web_push};

/// Client of a push provider.
pub enum PushProvider {
    Apns(Box<apns::Client>),
    Fcm(Box<fcm::Client>),
    OneSignal(Box<onesignal::Client>),
    WebPush(Box<web_push::Client>),
    Mailbox(push_mailbox::PushMailbox),
    Stub(Stub<Push>),
}

impl Provider for PushProvider {
    type Payload = Push;

    fn name(&self) -> &'static str {
        match self {
            Self::Apns(_) => "apns",
            Self::Fcm(_) => "pushgateway",
            Self::OneSignal(_) => "pushprovider",
            Self::WebPush(_) => "webpush",
            Self::Mailbox(_) => "mailbox",
            Self::Stub(_) => "stub",
        }
    }

    async fn send(&self, push: &Push) -> Outcome {
        match self {
            Self::Apns(client) => client.send(push).await,
            Self::Fcm(client) => client.send(push).await,
            Self::OneSignal(client) => client.send(push).await,
            Self::WebPush(client) => client.send(push).await,
            Self::Mailbox(mailbox) => mailbox.send(push).await,
            Self::Stub(stub) => stub.send(push),
        }
    }
}
