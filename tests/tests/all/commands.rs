//! The agreement between the commands and the surfaces that make them.
//!
//! Each surface has a list of its own: the types of documents, the shim's tools, the words of the control socket, the
//! command line, the forms of the inbox, the HTTP routes. [`SURFACES`] says which entry makes which command. A new
//! command without a line does not compile here, and a new entry of a surface without a command fails a test.

use super::flows::bundle;
use engine::catalogue::Catalogue;
use engine::request::{Command, DocumentMemory, InboundRequest, ParseContext, Parsed, Source, parse};
use mcp_shim::snapshot::View;
use model::LedgerKey;
use secrets::identity::issuers::Issuers;
use serde_json::{Value, json};
use shared::flow::operations;
use shared::snapshot::Snapshot;
use shared::{Provider, Timestamp};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tests::fakes::CountedRandom;
use tokio::time::Instant;

/// An entry of a surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Surface {
    /// The type of a document that an agent sends. A tool of the shim with the same name makes it.
    Tool(&'static str),
    /// Each operation on flows: a tool, an HTTP route and a tool of `/mcp`.
    FlowOperations,
    /// The type of a document that has no tool, because a program and not a model sends it.
    Document(&'static str),
    /// A command of the command line.
    Cli(&'static str),
    /// A form of the inbox.
    Form(&'static str),
    /// An HTTP route for programs, and the source that makes the command.
    Http(&'static str, &'static str),
    /// The answers that a channel fetches from its chat.
    Chat,
}
use Surface::{Chat, Cli, Document, FlowOperations, Form, Http, Tool};

/// Makes the table, and a match without a wildcard over the same lines.
macro_rules! surfaces {
    ($($command:ident: [$($surface:expr),+ $(,)?],)+) => {
        /// Each command with the entries that make it.
        const SURFACES: &[(&str, &[Surface])] = &[$((stringify!($command), &[$($surface),+])),+];

        /// Returns the command's name in the table.
        fn name(command: &Command) -> &'static str {
            match command {
                $(Command::$command { .. } => stringify!($command),)+
            }
        }
    };
}

surfaces! {
    Capabilities: [Tool("ext_capabilities")],
    Result: [
        Tool("ext_result"),
        Http("GET /api/v1/flows/external-calls/{request_id}", "external/agents.rs"),
    ],
    Cancel: [Tool("ext_cancel")],
    ReadFlow: [Http("GET /api/v1/flows/{flow_id}/projection", "external/agents.rs")],
    Grant: [Tool("ext_grant"), Cli("grant"), Form("/access/grant")],
    Narrow: [Form("/access/{group}/{provider}/narrow")],
    Revoke: [Tool("ext_revoke"), Cli("revoke"), Form("/access/{group}/{provider}/revoke")],
    RequestAccess: [Tool("ext_request")],
    Plan: [Tool("ext_plan")],
    Begin: [Document("ext_begin")],
    List: [Tool("ext_list")],
    ListCalls: [Tool("gov_list_ext_calls")],
    ListTasks: [Tool("gov_list_tasks")],
    TaskCreate: [Tool("task_create"), Cli("task create")],
    TaskClose: [Cli("task close")],
    GateApprove: [Tool("gate_approve"), Cli("gate approve")],
    Flow: [
        FlowOperations,
        Cli("flow list"),
        Cli("flow get"),
        Cli("flow propose"),
        Cli("flow import"),
        Cli("flow export"),
        Cli("flow approve"),
        Cli("flow deprecate"),
        Cli("flow project"),
        Cli("flow grant mint"),
        Cli("flow grant revoke"),
        Cli("flow grant list"),
        Form("/flows/accesses/{vault}/{grant}/revoke"),
    ],
    Answer: [
        Cli("approvals approve"),
        Cli("approvals deny"),
        Cli("approvals watch"),
        Form("/approvals/{reference}/answer"),
        Form("/hosts/{host}/approvals/{reference}/answer"),
    ],
    RelayedAnswer: [Cli("approvals relay"), Http("POST /api/v1/answers", "api.rs"), Chat],
    EndStandingApproval: [Cli("approvals standing end"), Form("/standing-approvals/{name}/end")],
    Revert: [Cli("proposals revert")],
    Release: [Cli("quarantine release")],
    Settle: [Cli("calls settle")],
    AcceptDefinitions: [Cli("provider accept")],
    LinkAccount: [Cli("account link")],
    UnlinkAccounts: [Cli("account unlink"), Cli("account purge")],
    ShareAccount: [Cli("account share")],
    PurgeGroup: [Cli("account purge")],
    MintOperator: [Cli("operator-token create")],
    RevokeOperator: [Cli("operator-token revoke")],
    ListOperators: [Cli("operator-token list")],
    Kill: [Cli("kill all"), Cli("kill provider"), Cli("kill group")],
    ResetSession: [Cli("exposure reset")],
    PublishPolicy: [Cli("fleet publish")],
    RenewVault: [Cli("vault renew")],
    AcceptClock: [Cli("evidence accept-clock")],
}

/// The commands of the command line that make none: they read, write files of the operator, or speak to the process.
const OTHER_CLI: &str = "\
    up, init, serve, run, reload, stop, config check, config schema, config show, group list, group add, \
    group remove, provider list, provider check, provider add, provider remove, policy check, policy test, \
    capabilities, token mint, token verify, token key, account list, approvals list, approvals show, \
    approvals standing list, proposals list, proposals show, web link, web token, notices list, task list, \
    gate list, calls list, calls show, calls tail, evidence head, evidence checkpoint, evidence prove, \
    evidence consistency, evidence verify, evidence export, evidence sinks, evidence resume, evidence renew-key, \
    quarantine list, quarantine show, kill list, exposure list, limits, vault status, backup, restore, \
    fleet schema, fleet status, fleet key, fleet leave, status, doctor, logs, explain, reason-codes, inspect, \
    scrub, bench, demo, mock, completions, man";

/// The forms of the inbox that make none: they are about the session, or about the process.
const OTHER_FORMS: &[&str] = &["/evidence/verify", "/sign-in/link", "/sign-in/token", "/sign-out"];

/// The tools that make calls, which are no commands.
const CALLS: &[&str] =
    &["ext_call", "ext_auth_begin", "ext_auth_complete", "ext_auth_poll", "ext_auth_list", "ext_auth_unlink"];

/// The commands that come from no agent and not over the control socket: the broker makes them of other requests.
const OFF_THE_SOCKET: &[&str] = &["ReadFlow"];

/// The entries of a surface in the table, each with its command.
fn entries<T>(of: impl Fn(Surface) -> Option<T>) -> Vec<(&'static str, T)> {
    let all = SURFACES.iter().flat_map(|(command, surfaces)| surfaces.iter().map(|surface| (*command, *surface)));
    all.filter_map(|(command, surface)| Some((command, of(surface)?))).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

/// The sources of a module: its file, and the files below it.
fn sources(module: &Path) -> String {
    let mut text = std::fs::read_to_string(module.with_extension("rs")).unwrap_or_default();
    let mut folders = vec![module.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}

/// Checks whether a source makes this command.
fn makes(source: &str, command: &str) -> bool {
    let is_whole = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
    source.split(&format!("Command::{command}")).skip(1).any(is_whole)
        || (command == "Flow" && source.contains("FlowCommand {"))
}

fn difference(listed: &BTreeSet<String>, expected: &BTreeSet<String>) -> String {
    format!(
        "without a line in the table: {:?}; in the table alone: {:?}",
        listed.difference(expected).collect::<Vec<_>>(),
        expected.difference(listed).collect::<Vec<_>>()
    )
}

#[derive(Debug)]
struct NoMemory;

impl DocumentMemory for NoMemory {
    fn parsed(&mut self, _nodes: usize) {}
}

/// A document of each type.
fn documents() -> Vec<Value> {
    let flow = |kind: &str, mut members: Value| {
        members["type"] = json!(kind);
        members
    };
    let version = json!({ "flow_id": "flow_daily", "version": "1.0.0" });
    let named = json!({ "flow_id": "flow_daily" });
    let new = bundle("1.0.0", "Read the inbox.", &[]);
    let minted =
        json!({ "flow_id": "flow_daily", "flow_version": "1.0.0", "requested_tools": ["note"], "ttl_seconds": 60 });
    let call = json!({ "provider": "demo", "action": "echo", "params": {} });
    vec![
        json!({ "type": "ext_capabilities" }),
        json!({ "type": "ext_result", "of": "r-0" }),
        json!({ "type": "ext_cancel", "of": "r-0" }),
        json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": 1 }),
        json!({ "type": "ext_revoke", "group_folder": "developer", "provider": "demo" }),
        json!({
            "type": "ext_request", "provider": "demo", "access_level": 1, "reason": "To test.", "duration_s": 60
        }),
        json!({ "type": "ext_plan", "reason": "To test.", "calls": [call, call] }),
        json!({ "type": "ext_begin" }),
        json!({ "type": "ext_list" }),
        json!({ "type": "gov_list_ext_calls" }),
        json!({ "type": "gov_list_tasks" }),
        json!({ "type": "task_create", "title": "Test", "group_folder": "developer" }),
        json!({ "type": "gate_approve", "task_id": "t1", "gate": "Security" }),
        flow("flow_list", json!({})),
        flow("flow_get", named.clone()),
        flow("flow_propose", new.clone()),
        flow("flow_import", new),
        flow("flow_export", named),
        flow("flow_approve", version.clone()),
        flow("flow_deprecate", version),
        flow("flow_project", json!({ "flow_id": "flow_daily", "harness": "agent_bundle" })),
        flow("flow_external_grant_mint", minted),
        flow("flow_external_grant_revoke", json!({ "grant_id": "fgrnt_00000000" })),
        flow("flow_external_grant_list", json!({})),
    ]
}

/// The command that the engine makes of a document.
fn command_of(document: &Value) -> &'static str {
    let context = ParseContext {
        catalogue: Arc::new(Catalogue::default()),
        key: Arc::new(LedgerKey::new(vec![0; 32])),
        issuers: Arc::new(Issuers::nobody()),
        ids: Arc::new(CountedRandom::of("commands")),
        timeout: Duration::from_secs(60),
        unknown_requests: config::UnknownRequests::Ignore,
        filters: None,
    };
    let mut document = document.clone();
    document["request_id"] = json!("r-1");
    let inbound = InboundRequest {
        group: "developer".parse().unwrap(),
        signing_key: None,
        source: Source::Frame { connection: 1, frame: 1 },
        bytes: Ok(document.to_string().into_bytes()),
        age: Duration::ZERO,
        arrived: Instant::now(),
        wall: Timestamp::from_millis(0),
        slot: Box::new(()),
        memory: Box::new(NoMemory),
    };
    match parse(inbound, &context) {
        Parsed::CommandRequest(request) => name(&request.command),
        Parsed::Call(_) => panic!("{document} is a call"),
        Parsed::InvalidDocument(invalid) => panic!("{document}: {}", invalid.reason),
    }
}

#[test]
fn each_document_becomes_the_command_of_the_table() {
    let flows: BTreeSet<&str> = operations::ALL.iter().map(|operation| operation.name).collect();
    let mut of = entries(|surface| match surface {
        Tool(word) | Document(word) => Some(word),
        FlowOperations | Cli(_) | Form(_) | Http(..) | Chat => None,
    });
    of.extend(flows.iter().map(|word| ("Flow", *word)));
    let found: BTreeSet<(&str, String)> = documents()
        .iter()
        .map(|document| (command_of(document), document["type"].as_str().unwrap().to_owned()))
        .collect();
    let expected: BTreeSet<(&str, String)> = of.into_iter().map(|(command, word)| (command, word.to_owned())).collect();
    assert_eq!(found, expected);
}

#[test]
fn each_tool_of_the_shim_makes_a_command_or_a_call() {
    let provider: Provider = "demo".parse().unwrap();
    let snapshot: Snapshot = serde_json::from_value(json!({
        "generatedAt": "2026-02-14T10:00:00.000Z", "capabilities": [], "may_request": [provider],
        "opens_gates": ["Security"]
    }))
    .unwrap();
    let view = View { is_main: true, snapshot: Some(snapshot), ..View::default() };
    let listed: BTreeSet<String> =
        mcp_shim::tools::list(&view).into_iter().map(|tool| tool.name.into_owned()).collect();
    // The tools that link accounts are listed only with a capability that has accounts.
    let listed = listed.into_iter().filter(|tool| !CALLS.contains(&tool.as_str())).collect();
    let tools = entries(|surface| if let Tool(word) = surface { Some(word) } else { None });
    let flows = operations::ALL.iter().map(|operation| operation.name);
    let expected = tools.into_iter().map(|(_, word)| word).chain(flows).map(str::to_owned).collect();
    assert_eq!(listed, expected, "{}", difference(&listed, &expected));
}

/// `TaskClose` as the control socket writes it.
fn socket_word(command: &str) -> String {
    match command {
        "RelayedAnswer" => "chat_answer".to_owned(),
        command => command.chars().fold(String::new(), |mut word, c| {
            if c.is_uppercase() && !word.is_empty() {
                word.push('_');
            }
            word.push(c.to_ascii_lowercase());
            word
        }),
    }
}

#[test]
fn each_command_comes_from_an_agent_or_over_the_control_socket() {
    let error = serde_json::from_value::<Command>(json!({ "type": "nothing" })).unwrap_err().to_string();
    let (_, known) = error.split_once("expected one of ").unwrap_or_else(|| panic!("{error}"));
    let known: BTreeSet<String> = known.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let agents =
        |surfaces: &[Surface]| surfaces.iter().any(|surface| matches!(surface, Tool(_) | Document(_) | FlowOperations));
    for (command, surfaces) in SURFACES {
        let is_known = known.contains(&socket_word(command));
        assert!(is_known || agents(surfaces) || OFF_THE_SOCKET.contains(command), "{command} is reached by nothing");
        assert!(is_known || !surfaces.iter().any(|surface| matches!(surface, Cli(_))), "{command} has no socket type");
    }
    let words: BTreeSet<String> = SURFACES.iter().map(|(command, _)| socket_word(command)).collect();
    assert!(known.is_subset(&words), "{:?}", known.difference(&words).collect::<Vec<_>>());
}

#[test]
fn each_command_of_the_command_line_makes_its_command() {
    let page = std::fs::read_to_string(root().join("docs/reference/cli.md")).unwrap();
    let all: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## host-broker ")).collect();
    let has_more = |name: &str| all.iter().any(|other| other.starts_with(&format!("{name} ")));
    let listed: BTreeSet<String> = all.iter().filter(|name| !has_more(name)).map(ToString::to_string).collect();
    let made = entries(|surface| if let Cli(words) = surface { Some(words) } else { None });
    for (command, words) in &made {
        let module = words.split(' ').next().unwrap().replace('-', "_");
        let source = sources(&root().join("host-broker/src/cli").join(module));
        assert!(makes(&source, command), "`host-broker {words}` does not make {command}");
    }
    let made: BTreeSet<&str> = made.into_iter().map(|(_, words)| words).collect();
    assert!(OTHER_CLI.split(", ").all(|words| !made.contains(words)), "some are in both lists");
    let expected = made.into_iter().chain(OTHER_CLI.split(", ")).map(str::to_owned).collect();
    assert_eq!(listed, expected, "{}", difference(&listed, &expected));
}

#[test]
fn each_form_of_the_inbox_makes_its_command() {
    let router = std::fs::read_to_string(root().join("host-broker/src/http/web.rs")).unwrap();
    // `.route("/access/grant", post(granting::grant))`
    let forms: Vec<(&str, &str)> = router
        .lines()
        .filter_map(|line| {
            let (path, rest) = line.trim().strip_prefix(".route(\"")?.split_once('"')?;
            let handler = rest.split_once("post(")?.1.split(')').next()?;
            Some((path, handler.split("::").next()?)).filter(|(path, _)| !path.starts_with("/api/"))
        })
        .collect();
    let made = entries(|surface| if let Form(path) = surface { Some(path) } else { None });
    for (command, path) in &made {
        let (_, module) =
            forms.iter().find(|(own, _)| own == path).unwrap_or_else(|| panic!("there is no form {path}"));
        let source = sources(&root().join("host-broker/src/http/web").join(module));
        assert!(makes(&source, command), "{path} does not make {command}");
    }
    let listed = forms.iter().map(|(path, _)| (*path).to_owned()).collect();
    let made = made.into_iter().map(|(_, path)| path);
    let expected = made.chain(OTHER_FORMS.iter().copied()).map(str::to_owned).collect();
    assert_eq!(listed, expected, "{}", difference(&listed, &expected));
}

#[test]
fn each_route_for_programs_makes_its_command() {
    let http = root().join("host-broker/src/http");
    let page = std::fs::read_to_string(root().join("docs/reference/http-api.md")).unwrap();
    let of_page = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    // An invocation is a call, and the document describes itself. The answers of channels are for no agent.
    let others = ["POST /api/v1/flows/external-tools/{tool_id}/invoke", "GET /api/v1/openapi.json"];
    let listed: BTreeSet<String> = of_page.filter(|route| !others.contains(route)).map(str::to_owned).collect();
    let made = entries(|surface| if let Http(route, file) = surface { Some((route, file)) } else { None });
    for (command, (route, file)) in &made {
        let source = std::fs::read_to_string(http.join(file)).unwrap();
        assert!(makes(&source, command), "{route} does not make {command}");
        assert!(listed.contains(*route) || *route == "POST /api/v1/answers", "there is no route {route}");
    }
    // All others are the operations on flows.
    let rest: Vec<&String> = listed.iter().filter(|route| !made.iter().any(|(_, (own, _))| own == route)).collect();
    // Operators and agents share the route that renders a flow.
    assert_eq!(rest.len() + 1, operations::ALL.len(), "{rest:?}");
    assert!(makes(&std::fs::read_to_string(http.join("external/operators.rs")).unwrap(), "Flow"));
    assert!(makes(&std::fs::read_to_string(http.join("../receivers.rs")).unwrap(), "RelayedAnswer"), "a chat");
}
