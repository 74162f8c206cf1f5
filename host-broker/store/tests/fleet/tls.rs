//! The connection to the database is encrypted, and the server's certificate is verified.

use crate::fleet_database::FleetDatabase;
use crate::skipped;
use std::path::Path;
use std::process::Command;
use store::StoreError;
use store::fleet::{FleetError, Settings, look};

/// An authority, the certificate of `localhost`, and another authority.
const SCRIPT: &str = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem \
    -days 30 -subj /CN=ca && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout other.key \
    -out other.pem -days 30 -subj /CN=other && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -keyout key.pem -out req.pem -subj /CN=localhost && printf 'subjectAltName=DNS:localhost' > ext && openssl x509 -req \
    -in req.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile ext -out cert.pem && chmod 600 key.pem && chmod \
    755 .";

#[expect(clippy::disallowed_methods, reason = "a test makes certificates")]
fn certificates(directory: &Path) -> bool {
    let made = Command::new("sh").args(["-c", SCRIPT]).current_dir(directory).output();
    let is_made = made.is_ok_and(|made| made.status.success());
    if is_made && rustix::process::geteuid().is_root() {
        let given = Command::new("chown").args(["-R", "postgres:postgres"]).arg(directory).status().unwrap();
        assert!(given.success());
    }
    is_made
}

#[test]
fn a_server_with_a_certificate_of_another_authority_gets_no_password() {
    let directory = tempfile::tempdir().unwrap();
    if !certificates(directory.path()) {
        skipped("there is no openssl");
        return;
    }
    let file = |name: &str| directory.path().join(name).display().to_string();
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", file("cert.pem")),
        format!("ssl_key_file={}", file("key.pem")),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let Some(database) = FleetDatabase::alone_with(&settings) else { return };
    let url = database.url("a", database.server.port);
    let connect = |host: &str, authority: &str| {
        let pem = std::fs::read_to_string(file(authority)).unwrap();
        let url = format!("{}?sslmode=require", url.replace("127.0.0.1", host));
        look(&Settings::new("a".parse().unwrap(), &url, Some(&pem)).unwrap())
    };
    assert_eq!(connect("localhost", "ca.pem").unwrap().hosts.len(), 1);
    for (host, authority) in [("localhost", "other.pem"), ("127.0.0.1", "ca.pem")] {
        let refused = connect(host, authority).unwrap_err();
        let is_of_the_certificate = |text: &str| text.contains("certificate");
        assert!(
            matches!(&refused, StoreError::Fleet(FleetError::Unreachable(text)) if is_of_the_certificate(text)),
            "{host} {authority}: {refused}"
        );
    }
}

#[test]
fn a_server_without_tls_is_refused_where_it_is_required() {
    let Some(database) = FleetDatabase::new() else { return };
    let url = format!("{}?sslmode=verify-full", database.url("a", database.server.port));
    let directory = tempfile::tempdir().unwrap();
    if !certificates(directory.path()) {
        skipped("there is no openssl");
        return;
    }
    let pem = std::fs::read_to_string(directory.path().join("ca.pem")).unwrap();
    let refused = look(&Settings::new("a".parse().unwrap(), &url, Some(&pem)).unwrap()).unwrap_err();
    assert!(matches!(&refused, StoreError::Fleet(FleetError::Unreachable(_))), "{refused}");
}
