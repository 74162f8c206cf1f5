//! The loop: takes the events, has them written as one batch, and only then lets anything follow.
//!
//! ```text
//! documents ─┐                                 ┌─► replies
//! effects  ──┼─► one batch, one commit, then ──┼─► effects ──┐ ready at once: the next batch
//! persons  ──┘                                 └─► snapshots └ else: on the runtime, which reports
//! ```
//!
//! One thread owns the ledger, reads the requests and writes the replies, because every change of threads costs a call
//! more than the work itself. It waits only for the disk: an effect that is not over at its first step continues on the
//! runtime.

mod asked;
mod changes;
mod checkpointing;
mod closing;
mod halting;
mod ruleset_reload;
mod messages;
mod repeats;
mod requested_verification;
mod holding;
mod late;
mod measuring;
mod notices;
mod rotating;
mod snapshots;
mod starting;
mod unwritten;
mod verifying;
mod waiting;

use crate::assembly::checkpoint_keys::KeptCheckpoint;
use crate::assembly::ruleset::RulesetBuilder;
use crate::host::reload::Reload;
use crate::metrics::Meter;
use crate::outbox::Outbox;
use crate::receivers::AnswerReceiver;
use crate::request_watcher::RequestWatcher;
pub use changes::Changes;
use engine::approval_subjects::Continuation;
use engine::broker::Broker;
use engine::catalogue::Catalogue;
use engine::event::Event;
use engine::flows::standing::{Use, standing};
use engine::follow_ups::FollowUps;
use engine::notices::sender::NoticeSender;
use engine::pipeline::run;
use engine::request::Invoked;
use engine::ruleset::Ruleset;
pub use halting::Halted;
use kernel::run_handle::RunHandle;
use kernel::{Batch, Committed, Held, Intended, Ledger, SyncedRows};
pub use messages::{Checked, EventSender, Invocation, Message, OAuthCallback, Resumed, VerificationAnswer};
use model::{Caller, Clock};
pub use ruleset_reload::RulesetReload;
use store::ledger::health::{Health, Verification};
use store::ledger::verification;
use store::state::approvals;
use store::state::proposals;

use asked::Asker;
use notices::Notices;
use rotating::Rotation;
use ruleset_reload::RulesetReloads;
use shared::reply::Progress;
use shared::{Group, RequestId, Timestamp, limits};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The largest batch, in events.
const BATCH_MAX: usize = 256;
/// The shortest time between two rounds that mark delivered replies and forget old ones.
const TICK: Duration = Duration::from_secs(1);
/// The time after which a running call reports its progress, and the interval of later reports.
const PROGRESS: Duration = Duration::from_secs(2);

/// The daemon's state.
pub struct Daemon {
    /// The one writer.
    pub ledger: Ledger,
    /// The broker, which turns events into rows.
    pub broker: Broker,
    /// Where documents come from.
    pub intake: RequestWatcher,
    /// Where everything else comes from.
    pub news: Receiver<Message>,
    /// Where effects report.
    pub reports: EventSender,
    /// Where replies leave.
    pub outbox: Outbox,
    /// The document `host.json`.
    pub host_info: Vec<u8>,
    /// The ruleset for every call, which changes when an operator accepts the definitions of a provider.
    pub ruleset: Ruleset,
    /// Builds the ruleset.
    pub ruleset_builder: Arc<RulesetBuilder>,
    /// The actions that exist, for those beside the loop.
    pub catalogue: watch::Sender<Arc<Catalogue>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The sender of notices.
    pub notice_sender: Arc<NoticeSender>,
    /// The receiver of answers from chats.
    pub receiver: Option<AnswerReceiver>,
    /// Where effects run.
    pub runtime: Handle,
    /// The changes, for the pages that watch.
    pub changes: Changes,
    /// The state of the ledger, for people.
    pub health: watch::Sender<Health>,
    /// The durable rows, for the sinks.
    pub synced: watch::Sender<SyncedRows>,
    /// The last checkpoint that was signed.
    pub kept: KeptCheckpoint,
    /// The counters for monitoring.
    pub meter: Meter,
    /// Knows at a stop whether the daemon starts again; `None` if nobody can reload it.
    pub reload: Option<Reload>,
}

/// The unique key of a request: its caller and its own id.
type Key = (Arc<str>, RequestId);

/// An event that waits, and until when.
type Waiter = (Instant, Event);

/// When the next approval request expires.
struct Lapses {
    next: Option<Timestamp>,
    // The approval requests have changed since.
    is_stale: bool,
}

/// The state of the loop between batches.
///
/// All of it can be lost: the ledger and the directories hold the durable state.
struct Loop {
    daemon: Daemon,
    // The events that are not written yet.
    pending: VecDeque<Event>,
    // The last batch took in no documents.
    ending: bool,
    // Events that wait for another request of the same caller, with the time at which they stop waiting.
    waiting: BTreeMap<(Arc<str>, RequestId), Vec<Waiter>>,
    // The callers that wait for a person's answer, and until when.
    asked: BTreeMap<(Arc<str>, RequestId), Asker>,
    // Requests about which a person is asked and whose documents are not checked since the start.
    unchecked: VecDeque<(Arc<str>, RequestId)>,
    // Requests that are to be decided on again and could not be.
    postponed: Vec<(Arc<str>, RequestId)>,
    // Those of them that the present batch has decided on.
    postponing: Vec<(Arc<str>, RequestId)>,
    /// Whether something that people wanted applied at once was turned away.
    wanted: bool,
    // When the next approval request expires.
    lapses: Lapses,
    // Which notices are under way, and when the next is due.
    notices: Notices,
    // The receivers of answers from chats. They end with the loop.
    receiving: JoinSet<()>,
    // The accepted definitions that are not in force yet.
    reloads: RulesetReloads,
    // The rows that move out of the ledger.
    rotation: Rotation,
    // The verification of all rows, until it is over.
    verification: Option<verification::Running>,
    // When the last one ended, by the monotonic clock.
    verified_at: Option<Duration>,
    // The last result.
    last_found: Option<Verification>,
    // It found that another program changed the evidence, now or before a restart. No call is admitted until all is
    // right.
    is_broken: bool,
    // Outcomes that could not be written yet. Nothing is admitted while there are any.
    unsettled: Vec<Event>,
    delivered: i64,
    expiry: Option<Timestamp>,
    last_heartbeat: Instant,
    ticked: Instant,
    checkpointed: Instant,
    // Effects that have started and not reported.
    running: usize,
    // Replies that wait for the next sync, and how long they may.
    held: Vec<Held<Event>>,
    held_until: Option<Instant>,
    // Since when it stops, if it does.
    stopping: Option<Instant>,
    // The daemon cannot go on. It ends as if it had crashed.
    halted: Option<Halted>,
    // The time of the probes of outcomes that a daemon with another home left unknown.
    probes_due: Option<Instant>,
}

/// How long shims may still read before the daemon stops.
const READ_GRACE: Duration = Duration::from_secs(2);
/// How long effects that run may still report before the daemon stops without them.
const STOP_GRACE: Duration = Duration::from_secs(5);

impl Daemon {
    /// Runs until [`Event::Stopping`], then writes the last row.
    ///
    /// Sends `ready` once the first row is durable and the calls of an earlier daemon are answered. If the first row
    /// cannot be written, it sends the reason and ends. Returns the ledger, which has the lock of the home, and the reason
    /// if the daemon could not go on.
    pub fn run(self, ready: &Sender<Result<(), String>>) -> (Ledger, Option<Halted>) {
        let now = Instant::now();
        let mut state = Loop {
            daemon: self,
            pending: VecDeque::new(),
            ending: false,
            waiting: BTreeMap::new(),
            asked: BTreeMap::new(),
            unchecked: VecDeque::new(),
            postponed: Vec::new(),
            postponing: Vec::new(),
            wanted: true,
            lapses: Lapses { next: None, is_stale: true },
            notices: Notices::default(),
            receiving: JoinSet::new(),
            reloads: RulesetReloads::default(),
            rotation: Rotation::default(),
            verification: None,
            verified_at: None,
            last_found: None,
            is_broken: false,
            unsettled: Vec::new(),
            delivered: 0,
            expiry: None,
            last_heartbeat: now,
            ticked: now,
            checkpointed: now,
            running: 0,
            held: Vec::new(),
            held_until: None,
            stopping: None,
            halted: None,
            probes_due: None,
        };
        let started = state.start();
        let is_over = started.is_err();
        state.note_synced();
        // A caller that does not wait for it needs no reply.
        ready.send(started).ok();
        if is_over {
            return (state.daemon.ledger, None);
        }
        state.verify();
        while !state.is_over() {
            let events = state.wait();
            state.handle(events);
            state.halt_if_fenced();
            if state.halted.is_some() {
                break;
            }
            state.daemon.ledger.shorten_log();
            state.on_time();
            state.note_turn();
        }
        if let Some(halted) = state.halted {
            state.daemon.ledger.keep_host();
            return (state.daemon.ledger, Some(halted));
        }
        if state.running > 0 {
            state.daemon.ledger.keep_host();
        }
        state.release_held();
        state.verification = None;
        state.daemon.outbox.close();
        // Delivered replies are marked before the last row, so that the next start does not deliver them again.
        let delivered = state.daemon.outbox.delivered();
        state.handle(vec![Event::Ticked { delivered }, Event::Stopping]);
        state.write_checkpoint();
        state.note_synced();
        let (head, writes) = (state.daemon.ledger.head(), state.daemon.ledger.stats());
        tracing::info!(row = head.seq, commits = writes.commits, syncs = writes.syncs, "the last row is written");
        (state.daemon.ledger, state.halted)
    }
}

/// Reports now and then to the waiting caller that a call still runs.
async fn with_progress(
    running: impl Future<Output = Event>,
    talk: Option<(Group, RequestId, Arc<RunHandle>, EventSender)>,
) -> Event {
    let mut running = std::pin::pin!(running);
    let started = Instant::now();
    loop {
        match tokio::time::timeout(PROGRESS, &mut running).await {
            Ok(event) => return event,
            Err(_elapsed) => {
                let Some((group, id, run_handle, reports)) = &talk else { continue };
                let message = format!("running for {} s", started.elapsed().as_secs());
                let reported = run_handle.progress();
                let (done, total) = (reported.map(|run| run.done), reported.and_then(|run| run.total));
                let progress = Progress { message, progress: done, total };
                reports.send(Message::Runs(group.clone(), id.clone(), progress));
            }
        }
    }
}

/// The group that the ledger names as a caller.
fn group_of(caller: &str) -> Option<Group> {
    Caller::stored(caller)?.group().cloned()
}

impl Loop {
    fn is_over(&self) -> bool {
        // Outcomes that cannot be written may still be.
        let idle = self.running == 0 && self.pending.is_empty() && self.held.is_empty() && self.unsettled.is_empty();
        // Unacknowledged notices are sent again, and a shim asks again for a reply that is cut. So a channel that hangs
        // and a shim that does not read delay the end only a little.
        let told = |since: Instant| self.notices.is_idle() || since.elapsed() >= TICK;
        let read = |since: Instant| !self.daemon.outbox.is_being_read() || since.elapsed() >= READ_GRACE;
        let is_stopped = |since: Instant| idle && told(since) && read(since) || since.elapsed() >= STOP_GRACE;
        self.halted.is_some() || self.stopping.is_some_and(is_stopped)
    }

    /// Waits for events, at most a batch: returns at least one event, or when it is time to look at the clock.
    fn wait(&mut self) -> Vec<Event> {
        // Begun calls end before new ones begin, so that a flood of documents delays no other outcome. But new
        // documents are never left out twice.
        self.ending = !self.pending.is_empty() && !self.ending;
        if !self.ending {
            let wait = if self.pending.is_empty() { self.timeout() } else { Duration::ZERO };
            // Once it stops, new documents stay in their directory for the next daemon.
            let most = if self.stopping.is_some() { 0 } else { BATCH_MAX.saturating_sub(self.pending.len()) };
            self.daemon.intake.gather(wait, most, &mut self.pending);
        }
        while let Ok(news) = self.daemon.news.try_recv() {
            match news {
                Message::Happened(Event::Stopping) => {
                    if let Some(reload) = &self.daemon.reload {
                        reload.announce_stop();
                    }
                    self.stopping.get_or_insert_with(Instant::now);
                    self.daemon.outbox.stop();
                    // An answer that is dropped now must not be confirmed.
                    self.receiving.abort_all();
                }
                Message::Happened(event @ (Event::Finished(_) | Event::NoticeDelivered(_))) => {
                    self.pending.push_back(event);
                }
                Message::Happened(event) if self.stopping.is_none() => self.pending.push_back(event),
                Message::Callback(back) if self.stopping.is_none() => self.bring_back(back),
                Message::Accepted(reload) if self.stopping.is_none() => self.reload_ruleset(reload),
                Message::Superseded(is_superseded) => self.daemon.ledger.note_superseded(is_superseded),
                Message::Invoked(invocation) if self.stopping.is_none() => {
                    let is_permitted = self.may_call(&invocation.invoked);
                    let config = Arc::clone(self.daemon.broker.config());
                    self.daemon.intake.invoke(*invocation, is_permitted, config);
                }
                Message::Queued(event) if self.stopping.is_none() => self.daemon.intake.queue(*event),
                Message::Resumed(resumed) if self.stopping.is_none() => self.resumed(*resumed),
                Message::Checked(checked) if self.stopping.is_none() => self.checked(*checked),
                // A document that arrives too late stays in its directory for the next daemon.
                Message::Parsed(documents) if self.stopping.is_none() => {
                    self.pending.extend(self.daemon.intake.parsed(*documents));
                }
                // A segment that no row names is written again by the next daemon.
                Message::Segment(result) if self.stopping.is_none() => self.written(*result),
                Message::Verify(answer) if self.stopping.is_none() => self.verify_on_request(answer),
                // A daemon that stops notes the finding, too.
                Message::Verified(result) => self.verified(*result),
                Message::Happened(_)
                | Message::Callback(_)
                | Message::Accepted(_)
                | Message::Invoked(_)
                | Message::Queued(_)
                | Message::Parsed(_)
                | Message::Resumed(_)
                | Message::Checked(_)
                | Message::Segment(_)
                | Message::Verify(_) => {}
                Message::Runs(group, id, progress) => self.daemon.outbox.progress(group, id, &progress),
            }
        }
        let batch: Vec<Event> = self.pending.drain(..self.pending.len().min(BATCH_MAX)).collect();
        self.running -= batch.iter().filter(|event| matches!(event, Event::Finished(_))).count();
        self.note_queued(&batch);
        batch
    }

    /// Returns whether an external agent may call this tool, as far as its access is known now. The decision looks again.
    fn may_call(&self, invoked: &Invoked) -> bool {
        let Daemon { ledger, broker, clock, .. } = &self.daemon;
        // A repeated call is decided on, too, although the access may be used up.
        let wanted = Use::Again(&invoked.tool);
        let standing = standing(ledger.view(), &broker.config().flows, clock.now(), &invoked.grant, wanted);
        standing.is_ok_and(|standing| standing.is_ok())
    }

    fn timeout(&self) -> Duration {
        let heartbeat = limits::HOST_HEARTBEAT.saturating_sub(self.last_heartbeat.elapsed());
        let tick = if self.has_ticking() { TICK.saturating_sub(self.ticked.elapsed()) } else { heartbeat };
        if self.stopping.is_some() {
            return Duration::from_millis(50);
        }
        let waiting = self.waiting.values().flatten().map(|(until, _)| *until);
        let asked = self.asked.values().map(|asker| asker.until);
        let first = waiting.chain(asked).chain(self.next_notice()).chain(self.held_until).min();
        let wait = first.map_or(heartbeat, |until| until.saturating_duration_since(Instant::now()));
        heartbeat.min(tick).min(wait)
    }

    fn has_ticking(&self) -> bool {
        let outbox = &self.daemon.outbox;
        outbox.delivered() > self.delivered
            || outbox.has_unsent()
            || !self.unsettled.is_empty()
            || !self.postponed.is_empty()
            || self.reloads.are_postponed()
            || self.wanted
            || self.rotation.has_deletable
            || self.daemon.ledger.is_using_reserve()
            || self.cannot_write()
    }

    /// Handles the events that only the clock brings.
    fn on_time(&mut self) {
        let now = self.daemon.clock.now();
        if self.last_heartbeat.elapsed() >= limits::HOST_HEARTBEAT {
            self.last_heartbeat = Instant::now();
            self.daemon.outbox.on_time();
            // A host that cannot record is not alive for those who wait.
            if self.unsettled.is_empty() {
                self.daemon.outbox.heartbeat();
            }
        }
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            let unsettled = std::mem::take(&mut self.unsettled);
            if !unsettled.is_empty() {
                self.handle(unsettled);
            }
            if self.unsettled.is_empty() {
                self.daemon.ledger.restore_reserve();
            }
            self.look_at_ledger();
            if std::mem::take(&mut self.wanted) {
                self.apply_what_is_wanted();
            }
            for key in std::mem::take(&mut self.postponed) {
                self.readmit(&key);
            }
            self.retry_postponed();
            self.daemon
                .ledger
                .heed_space(self.daemon.broker.config().broker.free_space_mib.saturating_mul(1024 * 1024));
            self.daemon.meter.evidence_used(|each| self.daemon.ledger.evidence_used(each));
            let Daemon { outbox, broker, ledger, .. } = &mut self.daemon;
            let (broker, ledger) = (&*broker, &*ledger);
            outbox.send_again(|group, id, document| {
                late::may_leave(broker, (ledger.view(), (now, ledger.steady())), (group, id), document)
            });
            self.rotate();
            self.write_due_checkpoint();
            let delivered = self.daemon.outbox.delivered();
            if delivered > self.delivered || self.daemon.ledger.has_counted() || self.rotation.has_deletable {
                self.handle(vec![Event::Ticked { delivered }]);
            }
        }
        if self.expiry.is_some_and(|at| at <= now) {
            self.write_all_snapshots();
        }
        if self.probes_due.take_if(|due| *due <= Instant::now()).is_some() {
            self.daemon.ledger.others_have_ended();
            self.probe_what_was_left();
        }
        if self.lapses.next.is_some_and(|at| at <= now) {
            self.handle(vec![Event::ApprovalsExpired]);
        }
        if self.held_until.is_some_and(|until| until <= Instant::now()) {
            self.release_held();
        }
        // ORDER: before the loop computes its next pause, because the deadline of an answered caller no longer counts.
        self.answer_unsettled(now);
        self.tell_impatient();
        self.release_late();
        self.send_notices(now);
    }

    /// Writes one batch, and starts its consequences.
    fn handle(&mut self, events: Vec<Event>) {
        if events.is_empty() || self.halted.is_some() {
            return;
        }
        let (events, turned_away) = self.admit(self.still_wanted(events));
        for event in turned_away {
            self.unrecorded(event);
        }
        if events.is_empty() {
            return;
        }
        let durability = self.durability(&events);
        self.daemon.meter.metrics().batch(events.len());
        let mut batch = self.daemon.ledger.batch(durability, events, &mut self.daemon.broker);
        self.halted = Halted::after(&batch);
        if self.halted.is_some() {
            return;
        }
        match batch.fault() {
            Some(error) => self.note_unwritten(error),
            None if batch.held.is_empty() => self.note_written(),
            // Whether it can be synced is known when these are released.
            None => {}
        }
        let mut follow_ups = FollowUps::default();
        for next in std::mem::take(&mut batch.follow_ups) {
            follow_ups.append(next);
        }
        self.postponing.append(&mut follow_ups.postponed);
        self.wanted |= follow_ups.is_wanted;
        // Snapshots leave before the replies that say that they changed.
        self.write_snapshots(&follow_ups.stale_snapshots);
        // ORDER: replies leave in the order of their rows, because all up to the last one count as delivered.
        if self.daemon.ledger.has_synced(&self.held) {
            self.release_held();
        }
        self.follow(batch);
        self.postponed.append(&mut self.postponing);
        if self.running == 0 && self.pending.is_empty() {
            // Nothing is under way whose sync they could wait for.
            self.release_held();
        }
        for resolved in follow_ups.resolved {
            match resolved.continuation {
                Continuation::Readmit => self.readmit(&resolved.key),
                Continuation::Wake => self.wake(&resolved.key),
                Continuation::PutInForce => self.reload_approved(&resolved.key.1),
            }
        }
        for to_apply in follow_ups.to_apply {
            self.apply(to_apply.wanted);
        }
        for took in follow_ups.answered_in {
            self.daemon.meter.metrics().answered(took);
        }
        self.lapses.is_stale |= follow_ups.approvals_changed;
        if self.lapses.is_stale {
            self.daemon.changes.announce_approval_requests();
            let reader = self.daemon.ledger.view();
            if let (Ok(silence), Ok(due)) = (approvals::next_expiry(reader), proposals::next_due(reader)) {
                self.lapses = Lapses { next: silence.into_iter().chain(due).min(), is_stale: false };
                self.notices.look();
            }
        }
        if !self.unsettled.is_empty() && self.daemon.ledger.release_reserve() {
            let again = std::mem::take(&mut self.unsettled);
            self.handle(again);
        }
    }

    /// Starts all consequences of a committed batch.
    fn follow<F>(&mut self, batch: Batch<Event, F>) {
        let repeats = self.note_repeats(&batch.committed);
        if !batch.commit.is_zero() {
            self.daemon.meter.metrics().committed(batch.commit);
        }
        for (committed, cost) in batch.committed.into_iter().zip(batch.costs) {
            self.measure(&committed, cost);
            match committed {
                Committed::Start(intended) => self.start_effect(intended),
                Committed::Close(event, settled) => self.close(event, settled, cost),
                Committed::Wait(event, of) => self.park(event, of),
                Committed::Ask(event) => self.wait_for_a_person(event),
                Committed::Notify(event, notices) => {
                    if matches!(event, Event::Verified(_)) {
                        self.send_alarms(notices);
                    } else {
                        self.set_out(notices);
                    }
                    self.close(event, None, cost);
                }
                Committed::Receive(event, channels) => {
                    self.receive(channels);
                    self.close(event, None, cost);
                }
            }
        }
        for (event, error) in batch.unwritten {
            self.unwritten(event, &error);
        }
        self.hold(batch.held);
        self.forget_repeats(repeats);
    }

    /// Takes the first step of the effect here: an effect that ends with it needs no other thread.
    fn start_effect(&mut self, mut intended: Intended) {
        self.running += 1;
        if let Some(file) = intended.retire()
            && self.daemon.outbox.retire(&file)
        {
            intended.withdraw();
        }
        let filters = Arc::clone(&self.daemon.ruleset.filters);
        let reports = self.daemon.reports.clone();
        let run_handle = intended.run_handle().map(Arc::clone);
        let talk = intended
            .caller_group()
            .zip(run_handle.clone())
            .map(|(group, run_handle)| (group, intended.request_id().clone(), run_handle, reports.clone()));
        if let Some((key, run_handle)) = intended.call_key().zip(run_handle) {
            self.daemon.broker.begin_run(key, run_handle);
        }
        let mut effect: Pin<Box<dyn Future<Output = Event> + Send>> =
            Box::pin(async move { with_progress(run(intended, &filters), talk).await });
        let _inside = self.daemon.runtime.enter();
        match effect.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => self.pending.push_back(event),
            Poll::Pending => {
                self.daemon.runtime.spawn(async move { reports.happened(effect.await) });
            }
        }
    }
}
