//! Bridges that take all they can get of the machine: where each is stopped, and that nobody else notices.

use super::{odd, odd_home};
use model::ChatType;
use serde_json::{Value, json};
use tests::bridges::{accept, call, directory, grant, is_apart, said, token};
use tests::group::{Group, code, error};
use tests::{World, runs, skipped, until};

const LIMITS: &str = "[providers.odd.limits]\nmemory_mib = 256\nprocesses = 40\nopen_files = 64\nfile_mib = 8\n\
                      cpu_seconds = 1\n[limits.developer.odd.breaker]\nfaults = 0";

fn used_up(developer: &Group, ann: &str, what: &str, tries: u32) -> Value {
    let asked = json!({ "mode": "used_up", "what": what, "tries": tries });
    developer.ask(call("odd.thing", "read", &asked, ann))
}

/// The bridge with these limits, and another provider beside it.
fn limited() -> Option<(World, Group, String)> {
    let (world, developer, ann) = odd(LIMITS)?;
    grant(&world, "demo");
    Some((world, developer, ann))
}

/// Other requests are answered.
fn others_are_served(developer: &Group) {
    let reply = developer.call("echo", json!({ "text": "hello" }));
    assert_eq!(code(&reply), "executed", "{reply}");
}

/// Attack (Programs: isolation): a bridge or server takes all memory, open files or disk that it
/// can get in one file, or all processor time of a call
/// Defence: prlimit(1) sets the limits and then becomes the program, so nothing of it runs without
/// them; a server has no limit of processor time, because that adds up over its life
#[test]
fn a_bridge_that_takes_all_it_can_of_a_resource_is_stopped_at_its_limit() {
    let Some((world, developer, ann)) = limited() else { return };
    // Python itself holds some of each.
    for (what, tries, least, most, stopped) in
        [("memory", 200, 16, 256, "MemoryError"), ("files", 10_000, 16, 64, "EMFILE"), ("file", 1_000, 8, 8, "EFBIG")]
    {
        let reply = used_up(&developer, &ann, what, tries);
        assert_eq!(code(&reply), "executed", "{what}: {reply}");
        let got = reply["data"]["got"].as_u64().unwrap();
        assert!((least..=most).contains(&got), "{what}: {reply}");
        assert_eq!(reply["data"]["stopped"], stopped, "{what}: {reply}");
        others_are_served(&developer);
    }
    world.settle();
}

/// Attack: see `a_bridge_that_takes_all_it_can_of_a_resource_is_stopped_at_its_limit`.
#[test]
fn a_bridge_that_is_ended_by_a_limit_is_a_fault_that_names_the_limit() {
    let Some((world, developer, ann)) = limited() else { return };
    for (mode, names) in [("spin", "limits.cpu_seconds"), ("write_until_the_end", "limits.file_mib")] {
        let read = developer.ask(call("odd.thing", "read", &json!({ "mode": mode }), &ann));
        assert_eq!(code(&read), "capability_backend_unavailable", "{mode}: {read}");
        assert!(error(&read).contains(names), "{mode}: {read}");
        // The effect until then is unknown.
        let write = developer.ask(call("odd.thing", "write", &json!({ "mode": mode }), &ann));
        assert_eq!(code(&write), "outcome_unknown", "{mode}: {write}");
        others_are_served(&developer);
    }
    world.settle();
}

/// Attack (Programs: isolation): a fork bomb in a sandbox
/// Defence: the limit of processes is set inside the sandbox's own user namespace, so it counts the
/// sandbox only; what was started ends with its namespace. The kernel does not apply it to a broker
/// that runs as root
#[test]
fn a_fork_bomb_ends_at_its_limit_and_nothing_of_it_stays() {
    if !is_apart() {
        return skipped("bubblewrap cannot make a namespace here, in which the kernel counts processes");
    }
    let Some(mut world) = odd_home(LIMITS) else { return };
    accept(&world, "odd");
    let ann = token(&mut world, "ann", ChatType::Private);
    if let Err(why) = world.start_process_without_privilege(&directory().join("misbehaving.py")) {
        return skipped(&why);
    }
    grant(&world, "odd.thing");
    grant(&world, "demo");
    let developer = world.group("developer");
    let reply = used_up(&developer, &ann, "processes", 2_000);
    assert_eq!(code(&reply), "executed", "{reply}");
    // The first process of its namespace counts, too.
    let got = reply["data"]["got"].as_u64().unwrap();
    assert!((30..40).contains(&got), "{reply}");
    assert_eq!(reply["data"]["stopped"], "EAGAIN", "{reply}");
    let state = world.home().join("state/odd");
    until("the end of what it has started", || (!runs(state.to_str().unwrap())).then_some(()));
    others_are_served(&developer);
    // Its limit is its own: as many again can be started at once.
    assert_eq!(used_up(&developer, &ann, "processes", 2_000)["data"]["got"], got);
    world.settle();
}

/// Attack: see `a_bridge_that_takes_all_it_can_of_a_resource_is_stopped_at_its_limit`.
#[test]
fn a_bridge_without_a_sandbox_has_the_limits_of_a_process_too() {
    let Some((mut world, developer, ann)) = limited() else { return };
    let limits = |world: &World| {
        let reply = world.group("developer").ask(call("odd.thing", "read", &json!({ "mode": "limits" }), &ann));
        assert_eq!(code(&reply), "executed", "{reply}");
        reply["data"].clone()
    };
    let expected = |processes: &Value| {
        json!({
            "CORE": 0, "CPU": 1, "DATA": 256 << 20, "FSIZE": 8 << 20, "NOFILE": 64, "NPROC": processes,
        })
    };
    let within = limits(&world);
    assert_eq!(within, expected(&if is_apart() { json!(40) } else { within["NPROC"].clone() }));
    world.stop();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace("isolation = \"bwrap\"", "isolation = \"none\""));
    world.start_process();
    let without = limits(&world);
    // It would count every process of the broker's user.
    assert_eq!(without, expected(&without["NPROC"]));
    assert_ne!(without["NPROC"], 40);
    assert_eq!(used_up(&developer, &ann, "file", 1_000)["data"]["stopped"], "EFBIG");
    world.settle();
}

#[test]
fn the_limits_in_force_are_in_the_status_and_a_wrong_limit_is_refused() {
    let Some((world, _developer, _ann)) = odd("") else { return };
    let status: Value = serde_json::from_slice(&world.cli(&["--json", "status"]).stdout).unwrap();
    let limits = status["daemon"]["limits"].as_str().unwrap_or_else(|| panic!("{status}"));
    assert!(limits.starts_with("memory, open files, file size and processor time of each process"), "{limits}");
    let shown = said(&world.cli(&["status"]));
    assert!(shown.contains(&format!("Limits  {limits}")), "{shown}");
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    for (line, fault) in [("processes = 0", "nonzero"), ("memory = 5", "unknown field `memory`")] {
        world.rewrite("broker.toml", &format!("{config}\n[providers.odd.limits]\n{line}\n"));
        let refused = said(&world.cli(&["provider", "check", "odd"]));
        assert!(refused.contains(fault), "{line}: {refused}");
    }
    world.rewrite("broker.toml", &config);
}
