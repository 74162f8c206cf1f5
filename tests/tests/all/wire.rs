//! The directory protocol, as clients of any kind speak it.

use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use tests::fakes::real_now;
use tests::group::{call, code, error, with};
use tests::world::{CONFIG, SCRIPT};
use tests::{World, until};

#[test]
fn a_request_that_a_shell_wrote_with_printf_and_mv_is_executed() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let script = r#"
        set -eu
        cd "$1"
        printf '%s' '{"type":"ext_call","request_id":"from-sh","provider":"demo","action":"echo","params":{"by":"sh"}}' > tasks/.new
        mv tasks/.new tasks/anything-goes.json
        n=0
        until [ -e responses/from-sh.json ]; do n=$((n + 1)); [ $n -lt 900 ] || exit 9; sleep 0.1; done
        cat responses/from-sh.json
        rm responses/from-sh.json
    "#;
    #[expect(clippy::disallowed_methods, reason = "a real shell is the client")]
    let output =
        Command::new("/bin/sh").args(["-c", script, "sh"]).arg(developer.directory()).output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((code(&reply), &reply["data"]), ("executed", &json!({ "by": "sh" })));
}

#[test]
fn any_name_that_ends_in_json_will_do_and_the_file_is_removed() {
    let world = World::with_grant();
    let developer = world.group("developer");
    for name in ["ext-1.json", "ünïcode.json", "with space.json", "a.b.c.json", "-rf.json", "$(x).json", "\n.json"] {
        let id = developer.fresh_id();
        developer.put(name, with(call("echo", json!({ "name": name })), "request_id", id.clone()).to_string());
        let reply = developer.reply(&id);
        assert_eq!(reply["data"], json!({ "name": name }), "{name}");
    }
    until("the requests are gone", || (developer.waiting() == 0).then_some(()));
}

#[test]
fn other_names_are_nobodys_documents() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let document = with(call("charge", json!({})), "request_id", "hidden").to_string();
    for name in [".hidden.json", "x.json.tmp", "x.txt", "json", ".json", "x.JSON"] {
        developer.put(name, &document);
    }
    // A later request is answered after all that was there before it.
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    assert!(world.effects_of("charge").is_empty());
    assert_eq!(world.kinds_of(&developer, "hidden"), [""; 0]);
}

#[test]
fn absent_and_null_members_mean_the_same() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let bare = json!({ "type": "ext_call", "provider": "demo", "action": "echo", "request_id": "one" });
    let first = developer.ask(bare.clone());
    assert_eq!((code(&first), &first["data"]), ("executed", &json!({})));
    let mut nulls = bare;
    for member in [
        "params",
        "task_id",
        "idempotency_key",
        "account_ref",
        "timeout_ms",
        "dry_run",
        "timestamp",
        "context_token",
        "sig",
    ] {
        nulls = with(nulls, member, Value::Null);
    }
    assert_eq!(developer.ask(nulls), first, "it is the same request, so it gets the same reply");
}

#[test]
fn an_account_is_not_named_to_a_provider_that_has_none() {
    let world = World::with_grant();
    let developer = world.group("developer");
    for account in ["work", ""] {
        let reply = developer.ask(with(call("charge", json!({})), "account_ref", account));
        assert_eq!(code(&reply), "invalid_params", "{reply}");
        assert!(error(&reply).contains("charge works with no account, so call again without account_ref"), "{reply}");
    }
    assert!(world.effects_of("charge").is_empty());
    let stranger = world.group("security").ask(with(call("charge", json!({})), "account_ref", "work"));
    assert_eq!(code(&stranger), "no_grant", "who has no grant learns nothing of accounts");
}

#[test]
fn a_request_written_in_place_is_read_when_it_is_closed() {
    use std::io::Write as _;
    let world = World::with_grant();
    let developer = world.group("developer");
    let document = with(call("echo", json!({})), "request_id", "slowly").to_string();
    let (head, tail) = document.split_at(document.len() / 2);
    let mut file = std::fs::File::create(developer.task(".slow")).unwrap();
    file.write_all(head.as_bytes()).unwrap();
    std::fs::rename(developer.task(".slow"), developer.task("slow.json")).unwrap();
    // Renamed before it was whole: it is answered as what it was then, and again when it is whole.
    assert_eq!(code(&developer.reply("slow")), "malformed_request");
    file.write_all(tail.as_bytes()).unwrap();
    drop(file);
    developer.put("whole.json", &document);
    assert_eq!(code(&developer.reply("slowly")), "executed");
}

#[test]
fn faults_of_a_document_are_named_without_quoting_it() {
    let mut world = World::with_grant();
    world.keep_secret("hunter2-hunter2");
    let developer = world.group("developer");
    let id = || developer.fresh_id();
    for document in [
        json!({ "type": "ext_call", "action": "echo" }),
        json!({ "type": "ext_call", "provider": "demo" }),
        with(call("echo", json!({})), "params", json!([1])),
        with(call("echo", json!({})), "params", "hunter2-hunter2"),
        with(call("echo", json!({})), "provider", "../../etc"),
        with(call("echo", json!({})), "action", "a/b"),
        with(call("echo", json!({})), "timeout_ms", "soon hunter2-hunter2"),
        with(call("echo", json!({})), "timeout_ms", -1),
        with(call("echo", json!({})), "dry_run", "yes"),
        with(call("echo", json!({})), "idempotency_key", ""),
        with(call("echo", json!({})), "idempotency_key", "k".repeat(129)),
        with(call("echo", json!({})), "hunter2-hunter2!", 1),
        with(call("echo", json!({})), "timestamp", 5),
        json!({ "request_id": "no-type" }),
        json!({ "type": 7 }),
    ] {
        let id = id();
        let reply = developer.ask(with(document.clone(), "request_id", id.clone()));
        assert_eq!(code(&reply), "malformed_request", "{document}");
        assert!(!error(&reply).contains("hunter2-hunter2"), "{reply}");
        assert!(error(&reply).ends_with('.'), "{reply}");
    }
    assert_eq!(code(&developer.ask(json!({ "type": "hunter2-hunter2" }))), "unknown_type");
}

#[test]
fn an_unusable_request_id_is_answered_under_the_files_stem() {
    let world = World::with_grant();
    let developer = world.group("developer");
    for (stem, id) in [
        ("s1", json!("../x")),
        ("s2", json!("")),
        ("s3", json!(5)),
        ("s4", json!("a.b")),
        ("s5", json!("x".repeat(129))),
    ] {
        let document = with(call("charge", json!({})), "request_id", id);
        developer.put(&format!("{stem}.json"), document.to_string());
        assert_eq!(code(&developer.reply(stem)), "malformed_request");
    }
    // Neither the id nor the stem will do: only the ledger has it.
    let document = with(call("charge", json!({})), "request_id", "../x");
    developer.put("no id.json", document.to_string());
    until("it is gone", || (developer.waiting() == 0).then_some(()));
    assert_eq!(developer.names("responses"), [""; 0]);
    assert!(world.effects_of("charge").is_empty());
}

#[test]
fn foreign_types_are_refused_or_left_as_configured() {
    let world = World::with_grant();
    let foreign = json!({ "type": "schedule_task", "prompt": "x" });
    assert_eq!(code(&world.group("developer").by_files().ask(foreign.clone())), "unknown_type");
    drop(world);
    let world = World::builder().config(&CONFIG.replace("[broker]", "[broker]\nunknown_requests = \"ignore\"")).up();
    world.grant("developer", 1);
    let developer = world.group("developer").by_files();
    let id = developer.send(foreign);
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    assert_eq!(developer.names("tasks"), [format!("{id}.json")], "it is another host's");
    assert_eq!(world.kinds_of(&developer, &id), [""; 0]);
}

/// Attack (Repeats, crashes and evidence): A request of yesterday is found.
/// Defence: It is older than its caller's timeout.
#[test]
fn an_old_request_is_stale_and_not_executed() {
    let mut world = World::builder().clock(real_now()).up();
    world.grant("developer", 2);
    let developer = world.group("developer");
    world.stop();
    let young = developer.send(call("charge", json!({})));
    world.start();
    assert_eq!(code(&developer.reply(&young)), "executed");
    world.stop();
    let old = developer.send(call("charge", json!({})));
    let short = developer.send(with(call("charge", json!({})), "timeout_ms", 20_000));
    world.clock.advance(Duration::from_secs(30));
    let patient = developer.send(call("charge", json!({})));
    world.clock.set(real_now().plus(Duration::from_secs(31)));
    world.start();
    assert_eq!(code(&developer.reply(&short)), "stale_request", "nobody waits for it any more");
    assert_eq!(code(&developer.reply(&old)), "executed");
    assert_eq!(code(&developer.reply(&patient)), "executed");
    world.stop();
    let old = developer.send(with(call("charge", json!({})), "timeout_ms", 1_000_000));
    world.clock.set(real_now().plus(Duration::from_secs(151)));
    world.start();
    assert_eq!(code(&developer.reply(&old)), "stale_request");
    assert_eq!(world.effects_of("charge").len(), 3);
}

#[test]
fn a_group_at_its_in_flight_limit_hears_busy_and_others_do_not() {
    let world = World::builder().config(&CONFIG.replace("[broker]", "[broker]\nmax_concurrent_calls = 3")).up();
    world.grant("developer", 2);
    world.grant("security", 2);
    let developer = world.group("developer");
    let slow: Vec<String> = (0..3).map(|_| developer.send(call("wait", json!({ "ms": 1500 })))).collect();
    for id in &slow {
        until("it runs", || (world.kinds_of(&developer, id) == ["intended"]).then_some(()));
    }
    let busy = developer.call("charge", json!({}));
    assert_eq!(code(&busy), "busy");
    assert!(busy["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0));
    assert_eq!(code(&developer.ask(json!({ "type": "ext_capabilities" }))), "executed", "only calls are counted");
    assert_eq!(code(&world.group("security").call("charge", json!({}))), "executed");
    for id in &slow {
        assert_eq!(code(&developer.reply(id)), "executed");
    }
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    assert_eq!(world.effects_of("charge").len(), 2);
}

#[test]
fn timeout_ms_only_shortens() {
    let config = CONFIG.replace("call_timeout_ms = 60000", "call_timeout_ms = 900");
    let world = World::builder().config(&config).up();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let forever = json!({ "ms": 3_600_000 });
    for document in [call("wait", forever.clone()), with(call("wait", forever.clone()), "timeout_ms", 100_000_000_u64)]
    {
        assert_eq!(code(&developer.ask(document)), "provider_timeout");
    }
    assert_eq!(code(&developer.ask(with(call("wait", json!({})), "timeout_ms", 0))), "executed");
}

#[test]
fn a_slow_call_delays_nobody_else() {
    let world = World::with_grant();
    world.grant("security", 2);
    let developer = world.group("developer");
    let slow = developer.send(call("wait", json!({ "ms": 2000 })));
    for n in 0..20 {
        assert_eq!(code(&developer.call("echo", json!({ "n": n }))), "executed");
        assert_eq!(code(&world.group("security").call("charge", json!({}))), "executed");
    }
    assert_eq!(developer.try_reply(&slow), None, "all of them were faster");
    assert_eq!(code(&developer.reply(&slow)), "executed");
}

/// Attack (Authority): A document names another group.
/// Defence: The broker does not read it. The directory identifies the group.
#[test]
fn the_group_is_the_directory_and_never_what_a_document_says() {
    let world = World::with_grant();
    for member in ["group", "group_folder", "caller", "sourceGroup"] {
        let reply = world.group("security").ask(with(call("echo", json!({})), member, "developer"));
        assert_eq!(code(&reply), "malformed_request", "{member}");
    }
    assert_eq!(code(&world.group("security").call("echo", json!({}))), "no_grant");
    let callers: Vec<String> = world.rows().into_iter().map(|row| row.caller).collect();
    assert!(!callers.contains(&"group:developer".to_owned()), "{callers:?}");
}

#[test]
fn a_provider_that_panics_or_says_no_is_told_apart_from_one_that_nobody_knows_about() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let broken = developer.call("broken", json!({}));
    assert_eq!((code(&broken), &broken["status"]), ("provider_failed", &json!("failed")));
    assert!(error(&broken).contains("the remote said no"), "{broken}");
    let vanished = developer.call("vanish", json!({}));
    assert_eq!((code(&vanished), &vanished["status"]), ("outcome_unknown", &json!("failed")));
    assert_eq!(world.effects_of("vanish").len(), 1);
}

#[test]
fn the_host_beats_and_says_who_it_is() {
    let world = World::new();
    let path = world.group("developer").directory().join("host.json");
    let info: Value = until("host.json", || serde_json::from_slice(&std::fs::read(&path).ok()?).ok());
    assert_eq!((&info["protocol"], &info["started_at"]), (&json!("ext-broker/1"), &json!(world.now().to_string())));
    let modified = || std::fs::metadata(&path).unwrap().modified().unwrap();
    let first = modified();
    until("another beat", || (modified() > first).then_some(()));
}

#[test]
fn requests_that_wait_for_the_host_are_answered_when_it_starts() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    world.stop();
    let ids: Vec<String> = (0..50).map(|n| developer.send(call("charge", json!({ "n": n })))).collect();
    world.start();
    let mut expected = Vec::new();
    for id in ids {
        match code(&developer.reply(&id)) {
            "executed" => expected.push(id),
            // They come all at once, so some may meet the limit; those were not executed.
            other => assert_eq!(other, "busy"),
        }
    }
    let mut effects = world.effects_of("charge");
    effects.sort();
    expected.sort();
    assert!(expected.len() >= 16);
    assert_eq!(effects, expected);
}

/// Attack (Repeats, crashes and evidence): A second daemon starts on one home.
/// Defence: There is an exclusive lock outside the groups' directories.
#[test]
fn a_second_host_on_the_same_home_does_not_start() {
    let world = World::with_grant();
    let mut second = World::builder().script("demo", SCRIPT).down();
    // The lock is the home's, whoever asks.
    std::fs::remove_dir_all(second.home()).unwrap();
    std::os::unix::fs::symlink(world.home(), second.home()).unwrap();
    let fault = second.try_start().unwrap_err().to_string();
    assert!(fault.contains("another host-broker runs on this home"), "{fault}");
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    std::fs::remove_file(second.home()).unwrap();
}

#[test]
fn the_clock_may_jump_back_a_little_and_rows_never_do() {
    let world = World::with_grant();
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    let before = world.now();
    world.clock.set(before.minus(Duration::from_secs(29)));
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    world.clock.set(before.minus(Duration::from_secs(31)));
    assert_eq!(code(&developer.call("charge", json!({}))), "evidence_unavailable", "rows would lie about the time");
    world.clock.set(before);
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    assert_eq!(world.effects_of("charge").len(), 3);
    assert!(world.rows().is_sorted_by_key(|row| row.ts));
}
