//! A server says something else of its tools than what was accepted: a person is asked, and a yes counts at once.

use super::*;
use engine::approval_requests::ApprovalAnswer;
use engine::request::Command;
use provider::pinned_definitions::PinnedDefinitions;
use shared::digest::Digest;
use std::collections::BTreeSet;
use std::time::Duration;
use tests::scraper::{METRICS, Scraper};

/// The latest question about what the server says; `None` if no approval request was sent yet.
fn latest(world: &World) -> Option<Value> {
    let approval_requests =
        "SELECT id, code, state, became, caller FROM approvals WHERE kind = 'definition' ORDER BY id DESC";
    world.query(approval_requests).into_iter().next()
}

fn asked(world: &World) -> String {
    until("the approval request", || {
        let approval_request = latest(world).filter(|approval_request| approval_request["state"] == "waiting")?;
        Some(approval_request["code"].as_str()?.to_owned())
    })
}

fn became(world: &World, end: &str) {
    until("the question is over", || (latest(world)?["became"] == end).then_some(()));
}

fn answer(world: &World, approval_request: &str, yes: bool) {
    let said = world.command(json!({ "type": "answer", "code": approval_request, "yes": yes, "reason": null }));
    assert_eq!(code(&said), "executed", "{said}");
}

fn change(developer: &Group, what: &str) {
    let changed = developer.ask(call("odd", "read", &json!({ "mode": "change", "what": what })));
    assert_eq!(code(&changed), "executed", "{changed}");
}

/// The notes of the ledger under this key, oldest first.
fn noted(world: &World, key: &str) -> Vec<Value> {
    let bodies = world.rows().into_iter().filter_map(|row| serde_json::from_str::<Value>(&row.body).ok());
    bodies.filter(|body| body.get(key).is_some()).collect()
}

fn versions(world: &World) -> Vec<String> {
    let mut versions: Vec<String> = world.rows().into_iter().map(|row| row.policy_version).collect();
    versions.dedup();
    versions
}

/// Attack (Definitions and servers): A server changes its definition, and the approver agrees to
/// something outdated, an attack or a secret, or is tired.
/// Defence: The approval request shows every difference and ends when the server changes again.
/// Attacks and secrets are not offered. There is one request in ten minutes, none about denied
/// changes, and none in chats.
#[test]
fn a_person_sees_what_is_different_and_with_the_yes_it_counts_under_the_running_daemon() {
    let Some((world, developer)) = odd() else { return };
    let shim = Shim::start(&world, "developer");
    let described = || {
        let tool = shim.tools().into_iter().find(|tool| tool["name"] == "odd__write");
        tool.map(|tool| tool["description"].as_str().unwrap_or_default().to_owned())
    };
    assert!(described().unwrap().starts_with("Changes something"));
    let live_is_as_written = || {
        let live = developer.ask(json!({ "type": "ext_capabilities", "include_unavailable": true }));
        assert_eq!(live["data"]["capabilities"], developer.snapshot()["capabilities"]);
    };
    live_is_as_written();
    let process = text(&developer.ask(read("pid"))).to_owned();
    change(&developer, "description");
    assert_eq!(code(&developer.ask(write("count"))), "definition_changed");
    let approval_request = asked(&world);
    let shown = said(&world.cli(&["approvals", "show", &approval_request]));
    for line in [
        "Provider: odd",
        "Offered: page (L1), read (L1), typed (L1), write (L2)",
        "- \"/tools/[write]/description\": \"Changes something\"",
        "+ \"/tools/[write]/description\": \"Changes something else\"",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    until("nobody is offered it", || described().is_none().then_some(()));
    live_is_as_written();
    // No agent can bring it about: not by asking, and no group has put the question.
    assert_eq!(latest(&world).unwrap()["caller"], "broker");
    answer(&world, &approval_request, true);
    became(&world, "accepted");
    until("it is offered again", || described().filter(|text| text.starts_with("Changes something else")));
    live_is_as_written();
    assert_eq!(text(&developer.ask(write("count"))), "1");
    assert_eq!(text(&developer.ask(read("pid"))), process, "what is connected stays so");
    // The row of the exchange comes after the yes, and what is decided from then on names other terms.
    let [exchanged] = &noted(&world, "exchanged")[..] else { panic!("{:?}", noted(&world, "exchanged")) };
    let accepted = PinnedDefinitions::load(&world.path("accepted/odd.json")).unwrap().unwrap();
    assert_eq!(exchanged["digest"], accepted.digest().to_string());
    assert!(accepted.said()["tools"].to_string().contains("Changes something else"));
    let [.., before, after] = &versions(&world)[..] else { panic!("{:?}", versions(&world)) };
    assert!(before != after && exchanged["policy_version"] == *after, "{before} {exchanged}");
    let kinds: Vec<String> = world.rows().into_iter().map(|row| row.kind).collect();
    let at = |kind: &str| kinds.iter().rposition(|own| own == kind).unwrap();
    assert!(at("asked") < at("approved") && at("approved") < at("noted"), "{kinds:?}");
}

#[test]
fn the_metrics_keep_their_counts_when_definitions_are_accepted() {
    let Some(mut world) = odd_home(&[], TOOLS) else { return };
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{config}{METRICS}"));
    open(&mut world, &["odd"]);
    let developer = world.group("developer");
    let scraper = Scraper::of(&world);
    let executed =
        |action: &str| format!("host_broker_calls_total{{action=\"{action}\",outcome=\"executed\",provider=\"odd\"}}");
    change(&developer, "description");
    let approval_request = asked(&world);
    answer(&world, &approval_request, true);
    became(&world, "accepted");
    until("it can be called again", || (code(&developer.ask(write("count"))) == "executed").then_some(()));
    let after = scraper.samples();
    assert_eq!([after[&executed("read")], after[&executed("write")]].map(|count| count.to_string()), ["1", "1"]);
}

/// Attack: see
/// `a_person_sees_what_is_different_and_with_the_yes_it_counts_under_the_running_daemon`.
#[test]
fn after_a_no_nobody_is_asked_the_same_again_and_what_is_taken_back_is_asked_no_more() {
    let Some((world, developer)) = odd() else { return };
    change(&developer, "description");
    let approval_request = asked(&world);
    // A definition that the server no longer has cannot be approved.
    change(&developer, "back");
    became(&world, "cancelled");
    let late = world.command(json!({ "type": "answer", "code": approval_request, "yes": true, "reason": null }));
    assert!(error(&late).contains("too late"), "{late}");
    assert_eq!(code(&developer.ask(write("count"))), "executed");
    // A server that changes all the time makes no endless requests.
    let approval_requests = || world.query("SELECT became FROM approvals WHERE kind = 'definition'").len();
    see_it_changed(&world, &developer);
    assert_eq!(approval_requests(), 1);
    // Later it is asked again, and after a no not about the same.
    an_hour_later(&world);
    see_it_changed(&world, &developer);
    let approval_request = asked(&world);
    answer(&world, &approval_request, false);
    became(&world, "denied");
    an_hour_later(&world);
    see_it_changed(&world, &developer);
    assert_eq!(approval_requests(), 2);
    assert_eq!(noted(&world, "exchanged").len(), 0);
}

/// The server is looked at, and says something else.
fn see_it_changed(world: &World, developer: &Group) {
    change(developer, "back");
    assert_eq!(code(&developer.ask(read("echo"))), "executed");
    change(developer, "description");
    let before = world.rows().len();
    assert_eq!(code(&developer.ask(write("count"))), "definition_changed");
    // Earlier changes are handled before later ones.
    until("it is noted", || (noted(world, "redefined").last()?["withdrawn"]["write"].is_string()).then_some(()));
    assert!(world.rows().len() > before);
}

/// As if the questions had been put long ago.
fn an_hour_later(world: &World) {
    let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    ledger.busy_timeout(Duration::from_secs(10)).unwrap();
    ledger.execute("UPDATE approvals SET asked_at = asked_at - 3600000", []).unwrap();
}

/// Attack (Definitions and servers): An accepted definition has no record, is lost when the daemon
/// dies, or prevents the next start.
/// Defence: The approval and the exchange have rows. The exchange is made at the next start.
/// Definitions that no daemon could start with are not stored.
#[test]
fn a_yes_that_nobody_took_up_counts_from_the_next_start() {
    let Some((mut world, developer)) = odd() else { return };
    change(&developer, "for_good");
    let approval_request = asked(&world);
    world.kill();
    assert_eq!(code(&world.in_place(&answered(&approval_request))), "executed");
    assert_eq!(latest(&world).unwrap()["state"], "approved");
    world.start_process();
    became(&world, "accepted");
    assert_eq!(text(&developer.ask(write("count"))), "1");
}

/// Attack: see
/// `a_person_sees_what_is_different_and_with_the_yes_it_counts_under_the_running_daemon`.
#[test]
fn a_yes_is_none_any_more_once_an_operator_has_accepted_something_else() {
    let Some((mut world, developer)) = odd() else { return };
    change(&developer, "for_good");
    let approval_request = asked(&world);
    world.kill();
    assert_eq!(code(&world.in_place(&answered(&approval_request))), "executed");
    let other = Command::AcceptDefinitions {
        provider: "odd".parse().unwrap(),
        digest: Digest::of(b"something else"),
        flagged: BTreeSet::new(),
    };
    assert_eq!(code(&world.in_place(&other)), "executed");
    assert_eq!(latest(&world).unwrap()["became"], "cancelled");
    let before = std::fs::read(world.path("accepted/odd.json")).unwrap();
    world.start_process();
    assert_eq!(code(&developer.ask(write("count"))), "definition_changed");
    assert_eq!(std::fs::read(world.path("accepted/odd.json")).unwrap(), before);
    assert_eq!(noted(&world, "exchanged").len(), 0);
}

fn answered(approval_request: &str) -> Command {
    Command::Answer(ApprovalAnswer::new(approval_request.to_owned(), true, None, false))
}

#[test]
fn definitions_accepted_by_command_are_in_force_at_once_and_close_the_approval_request() {
    let Some((world, developer)) = odd() else { return };
    let process = text(&developer.ask(read("pid"))).to_owned();
    change(&developer, "for_good");
    asked(&world);
    accept(&world, "odd");
    became(&world, "cancelled");
    assert_eq!(text(&developer.ask(write("count"))), "1");
    assert_eq!(text(&developer.ask(read("pid"))), process);
    // Nothing has changed since, so nothing is different.
    let again = said(&world.cli(&["provider", "accept", "odd"]));
    assert!(again.contains("These definitions are accepted"), "{again}");
}

#[test]
fn a_tool_that_is_new_is_offered_once_it_is_accepted_and_granted() {
    let Some(mut world) = odd_home(&[], "read = { level = 1, exposes = [] }\nwrite = { level = 2, exposes = [] }")
    else {
        return;
    };
    open(&mut world, &["odd"]);
    let developer = world.group("developer");
    change(&developer, "for_good");
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    asked(&world);
    // The running daemon does not know the new configuration, and the question is about the rest.
    world.rewrite("broker.toml", &config.replace("write = {", "page = { level = 1, exposes = [] }\nwrite = {"));
    world.restart();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "odd", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    assert_eq!(code(&developer.ask(write("count"))), "definition_changed");
    // It was asked with another table, so that question is none any more.
    until("the old question is over", || {
        let all = world.query("SELECT became FROM approvals WHERE kind = 'definition' ORDER BY id");
        (all.first()?["became"] == "cancelled").then_some(())
    });
    accept(&world, "odd");
    assert_eq!(code(&developer.ask(call("odd", "page", &json!({ "mode": "echo" })))), "executed");
    assert_eq!(text(&developer.ask(write("count"))), "1");
}

/// Attack: see
/// `a_person_sees_what_is_different_and_with_the_yes_it_counts_under_the_running_daemon`.
#[test]
fn definitions_with_an_attack_or_a_secret_make_no_approval_request() {
    let Some((mut world, developer)) = odd() else { return };
    for what in ["attack", "secret"] {
        change(&developer, what);
        assert_eq!(code(&developer.ask(write("count"))), "definition_changed", "{what}");
    }
    until("both were seen", || {
        let log = world.daemon_log();
        let both = ["looks like an attack on an agent", "it holds a secret of the broker's own"];
        both.iter().all(|why| log.contains(why)).then_some(())
    });
    assert_eq!(latest(&world), None);
    world.keep_secret(SECRET);
    std::fs::remove_file(world.path("odd.secret")).unwrap();
}

/// Attack: see `a_yes_that_nobody_took_up_counts_from_the_next_start`.
#[test]
fn definitions_that_no_daemon_would_start_with_are_not_accepted() {
    let Some((world, developer)) = odd() else { return };
    let profile = "write = \"auto\"\n[providers.odd]\nactions = { write = \"human\" }\n";
    world.rewrite("policy/profiles/developer.toml", profile);
    change(&developer, "gone_for_good");
    let shown = world.cli(&["--json", "provider", "accept", "odd"]);
    let digest = serde_json::from_slice::<Value>(&shown.stdout).unwrap()["digest"].as_str().unwrap().to_owned();
    let refused = world.cli(&["provider", "accept", "odd", "--digest", &digest]);
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    assert!(said(&refused).contains("developer.toml"), "{}", said(&refused));
    assert!(!std::fs::read_to_string(world.path("accepted/odd.json")).unwrap().contains("gone"));
    assert_eq!(noted(&world, "exchanged").len(), 0);
}
