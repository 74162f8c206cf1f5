//! The stages of a call, as the daemon runs them.

use engine::broker::Broker;
use engine::event::Event;
use engine::pipeline::run;
use engine::request::{DocumentMemory, InboundRequest, ParseContext, Parsed, Source, parse};
use engine::ruleset::Ruleset;
use host_broker::host::LoadedHome;
use host_broker::providers::KINDS;
use kernel::call::{Lane, Origin};
use kernel::{Committed, Intended, Ledger, Settled};
use model::Clock as _;

use platform::clock::SystemClock;
use platform::commands::SystemCommands;
use platform::home::Home;
use platform::http::SystemHttp;
use platform::random::SystemRandom;
use platform::{Environment, Platform};
use serde_json::json;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use store::Durability;
use tokio::runtime::Handle;

pub(crate) const STAGES: [&str; 4] = ["parse", "intent, or refusal", "effect, filter", "outcome, reply"];

/// The cost of a stage for one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) time: Duration,
    pub(crate) allocations: f64,
    pub(crate) statements: f64,
    pub(crate) writes: f64,
    pub(crate) bytes: f64,
}

/// The broker of a home, without its daemon.
pub(crate) struct Bench {
    context: ParseContext,
    ruleset: Ruleset,
    broker: Broker,
    ledger: Ledger,
    calls: u64,
}

/// The memory of a document. Nobody bounds it here.
#[derive(Debug)]
struct Unbounded;

impl DocumentMemory for Unbounded {
    fn parsed(&mut self, _nodes: usize) {}
}

impl Bench {
    pub(crate) fn open(home: &Path, runtime: Handle) -> Self {
        let platform = Platform {
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemRandom),
            environment: Arc::new(Environment::new()),
            commands: Arc::new(SystemCommands::default()),
            http: Arc::new(SystemHttp::default()),
            runtime,
        };
        let loaded = LoadedHome::open(Home::at(home.to_owned()), &platform, KINDS).unwrap();
        let mut ledger = loaded.ledger(Arc::clone(&platform.clock)).unwrap();
        let mut broker = loaded.broker(&platform.ids);
        let _started = ledger.batch(Durability::Full, vec![Event::Started], &mut broker);
        let context = ParseContext {
            catalogue: Arc::clone(&loaded.ruleset.catalogue),
            key: Arc::clone(&loaded.key),
            issuers: Arc::clone(&loaded.issuers),
            ids: Arc::clone(&platform.ids),
            timeout: Duration::from_secs(30),
            unknown_requests: loaded.config.broker.unknown_requests,
            filters: Some(Arc::clone(&loaded.ruleset.filters)),
        };
        Self { context, ruleset: loaded.ruleset.clone(), broker, ledger, calls: 0 }
    }

    /// Makes calls, some at once. Returns the costs of each stage, for one call.
    pub(crate) fn calls(&mut self, action: &str, at_once: usize, calls: usize) -> [Vec<Cost>; 4] {
        let mut costs = [(); 4].map(|()| Vec::new());
        let lane = if action == "charge" { Lane::Refused } else { Lane::Permitted };
        for _ in 0..calls.div_ceil(at_once) {
            let documents: Vec<InboundRequest> = (0..at_once).map(|_| self.document(action)).collect();
            let context = self.context.clone();
            let parsed: Vec<Event> = self.stage(&mut costs[0], at_once, |_| {
                documents.into_iter().map(|document| Event::Arrived(in_lane(parse(document, &context), lane))).collect()
            });
            // As the daemon has them written when nothing else is under way.
            let is_read = parsed.iter().all(|event| event.durability() == Durability::Normal);
            let durability = if is_read { Durability::Deferred } else { Durability::Full };
            let (intended, refused) = self.stage(&mut costs[1], at_once, |bench| bench.batch(durability, parsed));
            if intended.is_empty() {
                assert_eq!(refused.len(), at_once, "{action}");
                continue;
            }
            let filters = Arc::clone(&self.ruleset.filters);
            let finished: Vec<Event> = self.stage(&mut costs[2], at_once, |_| {
                intended.into_iter().map(|intended| at_first_step(run(intended, &filters))).collect()
            });
            let (_, settled) = self.stage(&mut costs[3], at_once, |bench| bench.batch(Durability::Full, finished));
            assert_eq!(settled.len(), at_once, "{action}");
            self.ledger.shorten_log();
        }
        costs
    }

    fn document(&mut self, action: &str) -> InboundRequest {
        self.calls += 1;
        let document = json!({
            "type": "ext_call", "request_id": format!("work-{}", self.calls), "provider": "mock", "action": action,
            "params": { "a": 1 },
        });
        InboundRequest {
            group: "g0".parse().unwrap(),
            signing_key: None,
            source: Source::Frame { connection: 1, frame: self.calls },
            bytes: Ok(document.to_string().into_bytes()),
            age: Duration::ZERO,
            arrived: tokio::time::Instant::now(),
            wall: SystemClock.now(),
            slot: Box::new(()),
            memory: Box::new(Unbounded),
        }
    }

    /// One batch, and the documents of its replies, as the outbox takes them.
    fn batch(&mut self, durability: Durability, events: Vec<Event>) -> (Vec<Intended>, Vec<Vec<u8>>) {
        let batch = self.ledger.batch(durability, events, &mut self.broker);
        assert!(batch.unwritten.is_empty() && batch.held.is_empty(), "{:?}", batch.fault());
        let (mut intended, mut replies) = (Vec::new(), Vec::new());
        for committed in batch.committed {
            match committed {
                Committed::Start(effect) => intended.push(effect),
                Committed::Close(_, settled) => {
                    replies.extend(settled.map(Settled::into_document).map(|(_, reply, _)| reply));
                }
                Committed::Wait(..) | Committed::Ask(_) | Committed::Notify(..) | Committed::Receive(..) => {
                    panic!("nothing waits here")
                }
            }
        }
        (intended, replies)
    }

    fn stage<R>(&mut self, costs: &mut Vec<Cost>, at_once: usize, work: impl FnOnce(&mut Self) -> R) -> R {
        let (statements, written, began) = (self.ledger.stats().statements, Written::now(), Instant::now());
        let mut done = None;
        let allocated = allocation_counter::measure(|| done = Some(work(self)));
        let (time, now) = (began.elapsed(), Written::now());
        let each = |number: u64| number as f64 / at_once as f64;
        costs.push(Cost {
            time: time / u32::try_from(at_once).unwrap(),
            allocations: each(allocated.count_total),
            statements: each(self.ledger.stats().statements - statements),
            writes: each(now.calls - written.calls),
            bytes: each(now.bytes - written.bytes),
        });
        done.unwrap()
    }
}

/// The call in the lane in which the daemon puts it.
fn in_lane(mut parsed: Parsed, lane: Lane) -> Parsed {
    if let Parsed::Call(call) = &mut parsed
        && let Origin::Frame(frame) = &mut call.header.origin
    {
        frame.lane = lane;
        return parsed;
    }
    panic!("no call over a socket")
}

/// The event of an effect that ends with its first step.
fn at_first_step(effect: impl Future<Output = Event>) -> Event {
    match pin!(effect).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => event,
        Poll::Pending => panic!("the scripted provider waits"),
    }
}

/// The bytes that this process has written.
struct Written {
    calls: u64,
    bytes: u64,
}

impl Written {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/io").unwrap();
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel counts it");
            line.trim().parse().unwrap()
        };
        Self { calls: number("syscw:"), bytes: number("wchar:") }
    }
}
