//! The first hour of a new operator: errors that name the remedy, and results that are complete.

use super::world::World;
use serde_json::{Value, json};

fn step<'a>(explained: &'a Value, name: &str) -> &'a Value {
    explained["steps"].as_array().unwrap().iter().find(|step| step["step"] == name).unwrap()
}

#[test]
fn an_unknown_action_is_explained_as_such_by_every_step_that_needs_it() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let explained = world.run(&["explain", "developer", "mock.fly", "--json"]).json();
    for name in ["catalogue", "level", "parameters", "guardrails", "task and gate"] {
        assert_eq!(step(&explained, name)["code"], "unknown_action", "{name}");
    }
    assert!(!explained.to_string().contains("no_grant"), "{explained}");
    let near = world.run(&["explain", "developer", "mock.ecko"]).ok();
    assert!(near.contains("mock has no action `ecko` (did you mean 'echo'?)."), "{near}");
    let far = world.run(&["explain", "developer", "mok.echo"]).ok();
    assert!(far.contains("The configuration has no provider `mok` (did you mean 'mock'?)."), "{far}");
}

#[test]
fn a_grant_says_what_it_can_never_permit() {
    let world = World::with_mock();
    let allow_and_deny = ["grant", "developer", "mock", "1", "--allow", "echo", "--deny", "echo"];
    world.run(&allow_and_deny).fails(2, &["`echo` is in --allow and in --deny"]);
    world.run(&["grant", "developer", "mock", "1", "--expires-in", "99999999999999d"]).fails(3, &["year 9999"]);
    let gated = world.run(&["grant", "developer", "mock", "3", "--gate", "Security"]).ok();
    assert!(!gated.contains("no gate"), "{gated}");
    let open = world.run(&["grant", "developer", "mock", "3"]).ok();
    assert!(open.contains("names no gate") && open.contains("charge"), "{open}");
    let read = world.run(&["grant", "developer", "mock", "3", "--deny", "charge"]).ok();
    assert!(!read.contains("names no gate"), "{read}");
}

#[test]
fn the_rates_of_a_grant_are_listed_with_what_is_taken_of_them() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1", "--rate-per-minute", "7", "--daily-quota", "5"]).ok();
    let _daemon = world.serve();
    assert_eq!(world.call("r1", "echo", &json!({}), None)["status"], "executed");
    let listed = world.run(&["limits", "--json"]).json();
    let of = |scope: &str| listed["limits"].as_array().unwrap().iter().find(|row| row["scope"] == scope).cloned();
    let grant = of("grant").unwrap();
    assert_eq!((&grant["rate_per_minute"], &grant["taken"]), (&json!(7), &json!(1)));
    assert_eq!((&grant["daily_quota"], &grant["used"]), (&json!(5), &json!(1)));
    assert_eq!(of("read").unwrap()["rate_per_minute"], 1200);
    assert_eq!(of("write"), None, "the grant does not reach it");
    let table = world.run(&["limits"]).ok();
    assert!(table.contains("1 of 7 calls") && table.contains("1 of 5 calls"), "{table}");
}

#[test]
fn a_bearer_that_could_not_be_shown_is_a_fault_that_names_how_to_end_it() {
    let world = World::with_mock();
    let (code, err) = world.run_on_full_disk(&["operator-token", "create", "--scopes", "flows:read", "--json"]);
    assert_eq!(code, 1, "{err}");
    for part in ["No space left", "its bearer was not printed", "operator-token revoke"] {
        assert!(err.contains(part), "{err}");
    }
    for arguments in [&["web", "token", "alice"][..], &["token", "key"], &["status", "--json"], &["evidence", "head"]] {
        let (code, err) = world.run_on_full_disk(arguments);
        assert!(code == 1 && err.contains("No space left"), "{arguments:?}: {code} {err}");
    }
}

#[test]
fn a_list_of_a_name_that_nobody_knows_names_the_nearest_one() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    world.run(&["calls", "list", "--group", "develper"]).fails(3, &["did you mean `developer`?"]);
    world.run(&["calls", "list", "--provider", "mok"]).fails(3, &["did you mean `mock`?"]);
    world.run(&["calls", "tail", "--group", "develper"]).fails(3, &["did you mean `developer`?"]);
    world.run(&["proposals", "list", "--group", "develper"]).fails(3, &["did you mean `developer`?"]);
    world.run(&["calls", "list", "--action", "ecko"]).fails(3, &["no action `ecko`", "did you mean `echo`?"]);
    world.run(&["notices", "list", "--channel", "phone"]).fails(3, &["no channel `phone`"]);
    world.run(&["calls", "list", "--group", "developer"]).ok();
    world.run(&["calls", "list", "--action", "echo"]).ok();
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_its_own_remedy() {
    let world = World::with_mock();
    let profile = world.home.join("policy/profiles/main.toml");
    std::fs::remove_file(&profile).unwrap();
    std::fs::create_dir(&profile).unwrap();
    let said = world.run(&["config", "check"]);
    assert!(!said.err.contains("init"), "{said:?}");
    said.fails(4, &["main.toml", "put a file in its place"]);
    std::fs::remove_dir(&profile).unwrap();
    std::fs::write(&profile, [0xff, 0xfe]).unwrap();
    let said = world.run(&["config", "check"]);
    assert!(!said.err.contains("init"), "{said:?}");
    said.fails(4, &["main.toml", "save it as UTF-8"]);
    World::empty().run(&["config", "check"]).fails(4, &["host-broker init"]);
}

#[test]
fn a_table_that_is_there_twice_is_named() {
    let world = World::with_mock();
    world.append("broker.toml", "\n[flows.external_agent]\nenabled = true\n\n[flows.external_agent]\nenabled = true\n");
    world.run(&["config", "check"]).fails(4, &["`external_agent` occurs twice", "line "]);
}

#[test]
fn a_number_that_does_not_fit_is_told_with_its_range() {
    let world = World::with_mock();
    world.append("broker.toml", "\n[limits.developer.mock]\nread = { rate_per_minute = -1 }\n");
    world.run(&["config", "check"]).fails(4, &["rate_per_minute", "a whole number from 0 to 4294967295"]);
}

#[test]
fn the_line_for_a_token_is_printed_although_its_placeholder_is_still_there() {
    let world = World::with_mock();
    world.append("broker.toml", "\n[people.alice]\nweb_token_sha256 = \"…\"\n");
    world.run(&["status"]).fails(4, &["people.alice.web_token_sha256", "host-broker web token"]);
    let printed = world.run(&["web", "token", "alice"]).ok();
    assert!(printed.contains("not valid yet: ") && printed.contains("web_token_sha256 = \""), "{printed}");
    let line = printed.lines().find(|line| line.trim().starts_with("web_token_sha256")).unwrap();
    let config = world.read("broker.toml").replace("web_token_sha256 = \"…\"", line.trim());
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    world.run(&["config", "check"]).ok();
}

#[test]
fn a_mock_home_takes_what_its_owner_adds_and_the_home_of_another_broker_is_refused() {
    let world = World::empty();
    let home = world.home.to_str().unwrap();
    let ready = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["ready"] == true);
    let mut mock = world.start(&["mock", "--json", "--home", home]);
    assert!(ready(&mock.line()));
    world.run(&["stop"]).ok();
    assert_eq!(mock.end(), 0);
    world.append("broker.toml", "\n[people.alice]\napproves = {}\n");
    let mut mock = world.start(&["mock", "--json", "--home", home]);
    assert!(ready(&mock.line()), "a person more");
    world.run(&["stop"]).ok();
    assert_eq!(mock.end(), 0);
    world.append("broker.toml", "\n[providers.logs]\nkind = \"cloud-logs\"\nroot = \"/var/log\"\n");
    world.run(&["mock"]).fails(4, &["the home of another broker"]);
}

#[test]
fn every_command_that_a_result_suggests_names_the_home() {
    let world = World::with_mock();
    let home = world.home.to_str().unwrap();
    let named = format!("host-broker --home {home} ");
    let suggested: [&[&str]; 4] = [
        &["group", "add", "night", "--home", home],
        &["web", "token", "alice", "--home", home],
        &["status", "--home", home],
        &["flow", "propose", "--starter", "incident_triage", "--home", home],
    ];
    for arguments in suggested {
        let printed = world.run(arguments).ok();
        assert_eq!(
            printed.matches("host-broker ").count(),
            printed.matches(&named).count(),
            "{arguments:?}: {printed}"
        );
    }
    // A sentence has no command in it.
    let _daemon = world.serve();
    let refused = world.run(&["serve", "--home", home]);
    assert!(refused.err.contains("another host-broker runs on this home"), "{refused:?}");
}
