use super::*;
use crate::get_log_entry::GetLogEntry;
use crate::list_services::ListServices;
use crate::query_logs::{Page, QueryLogs};
use crate::search::Skipped;
use platform::commands::SystemCommands;
use platform::http::SystemHttp;
use provider::contract::{Failure, Guard, Operation};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shared::{Code, Level, Timestamp};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::Instant;

struct At(Timestamp);

impl Clock for At {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn now() -> Timestamp {
    "2026-02-14T12:00:00Z".parse().unwrap()
}

/// The parts that tests use.
pub(crate) struct Own(Arc<dyn Commands>, Arc<dyn Http>, Arc<dyn Clock>);

impl Own {
    pub(crate) fn new() -> Self {
        Self(Arc::new(SystemCommands::default()), Arc::new(SystemHttp::default()), Arc::new(At(now())))
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts { commands: &self.0, http: &self.1, clock: &self.2, secrets: BTreeMap::new() }
    }
}

fn settings(text: &str) -> Settings {
    toml::from_str(text).unwrap()
}

fn logs(settings: Settings) -> Logs {
    Logs::new(settings, &Own::new().parts()).unwrap()
}

fn actions() -> Vec<Arc<dyn Operation>> {
    operations(&"cloud-logs".parse().unwrap(), Settings::default(), &Own::new().parts()).unwrap()
}

fn read<T: DeserializeOwned>(params: Value) -> T {
    serde_json::from_value(params).unwrap()
}

fn soon() -> Access {
    until(Instant::now() + Duration::from_secs(60))
}

fn until(deadline: Instant) -> Access {
    Access { deadline, credentials: Arc::default() }
}

async fn page(logs: &Logs, params: Value) -> Page {
    read::<QueryLogs>(params).page(logs, now(), soon()).await.unwrap()
}

#[test]
fn all_actions_are_harmless_reads_of_private_texts_by_others() {
    let actions = actions();
    let names: Vec<_> = actions.iter().map(|action| action.declaration().action.as_str().to_owned()).collect();
    assert_eq!(names, ["query_logs", "get_log_entry", "list_services"]);
    for action in actions {
        let declaration = action.declaration();
        assert_eq!((declaration.level, declaration.idempotent), (Level::Read, true));
        assert_eq!(declaration.exposes, Exposure { untrusted: true, sensitive: true, egress: false });
        assert_eq!(declaration.input_schema["additionalProperties"], json!(false));
        assert!(declaration.output_schema.is_some());
    }
}

#[test]
fn parameters_are_checked_before_anything_is_read() {
    let actions = actions();
    let fault = |index: usize, params: Value| {
        let params = params.as_object().unwrap().clone();
        actions[index].parse(&params).err().map(|faults| faults[0].pointer.clone())
    };
    for params in [
        json!({"service": "a b"}),
        json!({"service": "x\n"}),
        json!({"since": "yesterday"}),
        json!({"until": "1w"}),
        json!({"query": ""}),
        json!({"level": "loud"}),
        json!({"limit": 0}),
        json!({"cursor": "../x"}),
    ] {
        let name = params.as_object().unwrap().keys().next().unwrap().clone();
        assert_eq!(fault(0, params.clone()), Some(format!("/{name}")), "{params}");
    }
    assert!(fault(0, json!({"regex": "x"})).is_some());
    assert!(fault(0, json!({"since": "2026-02-30T00:00:00Z"})).is_some());
    assert_eq!(fault(0, json!({"since": "15m", "level": null, "service": "user@1000.service"})), None);
    assert_eq!(fault(1, json!({"id": "x"})), Some("/id".into()));
    assert!(fault(1, json!({})).is_some());
    assert!(fault(2, json!({"x": 1})).is_some());
    assert_eq!(fault(2, json!({})), None);
}

#[test]
fn the_guard_knows_the_range_and_the_summary_no_texts() {
    let actions = actions();
    let call = |params: Value| actions[0].parse(params.as_object().unwrap()).unwrap();
    assert_eq!(call(json!({"since": "24h"})).guard(now()), Guard::Pass);
    match call(json!({"since": "25h"})).guard(now()) {
        Guard::Refuse(refusal) => assert_eq!(refusal.code, Code::RangeTooWide),
        other @ (Guard::Pass | Guard::NeedsRemote) => panic!("{other:?}"),
    }
    assert_eq!(call(json!({"service": "nginx", "query": "secret"})).summary(), "query logs of nginx");
    assert_eq!(call(json!({"query": "secret"})).summary(), "query logs of all services");
}

#[test]
fn settings_are_read_and_checked() {
    let own = Own::new();
    let fault = |text: &str| {
        let settings = settings(text);
        settings.check_servers().and_then(|()| Logs::new(settings, &own.parts())).err().map(|fault| fault.to_string())
    };
    let good = r#"
        max_hours = 48
        [[backends]]
        kind = "files"
        service = "nginx"
        paths = ["/var/log/nginx/*.log*"]
        format = "access"
        timezone = "Europe/Berlin"
        [[backends]]
        kind = "journald"
        directory = "/var/log/journal"
    "#;
    assert_eq!(fault(good), None);
    let loki = |lines: &str| format!("backends = [{{ kind = 'loki', name = 'prod', {lines} }}]");
    assert_eq!(fault(&loki("url = 'https://logs.example.com/x/', tenant = 'a', labels = { env = 'prod' }")), None);
    for (lines, said) in [
        ("url = 'http://logs.example.com'", "url: must be https"),
        ("url = 'https://u:p@logs.example.com'", "must not contain a user name"),
        ("url = 'https://logs.example.com', service_label = 'a-b'", "a label has letters"),
        ("url = 'https://logs.example.com', labels = { 'a=\"b' = 'c' }", "a label has letters"),
        ("url = 'https://logs.example.com', tenant = \"a\\nb\"", "tenant: must be one line"),
        ("url = 'https://logs.example.com', username = 'a:b'", "without a colon"),
    ] {
        let fault = fault(&loki(lines)).unwrap();
        assert!(fault.starts_with("loki `prod`: ") && fault.contains(said), "{lines}: {fault}");
    }
    let twice = "backends = [{ kind = 'loki', name = 'a', url = 'https://a' }, { kind = 'loki', name = 'a', url = 'https://b' }]";
    assert!(fault(twice).unwrap().contains("another has it"));
    assert_eq!(fault("max_hours = 0").unwrap(), "`max_hours` must be between 1 and 744");
    assert_eq!(fault("max_results = 1001").unwrap(), "`max_results` must be between 1 and 1000");
    for text in [
        "backends = [{kind = 'files', paths = ['relative.log']}]",
        "backends = [{kind = 'files', paths = ['/x'], timezone = 'Mars'}]",
        "backends = [{kind = 'files', paths = ['/x'], service = 'a b'}]",
        "backends = [{kind = 'journald', directory = '/x', files = ['/y']}]",
        "backends = [{kind = 'journald', directory = 'x'}]",
    ] {
        assert!(fault(text).is_some(), "{text}");
    }
    for text in ["max_hour = 1", "backends = [{kind = 'files', paths = [], x = 1}]", "backends = [{kind = 'loki'}]"] {
        assert!(toml::from_str::<Settings>(text).is_err(), "{text}");
    }
}

#[tokio::test]
async fn several_backends_answer_as_one_page_after_page() {
    let dir = tempfile::tempdir().unwrap();
    for (name, offset) in [("a", 0), ("b", 1)] {
        let mut text = String::new();
        for second in 0..120 {
            writeln!(text, "2026-02-14T11:{:02}:{:02}Z entry {}", second / 60, second % 60, second * 2 + offset)
                .unwrap();
        }
        std::fs::write(dir.path().join(format!("{name}.log")), text).unwrap();
    }
    let dir = dir.path().display();
    let logs = logs(settings(&format!(
        "backends = [{{kind = 'files', paths = ['{dir}/a.log']}}, {{kind = 'files', service = 'bee', paths = ['{dir}/b.*']}}]"
    )));
    let first = page(&logs, json!({})).await;
    assert_eq!((first.entries.len(), first.skipped.len()), (50, 0));
    assert_eq!((first.since.as_str(), first.until.as_str()), ("2026-02-14T11:00:00.000Z", "2026-02-14T12:00:00.000Z"));
    assert_eq!(page(&logs, json!({"limit": 1000})).await.entries.len(), 100);

    let mut ids = std::collections::BTreeSet::new();
    let mut cursor = Value::Null;
    let mut pages = 0;
    loop {
        let page = page(&logs, json!({"limit": 70, "cursor": cursor})).await;
        ids.extend(page.entries.iter().map(|entry| entry.id.clone()));
        assert!(page.entries.windows(2).all(|pair| pair[0].timestamp >= pair[1].timestamp));
        pages += 1;
        match page.cursor {
            Some(next) => cursor = Value::String(next),
            None => break,
        }
    }
    assert_eq!((ids.len(), pages), (240, 4));

    let other = page(&logs, json!({"service": "beee"})).await;
    let hint = "no list has this service, so there may be none; did you mean `bee`?";
    assert!(other.entries.is_empty() && other.skipped.contains(&Skipped::new("beee", hint)), "{other:?}");
    let none = page(&logs, json!({"service": "bee", "query": "no such text"})).await;
    assert!(none.entries.is_empty() && !none.skipped.iter().any(|skipped| skipped.service == "bee"), "{none:?}");

    let bee = page(&logs, json!({"service": "bee", "query": "ENTRY 11"})).await;
    assert_eq!(
        bee.entries.iter().map(|e| e.message.as_str()).collect::<Vec<_>>(),
        ["entry 119", "entry 117", "entry 115", "entry 113", "entry 111", "entry 11"]
    );
    let one = read::<GetLogEntry>(json!({"id": bee.entries[0].id})).entry(&logs, soon()).await.unwrap();
    assert_eq!((one.message.as_str(), one.service.as_str()), ("entry 119", "bee"));
    let absent = json!({"id": bee.entries[0].id.replace(['a', '1'], "2")});
    assert!(matches!(read::<GetLogEntry>(absent).entry(&logs, soon()).await, Err(Failure::Refused { .. })));
    let list = read::<ListServices>(json!({})).list(&logs, soon()).await.unwrap();
    assert_eq!(list.services.iter().map(|s| s.service.as_str()).collect::<Vec<_>>(), ["a", "bee"]);
}

#[tokio::test]
async fn a_page_never_grows_beyond_a_reply() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for n in 0..100 {
        // Six bytes of JSON for each byte.
        let message = "\u{1}".repeat(1000);
        writeln!(text, "2026-02-14T11:00:00.{n:03}Z {message}").unwrap();
    }
    std::fs::write(dir.path().join("a.log"), text).unwrap();
    let logs = logs(settings(&format!("backends = [{{kind = 'files', paths = ['{}/*']}}]", dir.path().display())));
    let mut seen = 0;
    let mut cursor = Value::Null;
    loop {
        let page = page(&logs, json!({"limit": 100, "cursor": cursor})).await;
        assert!(serde_json::to_vec(&page).unwrap().len() < shared::limits::DATA_BYTES_MAX);
        seen += page.entries.len();
        match page.cursor {
            Some(next) => cursor = Value::String(next),
            None => break,
        }
    }
    assert_eq!(seen, 100);
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_said_and_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.log"), "2026-02-14T11:00:00Z one\n").unwrap();
    let path = dir.path().display();
    let both = format!(
        "backends = [{{kind = 'files', paths = ['{path}/*.log']}}, {{kind = 'journald', files = ['{path}/none.journal']}}]"
    );
    let found = page(&logs(settings(&both)), json!({})).await;
    assert_eq!(found.entries.len(), 1);
    assert_eq!(found.skipped.len(), 1);
    assert_eq!(found.skipped[0].service, "journald");
    let alone = format!("backends = [{{kind = 'journald', files = ['{path}/none.journal']}}]");
    let failure = read::<QueryLogs>(json!({})).page(&logs(settings(&alone)), now(), soon()).await.unwrap_err();
    assert!(matches!(&failure, Failure::Refused { message } if !message.contains(&path.to_string())), "{failure:?}");
}

#[tokio::test]
async fn a_deadline_that_has_passed_is_a_timeout() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.log"), "2026-02-14T11:00:00Z one\n").unwrap();
    let logs = logs(settings(&format!("backends = [{{kind = 'files', paths = ['{}/*']}}]", dir.path().display())));
    let failure = read::<QueryLogs>(json!({})).page(&logs, now(), until(Instant::now())).await.unwrap_err();
    assert_eq!(failure, Failure::Timeout);
}

#[tokio::test]
async fn a_fresh_home_sees_this_machines_logs() {
    let logs = logs(Settings::default());
    let list = read::<ListServices>(json!({})).list(&logs, soon()).await.unwrap();
    println!("{}", serde_json::to_string_pretty(&list).unwrap());
    if std::path::Path::new("/var/log/dpkg.log").exists() {
        assert!(list.services.iter().any(|s| s.service == "dpkg" && s.earliest.is_some()));
    } else {
        println!("skipped: there is no /var/log/dpkg.log");
    }
}
