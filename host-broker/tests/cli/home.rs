//! `init`, `config`, `codes`, `provider`, and what is said where there is no home.

use super::world::{World, finish, mode};
use serde_json::Value;

#[test]
fn a_mistyped_command_is_answered_with_the_right_one() {
    World::empty().run(&["stats"]).fails(2, &["stats", "status"]);
    World::empty().run(&["calls", "lst"]).fails(2, &["list"]);
}

#[test]
fn every_command_documents_itself() {
    let world = World::empty();
    let commands = world.run(&["--help"]).ok();
    let is_heading = |part: &&str| part.lines().next().is_some_and(|line| line.ends_with(" commands:"));
    let listed = commands.split("\n\n").filter(is_heading).flat_map(|part| part.lines().skip(1));
    let names: Vec<_> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.first() == Some(&"up") && names.last() == Some(&"man"), "the headings are found: {names:?}");
    for name in names {
        assert!(world.run(&[name, "--help"]).ok().contains("--home"), "{name}");
    }
    assert!(world.run(&["explain", "--help"]).ok().contains("evaluates every step"));
}

#[test]
fn a_fault_is_one_document_with_json() {
    let world = World::empty();
    for (arguments, exit) in
        [(&["stats", "--json"][..], 2), (&["--json", "grant", "a"], 2), (&["--json", "reason-codes", "nope"], 3)]
    {
        let done = world.run(arguments);
        let document: Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!((done.code, &document["exit"]), (exit, &exit.into()), "{arguments:?}");
        assert!(!document["error"].as_str().unwrap().is_empty());
    }
}

#[test]
fn where_there_is_no_home_every_command_says_how_to_make_one() {
    let world = World::empty();
    let reads = [
        &["status"][..],
        &["calls", "list"],
        &["evidence", "verify"],
        &["task", "list"],
        &["config", "check"],
        &["provider", "list"],
        &["capabilities", "developer"],
        &["grant", "developer", "mock", "1"],
        &["group", "add", "web"],
        &["serve"],
        &["fleet", "status"],
        &["fleet", "leave"],
        &["fleet", "publish", "policy"],
    ];
    for arguments in reads {
        world.run(arguments).fails(4, &["host-broker init"]);
    }
    assert!(!world.home.exists(), "a command that reads makes nothing");
}

#[test]
fn a_home_without_a_ledger_says_so_and_is_left_alone() {
    let world = World::empty();
    std::fs::create_dir(&world.home).unwrap();
    world.append("broker.toml", "[groups.developer]\n");
    world.run(&["calls", "list"]).fails(4, &["has no ledger yet", "grant"]);
    world.run(&["evidence", "head"]).fails(4, &["has no ledger yet"]);
    assert!(world.run(&["status"]).ok().contains("no rows yet"));
    assert_eq!(world.run(&["kill", "list"]).ok(), "No active kill switches.\n");
    let files: Vec<_> = world.home.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["broker.toml"]);
}

#[test]
fn init_makes_a_private_home_that_grants_nothing() {
    let world = World::empty();
    let said = world.run(&["init"]).ok();
    for words in [
        "ipc/developer:/workspace/ipc:ro",
        "ipc/developer/tasks:/workspace/ipc/tasks",
        "claude mcp add",
        "grant developer github 2 --deny merge_pr",
        "grant main github 3 --gate Security",
    ] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    assert_eq!(mode(&world.home), 0o700);
    for file in ["broker.toml", "keys/ledger.key", "ledger.db"] {
        assert_eq!(mode(&world.home.join(file)), 0o600, "{file}");
    }
    for group in ["main", "developer", "security"] {
        assert!(world.read(&format!("groups/{group}/CLAUDE.md")).contains("ext_capabilities"));
        assert!(world.home.join("ipc").join(group).join("tasks").is_dir());
    }
    assert!(world.read("broker.toml").contains("[people.tester]"));
    world.run(&["config", "check"]).ok();
    let status = world.run(&["status", "--json"]).json();
    let grants: Vec<_> = status["groups"].as_array().unwrap().iter().map(|group| group["grants"].clone()).collect();
    assert_eq!(grants, [0, 0, 0]);
}

#[test]
fn init_twice_changes_nothing_and_says_so() {
    let world = World::empty();
    world.run(&["init"]).ok();
    world.append("broker.toml", "# mine\n");
    let before = world.read("broker.toml");
    world.run(&["init"]).fails(2, &["broker.toml exists already", "nothing was changed"]);
    assert_eq!(world.read("broker.toml"), before);
}

#[test]
fn init_names_what_it_made_with_json() {
    let world = World::empty();
    let made = world.run(&["init", "--json"]).json();
    assert_eq!(made["groups"].as_array().unwrap().len(), 3);
    let suggested = made["suggested_grants"].as_array().unwrap().len();
    let later = made["suggested_after_configuration"].as_array().unwrap().len();
    assert_eq!(suggested + later, 6);
}

#[test]
fn the_flag_names_the_home_before_the_environment_does() {
    let (one, other) = (World::empty(), World::empty());
    let home = one.home.to_str().unwrap().to_owned();
    finish(other.command(&["init"]).env("EXT_BROKER_HOME", &one.home)).ok();
    assert!(one.home.join("broker.toml").exists() && !other.home.exists());
    assert_eq!(other.run(&["status", "--home", &home, "--json"]).json()["home"], home);
    // A variable that is set to nothing is not set: the platform's directory, which is below the user's own.
    let mut command = one.command(&["init", "--json"]);
    let made = finish(command.env("EXT_BROKER_HOME", "").env("HOME", &one.home).env_remove("XDG_DATA_HOME")).json();
    assert!(made["home"].as_str().unwrap().starts_with(&home));
}

#[test]
fn a_wrong_configuration_is_named_with_its_line() {
    let world = World::empty();
    world.run(&["init"]).ok();
    world.append("broker.toml", "[grups.x]\n");
    world.run(&["config", "check"]).fails(4, &["broker.toml", "grups", "did you mean `groups`?"]);
    world.run(&["config", "show"]).fails(4, &["grups"]);
    world.run(&["serve"]).fails(4, &["grups"]);
    let done = world.run(&["config", "check", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&done.out).unwrap()["exit"], 4);
}

#[test]
fn the_configuration_is_described_and_shown_without_secrets() {
    let world = World::empty();
    world.run(&["init"]).ok();
    let schema = world.run(&["config", "schema"]).ok();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert!(schema["properties"]["groups"].is_object() && schema["properties"]["providers"].is_object());
    let mut command = world.command(&["config", "show", "--json"]);
    let shown = finish(command.env("GITHUB_TOKEN", "sesame").env("EXT_CALL_TIMEOUT", "5000"));
    assert!(!shown.out.contains("sesame"));
    let shown = shown.json();
    assert_eq!(shown["values"]["groups"]["main"]["main"], true);
    assert_eq!(shown["environment"], serde_json::json!({ "EXT_CALL_TIMEOUT": "5000", "GITHUB_TOKEN": "(set)" }));
}

#[test]
fn the_effective_configuration_says_what_holds_and_means_the_same() {
    let world = World::with_mock();
    world.append(
        "broker.toml",
        "[providers.github]\nkind = \"github\"\ntoken = { env = \"GITHUB_TOKEN\" }\n\
         [providers.vaulted]\nkind = \"github\"\nenabled = false\ntoken = { command = [\"op\", \"read\"] }\n\
         [providers.cloud-logs]\nkind = \"cloud-logs\"\n\
         [[providers.cloud-logs.backends]]\nkind = \"files\"\npaths = [\"/nowhere/*.log\"]\n",
    );
    let environment = [("GITHUB_TOKEN", "sesame-sesame"), ("EXT_CALL_TIMEOUT", "5000"), ("EXT_GITHUB_REPOS", "a/b")];
    let show =
        |json: &[&str]| finish(world.command(&[&["config", "show", "--effective"], json].concat()).envs(environment));
    let shown = show(&["--json"]);
    assert!(!shown.out.contains("sesame"), "{}", shown.out);
    let values = &shown.json()["values"];
    assert_eq!(
        values["broker"],
        serde_json::json!({ "call_timeout_ms": 5000, "max_concurrent_calls": 16, "unknown_requests": "reject",
            "evidence_mib_per_hour": 64, "free_space_mib": 256, "ledger_mib": 1024 })
    );
    assert_eq!(values["grant_ceiling"], serde_json::json!({ "max_level": 1, "sensitive": false }));
    let github = &values["providers"]["github"];
    assert_eq!((&github["enabled"], &github["repos"][0]), (&true.into(), &"a/b".into()));
    assert_eq!(github["token"], serde_json::json!({ "env": "GITHUB_TOKEN" }));
    assert_eq!(values["providers"]["cloud-logs"]["max_hours"], 24);
    // Written as a file, it says all this without the environment.
    let text = show(&[]).ok();
    assert!(!text.contains("sesame"), "{text}");
    std::fs::write(world.home.join("broker.toml"), text).unwrap();
    let again = world.run(&["config", "show", "--effective", "--json"]).json();
    assert_eq!(&again["values"], values);
}

#[test]
fn the_status_of_a_provider_is_also_that_of_its_secret_and_shows_nothing_of_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::empty();
    let state = |token: &str, environment: &[(&str, &str)]| {
        std::fs::create_dir_all(&world.home).unwrap();
        let config = format!("[providers.github]\nkind = \"github\"\n{token}\n");
        std::fs::write(world.home.join("broker.toml"), config).unwrap();
        let text = finish(world.command(&["status"]).envs(environment.iter().copied())).ok();
        let json = finish(world.command(&["status", "--json"]).envs(environment.iter().copied()));
        for said in [&text, &json.out] {
            assert!(!said.contains("sesame"), "{said}");
        }
        let provider = json.json()["providers"][0].clone();
        let line = text.lines().find(|line| line.starts_with("github")).unwrap().to_owned();
        (line, provider["works"].clone(), provider["secrets"][0].clone())
    };
    let secret = |source: &str, state: &str| serde_json::json!({ "secret": "token", "source": source, "state": state });
    let variable = "the environment variable GITHUB_TOKEN";
    let (line, works, seen) = state("", &[]);
    assert!(line.contains("its secret `token` is missing: set the environment variable GITHUB_TOKEN"), "{line}");
    assert_eq!((works, seen), (false.into(), secret(variable, "missing")));
    let (line, works, seen) = state("", &[("GITHUB_TOKEN", "sesame-sesame")]);
    assert!(line.ends_with("ready"), "{line}");
    assert_eq!((works, seen), (true.into(), secret(variable, "present")));
    let (_, works, seen) = state("", &[("GITHUB_TOKEN", "sesame")]);
    assert_eq!((works, seen), (false.into(), secret(variable, "refused")), "it is too short");
    let file = world.home.join("token");
    std::fs::write(&file, "sesame-sesame").unwrap();
    for (mode, works, word) in [(0o600, true, "present"), (0o644, false, "refused")] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let (_, seen_works, seen) = state(&format!("token = {{ file = \"{}\" }}", file.display()), &[]);
        assert_eq!((seen_works, seen), (works.into(), secret(&format!("the file {}", file.display()), word)));
    }
    // A program may ask somebody to unlock a vault, which is not what a look at the status is for.
    let ran = world.home.join("ran");
    let (line, works, seen) = state(&format!("token = {{ command = [\"touch\", \"{}\"] }}", ran.display()), &[]);
    assert!(line.contains("ready if the program touch supplies its secret `token`"), "{line}");
    assert_eq!((works, seen), (true.into(), secret("the program touch", "unasked")));
    assert!(!ran.exists());
}

/// Attack (Persons): A shared secret is short enough to be guessed from one token.
/// Defence: Secrets below 32 bytes are refused.
#[test]
fn the_status_names_issuers_whose_tokens_are_not_believed() {
    let world = World::empty();
    std::fs::create_dir_all(&world.home).unwrap();
    let config = "[identity.issuers.ash]\nsecret = { env = \"ASH_SECRET\" }\n";
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    let status = |secret: &str| {
        let text = finish(world.command(&["status"]).env("ASH_SECRET", secret)).ok();
        let json = finish(world.command(&["status", "--json"]).env("ASH_SECRET", secret)).json();
        (text, json["failing_issuers"].clone())
    };
    let (text, failing) = status("");
    assert!(text.contains("Context tokens are refused") && text.contains("ASH_SECRET"), "{text}");
    assert_eq!(failing[0]["issuer"], "ash");
    assert!(status("sesame-sesame").0.contains("fewer than 32 bytes"));
    let (text, failing) = status("sesame-sesame!sesame-sesame!sesame-sesame!sesame-sesame!");
    assert!(!text.contains("Tokens") && !text.contains("sesame"), "{text}");
    assert_eq!(failing, serde_json::json!([]));
}

#[test]
fn an_issuer_that_cannot_be_told_from_another_or_signs_in_two_ways_stops_the_start() {
    let world = World::empty();
    std::fs::create_dir_all(&world.home).unwrap();
    let key = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    for (issuers, word) in [
        ("[identity.issuers.broker]\npublic_keys = [\"K\"]\n", "the broker's own (`broker`)"),
        ("[identity.issuers.a]\niss = \"broker\"\npublic_keys = [\"K\"]\n", "a different iss"),
        (
            "[identity.issuers.a]\npublic_keys = [\"K\"]\n[identity.issuers.b]\niss = \"a\"\npublic_keys = [\"K\"]\n",
            "a different iss",
        ),
        ("[identity.issuers.a]\n", "public_keys"),
        ("[identity.issuers.a]\npublic_keys = [\"K\"]\nsecret = { env = \"S\" }\n", "exclude each other"),
        ("[identity.issuers.a]\npublic_keys = [\"short\"]\n", "43 characters"),
        ("[identity.issuers.\"A b\"]\npublic_keys = [\"K\"]\n", "lower-case"),
        ("[identity]\naudience = \" \"\n", "audience"),
        ("[identity.issuers.a]\npublic_key = \"K\"\n", "public_keys"),
    ] {
        std::fs::write(world.home.join("broker.toml"), issuers.replace('K', key)).unwrap();
        world.run(&["config", "check"]).fails(4, &["identity", word]);
    }
}

#[test]
fn every_code_is_listed_with_its_remedy() {
    let world = World::empty();
    let codes = world.run(&["reason-codes", "--json"]).json();
    assert_eq!(codes["codes"].as_array().unwrap().len(), shared::Code::ALL.len());
    world.run(&["reason-codes", "no_gran"]).fails(3, &["did you mean `no_grant`?"]);
    assert!(world.run(&["reason-codes", "no_grant"]).ok().contains("Ask the main group's agent"));
}

#[test]
fn a_provider_that_should_work_and_does_not_is_exit_five() {
    let world = World::with_mock();
    world.run(&["provider", "check", "mok"]).fails(3, &["did you mean `mock`?"]);
    assert!(world.run(&["provider", "check"]).ok().contains("ready"));
    let listed = world.run(&["provider", "list", "--json"]).json();
    assert_eq!(listed["providers"][0]["actions"]["charge"], 3);
    world.append("mock.toml", "[actions.echo]\n");
    world.run(&["provider", "check"]).fails(5, &["mock", "mock.toml"]);
    let done = world.run(&["provider", "check", "--json"]);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((done.code, &document["ok"], &document["exit"]), (5, &false.into(), &5.into()));
    let config = world.read("broker.toml").replace("\nkind = \"mock\"\n", "\nkind = \"mock\"\nenabled = false\n");
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    std::fs::write(world.home.join("mock.toml"), "").unwrap();
    assert!(world.run(&["provider", "check"]).ok().contains("switched off"), "what is off need not work");
}
