//! Files: what reading a little of much, and proposing and applying a change, cost through the whole broker, beside the
//! plain program that does the necessary part of it.

use super::{best, status_kib};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::world::CONFIG;
use tests::{Group, World};

const GIB: u64 = 1024 * 1024 * 1024;
const ROUNDS: usize = 9;

pub(super) fn all() {
    let config = format!("{CONFIG}\n[providers.files]\nkind = \"files\"\ntimeout_ms = 120000\n");
    let world = World::builder().config(&config).up();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "files", "access_level": 2 });
    assert_eq!(world.command(grant)["status"], "executed");
    let developer = world.group("developer");
    reading(&world, &developer);
    large_file(&world, &developer);
    many_files(&world, &developer);
}

fn call(group: &Group, action: &str, params: &Value) -> (Value, Duration) {
    let document = json!({ "type": "ext_call", "provider": "files", "action": action, "params": params });
    let began = Instant::now();
    let reply = group.ask(document);
    let took = began.elapsed();
    assert_eq!(reply["status"], "executed", "{reply}");
    (reply, took)
}

fn reading(world: &World, developer: &Group) {
    let path = world.path("workspaces/developer/big.log");
    let line = "2026-02-14T10:00:01.123Z INFO request id=46c2e58a method=GET path=/v1/items took 12ms status=200 ok\n";
    let block = line.repeat(8192);
    let mut file = File::create(&path).unwrap();
    while file.metadata().unwrap().len() < GIB {
        file.write_all(block.as_bytes()).unwrap();
    }
    drop(file);
    let params = json!({ "path": "big.log", "start_line": 5_000_000, "end_line": 5_001_300, "max_bytes": 131_072 });
    let before = status_kib("VmHWM:");
    let took = best(3, || call(developer, "read_file", &params).1);
    let grown = status_kib("VmHWM:").saturating_sub(before);
    let plain = best(3, || run(Command::new("sha256sum").arg(&path)));
    println!("\nfiles, through the whole broker (the best of some)");
    println!(
        "  128 KiB of the middle of 1 GiB, with its hash   {took:>10.1?}   sha256sum {plain:.1?}   {}",
        over(took, plain)
    );
    println!("  memory that it took beside what there was       {grown:>7} KiB");
    fs::remove_file(path).unwrap();
}

fn large_file(world: &World, developer: &Group) {
    let path = world.path("workspaces/developer/src/large.txt");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let content = |round: usize| -> String {
        (0..10_000).fold(String::new(), |mut text, n| {
            writeln!(text, "{n:06} of round {round:06}, and so on until it is fifty").unwrap();
            text
        })
    };
    let (mut proposed, mut applied) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        fs::write(&path, content(round)).unwrap();
        let params = json!({ "path": "src/large.txt", "content": content(round + 1) });
        let (first, second) = change(world, developer, "write_file", &params);
        proposed.push(first);
        applied.push(second);
    }
    let bytes = content(0).len();
    let plain = best(ROUNDS, || {
        let text = content(7);
        let beside = path.with_extension("new");
        let began = Instant::now();
        let mut file = File::create(&beside).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.sync_all().unwrap();
        fs::rename(&beside, &path).unwrap();
        File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
        began.elapsed()
    });
    let (proposed, applied) = (least(&proposed), least(&applied));
    println!("  {bytes} bytes, every line another: propose       {proposed:>10.1?}");
    println!(
        "                                     apply         {applied:>10.1?}   write, sync, rename {plain:.1?}   {}",
        over(applied, plain)
    );
}

fn many_files(world: &World, developer: &Group) {
    const FILES: usize = 100;
    let workspace = world.path("workspaces/developer");
    let mut patch = String::new();
    let text = |n: usize| {
        let lines: Vec<String> = (0..40).map(|line| format!("file {n} line {line}\n")).collect();
        lines.concat()
    };
    for n in 0..FILES {
        fs::write(workspace.join(format!("src/{n}.txt")), text(n)).unwrap();
        write!(patch, "diff --git a/src/{n}.txt b/src/{n}.txt\n--- a/src/{n}.txt\n+++ b/src/{n}.txt\n").unwrap();
        write!(patch, "@@ -1,3 +1,3 @@\n file {n} line 0\n-file {n} line 1\n+changed\n file {n} line 2\n").unwrap();
    }
    let (mut proposed, mut applied) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        (0..FILES).for_each(|n| fs::write(workspace.join(format!("src/{n}.txt")), text(n)).unwrap());
        let (first, second) = change(world, developer, "apply_patch", &json!({ "patch": patch }));
        proposed.push(first);
        applied.push(second);
    }
    let outside = world.outside();
    fs::write(outside.join("the.patch"), &patch).unwrap();
    let plain = best(ROUNDS, || {
        (0..FILES).for_each(|n| fs::write(workspace.join(format!("src/{n}.txt")), text(n)).unwrap());
        run(Command::new("git").arg("apply").arg(outside.join("the.patch")).current_dir(&workspace))
    });
    let (proposed, applied) = (least(&proposed), least(&applied));
    println!("  a patch of {FILES} files: propose                   {proposed:>10.1?}");
    println!(
        "                       apply                       {applied:>10.1?}   git apply, which syncs nothing {plain:.1?}   {}",
        over(applied, plain)
    );
}

/// Proposes, approves and applies; how long the first and the last took.
fn change(world: &World, developer: &Group, action: &str, params: &Value) -> (Duration, Duration) {
    let (reply, proposed) = call(developer, action, params);
    let approval_request = world.query("SELECT code FROM approvals WHERE state = 'waiting'").pop().unwrap();
    let yes = world.command(json!({ "type": "answer", "code": approval_request["code"], "yes": true }));
    assert_eq!(yes["status"], "executed", "{yes}");
    let id = &reply["data"]["hitl"]["hitl_id"];
    let (_, applied) =
        call(developer, "apply_proposal", &json!({ "path": reply["data"]["data"]["path"], "hitl_id": id }));
    (proposed, applied)
}

fn run(command: &mut Command) -> Duration {
    let began = Instant::now();
    assert!(command.stdout(Stdio::null()).status().unwrap().success());
    began.elapsed()
}

fn least(figures: &[Duration]) -> Duration {
    figures.iter().min().copied().unwrap_or_default()
}

fn over(ours: Duration, plain: Duration) -> String {
    format!("× {:.1}", ours.as_secs_f64() / plain.as_secs_f64())
}
