//! The provider clients that can carry a push.

use super::push::Push;
use super::stub::Stub;
use super::{Outcome, Provider, apns, gateway, push_mailbox, push_provider, web_push};

/// Client of a push provider.
pub enum PushProvider {
    Apns(Box<apns::Client>),
    Gateway(Box<gateway::Client>),
    ThirdParty(Box<push_provider::Client>),
    WebPush(Box<web_push::Client>),
    Mailbox(push_mailbox::PushMailbox),
    Stub(Stub<Push>),
}

impl Provider for PushProvider {
    type Payload = Push;

    fn name(&self) -> &'static str {
        match self {
            Self::Apns(_) => "apns",
            Self::Gateway(_) => "pushgateway",
            Self::ThirdParty(_) => "pushprovider",
            Self::WebPush(_) => "webpush",
            Self::Mailbox(_) => "mailbox",
            Self::Stub(_) => "stub",
        }
    }

    async fn send(&self, push: &Push) -> Outcome {
        match self {
            Self::Apns(client) => client.send(push).await,
            Self::Gateway(client) => client.send(push).await,
            Self::ThirdParty(client) => client.send(push).await,
            Self::WebPush(client) => client.send(push).await,
            Self::Mailbox(mailbox) => mailbox.send(push).await,
            Self::Stub(stub) => stub.send(push),
        }
    }
}
