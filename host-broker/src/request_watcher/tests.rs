//! The notices that the request watcher takes by itself, and the work that it leaves to the worker.

use super::*;
use crate::assembly::filters::{filters, scrubber};
use crate::daemon::EventSender;
use crate::mailboxes::GroupMailbox;
use config::Config;
use config::inspection::InspectionTable;
use engine::catalogue::Listed;
use engine::inspection::Inspector;
use engine::request::Invoked;
use filter::values::Formats;
use kernel::call::Lane;
use model::{LedgerKey, NoRandomness, Random};
use platform::clock::SystemClock;
use platform::commands::SystemCommands;
use platform::home::Home;
use platform::http::SystemHttp;
use platform::random::SystemRandom;
use platform::{Environment, Platform};
use policy::profile::Profiles;
use secrets::Secrets;
use secrets::identity::issuers::Issuers;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

const SECOND: Duration = Duration::from_secs(1);

/// An intake with its worker, for the group `developer` and another one.
struct World {
    home: Home,
    intake: RequestWatcher,
    news: Receiver<Message>,
    mailbox: Arc<GroupMailbox>,
    _folder: tempfile::TempDir,
}

fn parse_context() -> ParseContext {
    ParseContext {
        catalogue: Arc::default(),
        key: Arc::new(LedgerKey::new(vec![0; 32])),
        issuers: Arc::new(Issuers::nobody()),
        ids: Arc::new(SystemRandom),
        timeout: Duration::from_secs(60),
        unknown_requests: UnknownRequests::Ignore,
        filters: None,
    }
}

/// An action that sends its parameters away, and the filters that inspect them.
fn sending(folder: &Path) -> ParseContext {
    let script = folder.join("mock.toml");
    std::fs::write(&script, "[actions.send]\nlevel = 2\n").unwrap();
    let mut catalogue = Catalogue::default();
    let provider: shared::Provider = "mock".parse().unwrap();
    let operations = provider_mock::operations(&provider, &script).unwrap();
    catalogue.insert(provider, Listed::ready("mock", operations));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let platform = Platform {
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemRandom),
        environment: Arc::default(),
        commands: Arc::new(SystemCommands::default()),
        http: Arc::new(SystemHttp::default()),
        runtime: runtime.handle().clone(),
    };
    let (parse_context, secrets) = (parse_context(), Secrets::default());
    let inspector = Inspector::new(&InspectionTable::default(), Profiles::default(), &secrets, &platform);
    let scrubber = scrubber(&secrets, &parse_context.key, Formats::with([]).unwrap()).unwrap();
    let filters = Arc::new(filters(&catalogue, scrubber, &parse_context.key, inspector).unwrap());
    ParseContext { catalogue: Arc::new(catalogue), filters: Some(filters), ..parse_context }
}

fn snapshot(members: &serde_json::Value) -> Arc<Snapshot> {
    let mut snapshot = json!({ "generatedAt": "", "capabilities": [] });
    snapshot.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(snapshot).unwrap())
}

/// The snapshot of a group that may send.
fn may_send() -> Arc<Snapshot> {
    let actions = json!({ "send": { "level": 2, "description": "Sends." } });
    snapshot(&json!({ "capabilities": [{ "provider": "mock", "access_level": 2, "actions": actions }] }))
}

fn call_of_send(id: &str, text: &str) -> String {
    let params = json!({ "text": text });
    let call = json!({ "type": "ext_call", "request_id": id, "provider": "mock", "action": "send", "params": params });
    call.to_string()
}

impl World {
    fn new(parse_context: impl FnOnce(&Path) -> ParseContext) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().to_owned());
        let text = "[groups.developer]\n[groups.security]\n";
        let config = Config::parse(text, &home.config(), &Environment::new(), crate::providers::KINDS).unwrap();
        let mailboxes = Mailboxes::open(&home, &config).unwrap();
        let (sender, news) = channel();
        let (worker, work) = ParseWorker::new(EventSender::new(sender, Arc::clone(mailboxes.waker())));
        std::thread::spawn(work);
        let mailbox = Arc::clone(mailboxes.mailbox(&"developer".parse().unwrap()).unwrap());
        let mut intake = RequestWatcher::new(mailboxes, parse_context(folder.path()), Arc::new(SystemClock), worker);
        // The first listing finds nothing.
        intake.gather(Duration::ZERO, 8, &mut VecDeque::new());
        Self { home, intake, news, mailbox, _folder: folder }
    }

    /// Has every further document of the group looked at beside the loop.
    fn use_up_the_refused_pace(&self) {
        let now = Instant::now();
        (0..20_000).for_each(|_| self.mailbox.pace(Lane::Refused).count(now));
    }

    fn may(&mut self, snapshot: &Arc<Snapshot>) {
        self.intake.set_snapshot(&self.mailbox.group.clone(), snapshot);
    }

    fn write(&self, name: &str, document: &str) {
        std::fs::write(self.home.mailbox(&self.mailbox.group).join(TASKS).join(name), document).unwrap();
    }

    /// One round of the loop.
    fn round(&mut self) -> VecDeque<Event> {
        let mut events = VecDeque::new();
        self.intake.gather(Duration::from_millis(20), 8, &mut events);
        while let Ok(news) = self.news.try_recv() {
            if let Message::Parsed(documents) = news {
                events.extend(self.intake.parsed(*documents));
            } else if let Message::Happened(event) = news {
                events.push_back(event);
            }
        }
        events
    }

    /// The next request.
    fn next(&mut self) -> Parsed {
        let event = (0..200).find_map(|_| self.round().pop_front());
        let Some(Event::Arrived(parsed)) = event else { panic!("no request arrives: {event:?}") };
        parsed
    }

    fn can_be_served(&self, at: Instant) -> bool {
        self.intake.queues.iter().any(|queue| queue.can_be_served(at))
    }
}

fn id_of(parsed: &Parsed) -> &str {
    match parsed {
        Parsed::Call(call) => call.header.request_id.as_str(),
        Parsed::CommandRequest(command_request) => command_request.header.request_id.as_str(),
        Parsed::InvalidDocument(invalid) => panic!("{invalid:?}"),
    }
}

/// Checks whether the data that the call would let leave was inspected.
fn is_inspected(parsed: &Parsed) -> bool {
    match parsed {
        Parsed::Call(call) => call.departing.is_some(),
        Parsed::CommandRequest(_) | Parsed::InvalidDocument(_) => panic!("it is no call"),
    }
}

/// Attack (Load and space): A group keeps its share of memory in use and leaves a long document, so
/// that the broker looks at it without a pause and never at the short ones behind it.
/// Defence: A long document that cannot be parsed now is set aside until less is under way.
#[test]
fn a_long_document_that_has_to_wait_is_looked_at_once_and_delays_no_short_one() {
    let mut world = World::new(|_| parse_context());
    world.may(&snapshot(&json!({ "is_main": true })));
    world.use_up_the_refused_pace();
    // As much is under way as a group may have.
    let under_way = world.mailbox.weigh(16 * 1024 * 1024);
    assert!(world.mailbox.takes_short() && !world.mailbox.takes_long());
    let cancel = |id: &str| json!({ "type": "ext_cancel", "request_id": id, "of": "another" }).to_string();
    world.write("a.json", &format!("{}{}", cancel("long"), " ".repeat(8 * 1024)));
    world.write("b.json", &cancel("short"));
    let short = world.next();
    assert_eq!(id_of(&short), "short");
    // The worker would be free again by then.
    let is_idle = (0..200).any(|_| world.round().is_empty() && !world.can_be_served(Instant::now() + SECOND));
    assert!(is_idle, "nothing is left to be looked at");
    drop(under_way);
    assert_eq!(id_of(&world.next()), "long");
}

/// A random source that panics at its first use.
#[derive(Default)]
struct PanicsOnce(AtomicBool);

impl Random for PanicsOnce {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
        assert!(self.0.swap(true, Ordering::AcqRel), "a fault in the broker");
        SystemRandom.fill(buffer)
    }
}

#[test]
fn requests_left_by_a_panicked_read_are_found_by_the_next_listing() {
    let mut world = World::new(|_| ParseContext { ids: Arc::new(PanicsOnce::default()), ..parse_context() });
    world.may(&may_send());
    world.use_up_the_refused_pace();
    world.write("a.json", &call_of_send("first", ""));
    world.write("b.json", &call_of_send("second", ""));
    assert_eq!(id_of(&world.next()), "second");
}

/// Attack (Load and space): A group without a grant sends short documents whose reading costs time:
/// parsing, and the search for the broker's own secrets.
/// Defence: The pace of refused documents is charged for the reading, too.
#[test]
fn reading_what_is_refused_uses_up_the_pace_of_its_group() {
    let mut world = World::new(sending);
    let text = "a b ".repeat(900);
    let is_paced = (0..5_000).any(|n| {
        world.write("a.json", &call_of_send(&format!("r-{n}"), &text));
        // The loop does not decide on it, so that only reading it can cost something.
        drop(world.next());
        !world.mailbox.pace(Lane::Refused).permits(true, Instant::now())
    });
    assert!(is_paced);
    assert!(world.mailbox.pace(Lane::Permitted).permits(true, Instant::now()));
}

/// Attack (Load and space): A caller without a grant sends long data, which the broker inspects
/// before the decision.
/// Defence: Data is inspected beside the loop only where the group's snapshot, or the agent's
/// access, permits the call.
#[test]
fn outgoing_text_is_inspected_beside_the_loop_only_if_the_caller_may_send() {
    let mut world = World::new(sending);
    let text = "a b ".repeat(4_000);
    world.write("a.json", &call_of_send("first", &text));
    assert!(!is_inspected(&world.next()));
    world.may(&may_send());
    world.write("b.json", &call_of_send("second", &text));
    assert!(is_inspected(&world.next()));
    // The same of an external agent.
    let mut config = Config::parse("", &world.home.config(), &Environment::new(), crate::providers::KINDS).unwrap();
    let tool = json!({ "id": "sender", "description": "", "provider": "mock", "action": "send", "open": ["text"] });
    config.flows = serde_json::from_value(json!({ "external_agent": { "allowed_tools": [tool] } })).unwrap();
    let config = Arc::new(config);
    for may_call in [false, true] {
        let invoked = Invoked {
            grant: store::state::external_grants::fresh_id(&SystemRandom).unwrap(),
            tool: "sender".parse().unwrap(),
            given: json!({ "text": text }).as_object().unwrap().clone(),
            request_id: "out-1".parse().unwrap(),
            idempotency_key: None,
            timeout: None,
        };
        let (answer, _receiver) = tokio::sync::oneshot::channel();
        world.intake.invoke(Invocation { invoked, answer }, may_call, Arc::clone(&config));
        assert_eq!(is_inspected(&world.next()), may_call);
    }
}

#[test]
fn a_group_whose_whole_directory_is_replaced_is_noticed_at_once() {
    let World { mut intake, home, _folder, .. } = World::new(|_| parse_context());
    let mut heard_within = |wait| {
        let mut events = VecDeque::new();
        intake.gather(wait, 8, &mut events);
        let reopened = |event: &Event| matches!(event, Event::MailboxReopened(group) if group.as_str() == "developer");
        events.iter().any(reopened)
    };
    // Without a wait, it hears only the notices that the kernel has sent.
    assert!(!heard_within(Duration::ZERO));
    let root = home.mailbox(&"developer".parse().unwrap());
    let (old, new) = (root.with_extension("old"), root.with_extension("new"));
    for directory in [TASKS, RESPONSES] {
        std::fs::create_dir_all(new.join(directory)).unwrap();
    }
    std::fs::rename(&root, &old).unwrap();
    std::fs::rename(&new, &root).unwrap();
    assert!(heard_within(Duration::ZERO), "another directory was moved here");
    assert!(!heard_within(Duration::ZERO));
    // One made in place is heard of when it is whole.
    std::fs::rename(&root, &new).unwrap();
    std::fs::create_dir(&root).unwrap();
    assert!(!heard_within(Duration::ZERO));
    for directory in [TASKS, RESPONSES] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    // The pause between two looks has begun.
    assert!((0..1000).any(|_| heard_within(Duration::from_millis(20))));
}

#[test]
fn a_stored_question_is_parsed_by_the_worker_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path().to_owned());
    let config = Arc::new(
        Config::parse("[groups.developer]\n", &home.config(), &Environment::new(), crate::providers::KINDS).unwrap(),
    );
    let mailboxes = Mailboxes::open(&home, &config).unwrap();
    let (sender, news) = std::sync::mpsc::channel();
    let (worker, work) = ParseWorker::new(EventSender::new(sender, Arc::clone(mailboxes.waker())));
    let intake = RequestWatcher::new(mailboxes, parse_context(), Arc::new(SystemClock), worker);
    let check = |kind, document: &str| {
        let waiting = Waiting { kind, document: document.as_bytes().to_vec(), behalf: Subject::NOBODY };
        let caller = Caller::Group("developer".parse().unwrap());
        intake.check(caller, "r-1".parse().unwrap(), waiting, Arc::clone(&config))
    };
    assert!(!check(SubjectKind::File, "{}"), "its request is over");
    assert!(check(SubjectKind::Call, "damaged"));
    assert!(check(SubjectKind::Call, r#"{"type":"ext_call","provider":"mock","action":"echo","params":{}}"#));
    assert!(news.try_recv().is_err(), "nothing is parsed yet");
    // The worker ends when the last sender is gone.
    drop(intake);
    work();
    let found: Vec<Message> = news.try_iter().collect();
    let [Message::Checked(damaged), Message::Checked(asked)] = found.as_slice() else { panic!("{found:?}") };
    assert!(damaged.1.is_err() && matches!(asked.1, Ok(None)), "{found:?}");
}
