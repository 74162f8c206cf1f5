use super::*;
use crate::ConfigError;
use platform::Environment;
use std::os::unix::fs::{PermissionsExt as _, symlink};

const PEOPLE: &str = "[groups.main]\nuid = 54321\n[people.alice]\nuid = 1\napproves = {}\n[people.bob]\nuid = 2\n";

fn parse(text: &str, home: &Path) -> Result<Config, ConfigError> {
    Config::parse(&format!("{PEOPLE}{text}"), &home.join("broker.toml"), &Environment::new(), crate::KINDS)
}

fn channel(text: &str) -> Result<Config, ConfigError> {
    parse(&format!("[[channels]]\n{text}"), Path::new("/nowhere/home"))
}

fn fault(text: &str) -> String {
    channel(text).unwrap_err().to_string()
}

#[test]
fn a_channel_is_what_its_few_lines_say_and_the_rest_is_usual() {
    let config = channel("name = \"ops\"\nkind = \"command\"\ncommand = [\"notify-send\", \"x\"]\n").unwrap();
    let table = &config.channels[0];
    assert_eq!(table.events, BTreeSet::from([NoticeEvent::Asked, NoticeEvent::Lapsed]));
    assert!(!table.full_cards && table.escalate_after_s == 0 && table.token_sha256.is_none());
    // The shown form is also a valid input.
    let written = toml::to_string(table).unwrap();
    assert_eq!(toml::from_str::<ChannelTable>(&written).unwrap().name, "ops", "{written}");
    assert!(serde_json::to_string(&Config::schema(crate::KINDS)).unwrap().contains("chat_jid"));
}

#[test]
fn channel_errors_name_the_fault_and_its_remedy() {
    let command = "kind = \"command\"\ncommand = [\"x\"]\nname = \"a\"\n";
    let matrix = "kind = \"matrix\"\nname = \"a\"\nurl = \"https://x\"\n";
    let slack = "kind = \"slack\"\nname = \"a\"\nbot_token = { env = \"T\" }\n";
    let telegram = "kind = \"telegram\"\nbot_token = { env = \"T\" }\nchat_id = -7\nname = \"a\"\n";
    for (text, words) in [
        ("name = \"A b\"\nkind = \"command\"\ncommand = [\"x\"]", "lower-case letters"),
        ("name = \"a\"\nkind = \"comand\"", "did you mean `command`?"),
        ("name = \"a\"\nkind = \"command\"", "needs `command`"),
        ("name = \"a\"\nkind = \"command\"\ncommand = []", "needs `command"),
        ("name = \"a\"\nkind = \"nanoclaw\"\ndirectory = \"m\"", "needs `chat_jid`"),
        ("name = \"a\"\nkind = \"webhook\"\nurl = \"http://example.com/\"", "must be https"),
        ("name = \"a\"\nkind = \"webhook\"\nurl = \"ftp://x/y\"", "must begin with https://"),
        (&format!("{command}url = \"https://x/\""), "which has no `url`; remove it"),
        ("name = \"a\"\nkind = \"telegram\"\nchat_id = 7", "needs `bot_token`"),
        ("name = \"a\"\nkind = \"telegram\"\nbot_token = { env = \"T\" }", "needs `chat_id`"),
        (&format!("{telegram}url = \"http://example.com\""), "must be https"),
        (&format!("{telegram}token_sha256 = \"abc\""), "which has no `token_sha256`; remove it"),
        (
            &format!(
                "{telegram}accepts_answers = true\n[[channels]]\n{}accepts_answers = true",
                telegram.replace("\"a\"", "\"b\"")
            ),
            "`a` fetches the same answers",
        ),
        (&format!("{telegram}format = \"slack\""), "which has no `format`; remove it"),
        ("name = \"a\"\nkind = \"matrix\"\nroom_id = \"!r:x\"\naccess_token = { env = \"T\" }", "needs `url`"),
        (&format!("{matrix}room_id = \"!r:x\""), "needs `access_token`"),
        (&format!("{matrix}access_token = {{ env = \"T\" }}"), "needs `room_id`"),
        (&format!("{matrix}access_token = {{ env = \"T\" }}\nroom_id = \"#ops:x\""), "may be the alias of the room"),
        (&format!("{matrix}app_token = {{ env = \"T\" }}"), "which has no `app_token`; remove it"),
        (&format!("{slack}channel_id = \"#ops\""), "may be the name of the channel"),
        (&format!("{slack}channel_id = \"U1\""), "must be like C0123456789"),
        (slack, "needs `channel_id`"),
        (&format!("{slack}channel_id = \"C1\"\naccepts_answers = true"), "needs `app_token`"),
        (&format!("{slack}channel_id = \"C1\"\nurl = \"http://example.com\""), "must be https"),
        (&format!("{slack}channel_id = \"C1\"\nroom_id = \"!r:x\""), "which has no `room_id`; remove it"),
        (&format!("{command}chat_id = 7"), "which has no `chat_id`; remove it"),
        (&format!("{command}aproverz = []"), "did you mean `approvers`?"),
        (&format!("{command}accepts_answers = true"), "token_sha256 together"),
        (&format!("{command}accepts_answers = true\ntoken_sha256 = \"abc\""), "64 lower-case hexadecimal"),
        (&format!("{command}events = []"), "has no events"),
        (&format!("{command}events = [\"askd\"]"), "did you mean `asked`?"),
        (&format!("{command}groups = [\"nobody\"]"), "add [groups.nobody]"),
        (&format!("{command}providers = [\"nothing\"]"), "add [providers.nothing]"),
        (&format!("{command}approvers = [\"bob\"]"), "add `approves` to [people.bob]"),
        (&format!("{command}[[channels]]\n{command}"), "two channels have this name"),
        (&format!("{command}[notices]\nlink_base = \"http://x/\""), "link_base: the url must be https"),
    ] {
        assert!(fault(text).contains(words), "{text}: {}", fault(text));
    }
}

#[test]
fn an_account_of_matrix_can_serve_two_rooms_and_an_app_of_slack_one_channel() {
    let two = |kind: &str, ids: [&str; 2]| {
        let table =
            |name: &str, id: &str| format!("[[channels]]\nname = \"{name}\"\n{kind}{id}\naccepts_answers = true\n");
        parse(&(table("a", ids[0]) + &table("b", ids[1])), Path::new("/nowhere/home")).map(drop)
    };
    let matrix = "kind = \"matrix\"\nurl = \"https://x\"\naccess_token = { env = \"T\" }\nroom_id = ";
    two(matrix, ["\"!r:x\"", "\"!s:x\""]).unwrap();
    assert!(two(matrix, ["\"!r:x\"", "\"!r:x\""]).unwrap_err().to_string().contains("fetches the same answers"));
    let slack = "kind = \"slack\"\nbot_token = { env = \"T\" }\napp_token = { env = \"U\" }\nchannel_id = ";
    // The same bot has several tokens for connections.
    let second = slack.replace("\"U\"", "\"V\"");
    let table =
        |kind: &str, name: &str| format!("[[channels]]\nname = \"{name}\"\n{kind}\"C1\"\naccepts_answers = true\n");
    let both = parse(&(table(slack, "a") + &table(&second, "b")), Path::new("/nowhere/home")).map(drop);
    assert!(both.unwrap_err().to_string().contains("fetches the same answers"));
    assert!(two(slack, ["\"C1\"", "\"C2\""]).unwrap_err().to_string().contains("fetches the same answers"));
}

#[test]
fn one_chat_identity_is_one_person() {
    let people = |chat: &str| parse(&format!("[people.carol]\nuid = 3\nchat = {chat}\n"), Path::new("/nowhere/home"));
    let config = people("[\"telegram:12345\"]").unwrap();
    assert_eq!((config.speaker("telegram:12345"), config.speaker("telegram:1")), (Some("carol"), None));
    for bad in ["[\"12345\"]", "[\"telegram:\"]", "[\"tele gram:1\"]", "[\"telegram:1\\n2\"]", "[\"a:1\", \"a:1\"]"] {
        assert!(people(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_identity_in_a_chat_whose_answers_are_fetched_is_an_id() {
    let people = |kind: &str, chat: &str| {
        let channel = format!("[[channels]]\nname = \"a\"\nkind = \"{kind}\"\naccepts_answers = true\n");
        parse(&format!("{channel}[people.carol]\nuid = 3\nchat = [\"{chat}\"]\n"), Path::new("/nowhere/home")).map(drop)
    };
    let slack = "slack\"\nbot_token = { env = \"T\" }\napp_token = { env = \"U\" }\nchannel_id = \"C1";
    let matrix = "matrix\"\nurl = \"https://x\"\naccess_token = { env = \"T\" }\nroom_id = \"!r:x";
    let telegram = "telegram\"\nbot_token = { env = \"T\" }\nchat_id = 7\nevents = [\"asked\"]\nurl = \"https://x";
    for (kind, good, bad) in [
        (slack, "slack:W012", "slack:@ann"),
        (slack, "slack:U012", "slack:ann"),
        (slack, "matrix:ann", "slack:Uann"),
        (matrix, "matrix:@ann:example.org", "matrix:@ann"),
        (telegram, "telegram:1", "telegram:@ann"),
    ] {
        people(kind, good).unwrap();
        assert!(people(kind, bad).unwrap_err().to_string().contains("must be like"), "{bad}");
    }
}

/// Attack (Approvals and notices): A channel for full cards is in a group's directory, by path,
/// link or owner.
/// Defence: The configuration is refused, with file, place and remedy.
#[test]
fn a_full_card_goes_nowhere_that_a_group_reads_or_writes() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let write = |directory: &Path, full: bool| {
        let text = format!(
            "[[channels]]\nname = \"chat\"\nkind = \"nanoclaw\"\nchat_jid = \"1@g.us\"\nfull_cards = {full}\ndirectory = {:?}\n",
            directory.display().to_string()
        );
        parse(&text, &home).map(drop).map_err(|error| error.to_string())
    };
    let mailbox = home.join("ipc/main");
    std::fs::create_dir_all(mailbox.join("messages")).unwrap();
    for inside in [mailbox.join("messages"), mailbox.clone(), mailbox.join("not/yet"), home.join("workspaces/main/x")] {
        let refused = write(&inside, true).unwrap_err();
        assert!(refused.contains("group `main`") && refused.contains("full_cards = false"), "{refused}");
        write(&inside, false).unwrap();
    }
    let outside = folder.path().join("messages");
    write(&outside, true).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(write(&outside, true).unwrap_err().contains("chmod o="));
    std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o750)).unwrap();
    write(&outside, true).unwrap();
    let link = folder.path().join("link");
    symlink(mailbox.join("messages"), &link).unwrap();
    assert!(write(&link, true).unwrap_err().contains("group `main`"), "a link is where it leads");
    assert!(write(&outside.join("../messages"), true).unwrap_err().contains("`..`"));
    if rustix::process::geteuid().is_root() {
        // The user of group `main`.
        std::os::unix::fs::chown(&outside, Some(54321), None).unwrap();
        assert!(write(&outside, true).unwrap_err().contains("belongs to the user of group `main`"));
        assert!(write(&outside.join("in/it"), true).unwrap_err().contains("belongs to the user"));
    }
    // A relative one is beside the configuration.
    assert!(write(Path::new("ipc/main/messages"), true).is_err());
}

#[test]
fn a_program_in_a_groups_reach_is_refused() {
    let text = "name = \"a\"\nkind = \"command\"\ncommand = [\"/nowhere/home/ipc/main/tasks/run\"]";
    assert!(fault(text).contains("which group `main` can write to"));
}
