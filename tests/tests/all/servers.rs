//! MCP servers that other people wrote, as providers.

mod accepting;
mod definitions;
mod hostile;
mod oauth;
mod presets;
mod real;
mod remote;
mod resources;

use platform::commands::installed;
use serde_json::{Value, json};
use std::path::Path;
use tests::bridges::{accept, directory, said};
use tests::group::{Group, code, error, with};
use tests::servers::{Server, call, home, misbehaving, open, text};
use tests::shim::Shim;
use tests::{World, skipped, until};

const SECRET: &str = "s3cr3t-of-the-odd-server";

/// The permitted tools of the misbehaving server.
pub(super) const TOOLS: &str = "read = { level = 1, exposes = [] }\nwrite = { level = 2, exposes = [] }\n\
                     typed = { level = 1, exposes = [] }\npage = { level = 1, exposes = [\"untrusted\"] }";

/// A home with the server that misbehaves, which nobody has accepted yet; `None` where there is nothing to run it with.
pub(super) fn odd_home(arguments: &[&str], tools: &str) -> Option<World> {
    if !installed(Path::new("/usr/bin/python3")) {
        skipped("there is no python3 to run a server that misbehaves with");
        return None;
    }
    let program = misbehaving();
    let mut command = vec!["/usr/bin/python3", program.to_str().unwrap()];
    command.extend(arguments);
    let (own, shared) = (program.parent().unwrap().to_owned(), directory());
    let server = Server {
        name: "odd",
        command: &command,
        readable: &[&own, &shared],
        tools,
        more: "timeout_seconds = 4\nsecrets = { ODD_SECRET = { file = \"odd.secret\" } }",
    };
    let world = home(&[server], "[limits.developer.odd.breaker]\nfaults = 0");
    let secret = world.home().join("odd.secret");
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace("\"odd.secret\"", &format!("{secret:?}")));
    std::fs::write(&secret, SECRET).unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    Some(world)
}

/// The server that misbehaves, accepted and granted.
fn odd() -> Option<(World, Group)> {
    let mut world = odd_home(&[], TOOLS)?;
    open(&mut world, &["odd"]);
    let developer = world.group("developer");
    Some((world, developer))
}

fn read(mode: &str) -> Value {
    call("odd", "read", &json!({ "mode": mode }))
}

fn write(mode: &str) -> Value {
    call("odd", "write", &json!({ "mode": mode }))
}

#[test]
fn answers_of_a_tool_pass_through_whole_except_for_meta() {
    let Some((world, developer)) = odd() else { return };
    let echoed = developer.ask(call("odd", "read", &json!({ "mode": "echo", "path": "a/b", "deep": [{ "x": null }] })));
    let echoed: Value = serde_json::from_str(text(&echoed)).unwrap();
    // Who asks is none of its business.
    let arguments = json!({ "mode": "echo", "path": "a/b", "deep": [{ "x": null }] });
    assert_eq!(echoed, json!({ "name": "read", "arguments": arguments, "meta": ["progressToken"] }));
    let picture = developer.ask(read("picture"));
    let image = json!({ "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" });
    assert_eq!(picture["data"], json!({ "content": [{ "type": "text", "text": "look" }, image] }));
    let failed = developer.ask(read("failed"));
    assert_eq!(code(&failed), "executed");
    let said = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
    assert_eq!((&failed["data"], &failed["summary"]), (&said, &json!("read says that it failed")));
    let typed = |mode: &str| developer.ask(call("odd", "typed", &json!({ "mode": mode })));
    assert_eq!(typed("number")["data"]["structuredContent"], json!({ "n": 7 }));
    // Unless it says that it failed it keeps what it has promised.
    assert_eq!(code(&typed("failed")), "executed");
    for broken in ["words", "no_number"] {
        let reply = typed(broken);
        assert_eq!(code(&reply), "invalid_output", "{broken}: {reply}");
    }
    // An agent sees a picture as a picture, and a tool's failure as one; a program sees what a result promises to be.
    let shim = Shim::start(&world, "developer");
    let tools = shim.tools();
    let listed = tools.iter().find(|tool| tool["name"] == "odd__typed").unwrap();
    assert_eq!(listed.get("_meta"), None, "the list has no schemas of results: {listed}");
    let details = shim.call("ext_capabilities", json!({ "provider": "odd", "action": "typed" }));
    assert!(details.to_string().contains("output_schema"), "{details}");
    let shown = shim.call("odd__read", json!({ "mode": "picture" }));
    assert_eq!((&shown["content"][1], &shown["structuredContent"]), (&image, &Value::Null));
    let shown = shim.call("odd__read", json!({ "mode": "failed" }));
    assert_eq!((&shown["isError"], tests::shim::text(&shown)), (&json!(true), "no such file"));
    world.settle();
}

/// Attack: see `a_tool_that_is_different_is_withdrawn_and_noted_until_it_is_accepted_again`.
#[test]
fn only_what_was_accepted_and_given_a_level_can_be_called() {
    let Some(mut world) = odd_home(&[], "read = { level = 1, exposes = [] }") else { return };
    let refused = world.cli(&["provider", "check", "odd"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(said(&refused).contains("not accepted"), "{}", said(&refused));
    // Looking at it accepts nothing, and needs no secret.
    let shown = world.cli(&["provider", "accept", "odd"]);
    let seen = said(&shown);
    assert!(seen.contains("unlisted") && seen.contains("says it only reads"), "{seen}");
    assert!(!seen.contains("Obey me") && !seen.contains("previous instructions"), "{seen}");
    assert!(!world.path("accepted/odd.json").exists());
    // Nothing but what was looked at is accepted.
    let other = format!("sha256:{}", "0".repeat(64));
    assert_eq!(world.cli(&["provider", "accept", "odd", "--digest", &other]).status.code(), Some(3));
    open(&mut world, &["odd"]);
    let developer = world.group("developer");
    assert_eq!(code(&developer.ask(read("echo"))), "executed");
    for tool in ["write", "unlisted", "absent"] {
        assert_eq!(code(&developer.ask(call("odd", tool, &json!({ "mode": "count" })))), "unknown_action", "{tool}");
    }
    // An entry for a tool that does not exist, or without a level, is a fault of the configuration.
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.stop();
    for (line, fault, status) in [
        ("read = { level = 0 }", ".level must be 1 to 3", 4),
        ("read = { level = 4 }", "level", 4),
        ("read = { level = 1, tire = \"human\" }", "tire", 4),
        ("reed = { level = 1 }", "tools.reed: the server has no such tool; did you mean `read`?", 5),
        ("", "no tool of it is offered", 5),
    ] {
        world.rewrite("broker.toml", &config.replace("read = { level = 1, exposes = [] }", line));
        let checked = world.cli(&["provider", "check", "odd"]);
        assert!(said(&checked).contains(fault), "{line}: {}", said(&checked));
        assert_eq!(checked.status.code(), Some(status), "{line}: {}", said(&checked));
    }
}

#[test]
fn typed_tools_appear_with_their_schemas_and_vanish_when_revoked() {
    let Some((world, _)) = odd() else { return };
    let shim = Shim::start(&world, "developer");
    let own = || shim.tool_names().into_iter().filter(|name| name.starts_with("odd__")).collect::<Vec<_>>();
    assert_eq!(own(), ["odd__page", "odd__read", "odd__typed", "odd__write"]);
    let tools = shim.tools();
    let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap().clone();
    assert_eq!(tool("odd__read")["annotations"]["readOnlyHint"], true);
    assert_eq!(tool("odd__write")["annotations"]["readOnlyHint"], false);
    assert!(tool("odd__write")["description"].as_str().unwrap().contains("Changes something"));
    // The server's own schema, member for member, and the options that a call has beside it.
    let shown = &tool("odd__write")["inputSchema"];
    assert_eq!(shown["properties"]["mode"], json!({ "type": "string", "minLength": 1 }));
    assert_eq!(shown["required"], json!(["mode"]));
    assert!(shown["properties"]["idempotency_key"].is_object(), "{shown}");
    let revoke = json!({ "type": "revoke", "group_folder": "developer", "provider": "odd" });
    assert_eq!(code(&world.command(revoke)), "executed");
    until("they vanish", || own().is_empty().then_some(()));
}

/// Attack (Programs: isolation): At the time of the call, a server's tool differs from the accepted
/// one, also during another caller's look.
/// Defence: Before the call, its definition must equal the accepted digest, with one look at a
/// time. A different tool is withdrawn, recorded and offered to nobody.
///
/// Attack (Definitions and servers): A second tool has a used name, or a tool has no level.
/// Defence: Two tools of one name withdraw both. A tool without a level does not exist.
#[test]
fn a_tool_that_is_different_is_withdrawn_and_noted_until_it_is_accepted_again() {
    let Some((mut world, developer)) = odd() else { return };
    let change = |what: &str| {
        let changed = developer.ask(call("odd", "read", &json!({ "mode": "change", "what": what })));
        assert_eq!(code(&changed), "executed", "{changed}");
    };
    let status = |tool: &str| developer.snapshot()["capabilities"][0]["actions"][tool]["status"].clone();
    assert_eq!(code(&developer.ask(write("count"))), "executed");
    change("description");
    // Found before the next call, whichever that is.
    let refused = developer.ask(write("count"));
    assert_eq!((code(&refused), &refused["status"]), ("definition_changed", &json!("denied")), "{refused}");
    assert!(error(&refused).contains("differs from the accepted one"), "{refused}");
    assert_eq!(text(&developer.ask(read("writes"))), "1", "it was not called");
    until("nobody is offered it", || (status("write") == "DENIED").then_some(()));
    assert_eq!(status("read"), "available");
    let seen = said(&world.cli(&["status"]));
    assert!(seen.contains("running; write is withdrawn: its definition differs from the accepted one"), "{seen}");
    let noted = || {
        let bodies = world.rows().into_iter().filter_map(|row| serde_json::from_str::<Value>(&row.body).ok());
        bodies.filter(|body| body["redefined"] == "odd").map(|body| body["withdrawn"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(noted(), [json!({ "write": "its definition differs from the accepted one" })]);
    // It is refused before anybody asks the server again.
    let again = developer.send(write("count"));
    assert_eq!(code(&developer.reply(&again)), "definition_changed");
    assert!(
        !world.kinds_of(&developer, &again).contains(&"intent".to_owned()),
        "{:?}",
        world.kinds_of(&developer, &again)
    );
    change("back");
    assert_eq!(code(&developer.ask(read("echo"))), "executed");
    until("it is offered again", || (status("write") == "available").then_some(()));
    assert_eq!(text(&developer.ask(write("count"))), "2");
    // A second tool of a name that there is leaves none of them.
    change("shadow");
    for tool in ["read", "write"] {
        let refused = developer.ask(call("odd", tool, &json!({ "mode": "count" })));
        assert!(error(&refused).contains("two tools of one name"), "{refused}");
    }
    assert_eq!(noted().len(), 3);
    // A new start sees the server as it is then.
    world.restart();
    assert_eq!(text(&developer.ask(read("writes"))), "2");
    change("gone");
    assert!(error(&developer.ask(write("count"))).contains("does not have it any more"));
}

#[test]
fn newly_accepted_definitions_are_in_force_at_once() {
    let Some(mut world) = odd_home(&[], TOOLS) else { return };
    open(&mut world, &["odd"]);
    let developer = world.group("developer");
    // An attacker's text in the file of accepted definitions is not believed.
    let path = world.path("accepted/odd.json");
    let accepted = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, accepted.replace("Changes something", "Changes nothing")).unwrap();
    world.restart();
    assert_eq!(code(&developer.ask(read("echo"))), "provider_disabled");
    accept(&world, "odd");
    assert_eq!(code(&developer.ask(read("echo"))), "executed");
}

/// Attack: see `tools_that_cannot_be_offered_name_the_reason`.
#[test]
fn progress_is_its_numbers_and_a_cancelled_call_reports_its_outcome() {
    let Some((world, developer)) = odd() else { return };
    let developer = developer.by_files();
    let id = developer.send(with(write("report"), "timeout_ms", 60_000));
    let told = until("the numbers", || {
        let told = std::fs::read(developer.response(&format!("{id}.progress.json"))).ok()?;
        let told: Value = serde_json::from_slice(&told).ok()?;
        told.get("progress").is_some().then_some(told)
    });
    assert_eq!((&told["progress"], &told["total"]), (&json!(3.0), &json!(4.0)), "{told}");
    assert!(!told.to_string().contains("instructions"), "{told}");
    let cancelled = developer.ask(json!({ "type": "ext_cancel", "of": id }));
    assert_eq!(cancelled["data"], json!({ "cancelled": false, "state": "running" }), "{cancelled}");
    assert!(cancelled["summary"].as_str().unwrap().contains("asked to stop"), "{cancelled}");
    // The effect may have happened during that time; the answer of the server counts.
    assert_eq!(text(&developer.reply(&id)), "stopped, as was wanted");
    // A read is over at once.
    let id = developer.send(with(read("report"), "timeout_ms", 60_000));
    until("it runs", || developer.response(&format!("{id}.progress.json")).exists().then_some(()));
    assert_eq!(code(&developer.ask(json!({ "type": "ext_cancel", "of": id }))), "executed");
    let over = developer.reply(&id);
    assert!(code(&over) == "provider_failed" && error(&over).contains("it was cancelled"), "{over}");
    world.settle();
}
