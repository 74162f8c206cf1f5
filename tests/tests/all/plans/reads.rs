//! Plans with calls that depend on the state of their targets: it is read before the question.

use super::{answer, asked, plan, states};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use tests::calendar_server::{self, CalendarServer};
use tests::evidence;
use tests::github::Github;
use tests::group::{Group, code, error, with};
use tests::mail_servers::{self, MailServers};
use tests::{World, skipped, until};

const TOKEN: &str = "ghp_plansPLANSplans0123456789abcdefghij";
const PROFILE: &str = "write = \"human\"\nproduction = \"human\"\n";

/// A home with these providers, whose secrets are in files.
fn down(tables: &[String], secrets: &[(&str, &str)]) -> World {
    let mut builder = World::builder().file("policy/profiles/developer.toml", PROFILE);
    for (name, secret) in secrets {
        builder = builder.file(name, format!("{secret}\n"));
    }
    let mut world = builder.down();
    let mut config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    for table in tables {
        config = format!("{config}\n{table}\n");
    }
    for (name, secret) in secrets {
        let file = world.path(name);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        config = config.replace(&format!("{name:?}"), &format!("{:?}", file.display().to_string()));
        world.keep_secret(*secret);
    }
    world.rewrite("broker.toml", &config);
    world
}

/// A home with a GitHub, and these lines.
fn with_github(lines: &str) -> (World, Github) {
    let github = Github::new();
    let table = format!(
        "[providers.github]\nkind = \"github\"\nbase_url = \"{}\"\nrepos = [\"octo/hello\"]\ntoken = {{ file = \"token.key\" }}\n{lines}",
        github.base()
    );
    (down(&[table], &[("token.key", TOKEN)]), github)
}

fn up(lines: &str) -> (World, Github, Group) {
    let (mut world, github) = with_github(lines);
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "github" }));
    let developer = world.group("developer");
    (world, github, developer)
}

/// A new branch, which begins at another one.
fn branch(name: &str, from: &str) -> Value {
    let params = json!({ "owner": "octo", "repo": "hello", "branch": name, "from": from });
    json!({ "provider": "github", "action": "create_branch", "params": params })
}

fn branches(number: usize) -> Vec<Value> {
    (1..=number).map(|n| branch(&format!("topic/{n}"), "main")).collect()
}

/// The kinds of all rows about calls, in order.
fn kinds(world: &World) -> Vec<String> {
    let rows = world.rows().into_iter();
    rows.filter(|row| row.provider.as_deref() == Some("github") && row.kind != "granted").map(|row| row.kind).collect()
}

fn nobody_is_asked(world: &World) {
    super::nobody_is_asked(world);
    assert!(world.query("SELECT seq FROM open_intents").is_empty());
    assert!(world.rows().iter().all(|row| row.kind != "asked"));
}

/// Waits until so many reads have come in.
fn reads(github: &Github, number: usize) {
    until("the reads", || (github.reads().len() >= number).then_some(()));
}

const EVENT: &str = "BEGIN:VEVENT\nUID:single\nDTSTAMP:20261001T000000Z\nDTSTART:20261021T080000Z\n\
                     DTEND:20261021T083000Z\nSUMMARY:Dentist\nEND:VEVENT";

/// A calendar with an event, and a mail account.
fn office() -> Option<(World, CalendarServer, MailServers, Group)> {
    let calendar = CalendarServer::start()?;
    let mail = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => {
            skipped(why);
            return None;
        }
    };
    calendar.store("work/single.ics", EVENT);
    let table = format!(
        "[providers.calendar]\nkind = \"calendar\"\nurl = \"{}\"\nusername = \"ada\"\npassword = {{ file = \"calendar.key\" }}\n\
         writable = [\"work\"]\ntime_zone = \"Europe/Berlin\"\n",
        calendar.url("/")
    );
    let tables = [table, mail.table("mail", "recipients = [\"grace@example.net\"]\n")];
    let mut world = down(&tables, &[("calendar.key", calendar_server::PASSWORD), ("mail.key", mail_servers::PASSWORD)]);
    world.start();
    for provider in ["calendar", "mail"] {
        world.grant_with("developer", 2, json!({ "provider": provider }));
    }
    let developer = world.group("developer");
    Some((world, calendar, mail, developer))
}

/// A new event, an event that moves, and a mail.
fn errands() -> [Value; 3] {
    let create =
        json!({ "calendar": "work", "summary": "Lunch", "start": "2026-12-01T12:00", "end": "2026-12-01T13:00" });
    let update = json!({ "id": "work/single.ics", "start": "2026-10-22T10:00", "end": "2026-10-22T10:30" });
    let send = json!({ "to": ["grace@example.net"], "subject": "Lunch", "text": "At noon." });
    [("calendar", "create_event", create), ("calendar", "update_event", update), ("mail", "send_email", send)]
        .map(|(provider, action, params)| json!({ "provider": provider, "action": action, "params": params }))
}

#[test]
fn one_answer_makes_an_event_moves_another_and_sends_a_mail() {
    let Some((world, calendar, mail, developer)) = office() else { return };
    let before = calendar.stored("work/single.ics");
    let id = developer.send(plan(&errands()));
    let secret = asked(&world, &id);
    assert_eq!((calendar.events("work").len(), calendar.stored("work/single.ics")), (1, before.clone()));
    assert!(mail.messages("Sent").is_empty());
    let card = world.query("SELECT card FROM approvals")[0]["card"].as_str().unwrap().to_owned();
    let card: Value = serde_json::from_str(&card).unwrap();
    let shows = |part: &str, field: &str| {
        card[part].as_array().unwrap().iter().any(|line| line["field"].as_str().unwrap().starts_with(field))
    };
    assert!(shows("conditions", "2: "), "the card has no state of the event: {card}");
    for field in ["1: header.if-none-match", "2: header.if-match", "3: body"] {
        assert!(shows("sent", field), "no {field} in {card}");
    }
    // A read for facts exposes what that of a single call does: nothing, until the call runs.
    assert!(world.query("SELECT action FROM exposures").is_empty());

    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    let reply = developer.reply(&id);
    assert_eq!(states(&reply), ["succeeded"; 3], "{reply}");
    assert_eq!(calendar.events("work").len(), 2);
    assert!(calendar.stored("work/single.ics").unwrap().contains("20261022T"), "the event has moved");
    assert_eq!(mail.messages("Sent").len(), 1);

    // Each read has an intent and an outcome under the request of its call, which name the plan.
    let calls = reply["data"]["calls"].as_array().unwrap();
    let question = world.rows_of(&developer, &id)[0].seq;
    for (call, reads) in calls.iter().zip([true, true, false]) {
        let rows = world.rows_of(&developer, call["request_id"].as_str().unwrap());
        let earlier: Vec<_> = rows.iter().filter(|row| row.seq < question).collect();
        let kinds: Vec<&str> = earlier.iter().map(|row| row.kind.as_str()).collect();
        assert_eq!(kinds, if reads { vec!["intended", "succeeded"] } else { vec![] });
        if let Some(intent) = earlier.first() {
            let body = evidence::body(intent);
            assert_eq!((&body["stage"], &body["plan"]), (&json!("prepare"), &json!(id)));
        }
    }
}

#[test]
fn an_object_that_changes_before_its_turn_ends_the_plan() {
    let Some((world, calendar, mail, developer)) = office() else { return };
    let id = developer.send(plan(&errands()));
    let secret = asked(&world, &id);
    calendar.store("work/single.ics", &EVENT.replace("Dentist", "Surgeon"));
    let changed = calendar.stored("work/single.ics");
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "plan_ended", "{reply}");
    assert_eq!(states(&reply), ["succeeded", "failed", "skipped"], "{reply}");
    assert_eq!(reply["data"]["calls"][1]["code"], "approval_required", "{reply}");
    assert_eq!(calendar.stored("work/single.ics"), changed);
    assert!(mail.messages("Sent").is_empty());
}

#[test]
fn a_read_that_fails_ends_the_plan_and_asks_nobody() {
    let (world, github, developer) = up("");
    github.fail_reads(Some("/repos/octo/hello/git/ref/heads/dev"));
    let id = developer.send(plan(&[branch("topic/1", "main"), branch("topic/2", "dev"), branch("topic/3", "main")]));
    let reply = developer.reply(&id);
    assert!(error(&reply).contains("Call 2 of the plan, github.create_branch, cannot run: "), "{reply}");
    assert_eq!(code(&reply), "provider_failed", "{reply}");
    assert_eq!(kinds(&world), ["intended", "succeeded", "intended", "failed", "refused"]);
    nobody_is_asked(&world);
    assert!(github.changes().is_empty());
    // The reply is kept, and the id is used up.
    let again = plan(&[branch("topic/1", "main"), branch("topic/2", "dev"), branch("topic/3", "main")]);
    let count = github.reads().len();
    assert_eq!(code(&developer.ask(with(again, "request_id", id.as_str()))), code(&reply));
    assert_eq!(github.reads().len(), count);
    assert!(developer.names("responses").iter().all(|name| !name.contains("plan-")), "a read has a reply");
}

#[test]
fn a_plan_with_a_call_that_is_refused_reads_nothing() {
    let (world, github, developer) = up("");
    world.grant("developer", 2);
    let deploy = json!({ "provider": "demo", "action": "deploy", "params": {} });
    let main = branch("main", "topic/1");
    for (last, refused_as) in [(deploy, "level_too_low"), (main, "guardrail")] {
        let refused = developer.ask(plan(&[branch("topic/1", "main"), branch("topic/2", "main"), last]));
        assert_eq!(code(&refused), refused_as, "{refused}");
        assert!(error(&refused).contains("Call 3 of the plan"), "{refused}");
    }
    let security = world.group("security");
    assert_eq!(code(&security.ask(plan(&branches(2)))), "no_grant");
    assert_eq!(
        code(&world.command(json!({ "type": "kill", "scope": { "provider": "github" }, "on": true }))),
        "executed"
    );
    assert_eq!(code(&developer.ask(plan(&branches(2)))), "kill_switch");
    assert!(github.reads().is_empty(), "{:?}", github.reads());
    nobody_is_asked(&world);
}

#[test]
fn each_read_of_a_plan_is_counted_by_the_limits() {
    let (world, github, developer) = up("[limits.developer.github]\nwrite = { rate_per_minute = 5 }\n");
    let refused = developer.ask(plan(&branches(16)));
    assert_eq!(code(&refused), "rate_limited", "{refused}");
    assert!(error(&refused).contains("Call 6 of the plan"), "{refused}");
    assert!(refused["retry_after_ms"].is_u64(), "{refused}");
    assert_eq!(kinds(&world).iter().filter(|kind| *kind == "intended").count(), 5);
    nobody_is_asked(&world);
    let single = developer.ask(with(branch("topic/1", "main"), "type", "ext_call"));
    assert_eq!(code(&single), "rate_limited", "{single}");
    assert!(github.changes().is_empty());

    let (world, _github, developer) = up("");
    let id = developer.send(plan(&branches(16)));
    asked(&world, &id);
    assert_eq!(kinds(&world).iter().filter(|kind| *kind == "intended").count(), 16);
}

#[test]
fn a_read_of_a_plan_counts_as_a_call_in_progress() {
    let (mut world, github) = with_github("");
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replacen("[broker]\n", "[broker]\nmax_concurrent_calls = 1\n", 1));
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "github" }));
    let developer = world.group("developer");
    github.answer_reads(Some(0));
    let id = developer.send(plan(&branches(2)));
    reads(&github, 1);
    let calls = [branch("topic/3", "main"), branch("topic/4", "main")];
    let busy = developer.ask(plan(&calls));
    assert_eq!(code(&busy), "busy", "{busy}");
    assert!(error(&busy).contains("Call 1 of the plan") && busy["retry_after_ms"].is_u64(), "{busy}");
    github.answer_reads(None);
    asked(&world, &id);
    let second = developer.send(plan(&calls));
    asked(&world, &second);
}

#[test]
fn a_denied_plan_runs_nothing_and_is_not_read_again() {
    let (world, github, developer) = up("");
    let id = developer.send(plan(&branches(2)));
    assert_eq!(code(&answer(&world, &asked(&world, &id), false)), "executed");
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    let count = github.reads().len();
    let again = developer.ask(plan(&branches(2)));
    assert_eq!(code(&again), "approval_denied", "{again}");
    assert_eq!(github.reads().len(), count);
    assert!(github.changes().is_empty());
}

#[test]
fn a_plan_ends_when_it_is_cancelled_or_its_time_is_over_during_the_reads() {
    let (world, github, developer) = up("");
    github.answer_reads(Some(0));
    let id = developer.send(plan(&branches(2)));
    reads(&github, 1);
    // The same document again is the same plan.
    developer.send(with(plan(&branches(2)), "request_id", id.as_str()));
    let cancelled = developer.ask(json!({ "type": "ext_cancel", "of": id }));
    assert_eq!(cancelled["data"]["cancelled"], true, "{cancelled}");
    github.answer_reads(None);
    assert_eq!(code(&developer.reply(&id)), "cancelled");
    assert_eq!(kinds(&world).iter().filter(|kind| *kind == "intended").count(), 1);

    github.answer_reads(Some(0));
    let late = developer.ask(with(plan(&branches(2)), "timeout_ms", 300));
    assert_eq!(code(&late), "provider_timeout", "{late}");
    assert!(error(&late).contains("Call 1 of the plan"), "{late}");
    github.answer_reads(None);
    nobody_is_asked(&world);
    assert!(github.changes().is_empty());
    // Nothing of either is left: the next plan is asked about.
    let id = developer.send(plan(&branches(2)));
    asked(&world, &id);
}

#[test]
fn a_plan_that_arrives_with_its_cancellation_asks_nobody() {
    let (mut world, github) = with_github("");
    world.start_process();
    let output = world.cli(&["grant", "developer", "github", "2"]);
    assert!(output.status.success(), "{output:?}");
    let developer = world.group("developer").by_files();
    github.answer_reads(Some(0));
    // Both are there before the broker looks, in this order.
    world.stand_still();
    let id = developer.send(plan(&branches(2)));
    let cancel = developer.send(json!({ "type": "ext_cancel", "of": id }));
    world.go_on();
    let cancelled = developer.reply(&cancel);
    assert_eq!(cancelled["data"]["cancelled"], true, "{cancelled}");
    github.answer_reads(None);
    assert_eq!(code(&developer.reply(&id)), "cancelled");
    nobody_is_asked(&world);
}

#[test]
fn a_grant_that_ends_during_the_reads_ends_the_plan() {
    let (world, github, developer) = up("");
    github.answer_reads(Some(0));
    let id = developer.send(plan(&branches(3)));
    reads(&github, 1);
    let revoke = json!({ "type": "revoke", "group_folder": "developer", "provider": "github" });
    assert_eq!(code(&world.command(revoke)), "executed");
    github.answer_reads(None);
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "no_grant", "{reply}");
    assert!(error(&reply).contains("Call 2 of the plan"), "{reply}");
    assert_eq!(kinds(&world).iter().filter(|kind| *kind == "intended").count(), 1);
    nobody_is_asked(&world);
}

#[test]
fn an_equal_plan_joins_the_question_only_while_its_objects_are_the_same() {
    let (world, github, developer) = up("");
    let id = developer.send(plan(&branches(2)));
    let secret = asked(&world, &id);
    let second = developer.ask(plan(&branches(2)));
    assert_eq!(code(&second), "approval_required", "{second}");
    assert_eq!(world.query("SELECT id FROM approvals").len(), 1);
    github.push(&"b".repeat(40));
    let third = developer.send(plan(&branches(2)));
    let other = asked(&world, &third);
    assert_ne!(other, secret);
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    assert_eq!(states(&developer.reply(&id)), ["failed", "skipped"]);
    assert!(github.changes().is_empty());
    assert_eq!(code(&answer(&world, &other, true)), "executed");
    assert_eq!(states(&developer.reply(&third)), ["succeeded"; 2]);
    assert_eq!(github.changes().len(), 2);
}

#[test]
fn a_broker_that_is_killed_during_or_after_the_reads_asks_once_and_runs_each_call_once() {
    let (mut world, github) = with_github("");
    world.start_process();
    let output = world.cli(&["grant", "developer", "github", "2"]);
    assert!(output.status.success(), "{output:?}");
    let developer = world.group("developer").by_files();
    // So many reads are answered before it dies. Two are those of one call.
    for (round, answered) in [0, 1, 2, 3, 6].into_iter().enumerate() {
        let (before, changes) = (github.reads().len(), github.changes().len());
        github.answer_reads(Some(answered));
        let calls: Vec<Value> = (1..=3).map(|n| branch(&format!("topic/{round}-{n}"), "main")).collect();
        let id = developer.send(plan(&calls));
        if answered < 6 {
            reads(&github, before + answered + 1);
        } else {
            asked(&world, &id);
        }
        world.end_with(true, &[]);
        github.answer_reads(None);
        world.start_process();
        let secret = asked(&world, &id);
        let of_it = format!("SELECT id FROM approvals WHERE kind = 'plan' AND request_id = '{id}'");
        assert_eq!(world.query(&of_it).len(), 1);
        assert_eq!(world.rows_of(&developer, &id).iter().filter(|row| row.kind == "asked").count(), 1);
        assert!(world.query("SELECT seq FROM open_intents").is_empty());
        assert!(developer.names("responses").iter().all(|name| !name.contains("plan-")), "a read has a reply");
        assert_eq!(github.changes().len(), changes);
        let output = world.cli(&["approvals", "approve", &secret]);
        assert!(output.status.success(), "{output:?}");
        let reply = developer.reply(&id);
        assert_eq!(states(&reply), ["succeeded"; 3], "{reply}");
        assert_eq!(github.changes().len(), changes + 3);
    }
    world.end_with(false, &[]);
}

#[test]
fn a_restart_in_the_middle_of_the_reads_loses_no_plan() {
    let (mut world, github, developer) = up("");
    let developer = developer.by_files();
    github.answer_reads(Some(1));
    let id = developer.send(plan(&branches(2)));
    reads(&github, 2);
    world.clock.advance(Duration::from_secs(1));
    github.answer_reads(None);
    world.restart();
    let secret = asked(&world, &id);
    assert_eq!(world.query("SELECT id FROM approvals").len(), 1);
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    assert_eq!(states(&developer.reply(&id)), ["succeeded"; 2]);
    assert_eq!(github.changes().len(), 2);
}
