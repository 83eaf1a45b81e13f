//! One session with an SMTP server. Its progress is recorded, so that a failure shows which step was reached.

mod stream;

use std::net::IpAddr;
use std::sync::Arc;

use http_client::HttpClient;
use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;

use super::config::{Security, SmtpConfig};
use super::error::{Failure, Progress, Step};

const MECHANISMS: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];

/// Trusted authorities: for implicit TLS, and for STARTTLS, which the library configures separately.
pub struct Trust {
    tls: Arc<ClientConfig>,
    authorities: Vec<Certificate>,
}

impl Trust {
    /// Returns the authorities that HTTP calls trust.
    pub fn of(outbound: &HttpClient) -> Self {
        let read = |der: &CertificateDer<'static>| {
            let read = Certificate::from_der(der.to_vec());
            read.inspect_err(
                |error| tracing::warn!(%error, "a certificate of OUTBOUND_CA_FILE cannot be used for mail servers"),
            )
            .ok()
        };
        let authorities = outbound.authorities().iter().filter_map(read).collect();
        Self { tls: Arc::new(outbound.tls().clone()), authorities }
    }

    /// Returns the STARTTLS parameters for a server name.
    fn starttls(&self, host: &str) -> Result<TlsParameters, Failure> {
        let builder = TlsParameters::builder(host.to_owned());
        let builder = self.authorities.iter().fold(builder, |builder, one| builder.add_root_certificate(one.clone()));
        builder.build().map_err(|e| Failure::Tls(e.to_string()))
    }
}

/// A connection that is ready to send a mail.
pub struct Session(AsyncSmtpConnection);

/// Sender, recipient and encoded text of a mail.
pub struct Envelope {
    pub from: Address,
    pub to: Address,
    pub mail: Vec<u8>,
}

impl Session {
    /// Connects to the checked address; the host name is used only for the certificate.
    pub async fn open(config: &SmtpConfig, trust: &Trust, ip: IpAddr, progress: &Progress) -> Result<Self, Failure> {
        progress.reach(Step::Connect);
        let stream = stream::open(ip, config, &trust.tls).await?;
        let hello = ClientId::default();
        let mut connection = AsyncSmtpConnection::connect_with_transport(stream, &hello).await.map_err(failure)?;
        if config.security == Security::StartTls {
            connection.starttls(trust.starttls(&config.host)?, &hello).await.map_err(failure)?;
        }
        if let Some((username, password)) = &config.credentials {
            progress.reach(Step::Authenticate);
            let credentials = Credentials::new(username.clone(), password.clone());
            connection.auth(&MECHANISMS, &credentials).await.map_err(failure)?;
        }
        Ok(Self(connection))
    }

    /// Sends one mail and returns the server's response. After an error the session must not be used again.
    pub async fn send(&mut self, envelope: &Envelope, progress: &Progress) -> Result<String, Failure> {
        let connection = &mut self.0;
        progress.reach(Step::Sender);
        let mut parameters = Vec::new();
        // A Unicode sender comes from the settings, so a refusal concerns every mail.
        let is_of_this_mail = envelope.from.to_string().is_ascii();
        if !(envelope.from.to_string().is_ascii() && envelope.to.to_string().is_ascii()) {
            if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
                return Err(Failure::Unsupported("the mail server does not accept addresses in Unicode".to_owned()));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        if !envelope.mail.is_ascii() {
            if !connection.server_info().supports_feature(Extension::EightBitMime) {
                return Err(Failure::Unsupported("the mail server does not accept text in Unicode".to_owned()));
            }
            parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        if is_of_this_mail && !parameters.is_empty() {
            progress.reach(Step::SenderWithParameters);
        }
        connection.command(Mail::new(Some(envelope.from.clone()), parameters)).await.map_err(failure)?;
        progress.reach(Step::Recipient);
        connection.command(Rcpt::new(envelope.to.clone(), Vec::new())).await.map_err(failure)?;
        connection.command(Data).await.map_err(failure)?;
        progress.reach(Step::Body);
        // The library requests one more part after writing the text, and then ends the mail.
        let text = std::iter::once(envelope.mail.as_slice());
        let parts = text.chain(std::iter::from_fn(|| {
            progress.reach(Step::Dot);
            None
        }));
        let answer = connection.message_iter(parts).await.map_err(failure)?;
        Ok(answer.message().collect::<Vec<_>>().join(" "))
    }
}

fn failure(error: Error) -> Failure {
    Failure::from(&error)
}
