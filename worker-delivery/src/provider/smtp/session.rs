//! One conversation with an SMTP server, step by step, so that a failure says how far it had come.

use std::net::IpAddr;
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use rustls::pki_types::CertificateDer;

use super::config::{Security, SmtpConfig};
use super::error::{Failure, Progress, Step};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
const MECHANISMS: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];

/// Who is trusted beside the public authorities.
pub struct Authorities(Vec<Certificate>);

impl Authorities {
    pub fn new(certificates: &[CertificateDer<'static>]) -> Self {
        let read = |der: &CertificateDer<'static>| {
            let read = Certificate::from_der(der.to_vec());
            read.inspect_err(
                |error| tracing::warn!(%error, "mail servers are not trusted by a certificate of OUTBOUND_CA_FILE"),
            )
            .ok()
        };
        Self(certificates.iter().filter_map(read).collect())
    }

    /// For a server of this name.
    fn tls(&self, host: &str) -> Result<TlsParameters, Failure> {
        let builder = TlsParameters::builder(host.to_owned());
        let builder = self.0.iter().fold(builder, |builder, one| builder.add_root_certificate(one.clone()));
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
    pub async fn open(
        config: &SmtpConfig,
        authorities: &Authorities,
        ip: IpAddr,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        progress.at(Step::Connect);
        let tls = || authorities.tls(&config.host);
        let wrapped = if config.security == Security::Tls { Some(tls()?) } else { None };
        let hello = ClientId::default();
        let connected =
            AsyncSmtpConnection::connect_tokio1((ip, config.port), Some(CONNECT), &hello, wrapped, None).await;
        let mut connection = connected.map_err(failure)?;
        if config.security == Security::StartTls {
            connection.starttls(tls()?, &hello).await.map_err(failure)?;
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
