//! TLS with the system's root certificates, which are read once.

use hyper_rustls::ConfigBuilderExt as _;
use rustls::ClientConfig;
use std::sync::{Arc, OnceLock};

/// Returns how a client connects.
///
/// # Errors
/// The reason why there is no TLS, such as missing root certificates.
pub(crate) fn client() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG.get_or_init(|| make().map(Arc::new)).clone()
}

fn make() -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let roots = versions.map_err(|why| why.to_string())?.with_native_roots().map_err(|why| why.to_string())?;
    Ok(roots.with_no_client_auth())
}
