//! SMS, by the API of Twilio (`POST /2010-04-01/Accounts/<account>/Messages.json`).

mod client;
mod config;
mod error;
pub mod segments;

use uuid::Uuid;

use super::stub::Stub;
use super::{Outcome, Provider};

pub use client::Client;
pub use config::SmsConfig;

/// An SMS ready to be sent to one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sms {
    pub id: Uuid,
    /// In E.164 format.
    pub to: String,
    pub text: String,
}

/// SMS provider of a project.
pub enum SmsProvider {
    Http(Box<Client>),
    Stub(Stub<Sms>),
}

impl Provider for SmsProvider {
    type Payload = Sms;

    fn name(&self) -> &'static str {
        match self {
            Self::Http(_) => "smsprovider",
            Self::Stub(_) => "stub",
        }
    }

    async fn send(&self, sms: &Sms) -> Outcome {
        match self {
            Self::Http(client) => client.send(sms).await,
            Self::Stub(stub) => stub.send(sms),
        }
    }
}
