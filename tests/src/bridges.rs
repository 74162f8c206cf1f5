//! Bridges for tests: where they lie, homes that have one, and what a caller of one writes.

use crate::fakes::real_now;
use crate::group::code;
use crate::world::{CONFIG, World};
use model::ChatType;
use platform::home::Home;
use platform::sandbox::{Network, Sandbox};
use secrets::identity::token::{ExpectedClaims, LIFE, claims, signed};
use secrets::keys;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where those of this package lie.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bridges")
}

/// A bridge for `/bin/sh` that answers everything with this result.
pub fn shell(result: &Value) -> String {
    let result = result.to_string().replace('\'', "'\\''");
    format!(
        "read -r line\nid=${{line#*\\\"id\\\":\\\"}}\nid=${{id%%\\\"*}}\n\
         printf '{{\"version\":1,\"id\":\"%s\",\"result\":%s}}' \"$id\" '{result}'\n"
    )
}

/// Whether bubblewrap can make the sandbox here that the broker keeps programs in.
pub fn is_apart() -> bool {
    let state = tempfile::tempdir().unwrap();
    let sandbox = Sandbox {
        name: "try".into(),
        network: Network::None,
        readable: Vec::new(),
        writable: Vec::new(),
        state: state.path().into(),
    };
    let inner = platform::commands::Command::new("true", tokio::time::Instant::now());
    let outer = sandbox.wrap(inner);
    let tried = Command::new(outer.program).args(outer.args).output();
    tried.is_ok_and(|output| output.status.success())
}

/// A home with a bridge, which nobody has accepted yet, kept apart where that is possible. Bridges have no other clock than
/// the machine's, so the daemon of such a world is to be a process of its own.
pub fn home(name: &str, program: &[&str], readable: &Path, more: &str) -> World {
    home_with(name, program, readable, if is_apart() { "bwrap" } else { "none" }, more)
}

/// The same, with this isolation.
pub fn home_with(name: &str, program: &[&str], readable: &Path, isolation: &str, more: &str) -> World {
    let readable = readable.to_str().unwrap();
    let config = format!(
        "{CONFIG}\n[providers.{name}]\nkind = \"bridge\"\ncommand = {program:?}\nreadable = [{readable:?}]\n\
         isolation = \"{isolation}\"\n{more}\n"
    );
    // No rule that ships with the broker permits writes of strangers' programs.
    let profile = "write = \"auto\"\n";
    World::builder().config(&config).file("policy/profiles/developer.toml", profile).clock(real_now()).down()
}

/// The parts of a home of the broker or of other providers, closed to the programs that it starts: by name.
pub const BROKERS: [&str; 8] = [
    "keys/ledger.key",
    "keys/identity.key",
    "keys/vault.key",
    "broker.toml",
    "ledger.db",
    "odd.secret",
    "other.secret",
    "state/other/token",
];

/// The data of another provider: a secret, and a file of its own.
pub fn anothers(world: &World) {
    std::fs::create_dir_all(world.home().join("state/other")).unwrap();
    for own in ["other.secret", "state/other/token"] {
        std::fs::write(world.home().join(own), "what-another-provider-has").unwrap();
    }
}

/// Everything that a command has said.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// Accepts what the bridge says it can do.
pub fn accept(world: &World, name: &str) {
    accept_flagged(world, name, &[]);
}

/// Does the same, with the flagged names that are accepted.
pub fn accept_flagged(world: &World, name: &str, flagged: &[&str]) {
    let shown = world.cli(&["--json", "provider", "accept", name]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or_else(|_| panic!("{}", said(&shown)));
    let digest = shown.get("digest").and_then(Value::as_str).unwrap_or_else(|| panic!("{shown}"));
    let words = flagged.iter().flat_map(|flagged| ["--accept-flagged", flagged]);
    let arguments = ["--json", "provider", "accept", name, "--digest", digest];
    let accepted = world.cli(&arguments.into_iter().chain(words).collect::<Vec<_>>());
    assert!(accepted.status.success(), "{}", said(&accepted));
}

/// Lets the developers read and write there.
pub fn grant(world: &World, capability: &str) {
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": capability, "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
}

/// A token of this person's, from a chat of this kind. It must be found nowhere when the world ends.
pub fn token(world: &mut World, person: &str, kind: ChatType) -> String {
    world.clock.set(real_now());
    let own = keys::identity(&Home::at(world.home()), world.ids.as_ref()).unwrap();
    let wanted = ExpectedClaims { sub: person.to_owned(), chat_type: Some(kind), ..ExpectedClaims::default() };
    let claims = claims(&wanted, &own.audience(), world.ids.below(u64::MAX).to_string(), world.now(), LIFE);
    let token = signed(&claims, |bytes| own.sign(bytes));
    world.keep_secret(token.clone());
    token
}

/// A call on the behalf of whoever has the token.
pub fn call(capability: &str, operation: &str, params: &Value, token: &str) -> Value {
    json!({
        "type": "ext_call", "provider": capability, "action": operation, "params": params, "context_token": token,
    })
}
