use super::source::Output;
use super::*;
use linux_keyutils::{KeyRing, KeyRingIdentifier};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use zeroize::Zeroizing;

/// A vault that knows one entry.
struct Vault;

impl CommandOutput for Vault {
    fn output<'a>(&'a self, command: &'a [String]) -> Output<'a> {
        Box::pin(async move {
            match command {
                [program, entry] if program == "pass" && entry == "github" => {
                    Ok(Zeroizing::new(b"from-the-vault\r\n".to_vec()))
                }
                _ => Err("it exited with 1".to_owned()),
            }
        })
    }
}

fn load(source: &str, environment: &[(&str, &str)]) -> Result<String, SecretError> {
    let source: SecretSource = toml::from_str(source).unwrap();
    let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let sources = [("S".to_owned(), source)].into();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let secrets = runtime.block_on(Secrets::load(&sources, &environment, &Vault));
    match secrets.faults().next() {
        Some((_, fault)) => {
            assert!(secrets.get("S").is_none());
            Err(fault.clone())
        }
        None => Ok(secrets.needles().next().unwrap().1.to_owned()),
    }
}

fn write(path: &Path, content: &str, mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn every_source_gives_its_secret() {
    let dir = tempfile::tempdir().unwrap();
    let (file, env) = (dir.path().join("token"), dir.path().join(".env"));
    write(&file, "from-a-file\n", 0o400);
    write(&env, "TOKEN='from-an-env-file'\n", 0o600);
    for (source, expected) in [
        ("env = 'TOKEN'".to_owned(), "from-the-environment"),
        (format!("file = '{}'", file.display()), "from-a-file"),
        (format!("env_file = '{}'\nname = 'TOKEN'", env.display()), "from-an-env-file"),
        ("command = ['pass', 'github']".to_owned(), "from-the-vault"),
    ] {
        assert_eq!(load(&source, &[("TOKEN", "from-the-environment")]), Ok(expected.to_owned()));
    }
}

#[test]
fn a_missing_secret_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let env = dir.path().join(".env");
    write(&env, "A=1\nB", 0o600);
    for (source, part) in [
        ("env = 'TOKEN'".to_owned(), "set the environment variable TOKEN"),
        ("file = '/nonexistent/token'".to_owned(), "/nonexistent/token cannot be opened"),
        (format!("env_file = '{}'\nname = 'X'", env.display()), "correct line 2"),
        ("command = ['pass', 'other']".to_owned(), "the command pass gave none: it exited with 1"),
    ] {
        let fault = load(&source, &[]).unwrap_err();
        assert!(matches!(&fault, SecretError::Missing { what } if what.contains(part)), "{fault}");
    }
}

#[test]
fn a_file_that_others_can_open_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    for mode in [0o644, 0o640, 0o660, 0o602, 0o601] {
        write(&file, "TOKEN=a-long-secret", mode);
        for source in [format!("file = '{}'", file.display()), format!("env_file = '{}'\nname = 'X'", file.display())] {
            let fault = load(&source, &[]).unwrap_err();
            assert!(matches!(&fault, SecretError::Refused { what } if what.contains("chmod 600")), "{mode:o} {fault}");
        }
    }
    let source = format!("file = '{}'", dir.path().display());
    assert!(matches!(load(&source, &[]), Err(SecretError::Refused { .. })));
}

#[test]
fn a_secret_that_is_too_short_to_be_kept_out_of_results_is_refused() {
    for text in ["hunter2", "       \n   ", "ключик"] {
        assert_eq!(load("env = 'T'", &[("T", text)]), Err(SecretError::TooShort), "{text}");
    }
    assert!(load("env = 'T'", &[("T", "hunter22")]).is_ok());
    assert!(matches!(load("env = 'T'", &[("T", "")]), Err(SecretError::Missing { .. })));
}

/// Loads the URL of the database with the records.
fn load_url(url: &str) -> Secrets {
    let sources = [(STORE_URL.to_owned(), SecretSource::Env { env: "URL".to_owned() })].into();
    let environment = [("URL".to_owned(), url.to_owned())].into();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(Secrets::load(&sources, &environment, &Vault))
}

/// Attack (The host): The password of the database comes back in a result, or an agent gets its
/// file.
/// Defence: The URL and the password in it are two secrets of the broker's own.
/// `config::permissions` reserves the file, and judges the program and the authorities.
#[test]
fn the_password_in_the_url_of_the_database_is_a_secret_of_its_own() {
    let url = "postgresql://broker:pass%20word%21@a,b/broker";
    let secrets = load_url(url);
    assert_eq!(secrets.store_url(), Ok(url));
    let found: Vec<(&str, &str)> = secrets.needles().collect();
    assert_eq!(found, [("store password", "pass word!"), (STORE_URL, url)]);
    // A local server may know the user without a password.
    let url = "postgresql:///broker?host=/run/postgresql";
    let secrets = load_url(url);
    assert_eq!((secrets.store_url(), secrets.needles().count()), (Ok(url), 1));
}

#[test]
fn a_url_whose_password_could_not_be_kept_out_of_results_is_refused() {
    let secrets = load_url("postgresql://broker:hunter2@db/broker");
    let fault = secrets.store_url().unwrap_err();
    assert!(fault.starts_with("refused: its password has fewer than 8 characters"), "{fault}");
    assert_eq!(secrets.needles().count(), 0);
    let missing = load_url("").store_url().unwrap_err();
    assert_eq!(missing, "missing: set the environment variable URL and restart the broker");
    assert_eq!(Secrets::default().store_url(), Err("missing".to_owned()));
}

#[test]
fn a_key_of_the_kernels_keyrings_is_a_secret() {
    for (place, ring) in [("session", KeyRingIdentifier::Session), ("user", KeyRingIdentifier::User)] {
        let description = format!("host-broker:test:{place}:{}", std::process::id());
        let source = format!("keyring = '{description}'");
        let ring = KeyRing::from_special_id(ring, true);
        let added = ring.and_then(|ring| Ok((ring, ring.add_key(&description, b"from-the-kernel\n")?)));
        let (ring, key) = match added {
            Ok(added) => added,
            Err(fault) => {
                println!("skipped: the kernel's keyrings cannot be used here: {fault}");
                let refused = load(&source, &[]).unwrap_err();
                assert!(matches!(&refused, SecretError::Missing { .. }), "{refused}");
                return;
            }
        };
        assert_eq!(load(&source, &[]), Ok("from-the-kernel".to_owned()), "{place}");
        key.update(b"\xff\xfe\xfd\xfc\xff\xfe\xfd\xfc").unwrap();
        let fault = load(&source, &[]).unwrap_err().to_string();
        assert!(fault.contains("is not UTF-8 text"), "{fault}");
        ring.unlink_key(key).unwrap();
        let fault = load(&source, &[]).unwrap_err().to_string();
        assert!(fault.contains(&format!("keyctl padd user {description} @u")), "{fault}");
    }
}

#[test]
fn a_source_is_one_of_five_shapes() {
    for text in ["env = 'A'\nfile = '/b'", "env_file = '/b'", "name = 'A'", "command = 'op'", "vault = 'x'", ""] {
        let error = toml::from_str::<SecretSource>(text).unwrap_err().to_string();
        assert!(error.contains("a secret's source is one of"), "{text}: {error}");
    }
}

#[test]
fn nothing_of_a_secret_is_printed() {
    let mut secrets = Secrets::default();
    secrets.held.insert("S".to_owned(), Arc::new(Secret::new("correct horse battery".to_owned())));
    assert!(!format!("{secrets:?}").contains("horse"));
}
