//! A server: its address, its one connection, and the last look at its tools.

use super::link::{Link, Looked};
use super::settings::Wanted;
use super::tool_listing::ToolListing;
use super::tools::{self, ServerTool, shown};
use filter::scrub::Scrubber;
use filter::{complaint, holds_own};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use model::Refusal;
use platform::commands::{Command, CommandError, Commands};
use platform::http::Http;
use platform::sandbox::Sandbox;
use provider::child::Child;
use provider::contract::{Execution, Failure, Operation};
use provider::definitions::{
    Changed, DefinitionSource, Health, LISTING_TIMEOUT, ListedDefinitions, Listing, OnChange, Pinned, Withdrawn,
    warning,
};
use provider::pinned_definitions::PinnedDefinitions;
use secrets::Secret;
use secrets::vault::seen_secrets::SeenSecrets;
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::{Action, Code, Level, Provider};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

/// The most bytes of a program's last standard error that a failed look shows.
const COMPLAINTS_TOLD: usize = 2048;
/// How long to wait for the last standard error of a program that has ended.
const COMPLAINTS_PAUSE: Duration = Duration::from_millis(100);
/// For so long a look at a server's tools counts.
const LOOK_COUNTS: Duration = Duration::from_secs(30);
/// The longest time for a list of tools. A server that takes longer does not work.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// It is looked at by itself no more often than this.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// A server that has lived for so long has not failed when it ends.
const STEADY: Duration = Duration::from_secs(60);
/// How long it is waited after the second failure in a row, and twice as long after each that follows.
const BACK_OFF: Duration = Duration::from_secs(1);
/// But never longer.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);

const GONE: &str = "the server does not have it any more";
const DIFFERENT: &str = "its definition differs from the accepted one";
const TWICE: &str = "the server has two tools of one name";

/// The lines that a program writes to standard error.
#[derive(Debug, Default)]
struct Complaints {
    first: Option<String>,
    // The end of all of them.
    end: String,
}

impl Complaints {
    fn add(&mut self, line: &str) {
        let joint = if self.first.is_none() { "" } else { " | " };
        self.first.get_or_insert_with(|| line.to_owned());
        self.end.push_str(joint);
        self.end.push_str(line);
        let start = self.end.ceil_char_boundary(self.end.len().saturating_sub(COMPLAINTS_TOLD));
        self.end.drain(..start);
    }
}

/// How a server is reached.
#[derive(Debug)]
pub enum Reach {
    /// It is a program of this machine.
    Child(Box<Child>),
    /// It is elsewhere, and wants this token, if it wants one.
    Address(String, Option<Arc<Secret>>),
}

impl Reach {
    /// Returns the start of a connection, without any secret.
    fn begin_blank(&self, deadline: Instant) -> Result<Beginning, String> {
        match self {
            Self::Child(child) => child.start_blank(deadline).map(Beginning::Child).map_err(|error| error.to_string()),
            Self::Address(url, _) => Ok(Beginning::Address(url.clone(), None)),
        }
    }

    /// The same for an execution, with its secrets.
    fn begin_for(&self, execution: &Execution, deadline: Instant) -> Result<Beginning, String> {
        match self {
            Self::Child(child) => {
                let command = child.start_for(execution, deadline, Vec::new());
                command.map(Beginning::Child).map_err(|error| error.to_string())
            }
            Self::Address(url, token) => {
                Ok(Beginning::Address(url.clone(), token.as_ref().map(|token| token.expose(execution).to_owned())))
            }
        }
    }
}

/// The start of a connection.
enum Beginning {
    Child(Command),
    Address(String, Option<String>),
}

/// A server that can be asked.
pub struct Upstream {
    name: Provider,
    reach: Result<Reach, String>,
    // The tools that the operator has configured.
    wanted: Arc<BTreeMap<Action, Wanted>>,
    scrubber: Option<Arc<Scrubber>>,
    commands: Arc<dyn Commands>,
    http: Arc<dyn Http>,
    // The accepted definitions of the offered tools, and the number of their changes.
    accepted: Mutex<(Pinned, u64)>,
    connection: Mutex<Connection>,
    seen: Mutex<Seen>,
    looks: Semaphore,
    on_change: OnceLock<OnChange>,
}

type Starting = Shared<BoxFuture<'static, Result<Arc<Link>, Arc<str>>>>;

#[derive(Default)]
struct Connection {
    phase: Phase,
    starts: u64,
    // In a row.
    failures: u32,
    not_before: Option<Instant>,
    fault: Option<Arc<str>>,
}

/// The result of the last look.
#[derive(Default)]
struct Seen {
    // By the names that a tool can have here.
    said: Pinned,
    has_twins: bool,
    withdrawn: Withdrawn,
    at: Option<Instant>,
}

impl Seen {
    /// Why a tool of which this was accepted may not be called.
    fn why(&self, tool: &Action, accepted: &Digest) -> Option<&'static str> {
        match self.said.get(tool) {
            _ if self.has_twins => Some(TWICE),
            None => Some(GONE),
            Some(said) if said == accepted => None,
            Some(_) => Some(DIFFERENT),
        }
    }

    fn withdrawn(&self, accepted: &Pinned) -> Withdrawn {
        accepted.iter().filter_map(|(tool, pinned)| Some((tool.clone(), self.why(tool, pinned)?))).collect()
    }
}

#[derive(Default)]
enum Phase {
    #[default]
    Down,
    Starting(Starting),
    Up(Arc<Link>),
}

impl Connection {
    /// It did not start, or has ended soon.
    fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        let doubled = 1u32.checked_shl(self.failures.saturating_sub(2)).unwrap_or(u32::MAX);
        let wait = BACK_OFF.saturating_mul(doubled).min(BACK_OFF_MAX);
        self.not_before = (self.failures > 1).then(|| Instant::now() + wait);
    }

    /// If it was up and is no more, takes note of that.
    fn notice_the_end(&mut self) {
        let Phase::Up(link) = &self.phase else { return };
        if link.is_open() {
            return;
        }
        if link.since().elapsed() >= STEADY {
            self.failures = 0;
            self.not_before = None;
        } else {
            self.failed();
        }
        self.phase = Phase::Down;
    }
}

impl Upstream {
    /// Creates a server with this address. `scrubber` cleans its complaints for the log; without, it gets no secret.
    pub fn new(
        name: &Provider,
        reach: Result<Reach, String>,
        wanted: BTreeMap<Action, Wanted>,
        scrubber: Option<Arc<Scrubber>>,
        (commands, http): (&Arc<dyn Commands>, &Arc<dyn Http>),
    ) -> Self {
        Self {
            name: name.clone(),
            reach,
            wanted: Arc::new(wanted),
            scrubber,
            commands: Arc::clone(commands),
            http: Arc::clone(http),
            accepted: Mutex::default(),
            connection: Mutex::default(),
            seen: Mutex::default(),
            looks: Semaphore::new(1),
            on_change: OnceLock::new(),
        }
    }

    /// Returns the same server for the owner of this token: with a connection and a look of its own.
    ///
    /// Its definitions for this owner do not concern the others.
    pub(super) fn with_token(&self, token: String, execution: &Execution) -> Self {
        let reach = match &self.reach {
            Ok(Reach::Address(url, _)) => Ok(Reach::Address(url.clone(), Some(Arc::new(Secret::new(token))))),
            Ok(Reach::Child(_)) => Err("it is a program, which has no accounts".to_owned()),
            Err(why) => Err(why.clone()),
        };
        let wider = self.scrubber.as_ref().map(|base| base.with_seen(&SeenSecrets::of(execution.slots())));
        let (reach, scrubber) = match wider {
            Some(Ok(Some(wider))) => (reach, Some(Arc::new(wider))),
            // Nothing is connected whose complaints could not be cleaned of the token.
            Some(Ok(None) | Err(_)) | None => (Err("its token cannot be searched for".to_owned()), None),
        };
        Self {
            name: self.name.clone(),
            reach,
            wanted: Arc::clone(&self.wanted),
            scrubber,
            commands: Arc::clone(&self.commands),
            http: Arc::clone(&self.http),
            accepted: Mutex::new((self.accepted().0.clone(), 0)),
            connection: Mutex::default(),
            seen: Mutex::default(),
            looks: Semaphore::new(1),
            on_change: OnceLock::new(),
        }
    }

    fn accepted(&self) -> MutexGuard<'_, (Pinned, u64)> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks whether it could not be connected because the server does not know who asks.
    pub(super) fn does_not_know_who_asks(&self) -> bool {
        let unauthorized = http::StatusCode::UNAUTHORIZED.to_string();
        self.health().fault.is_some_and(|fault| fault.contains(&unauthorized))
    }

    /// Its name.
    pub fn name(&self) -> &Provider {
        &self.name
    }

    /// Why it cannot be started, as far as that is known without trying.
    pub fn fault(&self) -> Option<&String> {
        self.reach.as_ref().err()
    }

    /// Checks whether it is elsewhere, and not a program of this machine.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.reach, Ok(Reach::Address(..)))
    }

    /// Returns its definitions: starts it for that, with a placeholder for each secret.
    ///
    /// # Errors
    /// The reason why it does not list them, for the operator.
    pub async fn tools(&self) -> Result<PinnedDefinitions, String> {
        let deadline = Instant::now() + LISTING_TIMEOUT;
        self.asked(self.reach.as_ref().map_err(Clone::clone)?.begin_blank(deadline)?).await
    }

    /// The same, with its secrets.
    ///
    /// # Errors
    /// Why it does not say it, for the operator.
    pub(super) async fn tools_for(&self, execution: &Execution) -> Result<PinnedDefinitions, String> {
        let deadline = Instant::now() + LISTING_TIMEOUT;
        let beginning = self.reach.as_ref().map_err(Clone::clone)?.begin_for(execution, deadline)?;
        let Ok(_alone) = self.looks.try_acquire() else { return Err("another listing is in progress".to_owned()) };
        let said = self.asked(beginning).await.map_err(|why| complaint(&why, self.scrubber.as_deref()))?;
        // SECURITY: it has the broker's secrets now, and its definitions are stored and shown.
        let text = Value::Object(said.said().clone());
        if self.scrubber.as_ref().is_none_or(|scrubber| holds_own(text, scrubber)) {
            return Err("its definitions hold a secret of the broker's own".to_owned());
        }
        Ok(said)
    }

    async fn asked(&self, beginning: Beginning) -> Result<PinnedDefinitions, String> {
        let complaints = Arc::new(Mutex::new(Complaints::default()));
        let asked = async {
            let link = self.connect(beginning, &complaints).await?;
            let said = tools::document(&link.tools().await?).map(PinnedDefinitions::new)?;
            said.can_be_kept().then_some(said).ok_or_else(|| "the definition of a tool nests too deep".to_owned())
        };
        let said = timeout(LISTING_TIMEOUT, asked).await.unwrap_or_else(|_elapsed| Err(self.slow()));
        if said.is_err() {
            // Standard error arrives by another pipe than the end of the program.
            sleep(COMPLAINTS_PAUSE).await;
        }
        said.map_err(|why| {
            let complaints = complaints.lock().unwrap_or_else(PoisonError::into_inner);
            match self.sandbox_error(&complaints) {
                Some(error) => error,
                None if complaints.end.is_empty() => why,
                None => format!("{why}; on standard error it says: {}", complaints.end),
            }
        })
    }

    /// Returns the reason why the sandbox of the program could not be created, by the standard error.
    ///
    /// SECURITY: the program in the sandbox writes to the same standard error. The reason has none of its words.
    fn sandbox_error(&self, complaints: &Complaints) -> Option<String> {
        let Ok(Reach::Child(child)) = &self.reach else { return None };
        let refusal = complaints.first.as_deref().and_then(Sandbox::refusal)?;
        child.sandbox_error(&refusal).map(|error| format!("cannot create sandbox: {error}"))
    }

    fn slow(&self) -> String {
        format!("{} has not answered within {} s", self.name, LISTING_TIMEOUT.as_secs())
    }

    /// Connects. `complaints` also gets the end of a child's standard error.
    async fn connect(&self, beginning: Beginning, complaints: &Arc<Mutex<Complaints>>) -> Result<Link, String> {
        let command = match beginning {
            Beginning::Child(command) => command,
            Beginning::Address(url, token) => return Link::to_address(Arc::clone(&self.http), &url, token).await,
        };
        let opened = self.commands.open(command).map_err(|fault| match fault {
            CommandError::Start { program, source } => format!("{} cannot be started: {source}", program.display()),
            CommandError::BadName(_)
            | CommandError::NotFound(_)
            | CommandError::Write(_)
            | CommandError::Read(_)
            | CommandError::Wait(_)
            | CommandError::Deadline => fault.to_string(),
        })?;
        let (provider, scrubber) = (self.name.clone(), self.scrubber.clone());
        let complaints = Arc::clone(complaints);
        let log = move |line: &str| {
            let said = complaint(line, scrubber.as_deref());
            let mut complaints = complaints.lock().unwrap_or_else(PoisonError::into_inner);
            complaints.add(&said);
            drop(complaints);
            tracing::info!(%provider, said, "the server says on standard error");
        };
        Link::to_child(opened, log).await
    }

    /// The connection for a call: the one there is, or a new one.
    async fn link(self: &Arc<Self>, execution: &Execution) -> Result<Arc<Link>, Failure> {
        let starting = {
            let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            connection.notice_the_end();
            match &connection.phase {
                Phase::Up(link) => return Ok(Arc::clone(link)),
                // One that has ended and is still here did so in a panic.
                Phase::Starting(starting) if starting.peek().is_none() => starting.clone(),
                Phase::Starting(_) | Phase::Down => {
                    let now = Instant::now();
                    if let Some(not_before) = connection.not_before.filter(|not_before| *not_before > now) {
                        let seconds = (not_before - now).as_secs() + 1;
                        let message = format!("it has ended again and again and is left alone for {seconds} s");
                        return Err(Failure::Unavailable { message });
                    }
                    let reach = self.reach.as_ref().map_err(Clone::clone);
                    let beginning = reach.and_then(|reach| reach.begin_for(execution, now + LISTING_TIMEOUT));
                    let beginning = beginning.map_err(|why| self.not_started(&why))?;
                    connection.starts += 1;
                    let starting = self.start(beginning);
                    connection.phase = Phase::Starting(starting.clone());
                    starting
                }
            }
        };
        starting.await.map_err(|why| self.not_started(&why))
    }

    /// Starts it, also if the caller's timeout is shorter.
    fn start(self: &Arc<Self>, beginning: Beginning) -> Starting {
        let this = Arc::clone(self);
        let task = tokio::spawn(async move {
            let complaints = Arc::new(Mutex::new(Complaints::default()));
            let linked = match timeout(LISTING_TIMEOUT, this.connect(beginning, &complaints)).await {
                Ok(linked) => linked,
                Err(_elapsed) => Err(this.slow()),
            };
            if linked.is_err() && !this.is_elsewhere() {
                // Standard error arrives by another pipe than the end of the program.
                sleep(COMPLAINTS_PAUSE).await;
            }
            let linked = linked.map_err(|why| {
                let complaints = complaints.lock().unwrap_or_else(PoisonError::into_inner);
                this.sandbox_error(&complaints).unwrap_or(why)
            });
            let mut connection = this.connection.lock().unwrap_or_else(PoisonError::into_inner);
            match linked {
                Ok(link) => {
                    tracing::info!(provider = %this.name, starts = connection.starts, "the server answers");
                    let link = Arc::new(link);
                    tokio::spawn(watch(Arc::downgrade(&this), Arc::downgrade(&link)));
                    connection.fault = None;
                    connection.phase = Phase::Up(Arc::clone(&link));
                    Ok(link)
                }
                Err(why) => {
                    let why: Arc<str> = complaint(&why, this.scrubber.as_deref()).into();
                    connection.failed();
                    connection.fault = Some(Arc::clone(&why));
                    connection.phase = Phase::Down;
                    Err(why)
                }
            }
        });
        async move { task.await.unwrap_or_else(|_panic| Err("the broker itself failed".into())) }.boxed().shared()
    }

    /// The connection for a call, to a server whose tools have been looked at.
    pub(super) async fn looked_at(self: &Arc<Self>, execution: &Execution) -> Result<Arc<Link>, Failure> {
        for is_last in [false, true] {
            let link = self.link(execution).await?;
            let counts = Instant::now().checked_sub(LOOK_COUNTS);
            match self.look(&link, counts).await {
                Ok(()) => return Ok(link),
                // Nothing was called yet, so it may be tried with a new connection: the server may have forgotten this one.
                Err(()) if is_last => break,
                Err(()) => {}
            }
        }
        Err(Failure::Unavailable { message: "it lists no tools".to_owned() })
    }

    fn not_started(&self, why: &str) -> Failure {
        tracing::warn!(provider = %self.name, why, "the server cannot be started");
        Failure::Unavailable { message: "it cannot be started; the operator's log says why".to_owned() }
    }

    /// Compares the present tools of the server with the accepted ones.
    ///
    /// It does not look if another look is newer than `since` and the server has announced no change after that.
    ///
    /// A server that does not list them does not work, and its connection is closed, if no call is under way.
    async fn look(&self, link: &Link, since: Option<Instant>) -> Result<(), ()> {
        // One at a time: the last look has seen the last state.
        let mut looked = link.looked.lock().await;
        // ORDER: from before the look, so that no notification during it is lost.
        let (generation, at) = (link.listener().generation(), Instant::now());
        if let (Some(looked), Some(since)) = (&*looked, since)
            && looked.generation == generation
            && looked.at >= since
        {
            return Ok(());
        }
        let said = match timeout(LOOK_TIMEOUT, link.tools()).await {
            Ok(said) => said,
            Err(_elapsed) => Err("it does not answer".to_owned()),
        };
        let said = said.map_err(|why| {
            let why = complaint(&why, self.scrubber.as_deref());
            tracing::warn!(provider = %self.name, why, "the server's tools cannot be looked at");
            // A call that is under way may still be answered.
            if !link.is_busy() {
                link.close();
            }
        })?;
        self.compare(&said);
        *looked = Some(Looked { generation, at });
        Ok(())
    }

    fn compare(&self, said: &[ServerTool]) {
        let mut names = BTreeSet::new();
        let has_twins = !said.iter().all(|said| names.insert(said.name()));
        let own = said.iter().filter_map(|said| Some((said.name().parse().ok()?, said.digest())));
        let own: Pinned = own.collect();
        let mut seen = self.seen();
        (seen.said, seen.has_twins, seen.at) = (own, has_twins, Some(Instant::now()));
        let (now, epoch) = {
            let accepted = self.accepted();
            (seen.withdrawn(&accepted.0), accepted.1)
        };
        let is_new = seen.withdrawn != now;
        for (tool, why) in now.iter().filter(|_| is_new) {
            tracing::warn!(provider = %self.name, %tool, why, "the tool is withdrawn");
        }
        seen.withdrawn.clone_from(&now);
        drop(seen);
        // As long as there are any it is reported again: the server's definitions may have changed again.
        if let Some(told) = self.on_change.get().filter(|_| is_new || !now.is_empty()) {
            told(
                Changed { provider: self.name.clone(), withdrawn: now, epoch },
                &ListedTools { said, wanted: &self.wanted },
            );
        }
    }

    /// Returns the refusal if a look that still counts found the tool different from the accepted one.
    pub(super) fn withdrawn(&self, tool: &Action, accepted: &Digest) -> Option<Refusal> {
        let seen = self.seen();
        // A look that does not count any more is made again before anything is called.
        seen.at.filter(|at| at.elapsed() <= LOOK_COUNTS + LOOK_TIMEOUT)?;
        let why = seen.why(tool, accepted)?;
        Some(Refusal { code: Code::DefinitionChanged, reason: format!("Tool {tool} is withdrawn: {why}.") })
    }

    fn has_withdrawn(&self) -> bool {
        !self.seen().withdrawn.is_empty()
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(&self.connection.lock().unwrap_or_else(PoisonError::into_inner).phase, Phase::Up(link) if link.is_open())
    }
}

impl DefinitionSource for Upstream {
    fn accept(&self, pinned: Pinned) {
        let mut seen = self.seen();
        if seen.at.is_some() {
            seen.withdrawn = seen.withdrawn(&pinned);
        }
        let mut accepted = self.accepted();
        if accepted.0 != pinned {
            *accepted = (pinned, accepted.1 + 1);
        }
    }

    fn epoch(&self) -> u64 {
        self.accepted().1
    }

    fn on_change(&self, receiver: OnChange) {
        self.on_change.set(receiver).ok();
    }

    fn health(&self) -> Health {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.notice_the_end();
        let state = match (&connection.phase, connection.starts) {
            (Phase::Up(_), _) => "up",
            (Phase::Starting(_), _) => "starting",
            (Phase::Down, 0) => "idle",
            (Phase::Down, _) => "down",
        };
        let fault = connection.fault.as_ref().map(ToString::to_string);
        let withdrawn = self.seen().withdrawn.clone();
        Health { state, starts: connection.starts, fault, withdrawn }
    }

    fn list(self: Arc<Self>) -> (Arc<dyn Operation>, oneshot::Receiver<Listing>) {
        ToolListing::at(&self)
    }
}

/// The tools that the server lists now, beside the configuration.
struct ListedTools<'a> {
    said: &'a [ServerTool],
    wanted: &'a BTreeMap<Action, Wanted>,
}

impl ListedDefinitions for ListedTools<'_> {
    fn document(&self) -> Result<Map<String, Value>, String> {
        tools::document(self.said)
    }

    fn text(&self) -> Value {
        self.said.iter().map(|said| Value::Object(said.members().clone())).collect()
    }

    fn offered(&self, flagged: &BTreeSet<String>) -> Result<Vec<(Action, Level)>, String> {
        let tools::Offer { tools, faults } = tools::offered(self.said, self.wanted, flagged);
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        Ok(tools.into_iter().map(|tool| (tool.action.clone(), tool.table.level)).collect())
    }

    fn warnings(&self) -> Vec<String> {
        // The name is between quotes: the server chooses it, too.
        let warned = |tool: &ServerTool| warning(&Value::from(shown(tool.name())).to_string(), &tool.verdict());
        self.said.iter().filter_map(warned).collect()
    }
}

/// Looks at a server again after a notification of changed tools, and after an unanswered call.
///
/// As long as a tool is withdrawn, it also looks now and then: otherwise no look would find it as accepted again.
async fn watch(upstream: Weak<Upstream>, link: Weak<Link>) {
    let heard = link.upgrade().map(|link| (link.listener().clone(), link.closed().clone()));
    let Some((listener, closed)) = heard else { return };
    loop {
        let is_stirred = tokio::select! {
            () = closed.cancelled() => return,
            () = listener.stirred() => true,
            () = sleep(LOOK_COUNTS) => false,
        };
        let (Some(upstream), Some(link)) = (upstream.upgrade(), link.upgrade()) else { return };
        if is_stirred || upstream.has_withdrawn() {
            // A server without an answer now is asked again when it is called.
            upstream.look(&link, None).await.ok();
        }
        drop((upstream, link));
        sleep(LOOK_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_standard_error_stays_the_first_one_when_its_end_is_cut() {
        let mut complaints = Complaints::default();
        complaints.add("starting");
        complaints.add(&"x".repeat(COMPLAINTS_TOLD));
        complaints.add("bwrap: No permissions to create new namespace");
        assert_eq!(complaints.first.as_deref(), Some("starting"));
        assert_eq!(complaints.end.len(), COMPLAINTS_TOLD);
        assert!(complaints.end.ends_with("x | bwrap: No permissions to create new namespace"), "{}", complaints.end);
    }
}
