//! A home with a ledger, a clock that stands still, and a broker on a small catalogue; what it does goes through
//! the same transactions as everything else.

use config::Config;
use config::Policy;
use engine::broker::Broker;
use engine::catalogue::{Catalogue, Listed};
use engine::event::Event;
use engine::follow_ups::FollowUps;
use engine::request::Command;
use engine::request::Parsed;
use filter::values::Formats;
use host_broker::assembly::filters::scrubber;
use host_broker::control::{CommandDispatcher, administer};
use kernel::call::{Call, Header, Origin, Target};
use kernel::contract::{Failure, Guard, Invocation, Operation, Probed, Running, Success, UsedAccount};
use kernel::execution::Execution;
use kernel::{Batch, Ledger};
use model::{
    Caller, Clock, Declaration, EffectMarker, Exposure, LedgerKey, NoRandomness, Nonce, ParamError, Random, Refusal,
    Tier,
};
use platform::Environment;
use policy::profile::{ApprovalMode, Profile, Profiles};
use secrets::Secrets;
use serde_json::{Map, Value, json};
use shared::digest::Digest;
use shared::{Code, Level, Timestamp};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use store::{Durability, StoreError};
use tempfile::TempDir;
use tokio::time::Instant;

/// 2026-02-14T10:00:00Z.
pub(crate) const START: i64 = 1_771_063_200_000;

/// A clock that moves only when it is told to, and the time that has really passed for it.
#[derive(Debug)]
pub(crate) struct Hand(AtomicI64, AtomicU64);

impl Hand {
    /// Stands at this time, in milliseconds since 1970.
    pub(crate) fn new(millis: i64) -> Self {
        Self(AtomicI64::new(millis), AtomicU64::new(0))
    }

    /// Forward, because time passes; or back, because it is set.
    pub(crate) fn turn(&self, millis: i64) {
        self.1.fetch_add(u64::try_from(millis).unwrap_or(0), Ordering::SeqCst);
        self.set(millis);
    }

    /// Is set forward or back; no time passes.
    pub(crate) fn set(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.1.load(Ordering::SeqCst))
    }
}

/// Bytes that are different each time and the same in each run.
struct Counted(AtomicU64);

impl Random for Counted {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
        let count = self.0.fetch_add(1, Ordering::SeqCst).to_be_bytes();
        for (byte, with) in buffer.iter_mut().zip(count.iter().cycle()) {
            *byte = *with;
        }
        Ok(())
    }
}

/// An action of the test catalogue. Its parameters say what the call is like: `level`, `guard`, `fault`.
struct Action(Declaration);

struct Asked {
    level: Level,
    guard: Guard,
}

impl Operation for Action {
    fn declaration(&self) -> &Declaration {
        &self.0
    }

    fn parse(&self, params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>> {
        if params.contains_key("fault") {
            return Err(vec![
                ParamError { pointer: "/fault".into(), fault: "is not known".into() },
                ParamError { pointer: String::new(), fault: "something is missing".into() },
            ]);
        }
        let guard = match params.get("guard").and_then(Value::as_str) {
            Some("remote") => Guard::NeedsRemote,
            Some("refuse") => Guard::Refuse(Refusal { code: Code::RepoNotAllowed, reason: "It is not listed.".into() }),
            Some(_) | None => Guard::Pass,
        };
        let level = params.get("level").and_then(Value::as_i64).and_then(Level::from_number).unwrap_or(self.0.level);
        Ok(Box::new(Asked { level, guard }))
    }

    fn probe(
        &self,
        _handle: Value,
        _account: Option<UsedAccount>,
        _execution: Execution,
    ) -> Running<Result<Probed, Failure>> {
        Box::pin(async { Ok(Probed::Absent { message: "nothing".into() }) })
    }
}

impl Invocation for Asked {
    fn level(&self) -> Level {
        self.level
    }

    fn summary(&self) -> String {
        "a call".to_owned()
    }

    fn guard(&self, _now: Timestamp) -> Guard {
        self.guard.clone()
    }

    fn prepare(self: Box<Self>, _execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>> {
        Box::pin(async { Err(Failure::Timeout) })
    }

    fn probe_handle(&self, _planted: &EffectMarker) -> Option<Value> {
        Some(json!({ "look": "here" }))
    }

    fn run(self: Box<Self>, _execution: Execution) -> Running<Result<Success, Failure>> {
        Box::pin(async { Ok(Success::new(json!({}), "done".into())) })
    }
}

/// A provider with these actions; `ask` needs a person.
pub(crate) fn listed(actions: &[(&str, Level)]) -> Listed {
    let operations = actions.iter().map(|(name, level)| {
        let declaration = Declaration {
            tier: (*name == "ask").then_some(Tier::Human),
            input_schema: json!({}),
            exposes: Exposure::NONE,
            ..Declaration::new("mock".parse().unwrap(), name.parse().unwrap(), *level)
        };
        let operation: Arc<dyn Operation> = Arc::new(Action(declaration));
        operation
    });
    Listed::ready("mock", operations.collect())
}

pub(crate) const ACTIONS: [(&str, Level); 4] =
    [("read", Level::Read), ("write", Level::Write), ("produce", Level::Production), ("ask", Level::Write)];

const CONFIG: &str = r#"
[grant_ceiling]
max_level = 3
sensitive = true
[broker]
max_concurrent_calls = 100000
[groups.main]
main = true
[groups.developer]
[groups.security]
[groups.finance]
[gates.Security]
groups = ["security", "developer"]
people = ["alice"]
[gates.Both]
groups = ["security", "finance"]
people = ["alice"]
quorum = 2
"#;

/// Everything that a batch needs.
pub(crate) struct World {
    pub(crate) home: TempDir,
    pub(crate) clock: Arc<Hand>,
    pub(crate) ledger: Ledger,
    pub(crate) broker: Broker,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) dispatcher: CommandDispatcher,
    calls: u64,
}

/// The ledger of a home.
pub(crate) fn open(home: &Path, clock: &Arc<Hand>) -> Result<Ledger, StoreError> {
    let clock: Arc<dyn Clock> = Arc::<Hand>::clone(clock);
    Ledger::open(home, clock, "v1".to_owned())
}

/// Most tests are not about approvals: no rule is asked, and production takes its gate only.
pub(crate) fn policy(config: &Config) -> Policy {
    let profile =
        Profile { write: Some(ApprovalMode::Auto), production: Some(ApprovalMode::Auto), ..Profile::default() };
    let profiles = config.groups.keys().map(|group| (group.clone(), profile.clone())).collect();
    Policy { quorum: config.quorums(), profiles: Profiles::new(profiles), ..Policy::default() }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_people("")
    }

    /// Makes a world with more people, after alice, who has the test's own user id, and bob.
    pub(crate) fn with_people(more: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(Hand::new(START));
        let uid = rustix::process::geteuid().as_raw();
        let text = format!(
            "{CONFIG}[people.alice]\nuid = {uid}\napproves = {{}}\n[people.bob]\nuid = {}\napproves = {{}}\n[approvals.actions.mock.ask]\nquorum = 2\n{more}",
            uid + 1
        );
        let config = Arc::new(
            Config::parse(&text, Path::new("broker.toml"), &Environment::new(), host_broker::providers::KINDS).unwrap(),
        );
        let catalogue = Arc::new(with_mock(listed(&ACTIONS)));
        let ids: Arc<dyn Random> = Arc::new(Counted(AtomicU64::new(1)));
        let key = Arc::new(LedgerKey::new(vec![7; 32]));
        Self {
            ledger: open(home.path(), &clock).unwrap(),
            broker: Broker::new(Arc::clone(&config), Arc::clone(&catalogue), policy(&config), Arc::clone(&ids)),
            dispatcher: CommandDispatcher {
                config,
                catalogue: tokio::sync::watch::channel(Arc::default()).1,
                scrubber: scrubber(&Secrets::default(), &key, Formats::with([]).unwrap()).unwrap(),
                key,
                ids,
                uid,
                inbox: None,
                callback: None,
                metrics: None,
                inspector: None,
                receiving: host_broker::receivers::ReceiverFaults::default(),
                sinks: host_broker::sinks::SinkStates::default(),
                ruleset_builder: None,
                reload: None,
                start: String::new(),
                health: tokio::sync::watch::channel(store::ledger::health::Health::default()).1,
                mailboxes: None,
                limits: String::new(),
                home: home.path().to_owned(),
                other_hosts: None,
                policy: None,
            },
            home,
            clock,
            catalogue,
            calls: 0,
        }
    }

    /// The reply to a command of a person at the command line.
    pub(crate) fn say(&mut self, command: Value) -> Value {
        let command: Command = serde_json::from_value(command).unwrap();
        administer(&mut self.ledger, &mut self.broker, &self.dispatcher, &command).unwrap()
    }

    /// Where a request of this group comes from, under a fresh id.
    pub(crate) fn header(&mut self, group: &str) -> Header {
        self.calls += 1;
        let caller = Caller::Group(group.parse().unwrap());
        let id = format!("ext-{}", self.calls);
        Header {
            caller_key: caller.to_string().into(),
            caller,
            behalf: model::Subject::NOBODY,
            request_digest: Digest::of(id.as_bytes()),
            request_id: id.parse().unwrap(),
            conversation: None,
            origin: Origin::Broker,
            arrived: Instant::now(),
            timeout: Duration::from_secs(30),
            weight: None,
        }
    }

    /// A call of a group, as it comes out of parsing.
    pub(crate) fn call(&mut self, group: &str, action: &str, params: &Value, task: Option<&str>) -> Call {
        let header = self.header(group);
        let provider: shared::Provider = "mock".parse().unwrap();
        let action: shared::Action = action.parse().unwrap();
        let target = match self.catalogue.provider(&provider) {
            None => Target::NoProvider,
            Some(listed) => match (listed.operations.get(&action), &listed.state) {
                (None, _) => Target::NoAction,
                (Some(operation), Err(_)) => Target::Disabled(Arc::clone(operation), listed.outage),
                (Some(operation), Ok(())) => {
                    Target::Action(Arc::clone(operation), operation.parse(params.as_object().unwrap()))
                }
            },
        };
        let mutating = !matches!(&target, Target::Action(operation, _) if operation.declaration().level <= Level::Read);
        let params = (params.as_object().unwrap().clone(), Digest::of(b"params"));
        let nonce = Nonce::stored(format!("{:032x}", self.calls));
        let planted = EffectMarker { request_id: header.request_id.clone(), nonce };
        let task_id = task.map(|task| task.parse().unwrap());
        Call { mutating, task_id, ..Call::new(header, (provider, action), target, params, planted) }
    }

    /// A batch of calls.
    pub(crate) fn admit(&mut self, durability: Durability, calls: Vec<Call>) -> Batch<Event, FollowUps> {
        let events = calls.into_iter().map(|call| Event::Arrived(Parsed::Call(Box::new(call)))).collect();
        self.ledger.batch(durability, events, &mut self.broker)
    }
}

/// A catalogue of one provider.
pub(crate) fn with_mock(mock: Listed) -> Catalogue {
    let mut catalogue = Catalogue::default();
    catalogue.insert("mock".parse().unwrap(), mock);
    catalogue
}
