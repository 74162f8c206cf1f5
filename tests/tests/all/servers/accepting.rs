//! The operator's view of a server before acceptance, and the options that acceptance needs.

use super::*;
use tests::terminal::on_terminal;

/// Returns the output of `provider accept` as a document.
fn shown(world: &World, name: &str, more: &[&str]) -> Value {
    let shown = world.cli(&[&["--json", "provider", "accept", name], more].concat());
    serde_json::from_slice(&shown.stdout).unwrap_or_else(|_| panic!("{}", said(&shown)))
}

fn digest(world: &World, name: &str) -> String {
    shown(world, name, &[])["digest"].as_str().unwrap().to_owned()
}

fn granted(world: &mut World) -> Group {
    world.start_process();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "odd", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    world.group("developer")
}

/// Attack: see `poisoned_descriptions_are_found`.
#[test]
fn tools_that_look_like_an_attack_are_accepted_only_by_name() {
    let Some(mut world) = odd_home(&["--poisoned"], TOOLS) else { return };
    let look = said(&world.cli(&["provider", "accept", "odd"]));
    assert!(look.contains("FLAGGED: page: its description looks like an attack on an agent"), "{look}");
    assert!(
        look.contains("It wants something to be kept from the user.") && look.contains("--accept-flagged page"),
        "{look}"
    );
    assert_eq!(shown(&world, "odd", &[])["flagged"], json!(["page"]));
    let digest = digest(&world, "odd");
    let accept =
        |more: &[&str]| world.cli(&[&["provider", "accept", "odd", "--digest", digest.as_str()], more].concat());
    let refused = accept(&[]);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(said(&refused).contains("page: its description looks like an attack"), "{}", said(&refused));
    assert_eq!(accept(&["--accept-flagged", "read"]).status.code(), Some(2), "read is not flagged");
    assert!(!world.path("accepted/odd.json").exists());
    let accepted = accept(&["--accept-flagged", "page"]);
    assert!(accepted.status.success(), "{}", said(&accepted));
    let developer = granted(&mut world);
    assert_eq!(code(&developer.ask(call("odd", "page", &json!({ "mode": "echo" })))), "executed");
    // The ledger has the names that were accepted.
    let rows = world.rows();
    let noted = rows.iter().filter_map(|row| serde_json::from_str::<Value>(&row.body).ok());
    assert!(noted.into_iter().any(|body| body["flagged"] == json!(["page"])));
}

#[test]
fn a_flagged_tool_that_nobody_accepted_by_name_is_left_out_and_the_others_work() {
    let table = "read = { level = 1, exposes = [] }";
    let Some(mut world) = odd_home(&["--poisoned"], table) else { return };
    // The tool has no level, so its flag needs no option yet.
    accept(&world, "odd");
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace(table, &format!("{table}\npage = {{ level = 1, exposes = [] }}")));
    let developer = granted(&mut world);
    assert_eq!(code(&developer.ask(read("echo"))), "executed");
    assert_eq!(code(&developer.ask(call("odd", "page", &json!({ "mode": "echo" })))), "unknown_action");
    until("the reason", || world.daemon_log().contains("a tool is left out").then_some(()));
}

#[test]
fn a_tool_that_the_server_does_not_have_is_one_clear_error_and_the_others_work() {
    let table = "read = { level = 1, exposes = [] }";
    let Some(mut world) = odd_home(&[], &format!("{table}\npages = {{ level = 1 }}")) else { return };
    let look = said(&world.cli(&["provider", "accept", "odd"]));
    assert!(look.contains("tools.pages: the server has no such tool; did you mean `page`?"), "{look}");
    accept(&world, "odd");
    let developer = granted(&mut world);
    assert_eq!(code(&developer.ask(read("echo"))), "executed");
}

#[test]
fn proposed_exposures_count_once_they_are_accepted_and_then_a_read_asks_nobody() {
    // Without configured exposures every read counts as all three, and takes a person.
    let bare = "read = { level = 1 }";
    let Some(mut world) = odd_home(&[], bare) else { return };
    let look = shown(&world, "odd", &[]);
    let tool = |name: &str| look["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap().clone();
    assert_eq!(tool("read")["proposed"]["level"], 1);
    assert_eq!(tool("read")["proposed"]["exposes"], json!(["untrusted", "sensitive"]));
    assert_eq!(tool("write")["proposed"]["level"], 2);
    let text = said(&world.cli(&["provider", "accept", "odd"]));
    let line = "read = { level = 1, exposes = [\"untrusted\", \"sensitive\"] }";
    assert!(text.contains("[providers.odd.tools]") && text.contains(line), "{text}");
    // Looking writes nothing, and neither does accepting.
    accept(&world, "odd");
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    assert!(config.contains(bare) && !config.contains(line), "{config}");
    let developer = granted(&mut world);
    let id = developer.send(read("echo"));
    until("the approval request", || {
        world.query("SELECT request_id FROM approvals").into_iter().find(|asked| asked["request_id"] == id.as_str())
    });
    world.stop();
    let digest = digest(&world, "odd");
    let accepted = world.cli(&["provider", "accept", "odd", "--digest", &digest, "--accept-proposed"]);
    assert!(accepted.status.success(), "{}", said(&accepted));
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    assert!(config.contains(line) && config.contains("write = { level = 2"), "{config}");
    world.start_process();
    let reset = world.cli(&["exposure", "reset", "developer"]);
    assert!(reset.status.success(), "{}", said(&reset));
    for _ in 0..3 {
        assert_eq!(code(&developer.ask(read("echo"))), "executed");
    }
}

#[test]
fn at_a_terminal_proposed_lines_take_a_question_and_flagged_names_an_option() {
    const ACCEPT: [&str; 3] = ["provider", "accept", "odd"];
    let Some(world) = odd_home(&["--poisoned"], "page = { level = 1 }") else { return };
    let config = || std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let Some((_, screen)) = on_terminal(&world, &ACCEPT, &["y\n"]) else { return };
    assert!(screen.contains("FLAGGED: page") && !screen.contains("[y/N]"), "{screen}");
    assert!(screen.contains("name each flagged definition") && !world.path("accepted/odd.json").exists(), "{screen}");
    let named = [&ACCEPT[..], &["--accept-flagged", "page"]].concat();
    let (_, screen) = on_terminal(&world, &named, &["y\n", "n\n"]).unwrap();
    assert!(screen.contains("Write the proposed lines to broker.toml, too?"), "{screen}");
    assert!(screen.contains("are accepted") && !config().contains("write = { level = 2"), "{screen}");
    // The option is the second answer.
    let proposed = [&named[..], &["--accept-proposed"]].concat();
    let (_, screen) = on_terminal(&world, &proposed, &["y\n"]).unwrap();
    assert_eq!(screen.matches("[y/N]").count(), 1, "{screen}");
    assert!(config().contains("write = { level = 2"), "{screen}");
}

#[test]
fn a_program_that_is_a_link_out_of_its_environment_is_started() {
    let python = Path::new("/usr/bin/python3");
    if !installed(python) {
        return skipped("there is no python3 to copy");
    }
    // As `python -m venv` does it: the environment has an absolute link to a Python outside of it and of /usr.
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (real, environment) = (root.join("python/bin/python3"), root.join("environment"));
    std::fs::create_dir_all(real.parent().unwrap()).unwrap();
    std::fs::create_dir_all(environment.join("bin")).unwrap();
    std::fs::copy(python, &real).unwrap();
    std::os::unix::fs::symlink(&real, environment.join("bin/python3")).unwrap();
    let program = misbehaving();
    let start = environment.join("bin/python3");
    let server = Server {
        name: "odd",
        command: &[start.to_str().unwrap(), program.to_str().unwrap()],
        readable: &[&environment, program.parent().unwrap(), &directory()],
        tools: TOOLS,
        more: "timeout_seconds = 4\nvariables = { PYTHONHOME = \"/usr\" }",
    };
    let mut world = home(&[server], "");
    accept(&world, "odd");
    let developer = granted(&mut world);
    assert_eq!(code(&developer.ask(read("echo"))), "executed");
}

#[test]
fn a_program_that_fails_is_shown_with_what_it_says_on_standard_error() {
    let Some(world) = odd_home(&["--fails"], TOOLS) else { return };
    let failed = world.cli(&["provider", "accept", "odd"]);
    assert_eq!(failed.status.code(), Some(5));
    assert!(said(&failed).contains("it cannot be"), "{}", said(&failed));
}

#[test]
fn a_server_that_signs_in_at_its_start_is_looked_at_with_its_secrets_on_an_explicit_word() {
    let Some(world) = odd_home(&["--login"], TOOLS) else { return };
    let failed = world.cli(&["provider", "accept", "odd"]);
    assert_eq!(failed.status.code(), Some(5));
    let why = said(&failed);
    assert!(why.contains("the token was refused") && why.contains("--with-secrets"), "{why}");
    let look = shown(&world, "odd", &["--with-secrets"]);
    assert_eq!(look["tools"].as_array().unwrap().len(), 5, "{look}");
    // A look with a secret has an intent in the ledger.
    assert!(!world.rows().is_empty());
    let digest = look["digest"].as_str().unwrap();
    let accepted = world.cli(&["provider", "accept", "odd", "--with-secrets", "--digest", digest]);
    assert!(accepted.status.success(), "{}", said(&accepted));
}

#[test]
fn a_program_written_as_clients_write_it_gets_the_right_lines() {
    let Some(world) = odd_home(&[], TOOLS) else { return };
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let line = config.lines().find(|line| line.starts_with("command = ")).unwrap();
    let other = "command = \"npx\"\nargs = [\"-y\", \"some-server\"]\nenv = { API_KEY = \"s3cr3t\" }";
    world.rewrite("broker.toml", &config.replace(line, other));
    let refused = world.cli(&["provider", "accept", "odd"]);
    assert_eq!(refused.status.code(), Some(4));
    let why = said(&refused);
    assert!(why.contains("command = [\"npx\", \"-y\", \"some-server\"]"), "{why}");
    assert!(why.contains("secrets = { API_KEY = { env = \"API_KEY\" } }") && !why.contains("s3cr3t"), "{why}");
}

#[test]
fn a_write_with_the_tier_rules_works_once_it_is_accepted_and_its_profile_leaves_it_to_the_rules() {
    let table = "read = { level = 1, exposes = [] }\nwrite = { level = 2, tier = \"rules\", exposes = [] }";
    let Some(mut world) = odd_home(&[], table) else { return };
    world.rewrite("policy/profiles/developer.toml", "write = \"rules\"\nproduction = \"human\"\n");
    let look = said(&world.cli(&["provider", "accept", "odd"]));
    assert!(look.contains("policy/accepted-odd.cedar, which permits `write`"), "{look}");
    let file = world.path("policy/accepted-odd.cedar");
    assert!(!file.exists(), "looking writes nothing");
    accept(&world, "odd");
    assert!(std::fs::read_to_string(&file).unwrap().contains("Action::\"odd.write\""));
    let developer = granted(&mut world);
    assert_eq!(code(&developer.ask(write("echo"))), "executed");
    // The file is the operator's from then on.
    world.stop();
    std::fs::write(&file, "// nothing\n").unwrap();
    accept(&world, "odd");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "// nothing\n");
    world.start_process();
    assert_eq!(code(&developer.ask(write("echo"))), "rule_denied");
}
