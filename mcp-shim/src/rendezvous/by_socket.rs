//! A request over the host's socket.

use super::{HEARTBEAT, Outbound, Rendezvous};
use crate::document;
use crate::link::{Incoming, Link, Place};
use crate::progress::Listener;
use crate::render;
use shared::frame::WithdrawnState;
use shared::limits::HOST_DEAD;
use shared::mailbox::{self, Directory};
use shared::request::{CancelRequest, Request};
use shared::{Reply, RequestId};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long the host has for the answer to a withdrawal, and to the request to cancel.
const WORD: Duration = Duration::from_secs(1);

/// The end of an exchange over one connection.
pub(super) enum Exchange {
    /// The reply.
    Over(Box<Reply>),
    /// The host has not taken the request, and does not take it over this connection.
    Unsent,
    /// The connection broke, and the host may have taken the request.
    Lost,
}

/// The answer to a withdrawal.
enum Withdrawal {
    Untaken,
    Taken,
    /// It was answered meanwhile.
    Answered(Box<Reply>),
    /// The host says nothing, or is gone.
    Unknown,
}

impl Rendezvous {
    /// Sends a request over this connection and waits for its reply.
    pub(super) async fn exchange(
        &self,
        link: &Arc<Link>,
        outbound: &Outbound,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        listener: &mut impl Listener,
    ) -> Exchange {
        let Ok(mut place) = link.request(&outbound.id, &outbound.bytes) else { return Exchange::Unsent };
        let deadline = outbound.deadline();
        let mut heartbeat = Instant::now() + HEARTBEAT;
        let mut silence = Silence::new(self);
        loop {
            tokio::select! {
                biased;
                incoming = place.next() => match incoming {
                    Incoming::Reply(reply) => return Exchange::Over(reply),
                    Incoming::Progress(progress) => {
                        listener.hear(progress).await;
                        heartbeat = Instant::now() + HEARTBEAT;
                    }
                    // It is the answer to no question of ours.
                    Incoming::Withdrawn(_) => {}
                    Incoming::Gone { may_be_taken: true } => return Exchange::Lost,
                    Incoming::Gone { may_be_taken: false } => return Exchange::Unsent,
                },
                () = stop.as_mut() => return self.abandon(place, outbound).await,
                () = sleep_until(deadline) => return self.give_up(place, outbound).await,
                () = sleep_until(silence.looks_at), if !link.has_greeted() => {
                    // A stopped host accepts connections, too.
                    if silence.is_dead(self) {
                        link.shut_down();
                    }
                    if silence.is_over && let Incoming::Gone { may_be_taken: false } = last(&mut place).await {
                        return Exchange::Over(Box::new(outbound.untaken(render::host_down(&outbound.id))));
                    }
                }
                () = sleep_until(heartbeat) => {
                    let waited = Instant::now() - outbound.started;
                    listener.hear(render::still_waiting(waited, link.has_greeted())).await;
                    heartbeat = Instant::now() + HEARTBEAT;
                }
            }
        }
    }

    async fn give_up(&self, place: Place, outbound: &Outbound) -> Exchange {
        let Outbound { id, timeout, may_stay_silent, .. } = outbound;
        let reply = match withdraw(place).await {
            Withdrawal::Answered(reply) => return Exchange::Over(reply),
            Withdrawal::Untaken => outbound.untaken(render::withdrawn(id, *timeout, render::Signs::All)),
            Withdrawal::Taken | Withdrawal::Unknown if *may_stay_silent => render::not_confirmed(id, *timeout),
            Withdrawal::Taken | Withdrawal::Unknown => render::no_answer(id, *timeout, None),
        };
        Exchange::Over(Box::new(reply))
    }

    /// Ends the wait, because the caller is gone.
    async fn abandon(&self, place: Place, outbound: &Outbound) -> Exchange {
        let (link, id) = (Arc::clone(place.link()), &outbound.id);
        let reply = match withdraw(place).await {
            Withdrawal::Untaken => outbound.untaken(render::cancelled(id)),
            Withdrawal::Answered(_) | Withdrawal::Taken | Withdrawal::Unknown => {
                self.cancel(&link, id).await;
                render::cancel_asked(id)
            }
        };
        Exchange::Over(Box::new(reply))
    }

    /// Asks the host to cancel a call. If this fails, the call runs on.
    async fn cancel(&self, link: &Arc<Link>, of: &RequestId) {
        let (cancel, id) = (Request::Cancel(CancelRequest { of: of.clone() }), document::request_id());
        let Ok(bytes) = document::bytes(&self.settings, &id, &cancel) else { return };
        if let Ok(mut place) = link.request(&id, &bytes) {
            // The process may end next, and the host drops the undecided requests of a connection that has ended.
            tokio::time::timeout(WORD, place.next()).await.ok();
        }
    }
}

/// Takes a request back. A host without a word loses the connection.
async fn withdraw(mut place: Place) -> Withdrawal {
    if place.withdraw().is_ok() {
        let until = Instant::now() + WORD;
        while let Ok(incoming) = timeout_at(until, place.next()).await {
            match incoming {
                Incoming::Reply(reply) => return Withdrawal::Answered(reply),
                Incoming::Progress(_) => {}
                Incoming::Withdrawn(WithdrawnState::NeverTaken) | Incoming::Gone { may_be_taken: false } => {
                    return Withdrawal::Untaken;
                }
                Incoming::Withdrawn(WithdrawnState::Taken) => return Withdrawal::Taken,
                Incoming::Gone { may_be_taken: true } => return Withdrawal::Unknown,
            }
        }
        place.link().shut_down();
    }
    match last(&mut place).await {
        Incoming::Reply(reply) => Withdrawal::Answered(reply),
        Incoming::Withdrawn(WithdrawnState::Taken) => Withdrawal::Taken,
        Incoming::Withdrawn(WithdrawnState::NeverTaken) | Incoming::Gone { may_be_taken: false } => Withdrawal::Untaken,
        Incoming::Progress(_) | Incoming::Gone { may_be_taken: true } => Withdrawal::Unknown,
    }
}

/// Returns the last news of a connection that ends.
async fn last(place: &mut Place) -> Incoming {
    loop {
        match place.next().await {
            Incoming::Progress(_) => {}
            other @ (Incoming::Reply(_) | Incoming::Withdrawn(_) | Incoming::Gone { .. }) => return other,
        }
    }
}

/// A host that does not greet. It is dead if its sign of life stands still.
struct Silence {
    beat: Option<i128>,
    looks_at: Instant,
    is_over: bool,
}

impl Silence {
    fn new(way: &Rendezvous) -> Self {
        Self { beat: beat(way), looks_at: Instant::now() + HOST_DEAD, is_over: false }
    }

    /// Looks again; without a sign of life, nothing can be said.
    fn is_dead(&mut self, way: &Rendezvous) -> bool {
        let now = beat(way);
        self.is_over = now.is_some() && now == self.beat;
        (self.beat, self.looks_at) = (now, Instant::now() + HOST_DEAD);
        self.is_over
    }
}

fn beat(way: &Rendezvous) -> Option<i128> {
    Directory::open(&way.settings.ipc).ok()?.modified_ns(mailbox::HOST)
}
