//! The certificates that servers are checked against.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The trusted authorities: those of a file, or the system's, which are read when they are first needed.
pub(crate) struct Tls {
    authorities: Option<RootCertStore>,
    connector: OnceLock<TlsConnector>,
}

impl Tls {
    /// Reads the file of authorities, if there is one.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let authorities = ca_file.map(read).transpose()?;
        Ok(Self { authorities, connector: OnceLock::new() })
    }

    /// Begins TLS on a connection.
    ///
    /// # Errors
    /// The server is not the one of this name, or does not speak TLS.
    pub(crate) async fn connect<S>(&self, host: &str, stream: S) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
        self.connector()?.connect(name, stream).await
    }

    fn connector(&self) -> std::io::Result<&TlsConnector> {
        if let Some(connector) = self.connector.get() {
            return Ok(connector);
        }
        let roots = match &self.authorities {
            Some(authorities) => authorities.clone(),
            None => system_roots(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = builder.map_err(std::io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
        Ok(self.connector.get_or_init(|| TlsConnector::from(Arc::new(config))))
    }
}

/// Reads the certificates of a file.
fn read(path: &Path) -> Result<RootCertStore, String> {
    let fault = |fault: &dyn std::fmt::Display| format!("ca_file: {}: {fault}", path.display());
    let pem = std::fs::read(path).map_err(|error| fault(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| fault(&error))?;
        roots.add(certificate).map_err(|error| fault(&error))?;
    }
    if roots.is_empty() {
        return Err(fault(&"it has no certificate"));
    }
    Ok(roots)
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Without any, every server is refused.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
