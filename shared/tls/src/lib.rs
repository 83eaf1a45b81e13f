//! TLS to servers that an operator configures: trusted CAs, and the causes of failed connections.

use std::error::Error;

use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use kernel::cause;

/// Reads CA certificates from a file (PEM). Fails if there is none.
pub fn read_ca_file(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(path).map_err(|e| format!("{path}: {e}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|e| format!("{path}: {e}"))?;
    if found.is_empty() { Err(format!("{path}: contains no certificates")) } else { Ok(found) }
}

/// Why a TLS connection to a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The server does not support TLS.
    NotOffered,
    UnknownAuthority,
    NameMismatch,
    /// Its certificate has expired or is not valid yet.
    OutOfDate,
    /// Another problem of its certificate.
    Certificate,
    /// No common version, an alert, or a connection that closed during the handshake.
    Handshake,
}

impl TlsFault {
    /// Finds the TLS fault that caused an error, if there is one.
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        cause::find::<rustls::Error>(error).map(Self::of)
    }

    fn of(error: &rustls::Error) -> Self {
        let rustls::Error::InvalidCertificate(error) = error else { return Self::Handshake };
        match error {
            // A recreated CA has its old name and another key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownAuthority,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Self::NameMismatch,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::OutOfDate,
            _ => Self::Certificate,
        }
    }

    /// Returns how to fix the fault. `trust` is the setting that names the CA.
    pub fn remedy(self, trust: &str) -> String {
        match self {
            Self::NotOffered => "enable TLS on the server".to_owned(),
            Self::UnknownAuthority => {
                format!("set {trust} to the file of the CA that signed the server's certificate")
            }
            Self::NameMismatch => {
                "connect by a name in the subjectAltName of the server's certificate (its common name does not count)"
                    .to_owned()
            }
            Self::OutOfDate => "renew the server's certificate, or correct the clocks".to_owned(),
            Self::Certificate => {
                format!("use an X.509 version 3 server certificate, or set {trust} to the file of this certificate")
            }
            Self::Handshake => {
                "check that this port supports TLS 1.2 or 1.3 and requires no client certificate".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_found_in_wrapped_error() {
        let of = |error: rustls::Error| TlsFault::find(&std::io::Error::other(error));
        let certificate = |error| of(rustls::Error::InvalidCertificate(error));
        assert_eq!(certificate(CertificateError::UnknownIssuer), Some(TlsFault::UnknownAuthority));
        assert_eq!(certificate(CertificateError::NotValidForName), Some(TlsFault::NameMismatch));
        assert_eq!(certificate(CertificateError::Expired), Some(TlsFault::OutOfDate));
        assert_eq!(certificate(CertificateError::BadEncoding), Some(TlsFault::Certificate));
        assert_eq!(of(rustls::Error::HandshakeNotComplete), Some(TlsFault::Handshake));
        assert_eq!(TlsFault::find(&std::io::Error::other("x")), None);
    }

    #[test]
    fn error_names_file_without_certificates() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, "nothing").unwrap();
        let path = path.display().to_string();
        assert_eq!(read_ca_file(&path), Err(format!("{path}: contains no certificates")));
        assert!(read_ca_file("/nowhere/ca.pem").unwrap_err().starts_with("/nowhere/ca.pem: "));
    }
}
