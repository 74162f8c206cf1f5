//! Servers that are reached by an address.

use serde_json::{Value, json};
use tests::bridges::said;
use tests::group::{Group, code, error};
use tests::servers::{Remote, call, home_of, open, text};
use tests::{World, skipped};

fn remote(arguments: &[&str]) -> Option<Remote> {
    let remote = Remote::start(arguments);
    if remote.is_none() {
        skipped("there is no python3 to run a server with");
    }
    remote
}

/// A home with this server, accepted and granted.
fn opened(remote: &Remote) -> (World, Group) {
    let mut world = home_of(&table(&remote.url()), "[limits.developer.far.breaker]\nfaults = 0");
    open(&mut world, &["far"]);
    let developer = world.group("developer");
    (world, developer)
}

fn table(url: &str) -> String {
    format!(
        "[providers.far]\nkind = \"mcp\"\nurl = {url:?}\ntimeout_seconds = 4\n[providers.far.tools]\n\
         read = {{ level = 1, exposes = [] }}\nwrite = {{ level = 2, exposes = [] }}\n"
    )
}

fn read(mode: &str) -> Value {
    call("far", "read", &json!({ "mode": mode }))
}

fn write(mode: &str) -> Value {
    call("far", "write", &json!({ "mode": mode }))
}

#[test]
fn a_remote_server_is_called_for_every_form_of_its_answers() {
    for arguments in [&[][..], &["--plain"]] {
        let Some(remote) = remote(arguments) else { return };
        let (world, developer) = opened(&remote);
        assert_eq!(text(&developer.ask(write("count"))), "1");
        assert_eq!(text(&developer.ask(read("events"))), "done");
        let seen: Value = serde_json::from_str(text(&developer.ask(read("headers")))).unwrap();
        let mut names: Vec<&String> = seen.as_object().unwrap().keys().collect();
        names.sort();
        let expected = ["accept", "content-length", "content-type", "host", "mcp-protocol-version", "mcp-session-id"];
        assert_eq!(names, expected, "nothing else of the broker's is said");
        world.settle();
    }
}

/// Attack (Definitions and servers): A remote server redirects the broker and its token.
/// Defence: Redirects are not followed. Only https, or this machine, is permitted.
///
/// Attack: see `every_misbehaviour_of_a_server_has_its_reason_code`.
#[test]
fn every_misbehaviour_of_a_remote_server_has_its_reason_code() {
    let Some(remote) = remote(&[]) else { return };
    let (world, developer) = opened(&remote);
    for (mode, reads, writes) in [
        ("drop", "provider_failed", "outcome_unknown"),
        ("cut", "provider_failed", "outcome_unknown"),
        ("elsewhere", "provider_failed", "outcome_unknown"),
        ("broken", "provider_failed", "outcome_unknown"),
        ("forbidden", "provider_failed", "provider_failed"),
        ("busy", "provider_failed", "provider_failed"),
        ("redirect", "provider_failed", "provider_failed"),
        ("html", "provider_failed", "outcome_unknown"),
        ("no_json", "provider_failed", "outcome_unknown"),
        ("long", "provider_failed", "outcome_unknown"),
        ("trickle", "provider_failed", "outcome_unknown"),
        ("hang", "provider_timeout", "outcome_unknown"),
    ] {
        for (asked, expected) in [(read(mode), reads), (write(mode), writes)] {
            let reply = developer.ask(asked);
            assert_eq!(code(&reply), expected, "{mode}: {reply}");
        }
    }
    // Each effect once, and nobody has followed it elsewhere.
    assert_eq!(text(&developer.ask(read("writes"))), "4");
    assert_eq!(text(&developer.ask(read("paths"))), "[\"/mcp\"]");
    world.settle();
}

#[test]
fn a_server_that_forgets_who_asks_is_told_again() {
    let Some(remote) = remote(&[]) else { return };
    let (_world, developer) = opened(&remote);
    assert_eq!(code(&developer.ask(read("forget"))), "executed");
    // Nothing was done, and nothing is sent twice by itself.
    let refused = developer.ask(write("count"));
    assert_eq!(code(&refused), "provider_failed", "{refused}");
    assert_eq!(text(&developer.ask(write("count"))), "1");
    drop(remote);
    let gone = developer.ask(write("count"));
    assert!(code(&gone) == "provider_failed" && error(&gone).contains("ended before it was asked"), "{gone}");
}

/// Attack (Definitions and servers): A token is shown for an unrecorded or stopped look at a
/// server, or is stored in the server's description.
/// Defence: A look with a token has an intent of the broker, and a kill switch stops it. A
/// description with a secret is not accepted.
#[test]
fn a_token_is_shown_to_the_server_and_to_nobody_else() {
    const TOKEN: &str = "t0ken-for-the-remote-server";
    let Some(remote) = remote(&["--token", TOKEN]) else { return };
    let mut world = home_of("", "");
    let secret = world.path("far.token");
    std::fs::write(&secret, TOKEN).unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let with_token = table(&remote.url())
        .replace("[providers.far.tools]", &format!("token = {{ file = {secret:?} }}\n[providers.far.tools]"));
    world.rewrite("broker.toml", &format!("{config}\n{}", table(&remote.url())));
    // Without it, it says nothing.
    let refused = world.cli(&["provider", "accept", "far"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(said(&refused).contains("401"), "{}", said(&refused));
    world.rewrite("broker.toml", &format!("{config}\n{with_token}"));
    open(&mut world, &["far"]);
    let developer = world.group("developer");
    assert_eq!(text(&developer.ask(write("count"))), "1");
    // Through the daemon, too; either way there is an intent before it is shown.
    let again = world.cli(&["--json", "provider", "accept", "far"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["accepted"], &again["changes"]), (&json!(true), &json!([])), "{again}");
    let looks = world.rows().into_iter().filter(|row| row.action.as_deref() == Some("tools.list"));
    let looks: Vec<String> = looks.map(|row| row.kind).collect();
    assert_eq!(looks, ["intended", "succeeded"].repeat(3), "two to accept it, and this one");
    // A stopped server is not looked at either.
    assert!(world.cli(&["kill", "provider", "far"]).status.success());
    let stopped = world.cli(&["provider", "accept", "far"]);
    assert!(said(&stopped).contains("a kill switch stops it"), "{}", said(&stopped));
    assert!(world.cli(&["kill", "provider", "far", "--lift"]).status.success());
    // Nor is one kept that shows in what it says of itself what it was shown.
    let echoed = world.cli(&["provider", "accept", "far"]);
    assert!(echoed.status.success(), "{}", said(&echoed));
    assert_eq!(code(&developer.ask(read("echo_token"))), "executed");
    let echoed = world.cli(&["provider", "accept", "far"]);
    assert!(said(&echoed).contains("hold a secret of the broker's own"), "{}", said(&echoed));
    world.settle();
    world.stop();
    std::fs::remove_file(secret).unwrap();
    world.keep_secret(TOKEN);
}

/// Attack: see `every_misbehaviour_of_a_remote_server_has_its_reason_code`.
#[test]
fn only_an_address_that_cannot_be_listened_to_is_taken() {
    for (url, fault) in [
        ("http://example.com/mcp", "must begin with https://"),
        ("ftp://example.com/mcp", "must begin with https://"),
        ("https://user:secret@example.com/mcp", "contains a name or a password"),
        ("not an address", "is not a URL"),
        ("", "is not a URL"),
    ] {
        let world = home_of(&table(url), "");
        let checked = world.cli(&["config", "check"]);
        assert_eq!(checked.status.code(), Some(4), "{url}: {}", said(&checked));
        assert!(said(&checked).contains(fault), "{url}: {}", said(&checked));
    }
    let both = table("https://example.com/mcp").replace("url =", "command = [\"true\"]\nurl =");
    let checked = home_of(&both, "").cli(&["config", "check"]);
    assert!(said(&checked).contains("unknown field `command`, expected one of"), "{}", said(&checked));
}
