//! Accepted definitions and published policies have an effect at once: a new ruleset is built beside the loop, and replaces
//! the old one between two batches.

use super::Loop;
use crate::assembly::ruleset::RulesetBuilder;
use config::published::PublishedPolicy;
use engine::definitions::{Cause, RulesetReplaced, agreed, asked_about};
use engine::event::Event;
use engine::ruleset::Ruleset;
use model::errors::chain;
use model::{Caller, approval};
use provider::pinned_definitions::PinnedDefinitions;
use shared::digest::Digest;
use shared::{Provider, RequestId};
use std::collections::VecDeque;
use std::sync::Arc;
use store::state::approvals;
use tokio::sync::oneshot;

/// Something was accepted.
#[derive(Debug)]
pub struct RulesetReload {
    /// Where the reply goes.
    pub answer: Option<oneshot::Sender<Vec<u8>>>,
    source: ReloadSource,
}

/// The accepted definitions of a provider, or the received policy.
#[derive(Debug)]
enum ReloadSource {
    /// The definitions in the home, if they have this digest.
    Home(Provider, Digest),
    /// The definitions of an approval request, or why they cannot be used.
    Asked(Provider, RequestId, Result<Change, String>),
    /// A policy that another host has published.
    Policy(Box<PublishedPolicy>),
}

impl ReloadSource {
    /// Returns the reason for the new ruleset, as far as it is known before.
    fn cause(&self) -> Cause {
        let definitions = |provider: &Provider, approval_request| Cause::Definitions {
            provider: provider.clone(),
            digest: None,
            approval_request,
        };
        match self {
            Self::Home(provider, _) => definitions(provider, None),
            Self::Asked(provider, approval_request, _) => definitions(provider, Some(approval_request.clone())),
            Self::Policy(policy) => Cause::Publication(policy.publication()),
        }
    }
}

/// The new definitions, and the digest of the ones that they replace.
#[derive(Debug)]
struct Change {
    before: Option<Digest>,
    after: PinnedDefinitions,
}

impl RulesetReload {
    /// Creates the reload for the definitions in the home of this provider, if they have this digest.
    pub fn of_home(provider: Provider, digest: Digest, answer: oneshot::Sender<Vec<u8>>) -> Self {
        Self { answer: Some(answer), source: ReloadSource::Home(provider, digest) }
    }

    /// Creates the reload for a verified policy that another host has published.
    pub fn of_publication(policy: PublishedPolicy, answer: oneshot::Sender<Vec<u8>>) -> Self {
        Self { answer: Some(answer), source: ReloadSource::Policy(Box::new(policy)) }
    }
}

/// Reloads, one after the other: each begins with the ruleset of the one before.
#[derive(Default)]
pub(super) struct RulesetReloads {
    waiting: VecDeque<RulesetReload>,
    is_under_way: bool,
    // Approval requests that could not be read when they were answered.
    postponed: Vec<RequestId>,
}

impl RulesetReloads {
    pub(super) fn are_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }
}

impl Loop {
    /// Starts the reload after a person has approved a definition change.
    pub(super) fn reload_approved(&mut self, approval_request: &RequestId) {
        let (reader, broker) = (self.daemon.ledger.view(), Caller::Broker.to_string());
        let found = approvals::of_request(reader, &broker, approval_request)
            .and_then(|approval| Ok((approval, approvals::waiting(reader, &broker, approval_request)?)));
        let (approval, waiting) = match found {
            Ok((Some(approval), Some(waiting))) => (approval, waiting),
            // It is over.
            Ok(_) => return,
            Err(error) => {
                tracing::error!(error = chain(&error), "the approved definitions cannot be read");
                return self.reloads.postponed.push(approval_request.clone());
            }
        };
        let provider = approval.provider;
        let (ruleset_builder, policy) = (&self.daemon.ruleset_builder, self.daemon.broker.policy());
        let said = asked_about(&waiting.document).and_then(|said| {
            let before = ruleset_builder.accepted_of(&provider)?;
            // A daemon that died in the middle has stored it already.
            let counts = before.as_ref() == Some(&said);
            let before = before.map(|before| before.digest());
            let is_so = counts || agreed(&provider, said.digest(), before, policy) == approval.digest;
            is_so.then_some(Change { before, after: said }).ok_or_else(|| {
                format!(
                    "{provider} is set up in another way than when it was asked, or something else was accepted since"
                )
            })
        });
        self.reload_ruleset(RulesetReload {
            answer: None,
            source: ReloadSource::Asked(provider, approval_request.clone(), said),
        });
    }

    /// Reads the approval requests again that could not be read before.
    pub(super) fn retry_postponed(&mut self) {
        for approval_request in std::mem::take(&mut self.reloads.postponed) {
            self.reload_approved(&approval_request);
        }
    }

    /// Builds a new ruleset, after those that are being built.
    pub(super) fn reload_ruleset(&mut self, reload: RulesetReload) {
        self.reloads.waiting.push_back(reload);
        self.reload_next();
    }

    fn reload_next(&mut self) {
        if self.reloads.is_under_way {
            return;
        }
        let Some(RulesetReload { answer, source }) = self.reloads.waiting.pop_front() else { return };
        if let ReloadSource::Asked(_, approval_request, _) = &source
            && !self.is_agreed_to(approval_request)
        {
            return self.reload_next();
        }
        self.reloads.is_under_way = true;
        let (ruleset_builder, present) = (Arc::clone(&self.daemon.ruleset_builder), self.daemon.ruleset.clone());
        let (reports, runtime) = (self.daemon.reports.clone(), self.daemon.runtime.clone());
        let cause = source.cause();
        self.daemon.runtime.spawn(async move {
            let made = runtime.spawn_blocking(move || build(&ruleset_builder, &present, source)).await;
            let failed = |why| BuiltRuleset { digest: None, ruleset: Err(why), is_behind: false };
            let BuiltRuleset { digest, ruleset, is_behind } = match made {
                Ok(Ok(made)) => made,
                Ok(Err(why)) => failed(why),
                Err(_panic) => failed("the broker itself failed".to_owned()),
            };
            let cause = match cause {
                Cause::Definitions { provider, digest: _, approval_request } => {
                    Cause::Definitions { provider, digest, approval_request }
                }
                publication @ Cause::Publication(_) => publication,
            };
            let replaced = RulesetReplaced { cause, ruleset, is_behind, answer };
            reports.happened(Event::RulesetReplaced(Box::new(replaced)));
        });
    }

    /// Checks whether an approval still stands: an operator may have accepted other definitions since.
    fn is_agreed_to(&self, approval_request: &RequestId) -> bool {
        let found = approvals::of_request(self.daemon.ledger.view(), &Caller::Broker.to_string(), approval_request);
        found.is_ok_and(|found| found.is_some_and(|asked| asked.state == approval::ApprovalState::Approved))
    }

    /// The row is durable: the new ruleset is in force from now on.
    pub(super) fn ruleset_replaced(&mut self, replaced: RulesetReplaced) {
        self.reloads.is_under_way = false;
        let reply = replaced.reply();
        let RulesetReplaced { cause, ruleset, answer, .. } = replaced;
        match ruleset {
            Ok(ruleset) => {
                tracing::info!(%cause, version = ruleset.version, "a new ruleset is in force");
                let daemon = &mut self.daemon;
                daemon.broker.hold_to(&ruleset, &cause);
                daemon.intake.replace_catalogue(Arc::clone(&ruleset.catalogue), Arc::clone(&ruleset.filters));
                daemon.ledger.set_policy_version(ruleset.version.clone());
                daemon.ledger.follow(ruleset.policy.publication.clone());
                daemon.meter.replace_catalogue(&ruleset.catalogue);
                daemon.catalogue.send_replace(Arc::clone(&ruleset.catalogue));
                daemon.ruleset_builder.watch(&ruleset, &daemon.reports);
                daemon.ruleset = ruleset;
                self.write_all_snapshots();
            }
            Err(why) => tracing::warn!(%cause, why, "a ruleset cannot be used"),
        }
        // The command's sender may have gone.
        answer.map(|answer| answer.send(reply.to_string().into_bytes()).ok());
        self.reload_next();
    }
}

/// The result of a reload.
struct BuiltRuleset {
    digest: Option<Digest>,
    ruleset: Result<Ruleset, String>,
    // Whether the files of the operators differ from those of this ruleset.
    is_behind: bool,
}

fn build(ruleset_builder: &RulesetBuilder, present: &Ruleset, source: ReloadSource) -> Result<BuiltRuleset, String> {
    let outdated = "other definitions were accepted since; review them again";
    let digest_of =
        |provider: &Provider| Ok::<_, String>(ruleset_builder.accepted_of(provider)?.map(|accepted| accepted.digest()));
    let (provider, accepted, before) = match source {
        ReloadSource::Asked(provider, _, change) => {
            let Change { before, after } = change?;
            // Accepted flagged names stay accepted if their definitions are unchanged; no person saw any others.
            let after = match ruleset_builder.accepted_of(&provider)? {
                Some(present) => after.keeping_flagged(&present),
                None => after,
            };
            (provider, after, Some(before))
        }
        ReloadSource::Home(provider, digest) => {
            let accepted = ruleset_builder.accepted_of(&provider)?.filter(|accepted| accepted.digest() == digest);
            (provider, accepted.ok_or(outdated)?, None)
        }
        ReloadSource::Policy(policy) => {
            let ruleset = ruleset_builder.keeping_policy(Some(present), &policy).map_err(|error| chain(&error));
            return Ok(BuiltRuleset { digest: None, ruleset, is_behind: ruleset_builder.is_behind() });
        }
    };
    let provider = &provider;
    // A ruleset that a daemon would not start with is not kept, either.
    let ruleset = ruleset_builder.replace(present, provider, &accepted).map_err(|error| error.to_string());
    if let (Ok(_), Some(before)) = (&ruleset, before) {
        let now = digest_of(provider)?;
        if now != before && now != Some(accepted.digest()) {
            return Err(outdated.to_owned());
        }
        accepted.store(&ruleset_builder.accepted(provider)?).map_err(|error| error.to_string())?;
    }
    Ok(BuiltRuleset { digest: Some(accepted.digest()), ruleset, is_behind: ruleset_builder.is_behind() })
}
