//! Servers that break every rule: what becomes of the call, and what stays of them.

use super::{SECRET, TOOLS, odd, odd_home, read, write};
use serde_json::{Value, json};
use tests::bridges::{BROKERS, anothers, is_apart};
use tests::group::{code, error, with};
use tests::servers::{call, open, text};
use tests::{runs, skipped, until};

/// Attack (Definitions and servers): In the middle of a write, a server dies, hangs, floods, or
/// answers nonsense or an error. The write is made again.
/// Defence: The outcome is unknown unless nothing was sent. Nothing is sent twice.
///
/// Attack: see `tools_that_cannot_be_offered_name_the_reason`.
#[test]
fn every_misbehaviour_of_a_server_has_its_reason_code() {
    let Some((mut world, developer)) = odd() else { return };
    for mode in ["secret", "complain"] {
        let reply = developer.ask(read(mode));
        assert_eq!(code(&reply), "executed", "{mode}: {reply}");
        assert!(!reply.to_string().contains(SECRET), "{mode}: {reply}");
    }
    let marked = developer.ask(call("odd", "page", &json!({ "mode": "inject" })));
    assert_eq!(marked["notices"], json!(["untrusted_content"]), "{marked}");
    for (mode, reads, writes) in [
        ("refused", "provider_failed", "outcome_unknown"),
        ("broken", "provider_failed", "outcome_unknown"),
        ("teapot", "provider_failed", "outcome_unknown"),
        ("not_json", "provider_timeout", "outcome_unknown"),
        ("flood", "provider_failed", "outcome_unknown"),
        ("die", "provider_failed", "outcome_unknown"),
        ("hang", "provider_timeout", "outcome_unknown"),
        ("input_required", "provider_failed", "outcome_unknown"),
        ("odd_block", "invalid_output", "outcome_unknown"),
        ("no_result", "invalid_output", "outcome_unknown"),
        // Its result is withheld; that it happened is not.
        ("long", "invalid_output", "executed"),
        ("murmur", "executed", "executed"),
        // It asks and asks, and does not listen.
        ("pings", "provider_failed", "outcome_unknown"),
    ] {
        for (asked, expected) in [(read(mode), reads), (write(mode), writes)] {
            let reply = developer.ask(asked);
            assert_eq!(code(&reply), expected, "{mode}: {reply}");
            assert!(!reply.to_string().contains("previous instructions"), "{mode}: {reply}");
        }
        if ["flood", "die", "pings"].contains(&mode) {
            // A server that has ended twice is left alone for a while.
            world.restart();
        }
    }
    world.settle();
    until("the log has the complaint", || world.daemon_log().contains("said=\"using <redacted").then_some(()));
    world.keep_secret(SECRET);
    std::fs::remove_file(world.path("odd.secret")).unwrap();
}

/// Attack: see `every_misbehaviour_of_a_server_has_its_reason_code`.
#[test]
fn a_write_whose_answer_is_lost_is_not_sent_again() {
    let Some((world, developer)) = odd() else { return };
    let pid = |reply: &Value| text(reply).to_owned();
    let first = pid(&developer.ask(read("pid")));
    assert_eq!(pid(&developer.ask(read("pid"))), first, "it is kept");
    let dies = || with(write("die"), "idempotency_key", "once");
    assert_eq!(code(&developer.ask(dies())), "outcome_unknown");
    // A caller that asks again under the same key is told the same; the server was restarted and is not asked.
    assert_eq!(code(&developer.ask(dies())), "outcome_unknown");
    assert_eq!(text(&developer.ask(read("writes"))), "1");
    world.settle();
}

/// Attack: see `every_misbehaviour_of_a_server_has_its_reason_code`.
#[test]
fn a_write_in_whose_middle_the_broker_is_killed_is_unknown_and_not_made_again() {
    let Some((mut world, developer)) = odd() else { return };
    let id = developer.send(write("lose"));
    until("the effect", || world.path("state/odd/writes").exists().then_some(()));
    world.kill();
    world.start_process();
    assert_eq!(code(&developer.reply(&id)), "outcome_unknown");
    assert_eq!(text(&developer.ask(read("writes"))), "1");
    world.settle();
}

/// Attack (Definitions and servers): A server asks the broker for a model, a person's input or
/// files.
/// Defence: Every such request is refused.
#[test]
fn requests_of_a_server_to_the_client_are_refused() {
    let Some((_world, developer)) = odd() else { return };
    let asked: Value = serde_json::from_str(text(&developer.ask(read("ask")))).unwrap();
    let refused = json!({
        "sampling/createMessage": -32601, "roots/list": -32601, "elicitation/create": -32601, "made/up": -32601,
    });
    assert_eq!(asked, refused);
}

#[test]
fn a_server_that_ends_again_and_again_is_left_alone_for_longer_and_longer() {
    let Some(mut world) = odd_home(&[], TOOLS) else { return };
    open(&mut world, &["odd"]);
    let developer = world.group("developer");
    world.stop();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace("misbehaving.py\"", "misbehaving.py\", \"--fails\""));
    world.start_process();
    let started = || std::fs::read_to_string(world.path("state/odd/writes")).unwrap_or_default().len();
    let refused = developer.ask(read("echo"));
    assert_eq!(code(&refused), "provider_failed");
    assert!(error(&refused).contains("cannot be started"), "{refused}");
    let mut replies: Vec<Value> = (0..20).map(|_| developer.ask(read("echo"))).collect();
    replies.retain(|reply| error(reply).contains("left alone for"));
    // However long these took: the waits are 1 s, 2 s, 4 s and so on.
    assert!(replies.len() >= 10, "{replies:?}");
    assert_eq!(started(), 1 + 20 - replies.len());
    until("the reason", || world.daemon_log().contains("it cannot be").then_some(()));
}

/// Attack: see `a_hostile_server_reaches_nothing_of_the_brokers`.
#[test]
fn a_server_has_no_process_without_its_broker() {
    if !is_apart() {
        return skipped("bubblewrap cannot make a namespace here, and nothing else keeps a daemon from staying");
    }
    let Some((mut world, developer)) = odd() else { return };
    // A duration that nobody else sleeps for.
    let seconds = format!("87654.{}", world.ids.below(1_000_000_000));
    let state = world.path("state/odd").to_str().unwrap().to_owned();
    for is_killed in [false, true] {
        let reply = developer.ask(call("odd", "read", &json!({ "mode": "grandchild", "seconds": seconds })));
        assert_eq!(code(&reply), "executed", "{reply}");
        assert!(runs(&seconds) && runs(&state));
        world.end_with(is_killed, &[&state, &seconds]);
        world.start_process();
    }
    // And what it leaves behind ends with it.
    developer.ask(call("odd", "read", &json!({ "mode": "grandchild", "seconds": seconds })));
    assert_eq!(code(&developer.ask(read("die"))), "provider_failed");
    until("its end", || (!runs(&seconds)).then_some(()));
}

/// Attack (Definitions and servers): A hostile server reads the home, the keys or others' secrets,
/// or leaves processes behind.
/// Defence: It runs in the same sandbox as a bridge.
#[test]
fn a_hostile_server_reaches_nothing_of_the_brokers() {
    if !is_apart() {
        return skipped("bubblewrap cannot make a namespace here");
    }
    let Some((mut world, developer)) = odd() else { return };
    let path = |name: &str| world.path(name).to_str().unwrap().to_owned();
    anothers(&world);
    let files: Vec<String> = BROKERS.into_iter().map(path).collect();
    assert!(files.iter().all(|file| std::fs::exists(file).unwrap()), "they are there");
    let wanted = json!({
        "mode": "look", "files": files, "write": path("accepted/odd.json"), "socket": path("broker.sock"), "port": 1,
    });
    let reply = developer.ask(call("odd", "read", &wanted));
    let found = &reply["data"]["structuredContent"];
    for (file, read) in found["files"].as_object().unwrap_or_else(|| panic!("{reply}")) {
        assert!(read.as_str().unwrap().starts_with("no: "), "{file}: {read}");
    }
    for attempt in ["written", "socket", "port", "trigger", "terminal"] {
        assert!(found[attempt].as_str().is_some_and(|said| said.starts_with("no: ")), "{attempt}: {found}");
    }
    assert_eq!(found["machine"], json!([]), "nothing of the machine's own can be set");
    let places = found["places"].as_object().unwrap();
    let writable: Vec<&String> = places.iter().filter(|(_, said)| said.is_null()).map(|(place, _)| place).collect();
    assert_eq!(writable, ["/dev/shm", "/tmp", "/state"], "{places:?}");
    let environments = found["environments"].to_string();
    assert!(environments.contains("ODD_SECRET") && !environments.contains("CARGO"), "{environments}");
    assert!(found["processes"].as_array().unwrap().len() <= 4, "only its own: {found}");
    // With a host it has that, and no more.
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let with_host = config.replace("isolation =", "hosts = [\"api.ext.invalid\"]\nisolation =");
    world.rewrite("broker.toml", &with_host);
    world.restart();
    let wanted =
        json!({ "mode": "reach", "abstract": "none", "hosts": [["api.ext.invalid", 443], ["other.ext.invalid", 443]] });
    let reply = developer.ask(call("odd", "read", &wanted));
    let found = &reply["data"]["structuredContent"];
    assert_eq!(found["interfaces"], json!(["lo"]), "{reply}");
    assert_eq!(found["hosts"]["other.ext.invalid:443"], "no: gaierror");
    assert!(found["names"].as_str().unwrap().contains("127.0.0.2 api.ext.invalid"), "{reply}");
    world.keep_secret(SECRET);
    std::fs::remove_file(world.path("odd.secret")).unwrap();
}

/// Attack: see `a_tool_that_is_different_is_withdrawn_and_noted_until_it_is_accepted_again`.
#[test]
fn a_tool_that_is_different_is_not_called_while_another_caller_checks_it() {
    let Some((world, developer)) = odd() else { return };
    assert_eq!(text(&developer.ask(write("count"))), "1");
    let changed = call("odd", "read", &json!({ "mode": "change", "what": "slow" }));
    assert_eq!(code(&developer.ask(changed)), "executed");
    // All of these come while the list is not there.
    let asked: Vec<String> = (0..5).map(|_| developer.send(with(write("count"), "timeout_ms", 30_000))).collect();
    for id in asked {
        let refused = developer.reply(&id);
        assert_eq!(code(&refused), "definition_changed", "{refused}");
    }
    assert_eq!(std::fs::read_to_string(world.path("state/odd/writes")).unwrap(), "x");
}

#[test]
fn a_server_that_takes_long_to_start_is_waited_for() {
    let Some(mut world) = odd_home(&["--late"], TOOLS) else { return };
    open(&mut world, &["odd"]);
    let developer = world.group("developer");
    // It is not ready in time for this call, which is not sent; but it goes on starting.
    let early = developer.ask(with(write("count"), "timeout_ms", 2_000));
    assert_eq!(code(&early), "provider_failed", "{early}");
    assert!(error(&early).contains("was not ready in time"), "{early}");
    let late = until("it has started", || {
        let reply = developer.ask(write("count"));
        (code(&reply) == "executed").then_some(reply)
    });
    assert_eq!(text(&late), "1");
}

#[test]
fn a_server_that_is_busy_with_a_call_is_not_ended_because_it_does_not_list_its_tools() {
    let Some(mut world) = odd_home(&[], TOOLS) else { return };
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace("timeout_seconds = 4", "timeout_seconds = 60"));
    open(&mut world, &["odd"]);
    let developer = world.group("developer");
    assert_eq!(text(&developer.ask(with(write("block"), "timeout_ms", 90_000))), "1");
}
