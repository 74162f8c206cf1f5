//! `backup` and `restore`: the real program, its real daemon, and real files.

mod ending;
mod refusals;

use super::world::{Done, World, mode, wait_for};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A directory for backups, and a home that does not exist yet.
pub(super) struct Elsewhere {
    folder: tempfile::TempDir,
}

impl Elsewhere {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

/// Makes a backup, and returns its document.
pub(super) fn back_up(world: &World, to: &str, more: &[&str]) -> Value {
    world.run(&[&["backup", to, "--json"], more].concat()).json()
}

/// Restores a backup into the home of a new world.
pub(super) fn restored(backup: &str, more: &[&str]) -> (World, Value) {
    let new = World::empty();
    let document = new.run(&[&["restore", backup, "--json"], more].concat()).json();
    (new, document)
}

pub(super) fn query(home: &Path, sql: &str) -> i64 {
    let connection = Connection::open_with_flags(home.join("ledger.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn head_of(document: &Value) -> String {
    format!("{}:{}", document["head"]["seq"], document["head"]["event_hash"].as_str().unwrap())
}

fn verified(world: &World, kept: &str) {
    let done: Done = world.run(&["evidence", "verify", "--json", "--kept", kept]);
    assert_eq!(done.json()["ok"], true);
}

/// Attack (Repeats, crashes and evidence): a backup that is torn, unfinished or on a full disk
/// counts as a whole one
/// Defence: the copy is one transaction and is verified; the directory gets its name at the end
#[test]
fn a_backup_in_the_middle_of_writes_is_whole_and_ends_where_its_manifest_says() {
    let world = World::with_mock();
    for group in ["main", "developer", "security"] {
        world.run(&["grant", group, "mock", "2"]).ok();
    }
    let _daemon = world.serve();
    let (elsewhere, over) = (Elsewhere::new(), AtomicBool::new(false));
    let backups = std::thread::scope(|scope| {
        for group in ["main", "developer", "security"] {
            let (world, over) = (&world, &over);
            scope.spawn(move || {
                for number in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let call =
                        json!({ "type": "ext_call", "provider": "mock", "action": "echo", "params": { "n": number } });
                    assert_eq!(world.ask(group, &format!("b{number}"), call)["status"], "executed");
                }
            });
        }
        let rows = || query(&world.home, "SELECT max(seq) FROM ledger");
        let backups: Vec<Value> = ["one", "two", "three"]
            .into_iter()
            .map(|name| {
                let before = rows();
                wait_for(|| rows() > before + 10);
                back_up(&world, &elsewhere.text(name), &["--with-keys"])
            })
            .collect();
        over.store(true, Ordering::Relaxed);
        backups
    });
    let heads: Vec<i64> = backups.iter().map(|backup| backup["head"]["seq"].as_i64().unwrap()).collect();
    assert!(heads.is_sorted_by(|one, next| one < next), "the daemon wrote between them: {heads:?}");
    for (name, backup) in ["one", "two", "three"].into_iter().zip(&backups) {
        // The live ledger continues the one in the backup.
        verified(&world, &head_of(backup));
        let (new, document) = restored(&elsewhere.text(name), &[]);
        assert_eq!(document["head"], backup["head"]);
        assert_eq!(document["row"].as_i64(), backup["head"]["seq"].as_i64().map(|seq| seq + 1));
        verified(&new, &head_of(backup));
        let row = new.run(&["evidence", "export", "--from", &document["row"].to_string()]).ok();
        let row: Value = serde_json::from_str(row.lines().next().unwrap()).unwrap();
        let body: Value = serde_json::from_str(row["body"].as_str().unwrap()).unwrap();
        assert_eq!((&row["kind"], &body["from"]), (&json!("restored"), &backup["head"]), "auditors see it");
        assert_eq!(row["caller"], "person:tester");
    }
}

/// Attack: see `nothing_that_was_permitted_before_is_permitted_after_a_restore`.
#[test]
fn the_drill_backup_loss_of_the_home_restore_grant_call() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "2", "--deny", "lose", "--rate-per-minute", "50"]).ok();
    let daemon = world.serve();
    assert_eq!(world.call("d1", "note", &json!({ "n": 1 }), None)["status"], "executed");
    let elsewhere = Elsewhere::new();
    let said = world.run(&["backup", &elsewhere.text("backup")]).ok();
    assert!(
        said.contains("The keys are not in it") && said.contains("Not in the backup: ") && said.contains("mock.toml")
    );
    assert!(!elsewhere.path("backup/keys").exists());
    // The keys are kept in another place, and the operator's own file, too.
    std::fs::rename(world.home.join("keys"), elsewhere.path("safe")).unwrap();
    std::fs::rename(world.home.join("mock.toml"), elsewhere.path("mock.toml")).unwrap();
    drop(daemon);
    std::fs::remove_dir_all(&world.home).unwrap();

    let restore =
        |world: &World, more: &[&str]| world.run(&[&["restore", &elsewhere.text("backup"), "--json"], more].concat());
    let done = restore(&world, &[]);
    assert_eq!(done.code, 4, "{done:?}");
    for words in
        ["keys/ledger.key", "keys/identity.key", "keys/vault.key", "--keys DIR", &elsewhere.text("backup/keys")]
    {
        assert!(done.out.contains(words), "no `{words}` in {done:?}");
    }
    assert!(!world.home.exists(), "nothing is written");
    let document = restore(&world, &["--keys", &elsewhere.text("safe")]).json();
    assert_eq!(mode(&world.home), 0o700);
    for file in ["broker.toml", "ledger.db", "keys/ledger.key", "policy/profiles/developer.toml"] {
        assert_eq!(mode(&world.home.join(file)), 0o600, "{file}");
    }
    std::fs::copy(elsewhere.path("mock.toml"), world.home.join("mock.toml")).unwrap();
    world.run(&["config", "check"]).ok();
    world.run(&["evidence", "verify"]).ok();

    let _daemon = world.serve();
    let refused = world.call("d2", "echo", &json!({}), None);
    assert_eq!(refused["status"], "denied", "the access has ended: {refused}");
    // A request that was answered before the backup is not executed again: its group has no access.
    let again = world.call("d1", "note", &json!({ "n": 1 }), None);
    assert_eq!((&again["status"], &again["code"]), (&json!("denied"), &json!("no_grant")), "{again}");
    assert!(!world.home.join("notes.log").exists());
    let commands = document["grants"].as_array().unwrap();
    let [command] = &commands[..] else { panic!("one grant: {document}") };
    let command = command.as_str().unwrap();
    for words in ["grant developer mock 2", "--deny lose", "--rate-per-minute 50", "--expires 20"] {
        assert!(command.contains(words), "no `{words}` in {command}");
    }
    let words: Vec<&str> = command.split(' ').skip_while(|word| *word != "grant").collect();
    world.run(&words).ok();
    assert_eq!(world.call("d3", "echo", &json!({}), None)["status"], "executed");
    // The ledger does not know what the agent has read since the backup.
    let exposure = world.run(&["exposure", "list", "--json"]).json().to_string();
    assert!(exposure.contains("restored"), "{exposure}");
    world.run(&["exposure", "reset", "developer"]).ok();
    assert_eq!(world.call("d4", "note", &json!({ "n": 2 }), None)["status"], "executed");
    assert!(world.home.join("notes.log").exists());
    restore(&world, &["--keys", &elsewhere.text("safe")]).json_fails(2, "is not empty");
}

impl Done {
    /// It ended with this code, and its document says this.
    pub(super) fn json_fails(self, code: i32, word: &str) {
        let document: Value = serde_json::from_str(&self.out).unwrap_or_default();
        let error = document["error"].as_str().unwrap_or_default();
        assert!(self.code == code && error.contains(word), "no `{word}` with {code} in {self:?}");
    }
}

/// Attack: see `a_backup_replaces_nothing_and_is_never_in_the_home`.
#[test]
fn a_backup_has_the_segments_of_its_ledger_and_is_private() {
    let world = World::with_mock();
    let config = world.read("broker.toml");
    std::fs::write(world.home.join("broker.toml"), config.replace("[broker]", "[broker]\nledger_mib = 1")).unwrap();
    super::rows::fill(&world.home, store::ledger::segments::ROWS);
    let daemon = world.serve();
    wait_for(|| query(&world.home, "SELECT count(*) FROM segments") == 1);
    let elsewhere = Elsewhere::new();
    // The rows are in the segment and in the database, or already deleted there.
    let backup = back_up(&world, &elsewhere.text("backup"), &["--with-keys"]);
    drop(daemon);
    for path in ["backup", "backup/keys", "backup/policy", "backup/segments"] {
        assert_eq!(mode(&elsewhere.path(path)), 0o700, "{path}");
    }
    let segment = "segments/000000000001-000000050000.jsonl.gz";
    for path in ["manifest.json", "ledger.db", "broker.toml", "keys/vault.key", "policy/default.cedar", segment] {
        assert_eq!(mode(&elsewhere.path("backup").join(path)), 0o600, "{path}");
    }
    let (new, _document) = restored(&elsewhere.text("backup"), &[]);
    verified(&new, &head_of(&backup));

    let copy = elsewhere.path("backup").join(segment);
    let bytes = std::fs::read(&copy).unwrap();
    let refused = |words: &str| {
        let new = World::empty();
        new.run(&["restore", &elsewhere.text("backup")]).fails(5, &[segment, words]);
        assert!(!new.home.exists(), "nothing is written");
    };
    std::fs::remove_file(&copy).unwrap();
    refused("is missing");
    std::fs::write(&copy, &bytes[..bytes.len() - 1]).unwrap();
    refused("was changed after the backup");
}

/// Attack (Repeats, crashes and evidence): a backup is made where a sandbox can read it
/// Defence: a directory in the home is refused; the backup is private, and has no keys by default
#[test]
fn a_backup_replaces_nothing_and_is_never_in_the_home() {
    let (world, elsewhere) = (World::with_mock(), Elsewhere::new());
    back_up(&world, &elsewhere.text("backup"), &[]);
    world.run(&["backup", &elsewhere.text("backup")]).fails(2, &["exists already"]);
    world.run(&["backup", world.home.join("ipc/developer/tasks/x").to_str().unwrap()]).fails(2, &["is in the home"]);
    world.run(&["backup", "/no/such/place"]).fails(2, &["cannot make a backup"]);
    std::os::unix::fs::symlink("/nowhere", elsewhere.path("link")).unwrap();
    world.run(&["backup", &elsewhere.text("link")]).fails(2, &["exists already"]);
    std::fs::create_dir(elsewhere.path("mine.partial")).unwrap();
    std::fs::write(elsewhere.path("mine.partial/file"), "mine").unwrap();
    world.run(&["backup", &elsewhere.text("mine")]).fails(2, &["is no unfinished backup"]);
    assert_eq!(std::fs::read_to_string(elsewhere.path("mine.partial/file")).unwrap(), "mine");
    World::empty().run(&["backup", &elsewhere.text("none")]).fails(4, &["host-broker init"]);
    assert!(!elsewhere.path("none").exists());
}
