//! `provider add` as far as it comes without a server, and `provider remove`.

use super::world::World;

/// A directory in which the program of `notion` seems to be installed.
fn installed(world: &World) -> String {
    let directory = world.home.with_file_name("installed");
    let programs = directory.join("node_modules/.bin");
    std::fs::create_dir_all(&programs).unwrap();
    std::fs::write(programs.join("notion-mcp-server"), "").unwrap();
    directory.to_str().unwrap().to_owned()
}

#[test]
fn presets_are_listed_without_a_home() {
    let world = World::empty();
    let text = world.run(&["provider", "add"]).ok();
    assert!(text.contains("notion") && text.contains("npm @notionhq/notion-mcp-server"), "{text}");
    let document = world.run(&["provider", "add", "--json"]).json();
    let presets = document["presets"].as_array().unwrap();
    let notion = presets.iter().find(|preset| preset["preset"] == "notion").unwrap();
    assert_eq!(
        (&notion["questions"][0]["name"], &notion["questions"][0]["secret"]),
        (&"NOTION_TOKEN".into(), &true.into())
    );
}

#[test]
fn missing_parts_of_a_preset_are_named_and_nothing_is_changed() {
    let world = World::with_mock();
    let config = world.read("broker.toml");
    let add = |arguments: &[&str]| world.run(&[&["provider", "add"], arguments].concat());
    add(&["notoin"]).fails(3, &["no preset `notoin`", "did you mean `notion`?"]);
    add(&["bank"]).fails(2, &["levels for several servers", "preset = \"bank\""]);
    let empty = world.home.with_file_name("empty");
    let words = ["npm install --ignore-scripts --prefix", "@notionhq/notion-mcp-server@", "repeat the command"];
    add(&["notion", "--directory", empty.to_str().unwrap()]).fails(3, &words);
    let words = ["-m venv", "bin/pip install mcp-server-git=="];
    add(&["git", "--directory", empty.to_str().unwrap()]).fails(3, &words);

    let directory = installed(&world);
    let with = |arguments: &[&str]| add(&[&["notion", "--directory", &directory], arguments].concat());
    with(&[]).fails(2, &["--secret NOTION_TOKEN=SOURCE"]);
    with(&["--name", "mock"]).fails(2, &["there is a provider `mock` already", "--name"]);
    with(&["--set", "NOTION_TOKEN=x"]).fails(2, &["for --secret"]);
    with(&["--set", "other=x"]).fails(2, &["no question of the preset notion", "NOTION_TOKEN"]);
    with(&["--secret", "NOTION_TOKEN=file:/nowhere"]).fails(2, &["no file /nowhere", "install -m 600"]);
    // A secret in the place of its source is not printed.
    for pasted in ["NOTION_TOKEN=ntn_pasted", "ntn_pasted", "NOTION_TOKEN=ntn:pasted", "pasted=="] {
        let done = with(&["--secret", pasted]);
        assert!(done.code == 2 && !done.err.contains("pasted"), "{done:?}");
    }
    // Everybody can write to the program, so no daemon would start with it.
    let program = std::path::Path::new(&directory).join("node_modules/.bin/notion-mcp-server");
    let mode = |mode| std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o777);
    with(&["--secret", "NOTION_TOKEN=env:X"]).fails(4, &["notion-mcp-server", "nothing was changed"]);
    mode(0o644);
    // Its name says that persons have accounts there, and the preset has none.
    with(&["--name", "team.notion", "--secret", "NOTION_TOKEN=env:X"]).fails(4, &["oauth", "nothing was changed"]);
    assert_eq!(world.read("broker.toml"), config);
}

#[test]
fn a_server_that_does_not_start_changes_nothing() {
    let world = World::with_mock();
    let (directory, config) = (installed(&world), world.read("broker.toml"));
    let arguments = ["provider", "add", "notion", "--directory", &directory, "--secret", "NOTION_TOKEN=env:X"];
    world.run(&arguments).fails(5, &["notion-mcp-server", "nothing was changed"]);
    assert_eq!(world.read("broker.toml"), config);
}

#[test]
fn access_to_an_earlier_provider_is_not_passed_on_to_a_new_one_of_its_name() {
    let world = World::with_mock();
    world.append("broker.toml", "\n[providers.notion]\nkind = \"mock\"\nscript = \"mock.toml\"\n");
    world.run(&["grant", "developer", "notion", "1"]).ok();
    let arguments = ["provider", "add", "notion", "--directory", "/nowhere"];
    let already = ["there is a provider `notion` already", "provider accept notion", "--name"];
    world.run(&arguments).fails(2, &already);
    let config = world.read("broker.toml").replace("[providers.notion]", "[providers.other]");
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    world.run(&arguments).fails(3, &["access to a provider `notion`", "host-broker revoke developer notion"]);
    world.run(&["revoke", "developer", "notion"]).ok();
    world.run(&arguments).fails(3, &["npm install"]);
}

#[test]
fn a_provider_is_removed_with_its_tables_and_rules_and_only_without_access() {
    let world = World::with_mock();
    let before = world.read("broker.toml");
    world.append(
        "broker.toml",
        "\n[providers.extra]\nkind = \"mock\"\nscript = \"mock.toml\"\n\n[approvals.actions.extra]\necho = { expires_s = 60 }\n",
    );
    let (rules, config) = (world.home.join("policy/accepted-extra.cedar"), world.home.join("broker.toml"));
    std::fs::create_dir_all(world.home.join("policy")).unwrap();
    let permit = "@id(\"extra\")\npermit (principal, action == Action::\"extra.echo\", resource);\n";
    std::fs::write(&rules, permit).unwrap();
    let daemon = world.serve();
    world.run(&["provider", "remove", "extar"]).fails(3, &["no provider `extar`", "did you mean `extra`?"]);
    world.run(&["grant", "developer", "extra", "1"]).ok();
    world.run(&["provider", "remove", "extra"]).fails(3, &["host-broker revoke developer extra"]);
    world.run(&["revoke", "developer", "extra"]).ok();
    // Something else still names it.
    let left = world.read("broker.toml");
    world.run(&["provider", "remove", "extra"]).fails(4, &["extra", "nothing was changed"]);
    assert_eq!(world.read("broker.toml"), left);
    let kept = left.replace("\n[approvals.actions.extra]\necho = { expires_s = 60 }\n", "");
    std::fs::write(&config, &kept).unwrap();
    assert!(world.run(&["provider", "remove", "extra"]).ok().contains("Removed extra"));
    assert_eq!(world.read("broker.toml").trim_end(), before.trim_end());
    assert!(!rules.exists());
    assert!(!world.run(&["provider", "list"]).ok().contains("extra"));
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}
