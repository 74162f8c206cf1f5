//! What an operator has accepted counts at once: new terms are made beside the loop, and exchanged between two batches.

use super::Loop;
use crate::approvals;
use crate::call::Caller;
use crate::event::Event;
use crate::providers::accepted::Accepted;
use crate::redefining::{Exchanged, agreed, asked_about};
use crate::terms::Foundation;
use shared::digest::Digest;
use shared::{Provider, RequestId};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Something was accepted.
#[derive(Debug)]
pub struct Exchange {
    /// Of which provider.
    pub provider: Provider,
    /// Where the reply goes.
    pub answer: Option<oneshot::Sender<Vec<u8>>>,
    /// What, if it was by a yes to a question; otherwise it lies in the home.
    said: Option<(RequestId, Accepted)>,
}

impl Exchange {
    /// What lies in the home of this provider.
    pub fn of_home(provider: Provider, answer: oneshot::Sender<Vec<u8>>) -> Self {
        Self { provider, answer: Some(answer), said: None }
    }
}

/// One exchange after the other: each is made from the terms that the one before has left.
#[derive(Default)]
pub(super) struct Exchanges {
    waiting: VecDeque<Exchange>,
    is_under_way: bool,
}

impl Loop {
    /// A person has agreed to what a provider says.
    pub(super) fn take_up(&mut self, question: &RequestId) {
        let (reader, broker) = (self.daemon.ledger.reader(), Caller::Broker.to_string());
        let found = approvals::of_request(reader, &broker, question)
            .and_then(|approval| Ok((approval, approvals::waiting(reader, &broker, question)?)));
        let (approval, waiting) = match found {
            Ok((Some(approval), Some(waiting))) => (approval, waiting),
            // It is over.
            Ok(_) => return,
            Err(error) => return tracing::error!(error = ?error, "what was agreed to cannot be read"),
        };
        let provider = approval.provider;
        let policy = &self.daemon.broker.policy;
        let said = asked_about(&waiting.document).and_then(|said| {
            let is_so = agreed(&provider, said.digest(), policy) == approval.digest;
            is_so.then_some(said).ok_or_else(|| format!("{provider} is set up in another way than when it was asked"))
        });
        match said {
            Ok(said) => {
                let said = Some((question.clone(), said));
                self.exchange(Exchange { provider, answer: None, said });
            }
            Err(why) => {
                let (terms, question) = (Err(why), Some(question.clone()));
                let nothing = Exchanged { provider, digest: None, terms, question, answer: None };
                self.pending.push_back(Event::Exchanged(Box::new(nothing)));
            }
        }
    }

    /// Makes new terms, after those that are being made.
    pub(super) fn exchange(&mut self, exchange: Exchange) {
        self.exchanges.waiting.push_back(exchange);
        self.exchange_next();
    }

    fn exchange_next(&mut self) {
        if self.exchanges.is_under_way {
            return;
        }
        let Some(Exchange { provider, answer, said }) = self.exchanges.waiting.pop_front() else { return };
        self.exchanges.is_under_way = true;
        let (foundation, present) = (Arc::clone(&self.daemon.foundation), self.daemon.terms.clone());
        let (reports, runtime) = (self.daemon.reports.clone(), self.daemon.runtime.clone());
        let (question, said) = said.unzip();
        self.daemon.runtime.spawn(async move {
            let of = provider.clone();
            let made = runtime.spawn_blocking(move || {
                let (digest, accepted) = found(&foundation, &of, said)?;
                // What a daemon would not start with is not kept, either.
                let terms = foundation.with(&present, &of, &accepted.document).map_err(|error| error.to_string());
                if terms.is_ok() && accepted.is_new {
                    accepted.document.store(&foundation.accepted(&of)?).map_err(|error| error.to_string())?;
                }
                Ok((digest, terms))
            });
            let made = made.await.unwrap_or_else(|_panic| Err("the broker itself failed".to_owned()));
            let (digest, terms) = match made {
                Ok((digest, terms)) => (Some(digest), terms),
                Err(why) => (None, Err(why)),
            };
            let exchanged = Exchanged { provider, digest, terms, question, answer };
            reports.happened(Event::Exchanged(Box::new(exchanged)));
        });
    }

    /// The row is durable: from now on every call is held to the new terms.
    pub(super) fn exchanged(&mut self, exchanged: Exchanged) {
        self.exchanges.is_under_way = false;
        let reply = exchanged.reply();
        let Exchanged { provider, terms, answer, .. } = exchanged;
        match terms {
            Ok(terms) => {
                tracing::info!(%provider, version = terms.version, "what was accepted counts from now on");
                let daemon = &mut self.daemon;
                daemon.broker.hold_to(&terms, &provider);
                daemon.intake.exchange(Arc::clone(&terms.catalogue));
                daemon.ledger.set_policy_version(terms.version.clone());
                daemon.catalogue.send_replace(Arc::clone(&terms.catalogue));
                daemon.foundation.attend(&terms, &daemon.reports);
                daemon.terms = terms;
                self.write_snapshots();
            }
            Err(why) => tracing::warn!(%provider, why, "what was accepted cannot be used"),
        }
        // Whoever asked may have gone.
        answer.map(|answer| answer.send(reply.to_string().into_bytes()).ok());
        self.exchange_next();
    }
}

/// What was accepted, and whether it is still to be kept.
struct Kept {
    document: Accepted,
    is_new: bool,
}

fn found(foundation: &Foundation, provider: &Provider, said: Option<Accepted>) -> Result<(Digest, Kept), String> {
    let is_new = said.is_some();
    let document = match said {
        Some(said) => Some(said),
        None => Accepted::load(&foundation.accepted(provider)?).map_err(|error| error.to_string())?,
    };
    let document = document.ok_or_else(|| format!("nothing was accepted of {provider}"))?;
    Ok((document.digest(), Kept { document, is_new }))
}
