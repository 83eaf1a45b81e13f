//! Whether the one who answers is the one to talk to.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Who may answer.
#[derive(Debug)]
pub(super) enum Trust {
    /// Whoever does: nobody listens in, but it may be anybody.
    Anyone,
    /// Who has a certificate of one of these.
    Certified(Authorities),
    /// Who has one that is for the name connected to.
    Named(Authorities),
}

#[derive(Debug)]
pub(super) struct Authorities {
    pub(super) roots: RootCertStore,
    /// Those that an operator named, whole.
    pub(super) named: Vec<CertificateDer<'static>>,
}

#[derive(Debug)]
pub(super) struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(trust: Trust, provider: &CryptoProvider) -> Self {
        Self { trust, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (Trust::Certified(authorities) | Trust::Named(authorities)) = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        // One that was named itself needs nobody to vouch for it. PostgreSQL's manual makes such ones, which are authorities
        // as well, and no chain may end in an authority.
        if !authorities.named.iter().any(|named| named.as_ref() == end_entity.as_ref()) {
            let (roots, algorithms) = (&authorities.roots, self.algorithms.all);
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        if matches!(self.trust, Trust::Named(_)) {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
