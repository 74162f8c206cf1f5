//! Servers elsewhere that are called with persons' own accounts.

use model::ChatType;
use serde_json::{Value, json};
use tests::bridges::{call as on_behalf, said, token};
use tests::group::{Group, code, error, with};
use tests::servers::{Remote, home_of, http, open, sign_in};
use tests::{World, skipped, until};

const SECRET: &str = "s3cr3t-of-the-client";

/// The server, a world that has accepted its tools, and a token of Ann's.
struct Stage {
    remote: Remote,
    world: World,
    developer: Group,
    ann: String,
}

fn stage(arguments: &[&str]) -> Option<Stage> {
    stage_with(arguments, false)
}

/// The same, where persons type a code elsewhere.
fn stage_with(arguments: &[&str], types: bool) -> Option<Stage> {
    let Some(remote) = Remote::run("/usr/bin/python3".as_ref(), "oauth.py", arguments) else {
        skipped("there is no python3 to run a server with");
        return None;
    };
    let base = remote.url().replace("/mcp", "");
    let more = "[limits.developer.\"team.tasks\".breaker]\nfaults = 0";
    let device = format!("[providers.\"team.tasks\".oauth]\ndevice_url = \"{base}/device\"\n");
    let mut tables = table(&remote.url(), &base);
    if types {
        tables = tables.replace("[providers.\"team.tasks\".oauth]\n", &device);
    }
    let mut world = home_of(&tables, more);
    // With what the broker itself looks at the tools: somebody's whom the operator has signed in.
    let (looks, client) = (world.home().join("looks"), world.home().join("client"));
    for (path, secret) in [(&looks, operators_token(&base)), (&client, SECRET.to_owned())] {
        std::fs::write(path, secret).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let config = std::fs::read_to_string(world.home().join("broker.toml")).unwrap();
    let config = config.replace("\"looks\"", &format!("{looks:?}")).replace("\"client\"", &format!("{client:?}"));
    world.rewrite("broker.toml", &config);
    open(&mut world, &["team.tasks"]);
    let ann = token(&mut world, "ann", ChatType::Private);
    let developer = world.group("developer");
    Some(Stage { remote, world, developer, ann })
}

fn table(url: &str, base: &str) -> String {
    format!(
        "[providers.\"team.tasks\"]\nkind = \"mcp\"\nurl = {url:?}\ntimeout_seconds = 10\ntoken = {{ file = \"looks\" }}\n\
         [providers.\"team.tasks\".oauth]\nclient_id = \"broker\"\nclient_secret = {{ file = \"client\" }}\n\
         authorize_url = \"{base}/authorize\"\ntoken_url = \"{base}/token\"\nscopes = [\"openid\", \"email\", \"mcp\"]\n\
         [providers.\"team.tasks\".tools]\nwhoami = {{ level = 1, exposes = [] }}\nleak = {{ level = 1, exposes = [] }}\n\
         note = {{ level = 2, exposes = [] }}\n"
    )
}

/// A token of somebody's whom no agent works for.
fn operators_token(base: &str) -> String {
    // BASE64URL(SHA-256("a" × 43)), as a client computes it.
    let (verifier, challenge) = ("a".repeat(43), "ZtNPunH49FD35FWYhT5Tv8I7vRKQJ8uxMaL0_9eHjNA");
    let back = sign_in(&format!(
        "{base}/authorize?response_type=code&client_id=public&redirect_uri=http://localhost&state=s&code_challenge=\
         {challenge}&code_challenge_method=S256&login_hint=operator"
    ));
    let code = back.split("code=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let form = format!(
        "grant_type=authorization_code&code={code}&redirect_uri=http://localhost&client_id=public&code_verifier={verifier}"
    );
    let (status, _, body) = http("POST", &format!("{base}/token"), "application/x-www-form-urlencoded", &form);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["access_token"].as_str().unwrap().to_owned()
}

impl Stage {
    fn base(&self) -> String {
        self.remote.url().replace("/mcp", "")
    }

    fn state(&self) -> Value {
        serde_json::from_str(&http("GET", &format!("{}/control/state", self.base()), "text/plain", "").2).unwrap()
    }

    fn control(&self, what: &str, body: &Value) {
        let url = format!("{}/control/{what}", self.base());
        let (status, _, said) = http("POST", &url, "application/json", &body.to_string());
        assert_eq!(status, 200, "{said}");
    }

    fn auth(&self, word: &str, token: &str, more: &Value) -> Value {
        let document = json!({ "type": format!("ext_auth_{word}"), "context_token": token });
        let members = more.as_object().unwrap().iter();
        self.developer.ask(members.fold(document, |document, (name, value)| with(document, name, value.clone())))
    }

    /// Begins to link, and signs in: the flow, and where the page led to.
    fn signed_in(&self, token: &str, person: &str) -> (String, String) {
        let begun = self.auth("begin", token, &json!({ "capability": "team.tasks", "account_hint": person }));
        let data = &begun["data"];
        let url = data["auth_url"].as_str().unwrap_or_else(|| panic!("{begun}"));
        for part in ["code_challenge_method=S256", "client_id=broker", "scope=openid+email+mcp", "resource="] {
            assert!(url.contains(part), "{url}");
        }
        assert!(!url.contains(SECRET));
        (data["flow_id"].as_str().unwrap().to_owned(), sign_in(url))
    }

    fn complete(&self, token: &str, flow: &str, back: &str) -> Value {
        self.auth("complete", token, &json!({ "flow_id": flow, "callback_url": back }))
    }

    /// Links the account of this person, whole.
    fn link(&self, token: &str, person: &str) {
        let (flow, back) = self.signed_in(token, person);
        let completed = self.complete(token, &flow, &back);
        assert_eq!(completed["data"]["account_ref"], format!("{person}@example.com"), "{completed}");
        let asked = self.world.query("SELECT code, card FROM approvals WHERE state = 'waiting' AND kind = 'account'");
        assert!(asked[0]["card"].as_str().unwrap().contains(&format!("{person}@example.com")), "{asked:?}");
        let yes = json!({ "type": "answer", "code": asked[0]["code"], "yes": true, "reason": null });
        assert_eq!(code(&self.world.command(yes)), "executed");
    }

    fn whoami(&self, token: &str) -> Value {
        self.developer.ask(whoami(token))
    }

    /// How often the server has renewed tokens.
    fn renewed(&self) -> u64 {
        self.state()["refreshes"].as_u64().unwrap()
    }
}

fn whoami(token: &str) -> Value {
    on_behalf("team.tasks", "whoami", &json!({}), token)
}

/// Whose token the server saw.
fn person(reply: &Value) -> &str {
    reply.pointer("/data/structuredContent/person").and_then(Value::as_str).unwrap_or_else(|| panic!("{reply}"))
}

/// Attack (Accounts): A person's call uses another's token, or a server echoes the token.
/// Defence: Each account has its own connection. The credentials that a call used are searched for
/// in its result.
///
/// Attack: see `a_person_is_back_where_this_providers_page_leads_and_nowhere_else`.
#[test]
fn a_server_is_called_with_the_account_of_the_person_behind_the_call() {
    let Some(mut stage) = stage(&[]) else { return };
    let ann = stage.ann.clone();
    let bob = token(&mut stage.world, "bob", ChatType::Private);
    assert_eq!(code(&stage.whoami(&ann)), "capability_auth_required");
    stage.link(&ann, "ann");
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    assert_eq!(code(&stage.whoami(&bob)), "capability_auth_required");
    assert_eq!(code(&stage.developer.ask(whoami(""))), "context_token_missing");
    stage.link(&bob, "bob");
    for _ in 0..2 {
        assert_eq!(person(&stage.whoami(&ann)), "ann");
        assert_eq!(person(&stage.whoami(&bob)), "bob");
    }
    let note = |token: &str| stage.developer.ask(on_behalf("team.tasks", "note", &json!({ "text": "a" }), token));
    assert_eq!((code(&note(&ann)), code(&note(&bob))), ("executed", "executed"));
    // The server's text about its token reaches nobody.
    let leaked = stage.developer.ask(on_behalf("team.tasks", "leak", &json!({}), &ann));
    assert!(!leaked.to_string().contains("at-") && leaked.to_string().contains("<redacted"), "{leaked}");
    // A code is good for one flow, and for whoever began it.
    let (flow, back) = stage.signed_in(&ann, "ann");
    assert_eq!(code(&stage.complete(&bob, &flow, &back)), "capability_auth_flow_invalid");
    let (other, _) = stage.signed_in(&ann, "ann");
    assert_eq!(code(&stage.complete(&ann, &other, &back)), "capability_state_mismatch");
    assert_eq!(code(&stage.complete(&ann, &flow, &back)), "executed");
    // One server's page leads to another's, whose code would be sent to the first one: it comes back to another place.
    let (flow, back) = stage.signed_in(&ann, "ann");
    assert!(back.starts_with("http://localhost/team.tasks?"), "{back}");
    let elsewhere = stage.complete(&ann, &flow, &back.replace("/team.tasks?", "/team.others?"));
    assert_eq!(code(&elsewhere), "capability_state_mismatch", "{elsewhere}");
    let (flow, _) = stage.signed_in(&ann, "ann");
    let bare = stage.auth("complete", &ann, &json!({ "flow_id": flow, "code": "a" }));
    assert_eq!(code(&bare), "capability_state_mismatch", "{bare}");
    // After a restart it is the same account, without a renewal that nobody needed.
    stage.world.restart();
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    assert_eq!(stage.renewed(), 0);
    assert!(!stage.state()["families"]["ann"]["revoked"].as_bool().unwrap());
}

/// Attack (Accounts): Two calls renew one token, or a caller gives up, and the server treats the
/// second use as theft; or a crash comes between renewal and storage.
/// Defence: There is one renewal for all waiters, stored before use. If the answer is lost, the old
/// token is tried again.
#[test]
fn a_token_that_is_about_to_end_is_renewed_once_for_all_who_wait() {
    // Shorter than the margin, so that each call renews it first.
    let Some(stage) = stage(&["--lives", "50"]) else { return };
    let ann = stage.ann.clone();
    stage.link(&ann, "ann");
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    assert_eq!(stage.renewed(), 1);
    // Recorded as an intent of its own, before the call's.
    let stages =
        "SELECT json_extract(body, '$.stage') AS stage FROM ledger WHERE action = 'whoami' AND kind = 'intended'";
    let stages: Vec<_> = stage.world.query(stages).iter().map(|row| row["stage"].clone()).collect();
    assert_eq!(stages, [json!("prepare"), json!("run")]);
    stage.control("fault", &json!({ "what": "token-slow", "seconds": 2 }));
    let asked: Vec<_> = (0..4).map(|_| stage.developer.send(whoami(&ann))).collect();
    for id in asked {
        assert_eq!(person(&stage.developer.reply(&id)), "ann");
    }
    assert_eq!(stage.renewed(), 2, "one for all four");
    // A caller that gives up in the middle of it takes nothing from the others: no server gives a second chance here.
    stage.control("fault", &json!({ "what": "token-slow", "seconds": 2 }));
    let gives_up = stage.developer.ask(with(whoami(&ann), "timeout_ms", 700));
    assert_ne!(code(&gives_up), "executed", "{gives_up}");
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    stage.control("fault", &json!({ "what": "token-no-refresh" }));
    for _ in 0..2 {
        assert_eq!(person(&stage.whoami(&ann)), "ann", "the old one stays good where there is no new one");
    }
    assert!(!stage.state()["families"]["ann"]["revoked"].as_bool().unwrap(), "no refresh token was used twice");
}

#[test]
fn a_renewal_that_comes_when_nobody_waits_for_it_is_kept_like_any_other() {
    // No second chance: what was renewed and is not kept is lost.
    let Some(mut stage) = stage(&["--lives", "50"]) else { return };
    let ann = stage.ann.clone();
    stage.link(&ann, "ann");
    stage.control("fault", &json!({ "what": "token-slow", "seconds": 2 }));
    let gives_up = stage.developer.ask(with(whoami(&ann), "timeout_ms", 700));
    assert_eq!(code(&gives_up), "provider_timeout", "{gives_up}");
    until("it is kept", || {
        let late = "SELECT provider, person FROM ledger WHERE json_extract(body, '$.renewed_late') = 'ann@example.com'";
        (stage.world.query(late) == [json!({ "provider": "team.tasks", "person": "broker:ann" })]).then_some(())
    });
    assert_eq!(stage.renewed(), 1);
    stage.world.kill();
    stage.world.start_process();
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    assert!(!stage.state()["families"]["ann"]["revoked"].as_bool().unwrap(), "no refresh token was used twice");
    let late = "SELECT 1 FROM ledger WHERE json_extract(body, '$.renewed_late') IS NOT NULL";
    assert_eq!(stage.world.query(late).len(), 1, "what somebody waited for has its own outcome");
}

/// Attack: see `a_token_that_is_about_to_end_is_renewed_once_for_all_who_wait`.
#[test]
fn a_renewal_whose_answer_is_lost_loses_no_account() {
    let Some(mut stage) = stage(&["--lives", "50", "--grace", "600"]) else { return };
    let ann = stage.ann.clone();
    stage.link(&ann, "ann");
    for fault in ["token-lost", "token-500", "token-garbage", "token-html", "token-redirect", "token-huge"] {
        stage.control("fault", &json!({ "what": fault }));
        let refused = stage.whoami(&ann);
        assert_eq!(code(&refused), "capability_backend_unavailable", "{fault}: {refused}");
        assert_eq!(person(&stage.whoami(&ann)), "ann", "after {fault}");
    }
    // Killed between the server's rotation and what is stored of it.
    let before = stage.renewed();
    stage.control("fault", &json!({ "what": "token-slow", "seconds": 20 }));
    let id = stage.developer.send(whoami(&ann));
    until("the server has renewed it", || (stage.renewed() > before).then_some(()));
    stage.world.kill();
    stage.control("fault", &json!({ "what": "token-slow", "times": 0 }));
    stage.world.start_process();
    assert_eq!(code(&stage.developer.reply(&id)), "provider_timeout", "a read, so nothing is unknown");
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    assert!(!stage.state()["families"]["ann"]["revoked"].as_bool().unwrap());
}

#[test]
fn an_account_that_the_server_no_longer_knows_is_linked_again() {
    let Some(stage) = stage(&[]) else { return };
    let ann = stage.ann.clone();
    stage.link(&ann, "ann");
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    // Ended before its time: the next call says so, and the one after renews it.
    stage.control("expire", &json!({}));
    let refused = stage.whoami(&ann);
    assert_eq!(code(&refused), "capability_auth_required", "{refused}");
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    assert_eq!(stage.renewed(), 1);
    stage.control("revoke", &json!({ "person": "ann" }));
    for _ in 0..3 {
        let refused = stage.whoami(&ann);
        assert_eq!(code(&refused), "capability_auth_required", "{refused}");
    }
    assert!(error(&stage.whoami(&ann)).contains("link the account again"));
    let listed = stage.auth("list", &ann, &json!({ "capability": "team.tasks" }));
    assert_eq!(listed["data"]["accounts"][0]["account_ref"], "ann@example.com", "it is there still");
    let refused_at = || {
        let listed = stage.world.cli(&["--json", "account", "list"]);
        serde_json::from_slice::<Value>(&listed.stdout).unwrap()["accounts"][0]["refused_at"].clone()
    };
    assert!(refused_at().is_string());
    stage.link(&ann, "ann");
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    assert_eq!(refused_at(), Value::Null);
    // An operator has no token to link an account with.
    let linked = stage.world.cli(&["account", "link", "broker:bob", "team.tasks", "bob@example.com"]);
    assert!(!linked.status.success() && said(&linked).contains("only a sign-in gives"), "{}", said(&linked));
}

/// Attack (Accounts): A token server fails, redirects, floods or answers nonsense, and a code is
/// sent twice.
/// Defence: No redirects, bounded, once; then the session ends.
#[test]
fn an_authorization_code_is_sent_once_even_if_the_token_server_fails() {
    let Some(stage) = stage(&[]) else { return };
    let ann = stage.ann.clone();
    for (fault, expected) in [
        ("token-500", "provider_failed"),
        ("token-garbage", "outcome_unknown"),
        ("token-html", "outcome_unknown"),
        ("token-redirect", "outcome_unknown"),
        ("token-huge", "outcome_unknown"),
        ("token-lost", "outcome_unknown"),
    ] {
        let (flow, back) = stage.signed_in(&ann, "ann");
        stage.control("fault", &json!({ "what": fault }));
        let requests = || stage.state()["token_requests"].as_array().unwrap().len();
        let before = requests();
        let failed = stage.complete(&ann, &flow, &back);
        assert_eq!(code(&failed), expected, "{fault}: {failed}");
        assert!(requests() <= before + 1, "{fault}: nothing is sent twice");
        assert_eq!(code(&stage.complete(&ann, &flow, &back)), "capability_auth_flow_invalid", "{fault}");
        stage.control("fault", &json!({ "what": fault, "times": 0 }));
    }
    let (flow, back) = stage.signed_in(&ann, "ann");
    let wrong = stage.complete(&ann, &flow, &back.replace("code=", "code=x"));
    assert_eq!(code(&wrong), "capability_auth_flow_invalid", "{wrong}");
    assert_eq!(stage.state()["elsewhere"], 0, "nobody is led elsewhere");
    assert_eq!(stage.world.query("SELECT 1 FROM approvals"), [Value::Null; 0]);
    assert_eq!(stage.world.query("SELECT 1 FROM credentials"), [Value::Null; 0]);
}

#[test]
fn a_person_types_a_code_elsewhere_and_brings_nothing_back() {
    let Some(mut stage) = stage_with(&[], true) else { return };
    let ann = stage.ann.clone();
    let start = || stage.auth("begin", &ann, &json!({ "capability": "team.tasks" }));
    let poll = |flow: &Value| stage.auth("poll", &ann, &json!({ "flow_id": flow }));
    let done = |flow: &Value| {
        until("the server is asked, at its pace", || {
            let polled = poll(flow);
            (polled["data"]["state"] != "pending").then_some(polled)
        })
    };
    let begun = start();
    let (flow, typed) = (begun["data"]["flow_id"].clone(), begun["data"]["user_code"].clone());
    assert_eq!(
        (&typed, &begun["data"]["flow_type"], &begun["data"]["poll_interval_s"]),
        (&json!("WDJB-MJHT"), &json!("device_code"), &json!(1)),
        "{begun}"
    );
    assert_eq!(code(&poll(&flow)), "executed");
    let refused = stage.auth("complete", &ann, &json!({ "flow_id": flow, "code": "a" }));
    assert_eq!(code(&refused), "capability_auth_flow_invalid", "nothing is brought back: {refused}");
    let begun = start();
    let (flow, typed) = (begun["data"]["flow_id"].clone(), begun["data"]["user_code"].clone());
    stage.control("approve", &json!({ "user_code": typed, "person": "ann" }));
    let waiting = done(&flow);
    assert_eq!(waiting["data"]["account_ref"], "ann@example.com", "{waiting}");
    let asked = stage.world.query("SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'account'");
    let yes = json!({ "type": "answer", "code": asked[0]["code"], "yes": true, "reason": null });
    assert_eq!(code(&stage.world.command(yes)), "executed");
    assert_eq!(person(&stage.whoami(&ann)), "ann");
    let begun = start();
    stage.control("approve", &json!({ "deny": begun["data"]["user_code"] }));
    let denied = done(&begun["data"]["flow_id"]);
    assert_eq!(code(&denied), "capability_auth_flow_denied", "{denied}");
    // Answers that are none lose no flow.
    let begun = start();
    stage.control("fault", &json!({ "what": "token-garbage" }));
    let odd = done(&begun["data"]["flow_id"]);
    assert_eq!(code(&odd), "capability_invalid_output", "{odd}");
    stage.control("approve", &json!({ "user_code": begun["data"]["user_code"], "person": "ann" }));
    assert_eq!(done(&begun["data"]["flow_id"])["data"]["state"], "waiting");
    stage.world.stop();
}

#[test]
fn invalid_oauth_settings_of_a_server_are_named() {
    let good = table("http://127.0.0.1:1/mcp", "http://127.0.0.1:1");
    for (from, to, why) in [
        ("\"team.tasks\"", "tasks", "name in two parts"),
        ("authorize_url = \"http://127.0.0.1:1/authorize\"", "authorize_url = \"http://a.example/\"", "https"),
        ("token_url = \"http://127.0.0.1:1/token\"", "token_url = \"nowhere\"", "token_url"),
        ("client_id = \"broker\"", "client_id = \"\"", "client_id"),
        ("client_id = \"broker\"", "client_id = \"broker\"\ndevice_url = \"http://a.example/\"", "device_url"),
        ("client_id = \"broker\"", "client_id = \"broker\"\nauth_hosts = [\"https://a\"]", "auth_hosts"),
        ("client_id = \"broker\"", "client_id = \"broker\"\nsurprise = 1", "surprise"),
    ] {
        let world = home_of(&good.replace(from, to), "");
        let checked = said(&world.cli(&["config", "check"]));
        assert!(checked.contains(why), "{to}: {checked}");
    }
}
