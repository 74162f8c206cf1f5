//! The servers that the authors of the protocol give away, as they are installed where `EXT_TEST_SERVERS` says: `npm/` and
//! `python/`, as `.ci/install` makes them.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tests::group::{code, with};
use tests::servers::{Remote, Server, call, git, home, home_of, installed, open, text};
use tests::shim::Shim;
use tests::{World, skipped, until};

/// One of those from npm: its program, and what it can read.
fn from_npm(package: &str) -> Option<(String, PathBuf)> {
    let modules = installed("npm/node_modules")?;
    let program = modules.join("@modelcontextprotocol").join(package).join("dist/index.js");
    Some((program.to_str().unwrap().to_owned(), modules))
}

/// One of those from `PyPI`: its program, and what it can read.
fn from_pip(program: &str) -> Option<(String, Vec<PathBuf>)> {
    let own = installed("python")?;
    // The interpreter may be anywhere.
    let settings = std::fs::read_to_string(own.join("pyvenv.cfg")).unwrap();
    let bin = settings.lines().find_map(|line| line.strip_prefix("home = ")).unwrap();
    let interpreter = Path::new(bin).parent().unwrap().to_owned();
    let program = own.join("bin").join(program);
    Some((program.to_str().unwrap().to_owned(), vec![own, interpreter]))
}

fn opened(server: Server<'_>) -> World {
    let name = server.name;
    let mut world = home(&[server], "");
    open(&mut world, &[name]);
    world
}

/// The tools of a server that have no level, by its preset or by its table.
fn off(world: &World, name: &str) -> Vec<String> {
    let shown = world.cli(&["--json", "provider", "accept", name]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let tools = shown["tools"].as_array().unwrap().iter().filter(|tool| tool["level"].is_null());
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_accepted_proposals_for_a_server_spare_a_question_for_each_read() {
    let Some((program, modules)) = from_npm("server-memory") else { return };
    let more = "variables = { MEMORY_FILE_PATH = \"/state/memory.jsonl\" }";
    let server = Server { name: "memory", command: &["node", &program], readable: &[&modules], tools: "", more };
    let mut world = home(&[server], "");
    let shown = world.cli(&["--json", "provider", "accept", "memory"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["flagged"], json!([]), "{shown}");
    let digest = shown["digest"].as_str().unwrap();
    let accepted = world.cli(&["provider", "accept", "memory", "--digest", digest, "--accept-proposed"]);
    assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    world.start_process();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "memory", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    let developer = world.group("developer");
    for _ in 0..3 {
        assert_eq!(code(&developer.ask(call("memory", "read_graph", &json!({})))), "executed");
    }
    // A destructive tool still asks a person.
    let id = developer.send(call("memory", "delete_entities", &json!({ "entityNames": ["a"] })));
    until("the approval request", || {
        world.query("SELECT request_id FROM approvals").into_iter().find(|asked| asked["request_id"] == id.as_str())
    });
}

#[test]
fn everything_that_a_server_can_answer_reaches_an_agent() {
    let Some((program, modules)) = from_npm("server-everything") else { return };
    let world = opened(Server {
        name: "everything",
        command: &["node", &program, "stdio"],
        readable: &[&modules],
        tools: "echo = { level = 1, exposes = [] }\nget-env = { level = 1, exposes = [] }\n\
                get-structured-content = { level = 1, exposes = [] }\nget-tiny-image = { level = 1, exposes = [] }\n\
                get-resource-links = { level = 1, exposes = [] }\nget-resource-reference = { level = 1, exposes = [] }\n\
                trigger-long-running-operation = { level = 1, exposes = [] }",
        more: "variables = { GREETING = \"hello\" }",
    });
    let developer = world.group("developer").by_files();
    let ask = |tool: &str, arguments: &Value| developer.ask(call("everything", tool, arguments));
    assert_eq!(text(&ask("echo", &json!({ "message": "hi" }))), "Echo: hi");
    assert_eq!(code(&ask("echo", &json!({ "message": 1 }))), "invalid_params");
    let weather = ask("get-structured-content", &json!({ "location": "Chicago" }));
    assert!(weather["data"]["structuredContent"]["temperature"].is_number(), "{weather}");
    let environment: Value = serde_json::from_str(text(&ask("get-env", &json!({})))).unwrap();
    let names: Vec<&String> = environment.as_object().unwrap().keys().collect();
    let expected = ["GREETING", "HOME", "LANG", "LC_ALL", "PATH", "PWD", "TMPDIR", "TZ", "USER"];
    assert!(names.iter().all(|name| expected.contains(&name.as_str())), "{names:?}");
    assert_eq!(environment["GREETING"], "hello");
    let kinds = |reply: &Value| {
        let blocks = reply["data"]["content"].as_array().unwrap_or_else(|| panic!("{reply}")).iter();
        blocks.map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(kinds(&ask("get-resource-links", &json!({ "count": 2 }))).contains(&"resource_link".to_owned()));
    let reference = ask("get-resource-reference", &json!({ "resourceType": "Text", "resourceId": 1 }));
    assert!(kinds(&reference).contains(&"resource".to_owned()), "{reference}");
    let shim = Shim::start(&world, "developer");
    let picture = shim.call("everything__get-tiny-image", json!({}));
    let image = picture["content"].as_array().unwrap().iter().find(|block| block["type"] == "image").unwrap();
    assert_eq!(
        (&image["mimeType"], image["data"].as_str().unwrap().starts_with("iVBORw0KGgo")),
        (&json!("image/png"), true)
    );
    let long = call("everything", "trigger-long-running-operation", &json!({ "duration": 20, "steps": 200 }));
    let id = developer.send(with(long, "timeout_ms", 60_000));
    until("its progress", || {
        let told = std::fs::read(developer.response(&format!("{id}.progress.json"))).ok()?;
        let told: Value = serde_json::from_slice(&told).ok()?;
        (told["total"] == 200.0 && told["progress"].as_f64()? >= 1.0).then_some(())
    });
    developer.ask(json!({ "type": "ext_cancel", "of": id }));
    assert_eq!(code(&developer.reply(&id)), "provider_failed", "it is not waited for");
    world.settle();
}

#[test]
fn a_server_remembers_over_a_restart_in_its_own_directory() {
    let Some((program, modules)) = from_npm("server-memory") else { return };
    let mut world = opened(Server {
        name: "memory",
        command: &["node", &program],
        readable: &[&modules],
        tools: "",
        more: "preset = \"memory\"\nvariables = { MEMORY_FILE_PATH = \"/state/graph.jsonl\" }",
    });
    if !tests::bridges::is_apart() {
        return skipped("/state is the server's own directory only where bubblewrap makes a namespace");
    }
    assert!(off(&world, "memory").is_empty());
    let developer = world.group("developer");
    let ann = json!({ "name": "Ann", "entityType": "person", "observations": ["likes tea"] });
    let created = developer.ask(call("memory", "create_entities", &json!({ "entities": [ann] })));
    assert_eq!(code(&created), "executed", "{created}");
    world.restart();
    let graph = developer.ask(call("memory", "read_graph", &json!({})));
    assert_eq!(graph["data"]["structuredContent"]["entities"], json!([ann]), "{graph}");
    assert!(world.path("state/memory/graph.jsonl").exists());
}

#[test]
fn a_server_writes_where_it_may_and_nowhere_else() {
    let Some((program, modules)) = from_npm("server-filesystem") else { return };
    let shared = tempfile::tempdir().unwrap();
    let path = |name: &str| shared.path().join(name).to_str().unwrap().to_owned();
    let world = opened(Server {
        name: "fs",
        command: &["node", &program, shared.path().to_str().unwrap()],
        readable: &[&modules],
        tools: "write_file = { level = 2, exposes = [] }",
        more: &format!("preset = \"filesystem\"\nwritable = [{:?}]", shared.path()),
    });
    // Its older name for one that the preset has.
    assert_eq!(off(&world, "fs"), ["read_file"]);
    let developer = world.group("developer");
    let wrote = developer.ask(call("fs", "write_file", &json!({ "path": path("a.txt"), "content": "hello" })));
    assert_eq!(code(&wrote), "executed", "{wrote}");
    assert_eq!(std::fs::read_to_string(path("a.txt")).unwrap(), "hello");
    let read = developer.ask(call("fs", "read_text_file", &json!({ "path": path("a.txt") })));
    assert_eq!(text(&read), "hello", "{read}");
    let outside = world.outside().join("b.txt").to_str().unwrap().to_owned();
    let refused = developer.ask(call("fs", "write_file", &json!({ "path": outside, "content": "hello" })));
    assert_eq!((code(&refused), &refused["data"]["isError"]), ("executed", &json!(true)), "{refused}");
    assert!(!Path::new(&outside).exists());
}

/// A home whose profile says this, with the server of files by its preset.
fn preset_of_files(program: &str, modules: &Path, shared: &Path, profile: &str) -> World {
    let mut world = home(
        &[Server {
            name: "fs",
            command: &["node", program, shared.to_str().unwrap()],
            readable: &[modules],
            tools: "",
            more: &format!("preset = \"filesystem\"\nwritable = [{shared:?}]"),
        }],
        "",
    );
    world.rewrite("policy/profiles/developer.toml", profile);
    open(&mut world, &["fs"]);
    world
}

/// Answers the question about this request.
pub(super) fn answer(world: &World, id: &str, yes: bool) {
    let approval_request = until("the approval request", || {
        world
            .query("SELECT code, request_id FROM approvals WHERE state = 'waiting'")
            .into_iter()
            .find(|asked| asked["request_id"] == id)
    });
    let answered =
        world.command(json!({ "type": "answer", "code": approval_request["code"], "yes": yes, "reason": null }));
    assert_eq!(code(&answered), "executed", "{answered}");
}

#[test]
fn a_presets_write_of_tier_human_asks_a_person_where_the_profile_lets_writes_pass() {
    let Some((program, modules)) = from_npm("server-filesystem") else { return };
    let shared = tempfile::tempdir().unwrap();
    let world = preset_of_files(&program, &modules, shared.path(), "write = \"auto\"\n");
    let developer = world.group("developer");
    let path = shared.path().join("a.txt");
    let write = |text: &str| developer.send(call("fs", "write_file", &json!({ "path": path, "content": text })));
    let id = write("no");
    answer(&world, &id, false);
    assert_eq!((code(&developer.reply(&id)), path.exists()), ("approval_denied", false));
    let id = write("yes");
    answer(&world, &id, true);
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "yes");
}

#[test]
fn a_presets_write_without_a_tier_has_that_of_the_profile() {
    let Some((program, modules)) = from_npm("server-filesystem") else { return };
    let shared = tempfile::tempdir().unwrap();
    let make = |name: &str| call("fs", "create_directory", &json!({ "path": shared.path().join(name) }));
    let mut world = preset_of_files(&program, &modules, shared.path(), "write = \"auto\"\n");
    let created = world.group("developer").ask(make("a"));
    assert_eq!((code(&created), shared.path().join("a").is_dir()), ("executed", true), "{created}");
    assert_eq!(world.query("SELECT 1 FROM approvals"), Vec::<Value>::new(), "nobody is asked");
    world.stop();
    world.rewrite("policy/profiles/developer.toml", "write = \"human\"\n");
    world.start_process();
    let developer = world.group("developer");
    let id = developer.send(make("b"));
    answer(&world, &id, false);
    assert_eq!((code(&developer.reply(&id)), shared.path().join("b").exists()), ("approval_denied", false));
}

#[test]
fn a_commit_is_made_where_it_may_be() {
    let Some((program, readable)) = from_pip("mcp-server-git") else { return };
    let repository = tempfile::tempdir().unwrap();
    let at = repository.path().to_str().unwrap();
    let git = |arguments: &[&str]| git(repository.path(), arguments);
    git(&["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(repository.path().join("a.txt"), "hello\n").unwrap();
    let readable: Vec<&Path> = readable.iter().map(PathBuf::as_path).collect();
    let identity = ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"];
    let identity: Vec<String> = identity.iter().map(|name| format!("GIT_{name} = \"agent@example.com\"")).collect();
    let world = opened(Server {
        name: "git",
        command: &[&program],
        readable: &readable,
        tools: "git_reset = { level = 0 }",
        more: &format!("preset = \"git\"\nwritable = [{at:?}]\nvariables = {{ {} }}", identity.join(", ")),
    });
    assert_eq!(off(&world, "git"), ["git_reset"]);
    let developer = world.group("developer");
    let status = developer.ask(call("git", "git_status", &json!({ "repo_path": at })));
    assert!(text(&status).contains("a.txt"), "{status}");
    for (tool, more) in [("git_add", json!({ "files": ["a.txt"] })), ("git_commit", json!({ "message": "First" }))] {
        let done = developer.ask(call("git", tool, &with(more, "repo_path", at)));
        assert_eq!((code(&done), done["data"].get("isError")), ("executed", None), "{done}");
    }
    assert_eq!(git(&["log", "--format=%s %an"]), "First agent@example.com\n");
    // Not without a level, whatever the server could.
    assert_eq!(code(&developer.ask(call("git", "git_reset", &json!({ "repo_path": at })))), "unknown_action");
}

#[test]
fn a_server_of_the_sdk_elsewhere_is_called_like_one_here() {
    let Some(own) = installed("python") else { return };
    let remote = Remote::run(&own.join("bin/python"), "over_http.py", &[]).unwrap();
    let table = format!(
        "[providers.far]\nkind = \"mcp\"\nurl = {:?}\n[providers.far.tools]\ncount = {{ level = 1, exposes = [] }}\n\
         keep = {{ level = 2, exposes = [] }}\n",
        remote.url()
    );
    let mut world = home_of(&table, "");
    open(&mut world, &["far"]);
    let developer = world.group("developer");
    let counted = developer.ask(call("far", "count", &json!({ "text": "hello" })));
    assert_eq!(counted["data"]["structuredContent"], json!({ "n": 5 }), "{counted}");
    for n in 1..3 {
        assert_eq!(text(&developer.ask(call("far", "keep", &json!({ "text": "hello" })))), format!("kept {n}"));
    }
    world.settle();
}

#[test]
fn structured_results_fit_the_schema_of_a_real_server() {
    let Some((program, readable)) = from_pip("mcp-server-time") else { return };
    let readable: Vec<&Path> = readable.iter().map(PathBuf::as_path).collect();
    let world = opened(Server {
        name: "time",
        command: &[&program],
        readable: &readable,
        tools: "",
        more: "preset = \"time\"",
    });
    assert!(off(&world, "time").is_empty());
    let wanted = json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    let converted = world.group("developer").ask(call("time", "convert_time", &wanted));
    assert_eq!(converted["data"]["structuredContent"]["time_difference"], "+9.0h", "{converted}");
}
