//! A request over the host's socket.

use super::{ANSWER_TIMEOUT, HEARTBEAT, OutboundRequest, Rendezvous};
use crate::connection::{Connection, Incoming, PendingCall};
use crate::progress::Listener;
use crate::render;
use shared::Reply;
use shared::frame::WithdrawnState;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The end of an exchange over one connection.
pub(super) enum Exchange {
    /// The reply.
    Over(Box<Reply>),
    /// The host has not taken the request, and takes nothing more of this connection.
    Unsent,
    /// The connection broke, and the host may have taken the request.
    Lost,
}

/// The answer to a withdrawal.
enum Withdrawal {
    /// The host has not taken the request, and never will.
    Untaken,
    /// The host has taken it.
    Taken,
    /// The reply came first.
    Answered(Box<Reply>),
    /// The host does not answer.
    Unknown,
}

impl Rendezvous {
    /// Sends a request over this connection and waits for its reply.
    pub(super) async fn exchange(
        &self,
        connection: &Arc<Connection>,
        outbound: &OutboundRequest,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        listener: &mut impl Listener,
    ) -> Exchange {
        let Ok(mut call) = connection.request(&outbound.id, &outbound.bytes) else { return Exchange::Unsent };
        let deadline = outbound.deadline();
        let mut heartbeat = Instant::now() + HEARTBEAT;
        let hello_by = Instant::now() + ANSWER_TIMEOUT;
        let mut awaits_hello = true;
        loop {
            tokio::select! {
                biased;
                incoming = call.next() => match incoming {
                    Incoming::Reply(reply) => return Exchange::Over(reply),
                    Incoming::Progress(progress) => {
                        listener.hear(progress).await;
                        heartbeat = Instant::now() + HEARTBEAT;
                    }
                    // The withdrawal of an earlier call with this id.
                    Incoming::Withdrawn(_) => {}
                    Incoming::Gone { may_be_taken: true } => return Exchange::Lost,
                    Incoming::Gone { may_be_taken: false } => return Exchange::Unsent,
                },
                () = stop.as_mut() => return self.abandon(call, outbound).await,
                () = sleep_until(deadline) => return self.give_up(call, outbound).await,
                // The hello can come at any time before, so it is looked for now.
                () = sleep_until(hello_by), if awaits_hello => {
                    awaits_hello = false;
                    // The reader takes what has come.
                    yield_now().await;
                    // The host stands still, or takes no more connections of the group. A file can be removed again.
                    if !connection.has_greeted() && !connection.is_closing() {
                        connection.shut_down();
                    }
                }
                () = sleep_until(heartbeat) => {
                    let waited = Instant::now() - outbound.started;
                    listener.hear(render::still_waiting(waited, connection.has_greeted())).await;
                    heartbeat = Instant::now() + HEARTBEAT;
                }
            }
        }
    }

    async fn give_up(&self, call: PendingCall, outbound: &OutboundRequest) -> Exchange {
        let OutboundRequest { id, timeout, may_stay_silent, .. } = outbound;
        let reply = match withdraw(call).await {
            Withdrawal::Answered(reply) => return Exchange::Over(reply),
            Withdrawal::Untaken => outbound.given_up(render::Signs::All),
            Withdrawal::Taken | Withdrawal::Unknown if *may_stay_silent => render::not_confirmed(id, *timeout),
            Withdrawal::Taken | Withdrawal::Unknown => render::no_answer(id, *timeout, None),
        };
        Exchange::Over(Box::new(reply))
    }

    /// Ends the wait, because the caller is gone.
    async fn abandon(&self, call: PendingCall, outbound: &OutboundRequest) -> Exchange {
        let id = &outbound.id;
        let is_untaken = matches!(withdraw(call).await, Withdrawal::Untaken) && !outbound.may_be_taken;
        if is_untaken {
            return Exchange::Over(Box::new(render::cancelled(id)));
        }
        self.cancel(id).await;
        Exchange::Over(Box::new(render::cancel_asked(id)))
    }
}

/// Takes a request back. If the host does not answer, the connection ends.
async fn withdraw(mut call: PendingCall) -> Withdrawal {
    if call.withdraw().is_ok() {
        let until = Instant::now() + ANSWER_TIMEOUT;
        while let Ok(incoming) = timeout_at(until, call.next()).await {
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
    }
    call.connection().shut_down();
    match last(&mut call).await {
        Incoming::Reply(reply) => Withdrawal::Answered(reply),
        Incoming::Withdrawn(WithdrawnState::Taken) => Withdrawal::Taken,
        Incoming::Withdrawn(WithdrawnState::NeverTaken) | Incoming::Gone { may_be_taken: false } => Withdrawal::Untaken,
        Incoming::Progress(_) | Incoming::Gone { may_be_taken: true } => Withdrawal::Unknown,
    }
}

/// Returns the last event of a connection that ends.
async fn last(call: &mut PendingCall) -> Incoming {
    loop {
        match call.next().await {
            Incoming::Progress(_) => {}
            other @ (Incoming::Reply(_) | Incoming::Withdrawn(_) | Incoming::Gone { .. }) => return other,
        }
    }
}
