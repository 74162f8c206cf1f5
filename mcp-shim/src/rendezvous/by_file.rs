//! A request as a file in the mailbox.

use super::{HEARTBEAT, OutboundRequest, Rendezvous};
use crate::progress::Listener;
use crate::render::{self, Signs, Unusable};
use crate::settings::Settings;
use crate::watch::Arrivals;
use shared::limits::{HOST_DEAD, REPLY_BYTES_MAX};
use shared::mailbox::{self, Directory, FileIdentity, MailboxError};
use shared::reply::Progress;
use shared::{Reply, RequestId, Status};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The mode of a request: the host runs as another user, and must be able to read the sandbox's files.
pub(super) const REQUEST_MODE: u32 = 0o644;
/// Progress is small; anything larger is not worth showing.
const PROGRESS_BYTES_MAX: usize = 16 * 1024;
/// The first pause between two looks; it doubles up to the configured one.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// A request that was written.
pub(super) struct Posted<'a> {
    way: &'a Rendezvous,
    outbound: OutboundRequest,
    name: String,
    /// The replies that would do: to this request, and to an earlier one that it asks about.
    wanted: Vec<Wanted>,
    root: Directory,
    tasks: Directory,
    /// Some hosts make it only when they first have something to say.
    responses: Option<Directory>,
    /// The file system's clock when the request was written; absent if the host was faster than our look.
    written_ns: Option<i128>,
    written: Instant,
    /// Whether the host has taken the request. Once taken it is never untaken.
    taken: bool,
    /// The progress that was passed on last.
    told: Option<FileIdentity>,
}

/// Writes a request, and does not wait for its reply.
///
/// # Errors
/// The mailbox cannot be written.
pub(super) fn write(settings: &Settings, id: &RequestId, bytes: &[u8]) -> Result<(), MailboxError> {
    let tasks = Directory::open(&settings.ipc)?.open_dir(mailbox::TASKS)?;
    tasks.write(&mailbox::reply_name(id), bytes, REQUEST_MODE)
}

impl<'a> Posted<'a> {
    pub(super) fn post(
        way: &'a Rendezvous,
        outbound: OutboundRequest,
        wanted: Vec<Wanted>,
    ) -> Result<Self, Box<Reply>> {
        let no_mailbox = |unusable| {
            let (outbound, settings) = (&outbound, &way.settings);
            move |error: MailboxError| {
                Box::new(outbound.withdrawn(render::no_mailbox(&outbound.id, settings, unusable, &error)))
            }
        };
        let root = Directory::open(&way.settings.ipc).map_err(no_mailbox(Unusable::Directory))?;
        let tasks = root.open_dir(mailbox::TASKS).map_err(no_mailbox(Unusable::Tasks))?;
        let name = mailbox::reusable_name(&outbound.id);
        let written = Instant::now();
        way.spare_files.write(&tasks, &name, &outbound.bytes).map_err(no_mailbox(Unusable::Request))?;
        let written_ns = tasks.modified_ns(&name);
        Ok(Self {
            way,
            outbound,
            name,
            wanted,
            root,
            tasks,
            responses: None,
            written_ns,
            written,
            taken: written_ns.is_none(),
            told: None,
        })
    }

    pub(super) async fn wait(
        mut self,
        mut arrivals: Arrivals,
        stop: impl Future<Output = ()>,
        listener: &mut impl Listener,
    ) -> Reply {
        let mut stop = pin!(stop);
        let deadline = self.outbound.deadline();
        let mut heartbeat = self.outbound.started + HEARTBEAT;
        let mut pause = FIRST_PAUSE;
        // The quick looks of the beginning are for the reply only.
        let mut around = true;
        loop {
            if let Some(reply) = self.look() {
                return self.outbound.answered(reply);
            }
            let now = Instant::now();
            if now >= deadline {
                return self.give_up();
            }
            if around && self.host_is_dead(now) && self.withdraw() {
                return self.outbound.host_down();
            }
            if around && let Some(progress) = self.progress() {
                listener.hear(progress).await;
                heartbeat = now + HEARTBEAT;
            } else if now >= heartbeat {
                listener.hear(render::still_waiting(now - self.outbound.started, self.taken)).await;
                heartbeat = now + HEARTBEAT;
            }
            tokio::select! {
                biased;
                () = &mut stop => return self.abandon().await,
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
        if reply.request_id == self.outbound.id {
            // ORDER: a host answers only after it has taken the request.
            self.way.spare_files.add(&self.outbound.id);
        } else {
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
        let name = mailbox::progress_name(&self.outbound.id);
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
        let waited = i128::try_from((now - self.written).as_nanos()).unwrap_or(i128::MAX);
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
        if self.taken {
            self.way.spare_files.add(&self.outbound.id);
        }
        withdrawn
    }

    fn give_up(mut self) -> Reply {
        let (withdrawn, signs) = (self.withdraw(), self.signs());
        if withdrawn {
            return self.outbound.given_up(signs);
        }
        // The host may have taken it and answered since we last looked.
        if let Some(reply) = self.look() {
            return self.outbound.answered(reply);
        }
        let OutboundRequest { id, timeout, may_stay_silent, .. } = &self.outbound;
        if *may_stay_silent {
            return render::not_confirmed(id, *timeout);
        }
        let fault = self.wanted.iter().find_map(|wanted| wanted.unusable.as_ref());
        render::no_answer(id, *timeout, fault.map(|unusable| unusable.fault.as_str()))
    }

    /// Ends the wait, because the caller is gone.
    async fn abandon(mut self) -> Reply {
        if self.withdraw() && !self.outbound.may_be_taken {
            return render::cancelled(&self.outbound.id);
        }
        self.way.cancel(&self.outbound.id).await;
        render::cancel_asked(&self.outbound.id)
    }
}

/// A reply that is waited for.
pub(super) struct Wanted {
    pub(super) id: RequestId,
    name: String,
    unusable: Option<UnusableReply>,
    passes_over_pending: bool,
}

/// A file in the call of a reply that cannot be used.
struct UnusableReply {
    identity: Option<FileIdentity>,
    since: Instant,
    fault: String,
}

/// After this long a file that has not changed will not become a reply any more, and is not read again and again.
const UNUSABLE_RESTS: Duration = Duration::from_secs(1);

impl Wanted {
    fn new(id: RequestId) -> Self {
        Self { name: mailbox::reply_name(&id), id, unusable: None, passes_over_pending: false }
    }

    /// The reply to a request, and to an earlier one that it asks about.
    pub(super) fn of(id: &RequestId, earlier: Option<&RequestId>) -> Vec<Self> {
        let own = Self::new(id.clone());
        // An earlier reply said that an approval is pending, and a mount that cannot be written keeps it lying there.
        let earlier = earlier.cloned().map(|id| Self { passes_over_pending: true, ..Self::new(id) });
        [Some(own), earlier].into_iter().flatten().collect()
    }

    /// Looks for a reply, and passes over an unusable one until the timeout ends.
    ///
    /// A host that does not rename its files may still be writing. Only the host gets to end a call early, not a
    /// planted file.
    fn look(&mut self, responses: &Directory) -> Option<Reply> {
        let identity = Some(responses.look(&self.name)?);
        let known = self.unusable.as_ref().filter(|unusable| unusable.identity == identity);
        let since = known.map_or_else(Instant::now, |unusable| unusable.since);
        if since.elapsed() > UNUSABLE_RESTS {
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
                self.unusable = Some(UnusableReply { identity, since, fault });
                None
            }
        }
    }
}

/// Reads a reply, or says why it cannot be used.
fn read_reply(responses: &Directory, name: &str, id: &RequestId) -> Result<Reply, String> {
    let contents = responses.read_reply(name, REPLY_BYTES_MAX).map_err(|fault| fault.to_string())?;
    let document = shared::json::parse_object(&contents.bytes).map_err(|fault| fault.to_string())?;
    let reply: Reply = serde_json::from_value(document.into()).map_err(|_fault| render::NOT_A_REPLY.to_owned())?;
    // SECURITY: a reply under our name that speaks of another request is a mistake or a forgery.
    if reply.request_id == *id { Ok(reply) } else { Err(render::OTHER_REQUEST.to_owned()) }
}
