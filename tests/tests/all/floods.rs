//! One group that sends too much: neither the other groups nor the disk pay for it.

use serde_json::{Value, json};
use std::time::Duration;
use tests::group::{call, code, error, with};
use tests::world::CONFIG;
use tests::{Group, World, evidence, skipped, until};

/// The bound on the daemon's memory, for any load of a group.
const MEMORY_MAX_KIB: u64 = 256 * 1024;

/// Makes a world whose daemon is a process, so that its memory can be read.
fn measured(config: &str) -> World {
    let mut world = World::builder().config(config).down();
    world.start();
    world.grant("developer", 1);
    world.stop();
    world.start_process();
    world
}

fn small_budget() -> World {
    let world = World::builder().config(&CONFIG.replace("[broker]", "[broker]\nevidence_mib_per_hour = 1")).up();
    world.grant("developer", 2);
    world
}

fn rows(world: &World, caller: &str, kind: &str) -> usize {
    world.query(&format!("SELECT seq FROM ledger WHERE caller = '{caller}' AND kind = '{kind}'")).len()
}

/// Attack (Load and space): A document has thousands of equal numbers, tens of thousands of values,
/// or deeply nested lists.
/// Defence: Parsing counts values and keys, at most 20,000. There is one pass and at most twenty
/// reported faults. A second thread parses long documents, one of each group at a time, for at most
/// half of the time.
#[test]
fn equal_numbers_that_cannot_be_kept_cost_no_more_than_their_document() {
    let world = measured(CONFIG);
    let numbers = vec!["9007199254740993"; 4_000].join(",");
    for (group, expected) in [("security", "no_grant"), ("developer", "invalid_params")] {
        let group = world.group(group);
        let id = group.fresh_id();
        let document = format!(
            r#"{{"type":"ext_call","request_id":"{id}","provider":"demo","action":"echo","params":{{"n":[{numbers}]}}}}"#
        );
        group.put(&format!("{id}.json"), document);
        let reply = group.reply(&id);
        assert_eq!(code(&reply), expected, "{reply}");
        if expected == "invalid_params" {
            assert_eq!(error(&reply).matches("cannot be kept exactly").count(), 20, "{reply}");
            assert!(error(&reply).contains("/n/19:") && !error(&reply).contains("/n/20:"), "{reply}");
        }
    }
    assert!(world.peak_memory() < MEMORY_MAX_KIB, "{} KiB", world.peak_memory());
}

/// Attack: see `equal_numbers_that_cannot_be_kept_cost_no_more_than_their_document`.
#[test]
fn a_document_of_too_many_values_is_refused_unread() {
    let world = World::with_grant();
    let developer = world.group("developer").by_files();
    let of = |n: usize| call("echo", json!({ "n": vec![0; n] }));
    assert_eq!(code(&developer.ask(of(19_000))), "executed");
    let refused = developer.ask(with(of(20_000), "request_id", "too-many"));
    assert_eq!(code(&refused), "malformed_request");
    assert!(error(&refused).contains("more than 20000 values and keys"), "{refused}");
}

/// Attack (Load and space): Many of the largest documents fill the memory.
/// Defence: Documents in progress count by bytes and values: 16 MiB per group, 96 MiB in total.
/// Short ones have a reserve, so that a cancel is accepted.
#[test]
fn long_documents_of_one_group_hold_no_more_than_its_share_of_memory() {
    let config = CONFIG.replace("[broker]", "[broker]\nmax_concurrent_calls = 64");
    // A slow machine may parse all of them for a minute.
    let world = measured(&config.replace("call_timeout_ms = 60000", "call_timeout_ms = 120000"));
    let developer = world.group("developer");
    // Each has as many values as a document may have, and runs until all of them have come.
    let values: Vec<Value> = (0..9_000).map(|n| json!([n])).collect();
    let ids: Vec<String> = (0..48)
        .map(|n| {
            developer.send(call("wait", json!({ "ms": 300, "n": n, "values": values, "text": "x".repeat(600_000) })))
        })
        .collect();
    for id in ids {
        assert_eq!(code(&developer.reply(&id)), "executed");
    }
    assert!(world.peak_memory() < MEMORY_MAX_KIB, "{} KiB", world.peak_memory());
}

/// Attack: see `long_documents_of_one_group_hold_no_more_than_its_share_of_memory`.
#[test]
fn a_group_with_long_documents_under_way_can_still_cancel() {
    let world = World::with_grant();
    let developer = world.group("developer").by_files();
    let long = "x".repeat(1_000_000);
    let ids: Vec<String> =
        (0..12).map(|n| developer.send(call("wait", json!({ "ms": 2_000, "n": n, "text": long })))).collect();
    let reply = until("the first one runs", || {
        let reply = developer.ask(json!({ "type": "ext_cancel", "of": ids[0] }));
        (reply["data"]["state"] == "running").then_some(reply)
    });
    assert_eq!(code(&reply), "executed", "{reply}");
}

/// Attack (Load and space): `tasks/` contains any number of names.
/// Defence: A listing is read in small parts, for at most a tenth of the time. A directory with too
/// many notifications is listed instead of watched.
#[test]
fn a_directory_of_many_names_is_read_bit_by_bit_and_its_requests_are_found() {
    let world = World::with_grant();
    let (flooder, other) = (world.group("developer"), world.group("security"));
    world.grant("security", 1);
    for n in 0..20_000 {
        std::fs::write(flooder.task(&format!("junk-{n}")), "").unwrap();
    }
    assert_eq!(code(&other.call("echo", json!({}))), "executed");
    assert_eq!(code(&flooder.call("echo", json!({}))), "executed");
}

/// Attack (Load and space): A group without a grant sends requests at full speed.
/// Defence: While other groups are served, documents that are answered at once get 1/200 of the
/// loop's time.
#[test]
fn refusals_of_one_group_get_little_of_the_time_while_another_group_works() {
    const REFUSED: usize = 3_000;
    let world = World::with_grant();
    let (developer, security) = (world.group("developer").by_files(), world.group("security").by_files());
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    for _ in 0..REFUSED {
        security.send(call("echo", json!({})));
    }
    // Four documents of a group fit into a batch: without a bound on their time, all of them would be answered by then.
    for _ in 0..REFUSED / 4 {
        assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    }
    let waiting = security.waiting();
    assert!((REFUSED / 2..REFUSED).contains(&waiting), "{waiting} of {REFUSED} wait");
}

/// Attack (Load and space): a group's many refused documents delay its permitted ones
/// Defence: two lanes: the worker sorts waiting documents by the group's snapshot, each lane has
/// its own pace and order
#[test]
fn a_permitted_call_overtakes_the_refused_ones_of_its_group() {
    const REFUSED: usize = 3_000;
    let mut world = World::builder().down();
    world.start_process();
    for group in ["developer", "security"] {
        let output = world.cli(&["grant", group, "demo", "1"]);
        assert!(output.status.success(), "{output:?}");
    }
    let (developer, security) = (world.group("developer").by_files(), world.group("security").by_files());
    // Another group is served, so the refused documents are paced.
    assert_eq!(code(&security.call("echo", json!({}))), "executed");
    // All are there before the broker looks, however fast it is.
    world.stand_still();
    let refused: Vec<String> =
        (0..REFUSED).map(|_| developer.send(with(call("echo", json!({})), "provider", "private"))).collect();
    let long = "x".repeat(100_000);
    let permitted = [
        developer.send(call("echo", json!({ "n": 1 }))),
        developer.send(call("echo", json!({ "text": long }))),
        developer.send(call("echo", json!({ "n": 2 }))),
    ];
    world.go_on();
    for id in &permitted {
        assert_eq!(code(&developer.reply(id)), "executed");
    }
    let waiting = developer.waiting();
    assert!(waiting > 0, "all refused ones went first");
    // The refused ones keep their order: who is answered was sent before who is not.
    let is_answered = |id: &String| developer.response(&format!("{id}.json")).exists();
    let last = refused.iter().rposition(is_answered).expect("some are answered");
    assert!(refused[..last].iter().all(is_answered), "{last} of {REFUSED}");
}

/// Attack (Load and space): documents that only look permitted: dry runs, repeats,
/// `ext_capabilities`
/// Defence: the same bound for their lane; the data of `ext_capabilities` is made once for each
/// change
#[test]
fn requests_that_only_look_permitted_get_little_of_the_time_while_another_group_works() {
    const ASKED: usize = 3_000;
    let world = World::with_grant();
    world.grant("security", 1);
    let (developer, security) = (world.group("developer").by_files(), world.group("security").by_files());
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    for _ in 0..ASKED {
        security.send(with(call("strict", json!({})), "dry_run", true));
    }
    for _ in 0..ASKED / 4 {
        assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    }
    let waiting = security.waiting();
    assert!((ASKED / 2..ASKED).contains(&waiting), "{waiting} of {ASKED} wait");
}

/// Attack: see `requests_that_change_nothing_are_counted_when_there_are_too_many`.
#[test]
fn of_a_result_that_is_asked_for_again_and_again_one_copy_is_kept() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let first = developer.send(call("echo", json!({ "text": "x".repeat(200_000) })));
    assert_eq!(code(&developer.reply(&first)), "executed");
    for _ in 0..10 {
        let again = developer.ask(json!({ "type": "ext_result", "of": first }));
        assert_eq!(again["data"]["text"].as_str().unwrap().len(), 200_000);
    }
    let kept = world.query("SELECT sum(length(reply)) AS bytes FROM replies");
    assert!(kept[0]["bytes"].as_i64().unwrap() < 300_000, "{kept:?}");
    // The same request is answered again, from the one copy.
    let again = with(json!({ "type": "ext_result", "of": first }), "request_id", "once-more");
    assert_eq!(developer.ask(again.clone())["data"], developer.ask(again)["data"]);
}

#[test]
fn reading_requests_are_answered_again_after_a_restart() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    let asked = with(json!({ "type": "ext_capabilities" }), "request_id", "what-may-i");
    let first = developer.ask(asked.clone());
    assert_eq!(code(&first), "executed");
    world.restart();
    assert_eq!(code(&developer.ask(asked.clone())), "executed");
    // The id is still taken.
    assert_eq!(code(&developer.ask(with(call("echo", json!({})), "request_id", "what-may-i"))), "replayed_request");
}

/// Attack (Load and space): Rows and stored replies fill the disk: refusals, `ext_capabilities`,
/// `ext_result`, dry runs, repeats.
/// Defence: Each group has an hourly budget of evidence (`evidence_mib_per_hour`). Beyond an eighth
/// of it, requests that change nothing share one row per minute. One copy of each result is stored.
/// Each caller has 64 MiB of stored replies.
#[test]
fn requests_that_change_nothing_are_counted_when_there_are_too_many() {
    let world = small_budget();
    let nobody = world.group("security");
    let mut evidence_of_all = Vec::new();
    for n in 0..400 {
        let reply = nobody.call("charge", json!({ "n": n }));
        assert_eq!(code(&reply), "no_grant");
        evidence_of_all.push(reply["evidence"]["seq"].as_i64().expect("evidence"));
    }
    let own = rows(&world, "group:security", "refused");
    assert!((50..350).contains(&own), "{own} rows of their own");
    evidence_of_all.dedup();
    assert_eq!(evidence_of_all.len(), own, "the others rest on the last row");
    // Reading what one may do is counted apart, and still answered in full.
    let capabilities = nobody.ask(json!({ "type": "ext_capabilities" }));
    assert_eq!(code(&capabilities), "executed");
    world.clock.advance(Duration::from_secs(61));
    let counted = until("the count is written", || {
        world.query("SELECT body FROM ledger WHERE kind = 'folded'").into_iter().next()
    });
    let body: Value = serde_json::from_str(counted["body"].as_str().unwrap()).unwrap();
    assert_eq!(body["count"].as_u64().unwrap(), 400 - u64::try_from(own).unwrap(), "{body}");
    // An hour later there is a row for each again.
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(code(&nobody.call("charge", json!({}))), "no_grant");
    assert_eq!(rows(&world, "group:security", "refused"), own + 1);
    evidence::verify(&world.home());
}

/// Attack: see `requests_that_change_nothing_are_counted_when_there_are_too_many`.
#[test]
fn a_group_whose_calls_have_caused_too_much_evidence_is_refused_and_the_others_are_not() {
    let world = small_budget();
    world.grant("security", 1);
    let (loud, quiet) = (world.group("developer"), world.group("security"));
    let text = "x".repeat(100_000);
    let codes: Vec<String> =
        (0..14).map(|n| code(&loud.call("echo", json!({ "n": n, "text": text }))).to_owned()).collect();
    assert_eq!(codes[..10], vec!["executed"; 10][..]);
    assert_eq!(codes.last().unwrap(), "rate_limited");
    let refused = loud.call("echo", json!({}));
    assert!(error(&refused).contains("1 MiB an hour") && refused["retry_after_ms"].is_u64(), "{refused}");
    assert_eq!(code(&quiet.call("echo", json!({ "text": text }))), "executed");
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(code(&loud.call("echo", json!({}))), "executed");
}

/// Attack (Load and space): The disk becomes full anyway.
/// Defence: Below a watermark, the broker refuses the caller that has used most first.
#[test]
fn on_a_nearly_full_disk_the_group_that_has_used_most_is_refused_first() {
    let mut world = World::builder().config(CONFIG).down();
    if let Err(why) = world.move_to_a_small_disk(64) {
        return skipped(&why);
    }
    world.start();
    world.grant("developer", 1);
    world.grant("security", 1);
    let (loud, quiet) = (world.group("developer"), world.group("security"));
    assert_eq!(code(&loud.call("echo", json!({ "text": "x".repeat(100_000) }))), "executed");
    assert_eq!(code(&quiet.call("echo", json!({}))), "executed");
    let ballast = world.path("ballast");
    let free = |path: &std::path::Path| {
        let disk = rustix::fs::statvfs(path).unwrap();
        disk.f_bavail * disk.f_frsize
    };
    let size = free(&world.home()) - 700_000;
    let file = std::fs::File::create(&ballast).unwrap();
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size).unwrap();
    until("the loud one is refused", || (code(&loud.call("echo", json!({}))) == "rate_limited").then_some(()));
    assert_eq!(code(&quiet.call("echo", json!({}))), "executed");
    std::fs::remove_file(ballast).unwrap();
    until("there is space again", || (code(&loud.call("echo", json!({}))) == "executed").then_some(()));
}

#[test]
fn a_group_that_replaces_its_responses_is_heard_at_once() {
    let world = World::with_grant();
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    let responses = developer.directory().join("responses");
    std::fs::rename(&responses, developer.directory().join("aside")).unwrap();
    std::fs::create_dir(&responses).unwrap();
    until("the change is noted", || {
        world.query("SELECT seq FROM ledger WHERE body LIKE '%reopened%'").into_iter().next()
    });
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
}

/// The watches of the daemon.
fn watches(world: &World) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fdinfo", world.pid().as_raw_nonzero())).unwrap();
    let texts = descriptors.filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok());
    texts.map(|text| text.lines().filter(|line| line.starts_with("inotify wd:")).count()).sum()
}

/// A directory that is moved away keeps its watch, and the system has a limited number of them.
#[test]
fn a_group_that_replaces_its_requests_again_and_again_uses_no_more_watches() {
    let world = World::builder().process();
    world.grant("developer", 1);
    let developer = world.group("developer").by_files();
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    let (tasks, before) = (developer.directory().join("tasks"), watches(&world));
    assert!(before > 0);
    for n in 0..3 {
        std::fs::rename(&tasks, developer.directory().join(format!("aside-{n}"))).unwrap();
        std::fs::create_dir(&tasks).unwrap();
        assert_eq!(code(&developer.call("echo", json!({}))), "executed");
        assert_eq!(watches(&world), before, "after replacement {n}");
    }
}

/// The directories are looked at once a second at most. A reply is not written into one that was replaced meanwhile.
#[test]
fn a_reply_does_not_lie_in_a_directory_that_was_replaced_just_before() {
    let world = World::with_grant();
    let developer = world.group("developer");
    for n in 0..3 {
        let responses = developer.directory().join("responses");
        std::fs::rename(&responses, developer.directory().join(format!("aside-{n}"))).unwrap();
        std::fs::create_dir(&responses).unwrap();
        assert_eq!(code(&developer.call("echo", json!({}))), "executed", "after replacement {n}");
    }
    let noted = || world.query("SELECT seq FROM ledger WHERE body LIKE '%reopened%'").into_iter().next();
    until("the change is noted", noted);
}

/// Between the two steps of a replacement there is no directory. The reply waits for the next one.
#[test]
fn a_reply_waits_while_its_directory_is_moved_away() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let (responses, aside) = (developer.directory().join("responses"), developer.directory().join("aside"));
    std::fs::rename(&responses, &aside).unwrap();
    let id = developer.send(call("echo", json!({})));
    until("an outcome", || world.kinds_of(&developer, &id).contains(&"succeeded".to_owned()).then_some(()));
    std::fs::create_dir(&responses).unwrap();
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert!(!aside.join(format!("{id}.json")).exists());
}

/// Attack (Load and space): a group replaces its directories in a loop, which causes a row and a
/// snapshot each time
/// Defence: the pause between two looks doubles, up to a minute
#[test]
fn a_group_that_replaces_its_responses_again_and_again_causes_few_rows() {
    let world = World::with_grant();
    world.grant("security", 1);
    let (developer, other) = (world.group("developer"), world.group("security"));
    let responses = developer.directory().join("responses");
    for n in 0..100 {
        std::fs::rename(&responses, developer.directory().join(format!("aside-{n}"))).unwrap();
        std::fs::create_dir(&responses).unwrap();
        assert_eq!(code(&other.call("echo", json!({}))), "executed");
    }
    // The last one is found too.
    until("a reply in the last directory", || {
        let id = developer.send(call("echo", json!({})));
        until("an outcome", || world.kinds_of(&developer, &id).contains(&"succeeded".to_owned()).then_some(()));
        developer.try_reply(&id)
    });
    let rows =
        || Some(world.query("SELECT seq FROM ledger WHERE body LIKE '%reopened%'").len()).filter(|rows| *rows > 0);
    let rows = until("a row about it", rows);
    assert!(rows <= 10, "{rows} rows");
}

fn ask(group: &Group, n: u32) -> String {
    group.send(with(call("agree", json!({ "n": n })), "timeout_ms", 60_000))
}

fn approval_request(world: &World, id: &str) -> Option<Value> {
    let open = format!("SELECT code FROM approvals WHERE request_id = '{id}' AND state = 'waiting'");
    world.query(&open).into_iter().next()
}

/// Attack (Approvals and notices): a caller wears people down: it asks, cancels and asks again, or
/// repeats the call after each no
/// Defence: twenty approval requests at once for each group and person, then one every half minute;
/// after a no, no approval request for the same call, grant, change of files or flow for five
/// minutes, then ten, up to a day; a channel announces five approval requests of one caller at
/// once, then one every twenty seconds
#[test]
fn people_are_asked_only_so_often_however_many_questions_are_withdrawn() {
    let world = World::with_grant();
    let developer = world.group("developer");
    for n in 0..20 {
        let id = ask(&developer, n);
        until("the approval request", || approval_request(&world, &id));
        assert_eq!(developer.ask(json!({ "type": "ext_cancel", "of": id }))["data"]["cancelled"], true);
    }
    let refused = developer.reply(&ask(&developer, 20));
    assert_eq!(code(&refused), "rate_limited", "{refused}");
    assert_eq!(refused["retry_after_ms"], 30_000);
    world.clock.advance(Duration::from_secs(30));
    let id = ask(&developer, 21);
    until("one more is asked", || approval_request(&world, &id));
    assert_eq!(code(&developer.reply(&ask(&developer, 22))), "rate_limited");
}

/// Attack: see `people_are_asked_only_so_often_however_many_questions_are_withdrawn`.
#[test]
fn a_call_to_which_a_person_said_no_is_not_asked_about_again_at_once() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let deny = |id: &str| {
        let asked = until("the approval request", || approval_request(&world, id));
        world.command(json!({ "type": "answer", "code": asked["code"], "yes": false }));
    };
    let id = ask(&developer, 1);
    deny(&id);
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    let again = developer.reply(&ask(&developer, 1));
    assert_eq!(code(&again), "approval_denied");
    assert!(error(&again).contains("the broker does not ask about it again before"), "{again}");
    assert_eq!(again["retry_after_ms"], 300_000);
    // Another call is another question.
    let other = ask(&developer, 2);
    until("the other question", || approval_request(&world, &other));
    world.clock.advance(Duration::from_secs(301));
    let id = ask(&developer, 1);
    deny(&id);
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    assert_eq!(developer.reply(&ask(&developer, 1))["retry_after_ms"], 600_000, "the pause doubles");
}
