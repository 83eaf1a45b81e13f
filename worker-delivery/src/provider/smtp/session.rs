//! One conversation with an SMTP server, step by step, so that a failure says how far it had come.

mod stream;

use std::net::IpAddr;
use std::sync::Arc;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use shared::outbound::HttpClient;

use super::config::{Security, SmtpConfig};
use super::error::{Failure, Progress, Step};

const MECHANISMS: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];

/// Who is trusted: by what is encrypted from the start, and by what is from some point on, for which the library has settings
/// of its own.
pub struct Trust {
    tls: Arc<ClientConfig>,
    authorities: Vec<Certificate>,
}

impl Trust {
    /// Those that are trusted over HTTP.
    pub fn of(outbound: &HttpClient) -> Self {
        let read = |der: &CertificateDer<'static>| {
            let read = Certificate::from_der(der.to_vec());
            read.inspect_err(
                |error| tracing::warn!(%error, "mail servers are not trusted by a certificate of OUTBOUND_CA_FILE"),
            )
            .ok()
        };
        let authorities = outbound.authorities().iter().filter_map(read).collect();
        Self { tls: Arc::new(outbound.tls().clone()), authorities }
    }

    /// For a server of this name.
    fn starttls(&self, host: &str) -> Result<TlsParameters, Failure> {
        let builder = TlsParameters::builder(host.to_owned());
        let builder = self.authorities.iter().fold(builder, |builder, one| builder.add_root_certificate(one.clone()));
        builder.build().map_err(|e| Failure::Tls(e.to_string()))
    }
}

/// A connection that is ready for a mail.
pub struct Session(AsyncSmtpConnection);

/// Sender, recipient and text of a mail as it goes over the wire.
pub struct Envelope {
    pub from: Address,
    pub to: Address,
    pub mail: Vec<u8>,
}

impl Session {
    /// Connects to the address that was vetted; the name is only for the certificate.
    pub async fn open(config: &SmtpConfig, trust: &Trust, ip: IpAddr, progress: &Progress) -> Result<Self, Failure> {
        progress.at(Step::Connect);
        let stream = stream::open(ip, config, &trust.tls).await?;
        let hello = ClientId::default();
        let mut connection = AsyncSmtpConnection::connect_with_transport(stream, &hello).await.map_err(failure)?;
        if config.security == Security::StartTls {
            connection.starttls(trust.starttls(&config.host)?, &hello).await.map_err(failure)?;
        }
        if let Some((username, password)) = &config.credentials {
            progress.at(Step::Authenticate);
            let credentials = Credentials::new(username.clone(), password.clone());
            connection.auth(&MECHANISMS, &credentials).await.map_err(failure)?;
        }
        Ok(Self(connection))
    }

    /// Hands one mail over; returns the server's words. After an error the session is of no use any more.
    pub async fn hand_over(&mut self, envelope: &Envelope, progress: &Progress) -> Result<String, Failure> {
        let connection = &mut self.0;
        progress.at(Step::Sender);
        let mut parameters = Vec::new();
        // A sender in Unicode is in the settings, and whatever is said of it concerns every mail.
        let of_mail = envelope.from.to_string().is_ascii();
        if !(envelope.from.to_string().is_ascii() && envelope.to.to_string().is_ascii()) {
            if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
                return Err(Failure::Unable("the mail server takes no addresses in Unicode".to_owned()));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        if !envelope.mail.is_ascii() {
            if !connection.server_info().supports_feature(Extension::EightBitMime) {
                return Err(Failure::Unable("the mail server takes no text in Unicode".to_owned()));
            }
            parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        if of_mail && !parameters.is_empty() {
            progress.at(Step::SenderOfMail);
        }
        connection.command(Mail::new(Some(envelope.from.clone()), parameters)).await.map_err(failure)?;
        progress.at(Step::Recipient);
        connection.command(Rcpt::new(envelope.to.clone(), Vec::new())).await.map_err(failure)?;
        connection.command(Data).await.map_err(failure)?;
        progress.at(Step::Body);
        // The library asks for one more part once it has written the text, and then ends the mail.
        let text = std::iter::once(envelope.mail.as_slice());
        let parts = text.chain(std::iter::from_fn(|| {
            progress.at(Step::Dot);
            None
        }));
        let answer = connection.message_iter(parts).await.map_err(failure)?;
        Ok(answer.message().collect::<Vec<_>>().join(" "))
    }
}

fn failure(error: Error) -> Failure {
    Failure::from(&error)
}
