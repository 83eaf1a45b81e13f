//! Certificates of test servers, each its own authority.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

use crate::must;

/// A self-signed certificate, and its file for who is to trust it.
pub(crate) struct Certificate {
    acceptor: TlsAcceptor,
    file: PathBuf,
    chain: String,
    _dir: TempDir,
}

impl Certificate {
    pub(crate) fn for_name(name: &str) -> Self {
        let made = must("a certificate", rcgen::generate_simple_self_signed([name.to_owned()]));
        let chain = format!("{}{}", made.signing_key.serialize_pem(), made.cert.pem());
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = must("TLS", versions).with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
        let mut config = must("TLS", config);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let dir = must("a directory for a certificate", TempDir::new());
        let file = dir.path().join("ca.pem");
        must("writing a certificate", std::fs::write(&file, made.cert.pem()));
        Self { acceptor: TlsAcceptor::from(Arc::new(config)), file, chain, _dir: dir }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }

    /// Key and certificate (PEM), for servers that read files.
    pub(crate) fn chain(&self) -> &str {
        &self.chain
    }

    /// Whoever trusts this one's file trusts the other, too.
    pub(crate) fn trust_too(&self, other: &Self) {
        let pem = must("reading a certificate", std::fs::read(&other.file));
        let opened = std::fs::OpenOptions::new().append(true).open(&self.file);
        must("writing a certificate", must("writing a certificate", opened).write_all(&pem));
    }

    pub(crate) fn ca_file(&self) -> String {
        self.file.display().to_string()
    }
}
