//! Certificates of test servers, each its own certificate authority.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

use crate::must;

/// A self-signed certificate, and the CA file that trusts it.
pub struct Certificate {
    acceptor: TlsAcceptor,
    file: PathBuf,
    server_file: PathBuf,
    chain: String,
    _dir: TempDir,
}

impl Certificate {
    /// Creates a certificate for a host name or address.
    pub fn for_name(name: &str) -> Self {
        Self::make(name, IsCa::NoCa)
    }

    /// Creates a certificate that may also sign others, as the simplest recipes do.
    pub fn for_ca(name: &str) -> Self {
        Self::make(name, IsCa::Ca(BasicConstraints::Unconstrained))
    }

    fn make(name: &str, is_ca: IsCa) -> Self {
        let signing_key = must("a key", KeyPair::generate());
        let mut params = must("a certificate", CertificateParams::new([name.to_owned()]));
        params.is_ca = is_ca;
        let cert = must("a certificate", params.self_signed(&signing_key));
        let chain = format!("{}{}", signing_key.serialize_pem(), cert.pem());
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = must("TLS", versions).with_no_client_auth().with_single_cert(vec![cert.der().clone()], key);
        let mut config = must("TLS", config);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let dir = must("a directory for a certificate", TempDir::new());
        let (file, server_file) = (dir.path().join("ca.pem"), dir.path().join("server.pem"));
        must("writing a certificate", std::fs::write(&file, cert.pem()));
        must("writing a certificate", std::fs::write(&server_file, &chain));
        Self { acceptor: TlsAcceptor::from(Arc::new(config)), file, server_file, chain, _dir: dir }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }

    /// Returns the key and the certificate as PEM, for servers that read files.
    pub(crate) fn chain(&self) -> &str {
        &self.chain
    }

    /// Adds the other certificate to this one's CA file.
    pub(crate) fn trust_also(&self, other: &Self) {
        let pem = must("reading a certificate", std::fs::read(&other.file));
        let opened = std::fs::OpenOptions::new().append(true).open(&self.file);
        must("writing a certificate", must("writing a certificate", opened).write_all(&pem));
    }

    /// Returns the path of the CA file.
    pub fn ca_file(&self) -> String {
        self.file.display().to_string()
    }

    /// Returns the path of the file with [`Certificate::chain`].
    pub fn server_file(&self) -> String {
        self.server_file.display().to_string()
    }
}
