//! The actions that a restored broker no longer permits, and backups and restores that end too early.

use super::{Elsewhere, back_up, query, restored};
use crate::cli::world::{World, start, wait_for};
use platform::lock::Lock;
use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

/// Sends a call and does not wait for its reply.
fn send(world: &World, id: &str, action: &str) {
    let tasks = world.home.join("ipc/developer/tasks");
    // Equal calls would share one approval request.
    let params = json!({ "of": id });
    let call = json!({ "type": "ext_call", "request_id": id, "provider": "mock", "action": action, "params": params });
    std::fs::write(tasks.join(format!(".{id}")), call.to_string()).unwrap();
    std::fs::rename(tasks.join(format!(".{id}")), tasks.join(format!("{id}.json"))).unwrap();
}

fn approvals(world: &World) -> Vec<Value> {
    world.run(&["approvals", "list", "--json"]).json()["approvals"].as_array().unwrap().clone()
}

fn code_of(world: &World, id: &str) -> String {
    let found = approvals(world).into_iter().find(|approval| approval["request_id"] == id);
    found.unwrap()["code"].as_str().unwrap().to_owned()
}

/// Access of kinds that take a person's account or an agent outside to make: rows as the broker writes them.
const OTHERS: &str = "
    INSERT INTO account_shares VALUES ('broker:ann', 'mail', 'a', 'broker:bob', 1, 'person:tester');
    INSERT INTO auth_flows VALUES ('caf_mail_00000000000000000000000000000000', 'group:developer', 'broker:ann', '{}',
        'mail', 'open', NULL, NULL, NULL, NULL, 1, 9999999999999);
    INSERT INTO one_time_values VALUES ('group:developer', 'v1', 'mock', 'password', x'00', 9999999999999, NULL);
    INSERT INTO flow_grants VALUES ('fgrnt_000000000000000000000000', zeroblob(32), 'default', 'public', 'f', '1.0.0', '[]',
        zeroblob(32), 'person:tester', 1, 9999999999999, NULL, 0, 0);
    INSERT INTO temporary_grants VALUES (1, 'developer', 'mock', 1, '[\"echo\"]', NULL, 'person:tester', 1, 9999999999999,
        '{\"echo\":1}', NULL, NULL, NULL, NULL);
    INSERT INTO standing_approvals VALUES (1, 'group:developer', NULL, 'mock', 'pay', 2, zeroblob(32), zeroblob(32),
        '{}', '[]', '[]', 1, 'person:tester', 1, 9999999999999, 0, NULL, NULL, 0, NULL);";

/// Attack (Repeats, crashes and evidence): a restored backup puts access in force again that was
/// revoked, used or answered since
/// Defence: a restore ends every grant and token, cancels every approval request and voids what
/// works once, before the home exists; a row of kind `restored` says so; each session counts as
/// exposed to everything
#[test]
fn nothing_that_was_permitted_before_is_permitted_after_a_restore() {
    let world = World::with_mock();
    let pay = "\n[actions.pay]\nlevel = 2\nhuman = true\nappend_to = \"pay.log\"\nexposes = []\n\
               [actions.held]\nlevel = 2\nlatency_ms = 1\nappend_to = \"held.log\"\nexposes = []\n";
    world.append("mock.toml", pay);
    world.run(&["grant", "developer", "mock", "2"]).ok();
    world.run(&["grant", "main", "mock", "1", "--expires", "never"]).ok();
    world.run(&["operator-token", "create", "--scopes", "flows:read"]).ok();
    world.run(&["task", "create", "developer", "a release", "--id", "gov-1"]).ok();
    world.run(&["gate", "approve", "gov-1", "Security"]).ok();
    let daemon = world.serve();
    send(&world, "waits", "pay");
    send(&world, "approved", "pay");
    wait_for(|| approvals(&world).len() == 2);
    // A call that is under way: nobody reads what it writes.
    mknodat(CWD, world.home.join("held.log"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    send(&world, "running", "held");
    wait_for(|| query(&world.home, "SELECT count(*) FROM open_intents") == 1);
    let elsewhere = Elsewhere::new();
    // With the daemon gone, an approval is an approval of a call that has not run.
    drop(daemon);
    world.run(&["approvals", "approve", &code_of(&world, "approved")]).ok();
    Connection::open(world.home.join("ledger.db")).unwrap().execute_batch(OTHERS).unwrap();
    back_up(&world, &elsewhere.text("backup"), &["--with-keys"]);

    let (new, document) = restored(&elsewhere.text("backup"), &[]);
    let expected = json!({
        "grants": 2, "approvals": 2, "open_intents": 1, "standing_approvals": 1, "external_grants": 1, "operator_tokens": 1,
        "gate_approvals": 1, "account_shares": 1, "link_sessions": 1, "one_time_values": 1,
    });
    assert_eq!(document["ended"], expected);
    assert_eq!(document["grants"].as_array().unwrap().len(), 2, "{document}");
    for left in [
        "grants WHERE active = 1",
        "temporary_grants",
        "open_intents",
        "approvals WHERE state IN ('waiting', 'approved')",
        "standing_approvals WHERE ended_at IS NULL",
        "flow_grants WHERE revoked_at IS NULL",
        "operator_tokens WHERE revoked_at IS NULL",
        "gate_approvals WHERE spent_by IS NULL",
        "account_shares",
        "auth_flows",
        "one_time_values",
        "unknown_outcomes WHERE probe IS NOT NULL",
    ] {
        assert_eq!(query(&new.home, &format!("SELECT count(*) FROM {left}")), 0, "{left}");
    }
    assert_eq!(query(&new.home, "SELECT count(*) FROM unknown_outcomes WHERE request_id = 'running'"), 1);
    // The home that was backed up is as it was.
    assert_eq!(query(&world.home, "SELECT count(*) FROM grants WHERE active = 1"), 2);

    assert_eq!(
        query(&new.home, "SELECT count(*) FROM grants WHERE active = 0 AND revoked_by = 'person:tester'"),
        2,
        "the main group's agent cannot give again what a person has ended"
    );
    std::fs::write(new.home.join("mock.toml"), world.read("mock.toml")).unwrap();
    let code = code_of_restored(&world, "waits");
    new.run(&["approvals", "approve", &code]).fails(3, &[]);
    let daemon = new.serve();
    let last = |id: &str| {
        let rows = new.run(&["evidence", "export"]).ok();
        let mut rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.rfind(|row| row["request_id"] == id).unwrap()
    };
    // Both are decided again, and refused, as they were cancelled.
    wait_for(|| ["approved", "waits"].into_iter().all(|id| last(id)["kind"] == "refused"));
    assert_eq!(last("running")["kind"], "unknown");
    new.run(&["approvals", "approve", &code]).fails(3, &[]);
    assert_eq!(new.call("n1", "echo", &json!({}), None)["status"], "denied");
    assert!(!new.home.join("pay.log").exists() && !new.home.join("held.log").exists(), "nothing ran");
    new.run(&["evidence", "verify"]).ok();
    new.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

/// The code of an approval request, from the home that was backed up.
fn code_of_restored(world: &World, id: &str) -> String {
    let connection = Connection::open(world.home.join("ledger.db")).unwrap();
    connection.query_row("SELECT code FROM approvals WHERE request_id = ?1", [id], |row| row.get(0)).unwrap()
}

/// Attack: see `a_backup_in_the_middle_of_writes_is_whole_and_ends_where_its_manifest_says`.
#[test]
fn a_backup_that_is_killed_has_not_its_name_and_is_in_no_later_ones_way() {
    let (world, elsewhere) = (World::with_mock(), Elsewhere::new());
    let (backup, draft) = (elsewhere.text("backup"), elsewhere.path("backup.partial"));
    let left = draft.join("left");
    for _ in 0..2 {
        // The backup waits for this lock when it has copied the ledger.
        let lock = Lock::take(File::create(world.home.join("edit.lock")).unwrap()).unwrap().unwrap();
        let running = world.start(&["backup", &backup]);
        let is_copied = || std::fs::metadata(draft.join("ledger.db")).is_ok_and(|file| file.len() > 0);
        wait_for(|| !left.exists() && is_copied());
        world.run(&["backup", &backup]).fails(3, &["another backup is being made"]);
        running.signal(Signal::KILL);
        assert_ne!(running.end(), 0);
        assert!(draft.exists() && !elsewhere.path("backup").exists());
        std::fs::write(&left, "of the interrupted one").unwrap();
        World::empty().run(&["restore", draft.to_str().unwrap()]).fails(3, &["is no backup"]);
        // The ledger that is there next is that of the next backup.
        std::fs::remove_file(draft.join("ledger.db")).unwrap();
        drop(lock);
    }
    back_up(&world, &backup, &[]);
    assert!(!draft.exists() && elsewhere.path("backup/manifest.json").exists());
}

/// A command that is interrupted, with its errors.
struct Interrupted(std::process::Child);

impl Interrupted {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let own = world.command(arguments);
        #[expect(clippy::disallowed_methods, reason = "it becomes the program under test")]
        let mut command = std::process::Command::new("/usr/bin/env");
        // A shell without job control ignores the interrupt for its background jobs, and so for these tests.
        command.arg("--default-signal=INT,TERM").arg(own.get_program()).args(own.get_args());
        command.env_clear().envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }

    /// Its exit code and its errors.
    fn end(self) -> (Option<i32>, String) {
        let output = self.0.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn an_interrupted_backup_leaves_nothing_and_says_so() {
    let (world, elsewhere) = (World::with_mock(), Elsewhere::new());
    let (backup, draft) = (elsewhere.text("backup"), elsewhere.path("backup.partial"));
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let _lock = Lock::take(File::create(world.home.join("edit.lock")).unwrap()).unwrap().unwrap();
        let running = Interrupted::start(&world, &["backup", &backup]);
        wait_for(|| std::fs::metadata(draft.join("ledger.db")).is_ok_and(|file| file.len() > 0));
        running.signal(signal);
        let (ended, said) = running.end();
        assert_eq!(ended, Some(code), "{said}");
        assert!(said.contains("interrupted; no backup was made"), "{said}");
        assert_eq!(elsewhere.path("").read_dir().unwrap().count(), 0, "something is left");
    }
    back_up(&world, &backup, &[]);
}

#[test]
fn an_interrupted_restore_leaves_an_empty_home_and_says_so() {
    const BYTES: u64 = 256 << 20;
    let (world, elsewhere) = (World::with_mock(), Elsewhere::new());
    // A file that takes some time.
    std::fs::create_dir_all(world.home.join("groups/developer")).unwrap();
    File::create(world.home.join("groups/developer/large")).unwrap().set_len(BYTES).unwrap();
    back_up(&world, &elsewhere.text("backup"), &["--with-keys"]);
    std::fs::create_dir(elsewhere.path("empty")).unwrap();
    for home in ["new", "empty"] {
        let backup = elsewhere.text("backup");
        let running = Interrupted::start(&world, &["--home", &elsewhere.text(home), "restore", &backup]);
        let copy = elsewhere.path(home).join("restore.partial/groups/developer/large");
        wait_for(|| std::fs::metadata(&copy).is_ok_and(|file| file.len() > 0));
        // The signal comes while the file is copied.
        running.signal(Signal::STOP);
        assert!(std::fs::metadata(&copy).is_ok_and(|file| file.len() < BYTES), "the file is too small for this test");
        running.signal(Signal::INT);
        running.signal(Signal::CONT);
        let (ended, said) = running.end();
        assert_eq!(ended, Some(130), "{said}");
        assert!(said.contains("interrupted; nothing was restored"), "{said}");
    }
    assert!(!elsewhere.path("new").exists(), "it was not there before");
    assert_eq!(elsewhere.path("empty").read_dir().unwrap().count(), 0, "it was there, and empty");
}

/// Runs the program where no file may have more than so many KiB: its disk is full there.
fn run_on_little_space(world: &World, kibibytes: u32, arguments: &[&str]) -> (i32, String) {
    #[expect(clippy::disallowed_methods, reason = "the program under test is a child process")]
    let mut command = std::process::Command::new("/bin/sh");
    let limit = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", kibibytes * 2);
    command.args(["-c", &limit, "sh", env!("CARGO_BIN_EXE_host-broker")]).args(arguments);
    command.env_clear().env("EXT_BROKER_HOME", &world.home).env("USER", "tester");
    let done = crate::cli::world::finish(&mut command);
    (done.code, done.err)
}

/// Attack: see `a_backup_in_the_middle_of_writes_is_whole_and_ends_where_its_manifest_says`.
#[test]
fn a_full_disk_leaves_neither_a_backup_nor_a_home() {
    let (world, elsewhere) = (World::with_mock(), Elsewhere::new());
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let names = |path: &Path| -> Vec<_> {
        path.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    for kibibytes in [64, 128, 256] {
        let (code, said) = run_on_little_space(&world, kibibytes, &["backup", &elsewhere.text("backup")]);
        assert!(code != 0 && said.contains("no backup was made"), "{kibibytes}: {code}, {said}");
        assert_eq!(names(&elsewhere.path("")), [""; 0], "{kibibytes}");
    }
    back_up(&world, &elsewhere.text("backup"), &["--with-keys"]);
    std::fs::create_dir(elsewhere.path("empty")).unwrap();
    let backup = elsewhere.text("backup");
    for home in ["new", "empty"] {
        for kibibytes in [0, 2, 64, 256] {
            let arguments = ["--home", &elsewhere.text(home), "restore", &backup];
            let (code, said) = run_on_little_space(&world, kibibytes, &arguments);
            assert!(code != 0 && said.contains("nothing was restored"), "{kibibytes}: {code}, {said}");
        }
    }
    assert!(!elsewhere.path("new").exists());
    assert_eq!(names(&elsewhere.path("empty")), [""; 0]);
    let restore = start(&mut world.command(&["--home", &elsewhere.text("empty"), "restore", &backup]));
    assert_eq!(restore.end(), 0, "an empty directory may become a home");
}

/// The system calls after which a file or a name lasts, or is in its place.
const STEPS: [&str; 3] = ["fsync,fdatasync", "rename,renameat,renameat2", "mkdir,mkdirat"];

/// Attack (Providers and modules): A killed restore leaves a home in which old access is in force.
/// Defence: the configuration gets its place last, after all access has ended
#[test]
fn a_restore_that_is_killed_at_any_step_leaves_no_home_or_a_whole_one() {
    if !Path::new("/usr/bin/strace").exists() {
        println!("skipped: there is no /usr/bin/strace; apt-get install strace");
        return;
    }
    let (world, elsewhere) = (World::with_mock(), Elsewhere::new());
    world.run(&["grant", "developer", "mock", "2"]).ok();
    back_up(&world, &elsewhere.text("backup"), &["--with-keys"]);
    let mut killed = 0;
    for calls in STEPS {
        for number in 1.. {
            let new = World::empty();
            #[expect(clippy::disallowed_methods, reason = "kills the program under test at one of its steps")]
            let mut command = std::process::Command::new("/usr/bin/strace");
            let inject = format!("inject={calls}:signal=KILL:when={number}");
            command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}"), "-e", &inject]);
            command.args([env!("CARGO_BIN_EXE_host-broker"), "restore", &elsewhere.text("backup")]);
            command.env_clear().env("EXT_BROKER_HOME", &new.home).env("USER", "tester");
            let done = crate::cli::world::finish(&mut command);
            if done.code == 0 {
                break;
            }
            killed += 1;
            let place = format!("at {calls} number {number}: {done:?}");
            if new.home.join("broker.toml").exists() {
                // It was killed after the last step.
                assert_eq!(new.run(&["evidence", "verify", "--json"]).json()["ok"], true, "{place}");
                assert_eq!(query(&new.home, "SELECT count(*) FROM grants WHERE active = 1"), 0, "{place}");
            } else {
                let started = new.run(&["serve"]);
                assert!(started.code == 4 && started.err.contains("broker.toml"), "{place}: {started:?}");
            }
            // The next attempt has an empty directory, as the documentation says.
            if new.home.exists() {
                std::fs::remove_dir_all(&new.home).unwrap();
            }
            if number % 5 == 1 {
                new.run(&["restore", &elsewhere.text("backup")]).ok();
            }
        }
    }
    assert!(killed > 10, "{killed} kills");
}
