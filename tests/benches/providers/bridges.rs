//! The cost of a call to a bridge beside the start of its process alone, bare and in a sandbox of its own.

use super::{ROUNDS, median_of};
use model::ChatType;
use serde_json::json;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tests::bridges::{accept, call, grant, home_with, is_apart, shell, token};
use tests::group::code;

/// A way out, which costs a sandbox more than its walls.
const HOSTS: &str = "hosts = [\"api.ext.invalid\"]";

pub(super) fn all() {
    println!("\na bridge that answers at once (a shell script), the median of {ROUNDS}");
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("bridge.sh");
    let definitions = json!({ "definitions": [{
        "id": "bench.thing", "description": "For a bench",
        "operations": [{ "name": "read", "description": "Reads", "requires_auth": false }],
    }] });
    std::fs::write(&program, shell(&definitions)).unwrap();
    for (name, isolation, more) in [("bare", "none", ""), ("sandbox", "bwrap", ""), ("hosts", "bwrap", HOSTS)] {
        if isolation == "bwrap" && !is_apart() {
            println!("  {name}: not measured, because bubblewrap cannot make a namespace here");
            continue;
        }
        through_the_broker(directory.path(), &program, (name, isolation, more), &definitions);
    }
}

fn through_the_broker(
    directory: &Path,
    program: &Path,
    (name, isolation, more): (&str, &str, &str),
    definitions: &serde_json::Value,
) {
    std::fs::write(program, shell(definitions)).unwrap();
    let exposes = &format!("exposes = {{ \"bench.thing.read\" = [] }}\n{more}");
    let command = ["/bin/sh", program.to_str().unwrap()];
    let mut world = home_with("bench", &command, directory, isolation, exposes);
    accept(&world, "bench");
    std::fs::write(program, shell(&json!({ "output": {} }))).unwrap();
    let process = median_of(ROUNDS, || alone(program, isolation, directory));
    world.start_process();
    grant(&world, "bench.thing");
    let token = token(&mut world, "ann", ChatType::Private);
    let developer = world.group("developer");
    let whole = median_of(ROUNDS, || {
        let reply = developer.ask(call("bench.thing", "read", &json!({}), &token));
        assert_eq!(code(&reply), "executed", "{reply}");
    });
    let over = whole.saturating_sub(process);
    let ratio = whole.as_secs_f64() / process.as_secs_f64();
    println!(
        "  {name:<6} its process alone {process:>8.2?}   a call through the broker {whole:>8.2?}   {over:>8.2?} more, \
         {ratio:.2} ×"
    );
}

/// The same process with the same input, started by hand.
fn alone(program: &Path, isolation: &str, directory: &Path) {
    let mut command = if isolation == "none" {
        Command::new("/bin/sh")
    } else {
        let mut sandbox = Command::new("bwrap");
        sandbox.args([
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/usr",
            "/usr",
            "--symlink",
            "usr/bin",
            "/bin",
        ]);
        sandbox.args([
            "--symlink",
            "usr/lib",
            "/lib",
            "--symlink",
            "usr/lib64",
            "/lib64",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]);
        sandbox.arg("--ro-bind").arg(directory).arg(directory).arg("/bin/sh");
        sandbox
    };
    let mut child = command.arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"version\":1,\"id\":\"cap_bridge_0\",\"method\":\"invoke\"}\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
}
