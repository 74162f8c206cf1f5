//! Profiles: who must agree, as the operator writes it down.

use super::world::World;
use serde_json::json;

#[test]
fn a_new_home_asks_a_person_for_every_write_and_a_line_relaxes_one_action() {
    let world = World::with_mock();
    let explained = |action: &str| world.run(&["explain", "developer", action, r#"{"n":1}"#, "--json"]).json();
    world.run(&["grant", "developer", "mock", "2"]).ok();
    std::fs::remove_dir_all(world.home.join("policy")).unwrap();
    assert_eq!(explained("mock.note")["verdict"], "ask a person", "a home from before profiles has the starting ones");
    assert!(!world.home.join("policy").exists(), "explaining writes nothing");
    let daemon = world.serve();
    let profile = world.read("policy/profiles/developer.toml");
    assert!(profile.contains("write = \"human\""), "serving writes them down: {profile}");
    drop(daemon);
    world.append(
        "policy/profiles/developer.toml",
        "[providers.mock]\nactions = { note = \"auto\", person = \"auto\" }\n",
    );
    assert_eq!(explained("mock.note")["verdict"], "permit");
    assert_eq!(explained("mock.lose")["verdict"], "ask a person");
    assert_eq!(explained("mock.person")["verdict"], "ask a person", "the action's own tier is the least");
    world.append("policy/profiles/developer.toml", "read = \"off\"\n");
    assert_eq!(explained("mock.echo")["code"], "action_denied");
    let shown = world.run(&["capabilities", "developer", "--all", "--json"]).json();
    let actions = &shown["capabilities"][0]["actions"];
    let of = |action: &str| (actions[action]["tier"].clone(), actions[action]["status"].clone());
    assert_eq!(of("note"), (json!("auto"), json!("available")));
    assert_eq!(of("lose"), (json!("human"), json!("needs_approval")));
    assert_eq!(of("echo"), (json!(null), json!("DENIED")));
}

/// Returns the warnings of both commands.
fn warnings(world: &World) -> Vec<String> {
    let of = |command: &[&str]| -> Vec<String> {
        serde_json::from_value(world.run(command).json()["warnings"].clone()).expect("texts")
    };
    let checked = of(&["config", "check", "--json"]);
    assert_eq!(of(&["status", "--json"]), checked);
    for command in [&["config", "check"][..], &["status"]] {
        let text = world.run(command).ok();
        assert!(checked.iter().all(|warning| text.contains(warning)), "{text}");
    }
    checked
}

/// Attack (The host): A group's profile is missing, empty or has a wrong name, so that writes need
/// no person.
/// Defence: A write that no line names is `human`. `serve`, `status` and `config check` name such
/// groups and files.
#[test]
fn a_group_without_a_profile_or_with_an_empty_one_asks_a_person_for_every_write_and_that_is_said() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "2"]).ok();
    assert_eq!(warnings(&world), [""; 0]);
    let note = || {
        let explained = world.run(&["explain", "developer", "mock.note", r#"{"n":1}"#, "--json"]).json();
        explained["verdict"].as_str().expect("a verdict").to_owned()
    };
    assert_eq!(note(), "permit", "the world's own profile leaves writes to the rules");
    let path = world.home.join("policy/profiles/developer.toml");
    std::fs::write(&path, "# later\n").unwrap();
    assert_eq!(note(), "ask a person");
    let [said] = &warnings(&world)[..] else { panic!("one warning") };
    assert!(said.contains("group developer has an empty profile"), "{said}");
    let aside = path.with_extension("toml.bak");
    std::fs::rename(&path, &aside).unwrap();
    assert_eq!(note(), "ask a person");
    std::fs::write(world.home.join("policy/own.cedar~"), "").unwrap();
    let said = warnings(&world);
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("group developer has no profile") && said[0].contains(path.to_str().unwrap()), "{said:?}");
    assert!(said[1].contains(aside.to_str().unwrap()) && said[1].contains("is not read"), "{said:?}");
    assert!(said[2].contains("own.cedar~ is not read"), "{said:?}");
    let (mut daemon, log) = world.serve_with_log();
    let call =
        json!({ "type": "ext_call", "provider": "mock", "action": "note", "params": { "n": 1 }, "timeout_ms": 300 });
    assert_eq!(world.ask("developer", "ext-1", call)["status"], "pending");
    assert!(!world.home.join("notes.log").exists());
    let log = std::fs::read_to_string(log).unwrap();
    assert!(said.iter().all(|said| log.contains(said)), "{log}");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.line(), "");
}

#[test]
fn a_profile_that_cannot_be_used_is_named_with_its_line_and_remedy_and_nothing_starts() {
    let world = World::with_mock();
    for (file, text, words) in [
        ("developer", "write = \"humen\"\n", &["developer.toml", "line 1", "did you mean `human`"][..]),
        ("developer", "\nwrites = \"human\"\n", &["developer.toml", "line 2", "did you mean `write`"]),
        ("developer", "[providers.mok]\n", &["developer.toml", "no provider `mok`", "[providers.mok]"]),
        ("developer", "[providers.mock.actions]\nnope = \"off\"\n", &["no action `nope`", "charge"]),
        ("nobody", "", &["nobody.toml", "[groups.nobody]", "remove this file"]),
    ] {
        let path = world.home.join(format!("policy/profiles/{file}.toml"));
        let before = std::fs::read(&path).ok();
        std::fs::write(&path, text).unwrap();
        for command in [&["config", "check"][..], &["serve"], &["explain", "developer", "mock.echo"]] {
            world.run(command).fails(4, words);
        }
        match before {
            Some(before) => std::fs::write(&path, before).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
    }
    world.run(&["config", "check"]).ok();
}

#[test]
fn a_group_comes_and_goes_with_its_profile() {
    let world = World::with_mock();
    world.run(&["group", "add", "night"]).ok();
    assert!(world.read("policy/profiles/night.toml").contains("write = \"human\""));
    world.run(&["group", "remove", "night"]).ok();
    assert!(!world.home.join("policy/profiles/night.toml").exists());
    world.run(&["config", "check"]).ok();
    assert!(world.run(&["config", "schema", "--profile"]).ok().contains("production"));
}
