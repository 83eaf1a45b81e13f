//! The combined meaning of `sslmode` and `sslrootcert`.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::{SslMode, SslNegotiation};

use super::url_error;
use super::verifier::{Authorities, Trust, Verifier};
use kernel::env::EnvError;

const MODES: &str = "sslmode=disable, prefer, require, verify-ca or verify-full";

/// Whether TLS is used, and which servers are trusted.
#[derive(Debug)]
pub(super) struct Security {
    mode: SslMode,
    trust: Trust,
}

impl Default for Security {
    fn default() -> Self {
        Self { mode: SslMode::Prefer, trust: Trust::Unverified }
    }
}

impl Security {
    /// Chooses as libpq does, with one difference: without `sslrootcert`, `verify-full` trusts the public CAs, which
    /// libpq calls `system`.
    pub(super) fn choose(mode: Option<&str>, root: Option<&str>) -> Result<Self, EnvError> {
        let from_file = || root.map(authorities).transpose();
        let (mode, trust) = match (mode, root) {
            (Some("verify-full"), None | Some("system")) | (None, Some("system")) => {
                (SslMode::Require, Trust::VerifyFull(public()))
            }
            (Some("disable"), _) => (SslMode::Disable, Trust::Unverified),
            (Some("prefer" | "require" | "verify-ca"), Some("system")) => {
                let problem = "this sslmode is too weak for public CAs, which issue certificates to anyone";
                return Err(url_error(problem.to_owned(), "sslmode=verify-full with sslrootcert=system"));
            }
            (Some("verify-ca"), None) => {
                let allowed = "sslrootcert=<file of certificates (PEM)>, or sslmode=verify-full";
                return Err(url_error("sslmode=verify-ca needs sslrootcert".to_owned(), allowed));
            }
            (None | Some("prefer"), _) => (SslMode::Prefer, from_file()?.map_or(Trust::Unverified, Trust::VerifyCa)),
            // As in libpq, `require` with a file means `verify-ca`, for compatibility with older setups.
            (Some("require" | "verify-ca"), _) => {
                (SslMode::Require, from_file()?.map_or(Trust::Unverified, Trust::VerifyCa))
            }
            (Some("verify-full"), Some(path)) => (SslMode::Require, Trust::VerifyFull(authorities(path)?)),
            (Some(other), _) => return Err(url_error(format!("sslmode={other} is not supported"), MODES)),
        };
        Ok(Self { mode, trust })
    }

    pub(super) fn mode(&self) -> SslMode {
        self.mode
    }

    /// Returns the TLS configuration.
    pub(super) fn client(self, negotiation: SslNegotiation) -> Result<ClientConfig, EnvError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = Arc::new(Verifier::new(self.trust, &provider));
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|e| url_error(e.to_string(), "a working TLS setup"))?;
        let mut client = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        if negotiation == SslNegotiation::Direct {
            client.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(client)
    }
}

/// Returns the public CAs, which HTTPS requests trust as well.
fn public() -> Authorities {
    Authorities { roots: RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }, configured: Vec::new() }
}

fn authorities(path: &str) -> Result<Authorities, EnvError> {
    let wrong = |problem: String| url_error(format!("sslrootcert {problem}"), "a file of certificates (PEM)");
    let configured: Vec<CertificateDer<'static>> = tls::read_ca_file(path).map_err(wrong)?;
    let mut roots = RootCertStore::empty();
    for certificate in &configured {
        roots.add(certificate.clone()).map_err(|e| wrong(format!("{path}: {e}")))?;
    }
    Ok(Authorities { roots, configured })
}
