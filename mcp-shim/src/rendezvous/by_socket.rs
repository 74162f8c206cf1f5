//! A request over the host's socket.

use super::{HEARTBEAT, Outbound, Rendezvous, WORD};
use crate::link::{Incoming, Link, Place};
use crate::progress::Listener;
use crate::render;
use shared::Reply;
use shared::frame::WithdrawnState;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until, timeout_at};

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
        let hello_by = Instant::now() + WORD;
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
                // The host stands still, or has as many connections of the group as it takes. As a file, the request can
                // be taken back.
                () = sleep_until(hello_by), if !link.has_greeted() && !link.is_closing() => link.shut_down(),
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
        let id = &outbound.id;
        let is_untaken = matches!(withdraw(place).await, Withdrawal::Untaken) && !outbound.may_be_taken;
        if is_untaken {
            return Exchange::Over(Box::new(render::cancelled(id)));
        }
        self.cancel(id).await;
        Exchange::Over(Box::new(render::cancel_asked(id)))
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
    }
    place.link().shut_down();
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
