//! Traces of calls, as a receiver decodes them that has the messages of the specification's authors.

use super::world::{Running, World, start, wait_for};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A receiver that runs.
struct Receiver {
    _process: Running,
    url: String,
    spans: PathBuf,
}

impl Receiver {
    /// Starts it; `None` where its library is not installed.
    fn start(world: &World, rejected: &str) -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "where the parts of the tests are")]
        let parts = std::env::var_os("EXT_TEST_SERVERS").map(PathBuf::from);
        let Some(python) = parts.map(|parts| parts.join("otlp/bin/python3")).filter(|python| python.exists()) else {
            println!("skipped: EXT_TEST_SERVERS names no directory with `otlp`");
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/servers/otlp_receiver.py");
        let folder = world.home.parent().unwrap();
        let [port, spans] = ["port", "spans"].map(|name| folder.join(name));
        std::fs::write(&spans, "").unwrap();
        #[expect(clippy::disallowed_methods, reason = "the receiver of the test")]
        let mut command = std::process::Command::new(python);
        let process = start(command.arg(script).args([&port, &spans]).arg(rejected));
        wait_for(|| port.exists());
        let url = format!("http://127.0.0.1:{}/v1/traces", std::fs::read_to_string(port).unwrap());
        Some(Self { _process: process, url, spans })
    }

    fn spans(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.spans).unwrap();
        // The last line may not be there as a whole.
        text.split_inclusive('\n').filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits for the span of this call, and returns it with the spans below it, in the order of their rows.
    fn call(&self, request: &str) -> (Value, Vec<Value>) {
        let is_call = |span: &Value| span["attributes"]["host_broker.request_id"] == request;
        wait_for(|| self.spans().iter().any(is_call));
        let spans = self.spans();
        let calls: Vec<&Value> = spans.iter().filter(|span| is_call(span)).collect();
        let [call] = calls[..] else { panic!("{request} has {} spans: {calls:?}", calls.len()) };
        assert_eq!(call["parent"], "");
        let is_below = |span: &&Value| span["trace"] == call["trace"] && span["span"] != call["span"];
        let mut below: Vec<Value> = spans.iter().filter(is_below).cloned().collect();
        below.sort_by_key(|span| span["attributes"]["host_broker.row"].as_i64());
        for span in &below {
            assert_eq!(span["parent"], call["span"]);
            assert!(span["start"].as_u64() >= call["start"].as_u64() && span["end"].as_u64() <= call["end"].as_u64());
        }
        (call.clone(), below)
    }
}

fn with_receiver(world: &World, url: &str, token: &Path) {
    world.append(
        "broker.toml",
        &format!(
            "\n[[sinks]]\nname = \"traces\"\nkind = \"otlp\"\nurl = \"{url}\"\nbearer = {{ file = \"{}\" }}\n",
            token.display()
        ),
    );
    std::fs::write(token, "sesame-sesame\n").unwrap();
    std::fs::set_permissions(token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

fn names(spans: &[Value]) -> Vec<&str> {
    spans.iter().map(|span| span["name"].as_str().unwrap()).collect()
}

fn outcome(span: &Value) -> &str {
    span["attributes"]["host_broker.outcome"].as_str().unwrap()
}

/// Attack (Providers and modules): A trace carries a parameter, a summary or a result to a
/// monitoring server.
/// Defence: `sinks/traces.rs` takes names of the configuration, closed lists and the request id
/// only
#[test]
fn each_call_is_one_trace_with_its_stages_and_without_its_content() {
    let world = World::with_mock();
    let Some(receiver) = Receiver::start(&world, "2") else { return };
    world.append(
        "mock.toml",
        "\n[actions.pay]\nlevel = 2\nhuman = true\nappend_to = \"pay.log\"\nexposes = []\n\
         [actions.fails]\nlevel = 1\nfail = \"a secret reason\"\nexposes = []\n",
    );
    with_receiver(&world, &receiver.url, &world.home.join("token"));
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let (daemon, log) = world.serve_with_log();
    assert_eq!(world.call("read-1", "echo", &json!({ "text": "a private word" }), None)["status"], "executed");
    assert_eq!(world.call("refused-1", "charge", &json!({ "text": "x" }), None)["status"], "denied");
    let wait = |id: &str| {
        let call = json!({ "type": "ext_call", "provider": "mock", "action": "pay", "params": { "of": id }, "timeout_ms": 300 });
        assert_eq!(world.ask("developer", id, call)["status"], "pending");
        let waiting = world.run(&["approvals", "list", "--json"]).json();
        waiting["approvals"][0]["code"].as_str().unwrap().to_owned()
    };
    world.run(&["approvals", "approve", &wait("approved-1")]).ok();
    let (call, below) = receiver.call("approved-1");
    assert_eq!((call["name"].as_str(), call["kind"].as_str()), (Some("mock.pay"), Some("SPAN_KIND_SERVER")));
    assert_eq!((outcome(&call), names(&below)), ("succeeded", vec!["approval", "run"]));
    assert_eq!(below[1]["kind"], "SPAN_KIND_CLIENT");
    // Its caller was told that it waits. The span ends with the answer, not with that row.
    assert_eq!((outcome(&below[0]), &below[0]["end"]), ("approved", &below[1]["start"]));
    world.run(&["approvals", "deny", &wait("denied-1")]).ok();
    let (call, below) = receiver.call("denied-1");
    assert_eq!((outcome(&call), names(&below)), ("refused", vec!["approval"]));
    assert_eq!(call["attributes"]["host_broker.reason_code"], "approval_denied");
    let (call, below) = receiver.call("read-1");
    assert_eq!((outcome(&call), names(&below)), ("succeeded", vec!["run"]));
    let attributes = &call["attributes"];
    assert_eq!(attributes["host_broker.caller"], "group:developer");
    assert_eq!(
        (&attributes["host_broker.provider"], &attributes["host_broker.action"]),
        (&json!("mock"), &json!("echo"))
    );
    assert_eq!(
        (call["service"].as_str(), call["authorization"].as_str()),
        (Some("host-broker"), Some("Bearer sesame-sesame"))
    );
    let shown = world.run(&["calls", "show", "read-1", "--json"]).json();
    assert!(shown.to_string().contains(&format!("\"seq\":{}", attributes["host_broker.row"])), "{shown}");
    assert_eq!(world.call("unknown-1", "no_such_action", &json!({}), None)["status"], "denied");
    let (call, _) = receiver.call("unknown-1");
    assert_eq!((call["name"].as_str(), call["attributes"].get("host_broker.action")), (Some("call"), None));
    let (call, below) = receiver.call("refused-1");
    assert_eq!((outcome(&call), below.len(), call.get("status")), ("refused", 0, None));
    assert_eq!(call["attributes"]["host_broker.reason_code"], "level_too_low");
    assert_eq!(world.call("failed-1", "fails", &json!({}), None)["status"], "failed");
    let (call, below) = receiver.call("failed-1");
    assert_eq!((outcome(&call), call["status"]["code"].as_str()), ("failed", Some("STATUS_CODE_ERROR")));
    assert_eq!(below[0]["status"]["code"], "STATUS_CODE_ERROR");
    let all = std::fs::read_to_string(&receiver.spans).unwrap();
    assert!(!all.contains("private word") && !all.contains("secret reason"), "{all}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("the sink has rejected spans") && log.contains("spans=\"2\""), "{log}");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_trace_that_is_sent_again_is_the_same_trace_also_by_a_daemon_that_did_not_see_its_begin() {
    let world = World::with_mock();
    let Some(receiver) = Receiver::start(&world, "0") else { return };
    with_receiver(&world, &receiver.url, &world.home.join("token"));
    world.append("mock.toml", "\n[actions.pay]\nlevel = 2\nhuman = true\nappend_to = \"pay.log\"\nexposes = []\n");
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let daemon = world.serve();
    let call =
        json!({ "type": "ext_call", "provider": "mock", "action": "pay", "params": { "of": "x" }, "timeout_ms": 300 });
    assert_eq!(world.ask("developer", "over-a-restart", call)["status"], "pending");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let daemon = world.serve();
    let waiting = world.run(&["approvals", "list", "--json"]).json();
    world.run(&["approvals", "approve", waiting["approvals"][0]["code"].as_str().unwrap()]).ok();
    let (_, below) = receiver.call("over-a-restart");
    assert_eq!(names(&below), ["approval", "run"]);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let identifiers = || {
        let spans = receiver.spans();
        spans
            .iter()
            .map(|span| [&span["trace"], &span["span"], &span["start"], &span["end"]].map(Value::to_string))
            .collect()
    };
    let (before, count): (BTreeSet<[String; 4]>, usize) = (identifiers(), receiver.spans().len());
    world.run(&["evidence", "resume", "traces", "--from", "1"]).ok();
    let _daemon = world.serve();
    wait_for(|| receiver.spans().len() >= 2 * count);
    assert_eq!(identifiers(), before);
}
