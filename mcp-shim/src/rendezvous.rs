//! The way to the host and back: send a request, wait for its reply, give up in time.
//!
//! [`Rendezvous::ask`] always ends with exactly one reply: the host's, or one that the shim makes itself and that says
//! truthfully whether anything may have been executed. A request goes over the host's socket, or as a file into the
//! mailbox. One that is still undecided when the shim gives up is taken back; only one that the host has already taken
//! can have had an effect.

mod by_file;
mod by_socket;
mod spare_files;

use crate::connection::{Connector, Incoming};
use crate::document;
use crate::progress::Listener;
use crate::render;
use crate::settings::{Settings, Transport};
use crate::watch::{Arrivals, Watch, stem};
use by_file::{Posted, Wanted};
use by_socket::Exchange;
use shared::limits::PROGRESS_EVERY;
use shared::mailbox;
use shared::request::{CancelRequest, Request};
use shared::{Code, Reply, RequestId, Status};
use spare_files::SpareFiles;
use std::future::ready;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The way to the host.
#[derive(Debug)]
pub struct Rendezvous {
    settings: Settings,
    watch: Watch,
    connector: Connector,
    spare_files: SpareFiles,
    conversation: OnceLock<RequestId>,
}

/// Half of the promised interval, so that a late timer does not break the promise.
const HEARTBEAT: Duration = Duration::from_secs(PROGRESS_EVERY.as_secs() / 2);
/// The pause before a request that a broken connection has lost is sent again.
const RESEND_PAUSE: Duration = Duration::from_millis(20);
/// The pause between two looks for a socket, where nothing else may be used.
const SOCKET_PAUSE: Duration = Duration::from_millis(250);

/// The time in which the host answers a hello, a withdrawal and a request to cancel.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A request to send, over any transport.
struct OutboundRequest {
    id: RequestId,
    bytes: Vec<u8>,
    timeout: Duration,
    started: Instant,
    /// Whether some hosts do this without ever answering.
    may_stay_silent: bool,
    /// Whether the host may have taken it over a connection that broke. Then no reply says that nothing was executed.
    may_be_taken: bool,
    /// The earlier request that it only asks about.
    about: Option<RequestId>,
}

impl OutboundRequest {
    fn deadline(&self) -> Instant {
        self.started + self.timeout
    }

    /// Returns the reply for a withdrawn request. If an earlier connection may have brought it, the outcome is unknown.
    fn withdrawn(&self, reply: Reply) -> Reply {
        if self.may_be_taken { render::connection_lost(&self.id) } else { reply }
    }

    /// Returns the reply for a request that was withdrawn at the end of its time.
    fn given_up(&self, signs: render::Signs) -> Reply {
        match &self.about {
            // However often it was sent, it has executed nothing.
            Some(of) => render::not_asked(of, self.timeout, signs),
            None => self.withdrawn(render::withdrawn(&self.id, self.timeout, signs)),
        }
    }

    /// Returns the reply for a request that was withdrawn because the host gives no sign of life.
    fn host_down(&self) -> Reply {
        let reply = render::host_down(&self.id, self.about.as_ref());
        if self.about.is_some() { reply } else { self.withdrawn(reply) }
    }

    /// Returns the host's reply to a request that may be a repeated one. A refusal of the repeated request says nothing
    /// about the first one.
    fn answered(&self, reply: Reply) -> Reply {
        let is_refusal =
            reply.status == Status::Denied || reply.code.as_deref() == Some(Code::EvidenceUnavailable.word());
        if is_refusal { self.withdrawn(reply) } else { reply }
    }
}

impl Rendezvous {
    /// Must be made inside the runtime, because of the watch.
    pub fn new(settings: Settings, watch: Watch) -> Self {
        let spare_files = SpareFiles::new(settings.ipc.clone());
        Self { settings, watch, connector: Connector::default(), spare_files, conversation: OnceLock::new() }
    }

    /// Returns the conversation that the requests belong to, if one has begun.
    pub fn conversation(&self) -> Option<&RequestId> {
        self.conversation.get()
    }

    /// Sets the conversation that all later requests belong to. Only the first one counts.
    pub fn converse(&self, conversation: RequestId) {
        self.conversation.set(conversation).ok();
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
    ///
    /// A connection that breaks may have lost the request or its reply. The shim then sends the same document again under
    /// the same id, over any transport. The host drops the undecided requests of a connection that has ended. It executes
    /// an id once, so it answers with the one outcome.
    pub async fn ask(
        &self,
        id: RequestId,
        request: &Request,
        timeout: Duration,
        stop: impl Future<Output = ()>,
        listener: &mut impl Listener,
    ) -> Reply {
        let bytes = match document::bytes(&self.settings, self.conversation(), &id, request) {
            Ok(bytes) => bytes,
            Err(reply) => return *reply,
        };
        let may_stay_silent = matches!(
            request,
            Request::Grant(_) | Request::Revoke(_) | Request::TaskCreate(_) | Request::GateApprove(_)
        );
        let started = Instant::now();
        let about = earlier(request).cloned();
        let mut outbound = OutboundRequest { id, bytes, timeout, started, may_stay_silent, may_be_taken: false, about };
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = stop.as_mut() => {
                    if !outbound.may_be_taken {
                        return render::cancelled(&outbound.id);
                    }
                    self.cancel(&outbound.id).await;
                    return render::cancel_asked(&outbound.id);
                }
                () = ready(()) => {}
            }
            let Some(connection) = self.connector.connection(&self.settings, &self.watch) else {
                if self.settings.transport != Transport::Socket {
                    return self.ask_by_file(outbound, stop, listener).await;
                }
                if Instant::now() >= outbound.deadline() || !outbound.may_be_taken {
                    return outbound.withdrawn(render::no_socket(&outbound.id, &self.settings));
                }
                tokio::select! {
                    () = stop.as_mut() => {
                        self.cancel(&outbound.id).await;
                        return render::cancel_asked(&outbound.id);
                    }
                    () = sleep(SOCKET_PAUSE) => continue,
                }
            };
            match self.exchange(&connection, &outbound, stop.as_mut(), listener).await {
                Exchange::Over(reply) => return outbound.answered(*reply),
                Exchange::Unsent => {}
                Exchange::Lost => {
                    outbound.may_be_taken = true;
                    sleep(RESEND_PAUSE).await;
                }
            }
        }
    }

    async fn ask_by_file(
        &self,
        outbound: OutboundRequest,
        stop: impl Future<Output = ()>,
        listener: &mut impl Listener,
    ) -> Reply {
        // ORDER: watch, then write, then look. A reply that comes between any two of them is still seen.
        self.watch.add(&self.responses());
        let wanted = Wanted::of(&outbound.id, outbound.about.as_ref());
        let arrivals = self.watch.arrivals(wanted.iter().map(|wanted| wanted.id.to_string()).collect());
        match Posted::post(self, outbound, wanted) {
            Ok(posted) => Box::pin(posted.wait(arrivals, stop, listener)).await,
            Err(reply) => *reply,
        }
    }

    /// Asks the host to cancel a call. If this fails, the call continues.
    async fn cancel(&self, of: &RequestId) {
        let (cancel, id) = (Request::Cancel(CancelRequest { of: of.clone() }), document::request_id());
        let Ok(bytes) = document::bytes(&self.settings, self.conversation(), &id, &cancel) else { return };
        let connection = self.connector.connection(&self.settings, &self.watch);
        if let Some(mut call) = connection.and_then(|connection| connection.request(&id, &bytes).ok()) {
            // The process may end next, and the host drops the undecided requests of a connection that has ended.
            if let Ok(Incoming::Reply(_)) = timeout(ANSWER_TIMEOUT, call.next()).await {
                return;
            }
            // The host finds a file later, too. The connection ends first.
            call.connection().shut_down();
            while !matches!(call.next().await, Incoming::Gone { .. }) {}
        }
        if self.settings.transport != Transport::Socket {
            by_file::write(&self.settings, &id, &bytes).ok();
        }
    }

    fn responses(&self) -> PathBuf {
        self.settings.ipc.join(mailbox::RESPONSES)
    }
}

/// Returns the earlier request whose reply a request asks for.
fn earlier(request: &Request) -> Option<&RequestId> {
    match request {
        Request::Result(result) => Some(&result.of),
        Request::Call(_)
        | Request::Capabilities(_)
        | Request::Grant(_)
        | Request::Revoke(_)
        | Request::Access(_)
        | Request::Plan(_)
        | Request::Begin(_)
        | Request::List(_)
        | Request::ListCalls(_)
        | Request::ListTasks(_)
        | Request::TaskCreate(_)
        | Request::GateApprove(_)
        | Request::Cancel(_)
        | Request::Auth(_)
        | Request::Flow(_) => None,
    }
}

#[cfg(test)]
mod tests;
