//! The address of a fleet's database, and the name of this host in it.

use super::error::FleetError;
use super::link::unreachable;
use model::HostName;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A connection whose messages must be polled.
pub(super) type Connected = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// The longest time to find out whether the database has a batch whose COMMIT was not answered. A failover takes less.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time after which the system gives up a connection whose bytes nobody acknowledges.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// The database of a fleet, and the name of this host in it.
#[derive(Clone)]
pub struct Settings {
    pub(super) host: HostName,
    pub(super) accepts_one_machine: bool,
    pub(super) settle_timeout: Duration,
    config: Config,
    tls: MakeRustlsConnect,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads the URL, such as `postgresql://broker_a:secret@db1,db2/broker`. `authorities` are certificates in PEM that
    /// sign the server's; absent means those of the system. A server that is not on this machine must have one.
    ///
    /// # Errors
    /// The reason in plain text, without the URL.
    pub fn new(host: HostName, url: &str, authorities: Option<&str>) -> Result<Self, String> {
        let is_url = url.starts_with("postgresql://") || url.starts_with("postgres://");
        // The certificate and its name are always verified.
        let url = ["verify-full", "verify-ca"]
            .iter()
            .fold(url.to_owned(), |url, mode| url.replace(&format!("sslmode={mode}"), "sslmode=require"));
        let parsed = url.parse::<Config>().ok().filter(|_| is_url);
        let mut config = parsed.ok_or("the URL is not of the form postgresql://USER:PASSWORD@HOST/DATABASE")?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err("the URL names no server".to_owned());
        }
        if config.get_user().is_none() || config.get_dbname().is_none() {
            return Err("the URL names no user or no database".to_owned());
        }
        if config.get_options().is_some() {
            return Err("the URL has `options`; remove them".to_owned());
        }
        let is_here = config.get_hosts().iter().all(is_local) && config.get_hostaddrs().iter().all(IpAddr::is_loopback);
        let wanted = config.get_ssl_mode();
        if wanted == SslMode::Disable && !is_here {
            return Err("a server that is not on this machine needs TLS; remove sslmode".to_owned());
        }
        let may_be_plain = is_here && wanted != SslMode::Require;
        let ssl_mode = if may_be_plain { SslMode::Disable } else { SslMode::Require };
        config.ssl_mode(ssl_mode);
        let tls = tls(authorities, ssl_mode == SslMode::Require)?;
        Ok(Self { host, accepts_one_machine: false, settle_timeout: SETTLE_TIMEOUT, config, tls })
    }

    /// Returns the name of this host.
    pub fn host(&self) -> &HostName {
        &self.host
    }

    /// Accepts a server that can lose acknowledged rows with its machine.
    #[must_use]
    pub fn with_one_machine(self) -> Self {
        Self { accepts_one_machine: true, ..self }
    }

    /// Sets the longest time to find out whether the database has a batch whose COMMIT was not answered; absent means a
    /// minute. Nothing else is written during this time.
    #[must_use]
    pub fn with_settle_timeout(self, settle_timeout: Duration) -> Self {
        Self { settle_timeout, ..self }
    }

    /// Returns the servers, each alone, so that one that hangs does not use up the time of the next.
    pub(super) fn servers(&self) -> Vec<Config> {
        let (hosts, addresses, ports) = (self.config.get_hosts(), self.config.get_hostaddrs(), self.config.get_ports());
        let number = hosts.len().max(addresses.len());
        let server = |index: usize| {
            let mut server = Config::new();
            server
                .ssl_mode(self.config.get_ssl_mode())
                .target_session_attrs(TargetSessionAttrs::ReadWrite)
                .tcp_user_timeout(UNACKNOWLEDGED)
                .keepalives_idle(UNACKNOWLEDGED);
            if let Some(user) = self.config.get_user() {
                server.user(user);
            }
            if let Some(password) = self.config.get_password() {
                server.password(password);
            }
            if let Some(database) = self.config.get_dbname() {
                server.dbname(database);
            }
            match hosts.get(index) {
                Some(Host::Tcp(name)) => {
                    server.host(name);
                }
                Some(Host::Unix(path)) => {
                    server.host_path(path);
                }
                None => {}
            }
            if let Some(address) = addresses.get(index) {
                server.hostaddr(*address);
            }
            // One port is that of all servers.
            if let Some(port) = ports.get(index).or(ports.first()) {
                server.port(*port);
            }
            server
        };
        (0..number).map(server).collect()
    }

    pub(super) async fn connect(&self, server: &Config) -> Result<(Client, Connected), FleetError> {
        server.connect(self.tls.clone()).await.map_err(unreachable)
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    }
}

fn tls(authorities: Option<&str>, is_needed: bool) -> Result<MakeRustlsConnect, String> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = authorities {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate =
                certificate.map_err(|error| format!("the authorities are no certificates in PEM: {error}"))?;
            roots.add(certificate).map_err(|error| format!("an authority cannot be used: {error}"))?;
        }
    } else if is_needed {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if is_needed && roots.is_empty() {
        return Err("there are no authorities for the server's certificate; set `authorities`".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Result<Settings, String> {
        Settings::new("a".parse().unwrap(), url, None)
    }

    fn fault(url: &str) -> String {
        settings(url).map(|_| ()).expect_err(url)
    }

    #[test]
    fn a_url_must_name_everything_and_have_tls_elsewhere() {
        for wrong in ["", "host=db user=a dbname=b", "mysql://a@b/c", "postgresql://a:s3cret@/d"] {
            assert!(!fault(wrong).contains("s3cret"), "{wrong}");
        }
        assert!(fault("postgresql://localhost/db").contains("user"), "the user of the process is not meant");
        assert!(fault("postgresql://a@db.example.com/b?sslmode=disable").contains("TLS"));
        assert!(fault("postgresql://a@localhost,db.example.com/b?sslmode=disable").contains("TLS"));
        let mode = |url: &str| settings(url).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgresql://a@localhost/b"), SslMode::Disable);
        assert_eq!(mode("postgresql://a@127.0.0.1,[::1]/b"), SslMode::Disable);
        assert_eq!(mode("postgresql://a@%2Frun%2Fpostgresql/b"), SslMode::Disable);
        assert_eq!(mode("postgresql://a@localhost/b?sslmode=require"), SslMode::Require);
        assert_eq!(mode("postgresql://a@db.example.com/b"), SslMode::Require);
        assert_eq!(mode("postgresql://a@localhost,db.example.com/b"), SslMode::Require);
    }

    #[test]
    fn each_server_is_tried_alone() {
        let settings = settings("postgresql://u:secret-1@db1,db2:5433/b?sslmode=verify-full").unwrap();
        let servers = settings.servers();
        let named: Vec<_> =
            servers.iter().map(|server| (server.get_hosts().to_vec(), server.get_ports().to_vec())).collect();
        let host = |name: &str| vec![Host::Tcp(name.to_owned())];
        assert_eq!(named, [(host("db1"), vec![5432]), (host("db2"), vec![5433])]);
        assert!(servers.iter().all(|server| server.get_password() == Some(b"secret-1".as_slice())));
        assert!(servers.iter().all(|server| server.get_ssl_mode() == SslMode::Require));
        assert!(fault("postgresql://u@localhost/b?options=-c%20jit%3Don").contains("options"));
    }

    #[test]
    fn its_text_holds_no_password() {
        let settings = settings("postgresql://u:s3cret-pass@localhost/b").unwrap();
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
