//! The shim's half of the file protocol: write a request, wait for its reply, give up in time.
//!
//! [`Rendezvous::ask`] always ends with exactly one reply: the host's, or one that the shim makes itself and that says
//! truthfully whether anything may have been executed. A request that is still in the mailbox when the shim gives up is
//! taken back; only one that the host has already taken can have had an effect.

use crate::document;
use crate::progress::Listener;
use crate::render::{self, Signs, Unusable};
use crate::settings::Settings;
use crate::watch::{Arrivals, Watch, stem};
use shared::limits::{HOST_DEAD, PROGRESS_EVERY, REPLY_BYTES_MAX};
use shared::mailbox::{self, Directory, FileIdentity, MailboxError};
use shared::reply::Progress;
use shared::request::{CancelRequest, Request};
use shared::{Reply, RequestId, Status};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The way to the host.
#[derive(Debug)]
pub struct Rendezvous {
    settings: Settings,
    watch: Watch,
}

/// The mode of a request: the host runs as another user, and must be able to read the sandbox's files.
const REQUEST_MODE: u32 = 0o644;
/// Progress is small; anything larger is not worth showing.
const PROGRESS_BYTES_MAX: usize = 16 * 1024;
/// The first pause between two looks; it doubles up to the configured one.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Half of the promised interval, so that a late timer does not break the promise.
const HEARTBEAT: Duration = Duration::from_secs(PROGRESS_EVERY.as_secs() / 2);

impl Rendezvous {
    /// Must be made inside the runtime, because of the watch.
    pub fn new(settings: Settings, watch: Watch) -> Self {
        Self { settings, watch }
    }

    /// How the shim was set up.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Notices of new snapshots.
    pub fn snapshots(&self) -> Arrivals {
        self.watch_snapshot();
        self.watch.arrivals(vec![stem(mailbox::SNAPSHOT).to_owned()])
    }

    /// Watches the group's directory, also if it was not there before or is another one now.
    pub fn watch_snapshot(&self) {
        self.watch.add(&self.settings.ipc);
    }

    /// Sends a request and waits for its reply, at most for `timeout` on the monotonic clock.
    ///
    /// `stop` ends the waiting early: the request is withdrawn or, if the host already has it, cancelled.
    pub async fn ask(
        &self,
        id: RequestId,
        request: &Request,
        timeout: Duration,
        stop: impl Future<Output = ()>,
        listener: &mut impl Listener,
    ) -> Reply {
        // ORDER: watch, then write, then look. A reply that comes between any two of them is still seen.
        self.watch.add(&self.responses());
        let earlier = match request {
            Request::Result(result) => Some(&result.of),
            Request::Call(_)
            | Request::Capabilities(_)
            | Request::Grant(_)
            | Request::Revoke(_)
            | Request::List(_)
            | Request::TaskCreate(_)
            | Request::GateApprove(_)
            | Request::Cancel(_)
            | Request::Auth(_)
            | Request::Flow(_) => None,
        };
        let own = Wanted::new(id.clone());
        // An earlier reply said that an approval is pending, and a mount that cannot be written keeps it lying there.
        let earlier = earlier.cloned().map(|id| Wanted { passes_over_pending: true, ..Wanted::new(id) });
        let wanted: Vec<Wanted> = [Some(own), earlier].into_iter().flatten().collect();
        let arrivals = self.watch.arrivals(wanted.iter().map(|wanted| wanted.id.to_string()).collect());
        match Posted::post(self, id, request, wanted, timeout) {
            Ok(posted) => posted.wait(arrivals, stop, listener).await,
            Err(reply) => *reply,
        }
    }

    fn responses(&self) -> PathBuf {
        self.settings.ipc.join(mailbox::RESPONSES)
    }
}

/// A request that was written.
struct Posted<'a> {
    way: &'a Rendezvous,
    id: RequestId,
    name: String,
    /// The replies that would do: to this request, and to an earlier one that it asks about.
    wanted: Vec<Wanted>,
    /// Whether some hosts do this without ever answering.
    may_stay_silent: bool,
    root: Directory,
    tasks: Directory,
    /// Some hosts make it only when they first have something to say.
    responses: Option<Directory>,
    timeout: Duration,
    started: Instant,
    /// The file system's clock when the request was written; absent if the host was faster than our look.
    written_ns: Option<i128>,
    /// Whether the host has taken the request. Once taken it is never untaken.
    taken: bool,
    /// The progress that was passed on last.
    told: Option<FileIdentity>,
}

impl<'a> Posted<'a> {
    fn post(
        way: &'a Rendezvous,
        id: RequestId,
        request: &Request,
        wanted: Vec<Wanted>,
        timeout: Duration,
    ) -> Result<Self, Box<Reply>> {
        let bytes = document::bytes(&way.settings, &id, request)?;
        let no_mailbox = |unusable| {
            let (id, settings) = (&id, &way.settings);
            move |error: MailboxError| Box::new(render::no_mailbox(id, settings, unusable, &error))
        };
        let root = Directory::open(&way.settings.ipc).map_err(no_mailbox(Unusable::Directory))?;
        let tasks = root.open_dir(mailbox::TASKS).map_err(no_mailbox(Unusable::Tasks))?;
        let name = mailbox::reply_name(&id);
        let started = Instant::now();
        tasks.write(&name, &bytes, REQUEST_MODE).map_err(no_mailbox(Unusable::Request))?;
        let written_ns = tasks.modified_ns(&name);
        Ok(Self {
            way,
            name,
            wanted,
            may_stay_silent: matches!(
                request,
                Request::Grant(_) | Request::Revoke(_) | Request::TaskCreate(_) | Request::GateApprove(_)
            ),
            root,
            tasks,
            responses: None,
            timeout,
            started,
            written_ns,
            taken: written_ns.is_none(),
            told: None,
            id,
        })
    }

    async fn wait(
        mut self,
        mut arrivals: Arrivals,
        stop: impl Future<Output = ()>,
        listener: &mut impl Listener,
    ) -> Reply {
        let mut stop = pin!(stop);
        let deadline = self.started + self.timeout;
        let mut heartbeat = self.started + HEARTBEAT;
        let mut pause = FIRST_PAUSE;
        // The quick looks of the beginning are for the reply only.
        let mut around = true;
        loop {
            if let Some(reply) = self.look() {
                return reply;
            }
            let now = Instant::now();
            if now >= deadline {
                return self.give_up();
            }
            if around && self.host_is_dead(now) && self.withdraw() {
                return render::host_down(&self.id);
            }
            if around && let Some(progress) = self.progress() {
                listener.hear(progress).await;
                heartbeat = now + HEARTBEAT;
            } else if now >= heartbeat {
                listener.hear(render::still_waiting(now - self.started, self.taken)).await;
                heartbeat = now + HEARTBEAT;
            }
            tokio::select! {
                biased;
                () = &mut stop => return self.abandon(),
                () = arrivals.next() => around = true,
                () = sleep_until((now + pause).min(deadline)) => {
                    around = pause >= self.way.settings.poll_interval;
                    pause = (pause * 2).min(self.way.settings.poll_interval);
                }
            }
        }
    }

    /// The reply, if it is there: to this request, or to the earlier one that this asks about.
    fn look(&mut self) -> Option<Reply> {
        self.open_responses();
        let responses = self.responses.as_ref()?;
        let reply = self.wanted.iter_mut().find_map(|wanted| wanted.look(responses))?;
        if self.told.is_some() {
            // Hosts that do not remove it themselves leave it for the reader of the reply.
            responses.remove(&mailbox::progress_name(&reply.request_id)).ok();
        }
        if reply.request_id != self.id {
            // The late reply is here, so the host need not answer the request for it any more.
            self.withdraw();
        }
        Some(reply)
    }

    fn open_responses(&mut self) {
        if self.responses.is_none() {
            self.responses = self.root.open_dir(mailbox::RESPONSES).ok();
            if self.responses.is_some() {
                self.way.watch.add(&self.way.responses());
            }
        }
    }

    /// New progress of the running call.
    fn progress(&mut self) -> Option<Progress> {
        let name = mailbox::progress_name(&self.id);
        let told = self.told;
        let responses = self.responses.as_ref()?;
        let identity = responses.look(&name).filter(|identity| Some(*identity) != told)?;
        let contents = responses.read(&name, PROGRESS_BYTES_MAX, None).ok();
        self.told = Some(identity);
        serde_json::from_slice(&contents?.bytes).ok()
    }

    /// Checks whether the host's last sign of life is too old, by the clock of the file system that carries both files:
    /// it stood at `written_ns` when the request was written, and time has passed evenly since.
    fn host_is_dead(&self, now: Instant) -> bool {
        let (false, Some(written), Some(beat)) = (self.taken, self.written_ns, self.root.modified_ns(mailbox::HOST))
        else {
            // The request was taken, so a host lives; or the host gives no sign, about which nothing can be said.
            return false;
        };
        let waited = i128::try_from((now - self.started).as_nanos()).unwrap_or(i128::MAX);
        let dead = i128::try_from(HOST_DEAD.as_nanos()).unwrap_or(i128::MAX);
        written.saturating_add(waited).saturating_sub(beat) > dead
    }

    fn signs(&self) -> Signs {
        if self.responses.is_none() {
            Signs::NoResponses
        } else if self.root.modified_ns(mailbox::HOST).is_none() {
            Signs::NoHost
        } else {
            Signs::All
        }
    }

    /// Takes the request back. `true` means that the host never had it.
    fn withdraw(&mut self) -> bool {
        let withdrawn = matches!(self.tasks.remove(&self.name), Ok(true));
        self.taken = !withdrawn;
        withdrawn
    }

    fn give_up(mut self) -> Reply {
        if self.withdraw() {
            return render::withdrawn(&self.id, self.timeout, self.signs());
        }
        // The host may have taken it and answered since we last looked.
        match self.look() {
            Some(reply) => reply,
            None if self.may_stay_silent => render::not_confirmed(&self.id, self.timeout),
            None => {
                let fault = self.wanted.iter().find_map(|wanted| wanted.rubbish.as_ref());
                render::no_answer(&self.id, self.timeout, fault.map(|rubbish| rubbish.fault.as_str()))
            }
        }
    }

    /// Ends the wait, because the caller is gone.
    fn abandon(mut self) -> Reply {
        if self.withdraw() {
            return render::cancelled(&self.id);
        }
        let cancel = Request::Cancel(CancelRequest { of: self.id.clone() });
        let id = document::request_id();
        if let Ok(bytes) = document::bytes(&self.way.settings, &id, &cancel) {
            // If this fails as well, the call runs on: the reply says so in any case.
            self.tasks.write(&mailbox::reply_name(&id), &bytes, REQUEST_MODE).ok();
        }
        render::cancel_asked(&self.id)
    }
}

/// A reply that is waited for.
struct Wanted {
    id: RequestId,
    name: String,
    rubbish: Option<Rubbish>,
    passes_over_pending: bool,
}

/// A file in the place of a reply that cannot be used.
struct Rubbish {
    identity: Option<FileIdentity>,
    since: Instant,
    fault: String,
}

/// After this long a file that has not changed will not become a reply any more, and is not read again and again.
const RUBBISH_RESTS: Duration = Duration::from_secs(1);

impl Wanted {
    fn new(id: RequestId) -> Self {
        Self { name: mailbox::reply_name(&id), id, rubbish: None, passes_over_pending: false }
    }

    /// Looks for a reply, and passes over an unusable one until the timeout ends.
    ///
    /// A host that does not rename its files may still be writing. Only the host gets to end a call early, not a
    /// planted file.
    fn look(&mut self, responses: &Directory) -> Option<Reply> {
        let identity = Some(responses.look(&self.name)?);
        let known = self.rubbish.as_ref().filter(|rubbish| rubbish.identity == identity);
        let since = known.map_or_else(Instant::now, |rubbish| rubbish.since);
        if since.elapsed() > RUBBISH_RESTS {
            return None;
        }
        match read_reply(responses, &self.name, &self.id) {
            Ok(reply) if self.passes_over_pending && reply.status == Status::Pending => None,
            Ok(reply) => {
                // Best effort: the mount may be read-only, and then the host clears up.
                responses.remove(&self.name).ok();
                Some(reply)
            }
            Err(fault) => {
                self.rubbish = Some(Rubbish { identity, since, fault });
                None
            }
        }
    }
}

/// Reads a reply, or says why it cannot be used.
fn read_reply(responses: &Directory, name: &str, id: &RequestId) -> Result<Reply, String> {
    let contents = responses.read(name, REPLY_BYTES_MAX, None).map_err(|fault| fault.to_string())?;
    let document = shared::json::parse_object(&contents.bytes).map_err(|fault| fault.to_string())?;
    let reply: Reply = serde_json::from_value(document.into()).map_err(|_fault| render::NOT_A_REPLY.to_owned())?;
    // SECURITY: a reply under our name that speaks of another request is a mistake or a forgery.
    if reply.request_id == *id { Ok(reply) } else { Err(render::OTHER_REQUEST.to_owned()) }
}

#[cfg(test)]
mod tests;
