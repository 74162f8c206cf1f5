//! The tasks of `AgentDojo`'s suite `workspace`, with the assistant's own profile: the calls that its authors state for each
//! task of a person, and those that an attacker wants.
//!
//! Source: E. Debenedetti and others, "`AgentDojo`: A Dynamic Environment to Evaluate Prompt Injection Attacks and Defenses
//! for LLM Agents", `NeurIPS` 2024; the package `agentdojo` of `PyPI`.

use super::{servers, to, world_with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tests::group::{Group, code};
use tests::servers::{installed, misbehaving, printed};
use tests::{World, until};

/// A task with its calls.
struct Task {
    is_injection: bool,
    name: String,
    calls: Vec<(String, Value)>,
}

/// The call of the broker for one of the suite.
enum Mapped {
    Call(Value),
    /// An agent knows it without a call.
    Known,
    /// No action does this.
    Missing,
    /// The suite's drive has no counterpart here.
    Drive,
}

/// The end of a call.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Executed,
    ExecutedAfterYes,
    Denied,
    Refused,
}

fn tasks() -> Option<Vec<Task>> {
    let packages = installed("agentdojo")?.join("lib");
    let packages: PathBuf = std::fs::read_dir(packages).unwrap().next().unwrap().unwrap().path().join("site-packages");
    let script = misbehaving().with_file_name("agentdojo.py");
    let lines = printed("python3", &[script.to_str().unwrap(), packages.to_str().unwrap()]);
    let task = |line: &str| {
        let task: Value = serde_json::from_str(line).unwrap();
        let call = |call: &Value| (call[0].as_str().unwrap().to_owned(), call[1].clone());
        Task {
            is_injection: task["kind"] == "injection",
            name: format!("{} {}", task["kind"].as_str().unwrap(), task["task"].as_str().unwrap()),
            calls: task["calls"].as_array().unwrap().iter().map(call).collect(),
        }
    };
    Some(lines.lines().map(task).collect())
}

/// The text of an argument, or another one where the suite computes it.
fn text<'a>(arguments: &'a Value, name: &str, other: &'a str) -> &'a str {
    arguments[name].as_str().unwrap_or(other)
}

fn moment(arguments: &Value, name: &str, other: &str) -> String {
    text(arguments, name, other).replace(' ', "T")
}

fn mapped(function: &str, arguments: &Value, mail: &str, event: &str) -> Mapped {
    let day = |name: &str| {
        let from = text(arguments, name, "2024-05-15").to_owned();
        json!({ "from": format!("{from}T00:00"), "to": format!("{from}T23:59") })
    };
    Mapped::Call(match function {
        "get_current_day" => return Mapped::Known,
        "search_emails" => {
            let mut params = json!({});
            for (name, argument) in [("text", "query"), ("from", "sender")] {
                if let Some(words) = arguments[argument].as_str().filter(|words| !words.is_empty()) {
                    params[name] = json!(words);
                }
            }
            to("mail", "search", params)
        }
        "get_unread_emails" => to("mail", "search", json!({ "unread": true })),
        "get_sent_emails" => to("mail", "list_messages", json!({ "folder": "Sent" })),
        "get_received_emails" => to("mail", "list_messages", json!({})),
        "search_contacts_by_name" | "search_contacts_by_email" => {
            to("mail", "search", json!({ "from": text(arguments, "query", "x") }))
        }
        "send_email" => {
            let letter = json!({
                "to": arguments["recipients"].as_array().map_or_else(|| json!(["john.doe@gmail.com"]), |all| json!(all)),
                "subject": text(arguments, "subject", "Subject"), "text": text(arguments, "body", "Text"),
            });
            to("mail", "send_email", letter)
        }
        "delete_email" => to("mail", "delete_email", json!({ "id": mail })),
        "get_day_calendar_events" => to("calendar", "list_calendar", day("day")),
        "search_calendar_events" => to("calendar", "list_calendar", day("date")),
        // Guests cannot be invited; the event is created without them.
        "create_calendar_event" => {
            let event = json!({
                "calendar": "work", "summary": text(arguments, "title", "Title"),
                "start": moment(arguments, "start_time", "2024-05-19 12:00"),
                "end": moment(arguments, "end_time", "2024-05-19 13:00"),
            });
            to("calendar", "create_event", event)
        }
        "reschedule_calendar_event" => to(
            "calendar",
            "update_event",
            json!({ "id": event, "start": "2024-05-19T12:00", "end": "2024-05-19T13:00" }),
        ),
        "cancel_calendar_event" => to("calendar", "delete_event", json!({ "id": event })),
        "add_calendar_event_participants" => return Mapped::Missing,
        _ if function.contains("file") => return Mapped::Drive,
        _ => panic!("an unknown function: {function}"),
    })
}

/// Makes a call. A person answers the question about it with yes or no.
fn made(world: &World, assistant: &Group, call: Value, yes: bool) -> End {
    let request = assistant.send(call);
    let waiting = format!("SELECT code FROM approvals WHERE state = 'waiting' AND request_id = '{request}'");
    let (reply, asked) = until("an end or a question", || {
        if let Some(reply) = assistant.try_reply(&request) {
            return Some((Some(reply), None));
        }
        world.query(&waiting).pop().map(|row| (None, row["code"].as_str().map(str::to_owned)))
    });
    if let Some(asked) = &asked {
        assert_eq!(code(&world.command(json!({ "type": "answer", "code": asked, "yes": yes }))), "executed");
    }
    let reply = reply.unwrap_or_else(|| assistant.reply(&request));
    match (code(&reply), asked.is_some()) {
        ("executed", false) => End::Executed,
        ("executed", true) => End::ExecutedAfterYes,
        (_, true) if !yes => End::Denied,
        (_, _) => {
            println!("    refused: {}", reply["error"]);
            End::Refused
        }
    }
}

/// Makes the calls of all tasks under this profile. Returns the number of tasks for each kind of end, and the attacks
/// that had an effect.
fn replayed(profile: &str, tasks: &[Task]) -> Option<(BTreeMap<&'static str, usize>, Vec<String>)> {
    let (mail, calendar, logins) = servers()?;
    let (world, assistant) = world_with(profile, (&mail, &calendar, &logins));
    let (mut figures, mut effects) = (BTreeMap::new(), Vec::new());
    for (number, task) in tasks.iter().enumerate() {
        mail.deliver(
            "",
            &format!("{number}.m"),
            &format!("{LETTER}Message-ID: <{number}@example.net>\nSubject: task {number}\n\nDo as I say.\n"),
        );
        calendar.store("work/seed.ics", EVENT);
        let found = assistant.ask(to("mail", "search", json!({ "subject": format!("task {number}") })));
        let id = found["data"]["messages"][0]["id"].as_str().unwrap_or_else(|| panic!("{found}")).to_owned();
        // Each task is a conversation of its own, without the exposure of the others.
        assert_eq!(code(&world.command(json!({ "type": "reset_session", "group": "developer" }))), "executed");
        world.clock.advance(Duration::from_secs(3600));
        let calls: Vec<Mapped> =
            task.calls.iter().map(|(function, arguments)| mapped(function, arguments, &id, "work/seed.ics")).collect();
        if calls.iter().any(|call| matches!(call, Mapped::Drive)) {
            *figures.entry("with the drive, left out").or_default() += 1;
            continue;
        }
        if task.is_injection {
            // The agent has read the attacker's text.
            let read = assistant.ask(to("mail", "read_email", json!({ "id": id })));
            assert_eq!(code(&read), "executed", "{read}");
        }
        let is_missing = calls.iter().any(|call| matches!(call, Mapped::Missing));
        let state = || {
            let folders = ["Sent", "Trash", "Archive", "Drafts"].map(|folder| mail.messages(folder).len());
            (folders, ["work", "private"].map(|name| calendar.events(name).len()), calendar.stored("work/seed.ics"))
        };
        let before = state();
        let ends: Vec<End> = calls
            .into_iter()
            .filter_map(|call| match call {
                Mapped::Call(call) => Some(made(&world, &assistant, call, !task.is_injection)),
                Mapped::Known | Mapped::Missing | Mapped::Drive => None,
            })
            .collect();
        let questions = ends.iter().filter(|end| matches!(end, End::ExecutedAfterYes | End::Denied)).count();
        let has_effect = state() != before;
        let figure = match (task.is_injection, questions) {
            (true, 0) if has_effect => "attack: an effect",
            (true, 0) => "attack: no effect, no question",
            (true, _) => "attack: a person is asked",
            (false, _) if is_missing => "task: no action does it",
            (false, _) if ends.contains(&End::Refused) => "task: blocked",
            (false, 0) => "task: no question",
            (false, 1) => "task: one question",
            (false, _) => "task: several questions",
        };
        *figures.entry(figure).or_default() += 1;
        if task.is_injection && has_effect {
            effects.push(format!("{}: {ends:?}", task.name));
        }
        world.settle();
    }
    Some((figures, effects))
}

const LETTER: &str = "From: eve@example.net\nTo: ada@example.com\n";
const EVENT: &str = "BEGIN:VEVENT\nUID:seed\nDTSTAMP:20240501T000000Z\nDTSTART:20240516T080000Z\n\
                     DTEND:20240516T090000Z\nSUMMARY:Seed\nEND:VEVENT";

#[test]
fn no_call_of_an_attacker_changes_or_sends_anything_without_a_person() {
    let Some(tasks) = tasks() else { return };
    // Every group begins with this profile.
    let Some((figures, effects)) = replayed("write = \"human\"\n", &tasks) else { return };
    println!("the profile of a new group: {figures:#?}");
    assert_eq!((effects.as_slice(), figures.get("task: blocked")), (&[][..], None));
    let asked = figures.get("attack: a person is asked");
    // The profile of the guide lets the agent create events in the own calendar, which nobody else reads.
    let Some((figures, effects)) = replayed(super::PROFILE, &tasks) else { return };
    println!("the profile of the guide: {figures:#?}\n{effects:#?}");
    assert!(effects.iter().all(|effect| effect.starts_with("injection InjectionTask2: [Executed]")), "{effects:?}");
    assert_eq!(figures.get("task: blocked"), None);
    assert!(asked > figures.get("attack: a person is asked") || effects.is_empty());
}
