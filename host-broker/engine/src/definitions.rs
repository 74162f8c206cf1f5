//! Definition changes: a server's tools differ from the accepted ones. They are noted, sent for approval, and put in
//! force after it.
//!
//! ```text
//! check ─► different ─► withdrawn at once, row `noted` ─► approval request with the difference
//!                                                          ─► approval: row `approved` ─► new ruleset, row `noted`
//! ```
//!
//! Definitions that cannot be offered or shown in full get no approval request. An operator accepts them at the command
//! line.

use crate::approval_requests::ApprovalDraft;
use crate::broker::Broker;
use crate::file_proposals::internal_request_id;
use crate::ruleset::Ruleset;
use config::Policy;
use kernel::call::{Header, Origin};
use model::approval::{Approval, ApprovalReason, ApprovalState, SubjectKind};
use model::card::{BYTES_MAX, Card};
use model::{Caller, Nonce, Publication, Subject};
use provider::definitions::{Changed, ListedDefinitions, Withdrawn};
use provider::pinned_definitions::{PinnedDefinitions, difference};
use serde_json::{Map, Value, json};
use shared::digest::Digest;
use shared::{Action, Level, Provider, RequestId};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;
use store::ledger::chain;
use store::ledger::chain::Draft;
use store::state::approvals;
use store::{StoreError, Transaction};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The time until expiry. Only agents that want the tool wait for the answer.
const TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The pause between two approval requests about one server, so that a server that changes all the time cannot flood
/// the approvers.
const PAUSE: Duration = Duration::from_secs(10 * 60);
/// The result of an approval that cannot be put in force.
const FAILED: &str = "failed";
/// Added to the reply if the files of the operators differ from those of the ruleset.
const BEHIND: &str = " Changes of broker.toml, profiles or rules since the start have no effect before the next start.";
/// The size in bytes above which definitions are accepted at the command line only.
const LENGTH_MAX: usize = 256 * 1024;
/// The most tools that are named as suspicious.
const WARNINGS_MAX: usize = 10;

/// A reading of a server's tools, with the withdrawn ones among them.
#[derive(Debug)]
pub struct DefinitionsChanged {
    /// The changed definitions.
    pub changed: Changed,
    /// The definitions that can be sent for approval.
    pub proposed: Option<Proposed>,
}

/// The present definitions of a server, to be accepted.
#[derive(Debug)]
pub struct Proposed {
    // The accepted definitions; the card shows the difference from them.
    before: Digest,
    said: PinnedDefinitions,
    card: Card,
    level: Level,
}

impl Proposed {
    /// Compares the present definitions of a server with the accepted ones.
    ///
    /// # Errors
    /// The reason why no approval request is sent.
    pub fn new(name: &Provider, before: &PinnedDefinitions, listed: &dyn ListedDefinitions) -> Result<Self, String> {
        let now = PinnedDefinitions::new(listed.document()?);
        if *before == now {
            return Err("these definitions are accepted, and have effect from the next start".to_owned());
        }
        if !now.can_be_kept() || shared::json::canonical(now.said()).len() > LENGTH_MAX {
            return Err("it is too long for an approval request".to_owned());
        }
        let now = now.keeping_flagged(before);
        let offered = listed.offered(now.flagged())?;
        let level = offered.iter().map(|(_, level)| *level).max().ok_or("no tool of it is offered")?;
        let mut card = Card::new();
        card.say("Provider", name.as_str());
        card.say("Accept", "the definitions that this server lists now, instead of the accepted ones");
        let names = offered.iter().map(|(action, level)| format!("{action} (L{})", level.number()));
        let names: Vec<String> = names.collect();
        card.say("Offered", &names.join(", "));
        card.reasons.push(
            "Until a person approves, tools that differ from the accepted definitions are switched off. Agents read the accepted definitions."
                .to_owned(),
        );
        let warnings = listed.warnings();
        let more = warnings.len().saturating_sub(WARNINGS_MAX);
        card.reasons.extend(warnings.into_iter().take(WARNINGS_MAX));
        card.reasons.extend((more > 0).then(|| format!("{more} more of its tools look so.")));
        let changes = difference(before.said(), now.said(), BYTES_MAX).filter(|changes| !changes.is_empty());
        if !changes.is_some_and(|changes| card.changes(&changes)) {
            return Err("the differences cannot be shown in an approval request".to_owned());
        }
        Ok(Self { before: before.digest(), said: now, card, level })
    }
}

/// A new ruleset, with the reason for it.
pub struct RulesetReplaced {
    /// The reason.
    pub cause: Cause,
    /// The new ruleset, or the reason why there is none. Then the old one stays in force.
    pub ruleset: Result<Ruleset, String>,
    /// Whether the operators' changes since the start are missing in it.
    pub is_behind: bool,
    /// The destination of the reply.
    pub answer: Option<oneshot::Sender<Vec<u8>>>,
}

/// The reason for a new ruleset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The definitions of a provider were accepted.
    Definitions {
        /// The provider.
        provider: Provider,
        /// The digest of the accepted definitions, if they could be read.
        digest: Option<Digest>,
        /// The approval request that approved it.
        approval_request: Option<RequestId>,
    },
    /// Another host of the fleet has published a policy.
    Publication(Publication),
}

impl fmt::Display for Cause {
    /// `the accepted definitions of files`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Definitions { provider, .. } => write!(f, "the accepted definitions of {provider}"),
            Self::Publication(publication) => write!(f, "{publication}"),
        }
    }
}

impl fmt::Debug for RulesetReplaced {
    /// Omits the ruleset, which is large.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RulesetReplaced({}, {:?})", self.cause, self.ruleset.as_ref().map(|ruleset| &ruleset.version))
    }
}

impl RulesetReplaced {
    /// Returns the reply to the person who accepted the definitions, or to the task that has received the policy.
    pub fn reply(&self) -> Value {
        let ruleset = match &self.ruleset {
            Ok(ruleset) => ruleset,
            Err(why) => return json!({ "status": "failed", "error": why }),
        };
        let behind = if self.is_behind { BEHIND } else { "" };
        let (but, data) = match &self.cause {
            Cause::Definitions { provider, digest, .. } => {
                let listed = ruleset.catalogue.provider(provider);
                let idle = listed.and_then(|listed| listed.state.as_ref().err());
                let but = idle.map_or_else(String::new, |why| format!(", but {provider} takes no calls: {why}"));
                (but, json!({ "provider": provider, "digest": digest, "policy_version": ruleset.version }))
            }
            Cause::Publication(publication) => {
                let data = json!({ "publication": publication, "policy_version": ruleset.version });
                (String::new(), data)
            }
        };
        json!({ "status": "executed", "summary": format!("It counts from now on{but}.{behind}"), "data": data })
    }
}

/// Returns the digest of everything that a person approves: the new definitions, the old ones, and the operator's
/// settings.
pub fn agreed(provider: &Provider, said: Digest, before: Option<Digest>, policy: &Policy) -> Digest {
    Digest::of(&shared::json::canonical(&json!({
        "provider": provider,
        "provider_settings": policy.settings.get(provider),
        "definitions": said,
        "instead_of": before,
    })))
}

/// Parses the definitions of an approval request.
///
/// # Errors
/// The stored document is damaged.
pub fn asked_about(document: &[u8]) -> Result<PinnedDefinitions, String> {
    let said: Map<String, Value> = shared::json::parse_object(document).map_err(|fault| fault.to_string())?;
    Ok(PinnedDefinitions::new(said))
}

impl Broker {
    /// Records a definition change for auditors. Agents are not offered the withdrawn tools, and a person may approve
    /// the new ones.
    pub(crate) fn redefined(&mut self, tx: &Transaction<'_>, redefined: &DefinitionsChanged) -> Result<(), StoreError> {
        // Definitions replaced in this very batch differ from those of the comparison.
        if !self.is_of_now(&redefined.changed) || self.is_replaced(&redefined.changed.provider) {
            return Ok(());
        }
        let DefinitionsChanged { changed: Changed { provider, withdrawn, epoch: _ }, proposed } = redefined;
        let proposed = proposed.as_ref().filter(|_| !withdrawn.is_empty());
        if self.withdrawn.get(provider).unwrap_or(&Withdrawn::new()) != withdrawn {
            let body = json!({ "redefined": provider, "withdrawn": withdrawn });
            tx.append(&Draft { body, ..Draft::new(chain::RowKind::Noted, "broker") })?;
            self.follow_ups.stale_snapshots.extend(self.config.groups.keys().cloned());
        }
        let earlier = approvals::about_definitions(tx.view(), provider)?;
        let agreed_to =
            |proposed: &Proposed| agreed(provider, proposed.said.digest(), Some(proposed.before), &self.policy);
        let digest = proposed.map(agreed_to);
        // Definitions that the server no longer declares cannot be approved.
        self.cancel_definitions(tx, &earlier, |asked| Some(asked.digest) == digest)?;
        let (Some(proposed), Some(digest)) = (proposed, digest) else { return Ok(()) };
        let is_settled = |asked: &Approval| {
            let became = asked.became.as_deref().unwrap_or_default();
            asked.state != ApprovalState::Closed || became == ApprovalState::Denied.word() || became == FAILED
        };
        let is_asked = earlier.iter().any(|asked| asked.digest == digest && is_settled(asked));
        let is_recent = earlier.iter().any(|asked| asked.asked_at.plus(PAUSE) > tx.now());
        if is_asked || is_recent { Ok(()) } else { self.request_definition_approval(tx, provider, proposed, digest) }
    }

    fn request_definition_approval(
        &mut self,
        tx: &Transaction<'_>,
        provider: &Provider,
        proposed: &Proposed,
        digest: Digest,
    ) -> Result<(), StoreError> {
        // Without a nonce no approval request is sent now; the next check tries again.
        let Ok(nonce) = Nonce::fresh(self.ids.as_ref()) else { return Ok(()) };
        let said = shared::json::canonical(proposed.said.said());
        let action = definitions();
        let quorum = self.config.quorum_for_definitions(provider);
        let header = Header {
            caller_key: Caller::Broker.to_string().into(),
            caller: Caller::Broker,
            behalf: Subject::NOBODY,
            request_id: internal_request_id("definitions", &nonce),
            conversation: None,
            request_digest: proposed.said.digest(),
            origin: Origin::Broker,
            arrived: Instant::now(),
            timeout: Duration::ZERO,
            weight: None,
        };
        let draft = ApprovalDraft {
            kind: SubjectKind::Definition,
            caller: &header.caller_key,
            group: None,
            request_id: &header.request_id,
            provider,
            action: &action,
            level: proposed.level,
            digest,
            subject: None,
            asking: (quorum, TIMEOUT),
            born_approved: None,
            asks: BTreeSet::from([ApprovalReason::Tier]),
            others: BTreeSet::new(),
            standing: None,
            card: &proposed.card,
            document: Some(&said),
            params_digest: None,
            summary: Some(format!("accept the definitions of {provider}: {}", proposed.said.digest())),
            task_id: None,
            calls: None,
        };
        self.request_approval(tx, &header, &draft).map(|_posed| ())
    }

    /// An approval request about definitions is over. If it is approved, it is closed when the ruleset is replaced.
    pub(crate) fn end_definitions(
        &mut self,
        tx: &Transaction<'_>,
        asked: &Approval,
        state: ApprovalState,
    ) -> Result<(), StoreError> {
        self.follow_ups.approvals_changed = true;
        if state == ApprovalState::Approved {
            return Ok(());
        }
        approvals::close(tx, &asked.caller, &asked.request_id, state.word())
    }

    /// Records a new ruleset, or that there is none, before it is in force.
    pub(crate) fn record_replacement(
        &mut self,
        tx: &Transaction<'_>,
        replaced: &RulesetReplaced,
    ) -> Result<(), StoreError> {
        let RulesetReplaced { cause, ruleset, is_behind: _, answer: _ } = replaced;
        let (provider, digest, approval_request) = match cause {
            Cause::Definitions { provider, digest, approval_request } => (provider, digest, approval_request),
            Cause::Publication(publication) => return use_publication(tx, publication, ruleset),
        };
        let (body, became) = match ruleset {
            Ok(ruleset) => {
                (json!({ "exchanged": provider, "digest": digest, "policy_version": ruleset.version }), "accepted")
            }
            Err(why) => (json!({ "not_exchanged": provider, "digest": digest, "why": why }), FAILED),
        };
        tx.append(&Draft { body, ..Draft::new(chain::RowKind::Noted, "broker") })?;
        if let Some(approval_request) = approval_request {
            approvals::close(tx, &Caller::Broker.to_string(), approval_request, became)?;
        }
        if ruleset.is_ok() {
            self.uncommitted.replaced.insert(provider.clone());
            // The open approval requests show a difference from the earlier definitions.
            let earlier = approvals::about_definitions(tx.view(), provider)?;
            self.cancel_definitions(tx, &earlier, |_asked| false)?;
        }
        self.follow_ups.approvals_changed = true;
        Ok(())
    }

    /// Ends the open approval requests after an operator has accepted definitions at the command line. Approved
    /// ones that are not yet in force end too.
    pub(crate) fn accepted_elsewhere(&mut self, tx: &Transaction<'_>, provider: &Provider) -> Result<(), StoreError> {
        let earlier = approvals::about_definitions(tx.view(), provider)?;
        self.cancel_definitions(tx, &earlier, |_asked| false)?;
        for agreed in earlier.iter().filter(|asked| asked.state == ApprovalState::Approved) {
            self.end_definitions(tx, agreed, ApprovalState::Cancelled)?;
        }
        Ok(())
    }

    /// Remembers the last reading of a server, once it is durable.
    pub fn has_noted(&mut self, redefined: DefinitionsChanged) {
        if self.is_of_now(&redefined.changed) {
            let Changed { provider, withdrawn, epoch: _ } = redefined.changed;
            self.withdrawn.insert(provider, withdrawn);
        }
    }

    /// Returns whether it was compared with the definitions in force.
    fn is_of_now(&self, changed: &Changed) -> bool {
        let source = self.catalogue.provider(&changed.provider).and_then(|listed| listed.definitions.as_ref());
        source.is_some_and(|source| source.epoch() == changed.epoch)
    }

    fn cancel_definitions(
        &mut self,
        tx: &Transaction<'_>,
        asked: &[Approval],
        stays: impl Fn(&Approval) -> bool,
    ) -> Result<(), StoreError> {
        for asked in asked.iter().filter(|asked| asked.state == ApprovalState::Waiting && !stays(asked)) {
            tx.append(&Draft {
                provider: Some(&asked.provider),
                action: Some(&asked.action),
                approval: Some(asked.reference()),
                body: json!({ "cancelled": asked.reference() }),
                ..Draft::new(chain::RowKind::Noted, "broker")
            })?;
            approvals::resolve(tx, asked.id, ApprovalState::Cancelled)?;
            self.end_definitions(tx, asked, ApprovalState::Cancelled)?;
        }
        Ok(())
    }

    /// Puts the ruleset in force.
    pub fn hold_to(&mut self, ruleset: &Ruleset, cause: &Cause) {
        let Ruleset { catalogue, policy, filters, version: _ } = ruleset.clone();
        self.catalogue = catalogue;
        self.policy = policy;
        self.filters = Some(filters);
        if let Cause::Definitions { provider, .. } = cause {
            // The withdrawn tools of the replaced provider are read again.
            self.withdrawn.remove(provider);
            self.replaced.remove(provider);
        }
    }
}

/// Records that this host uses a publication of the policy, or that it cannot.
fn use_publication(
    tx: &Transaction<'_>,
    publication: &Publication,
    ruleset: &Result<Ruleset, String>,
) -> Result<(), StoreError> {
    let body = match ruleset {
        Ok(ruleset) => json!({ "uses": publication, "policy_version": ruleset.version }),
        Err(why) => json!({ "cannot_use": publication, "why": why }),
    };
    tx.append(&Draft { body, ..Draft::new(chain::RowKind::Noted, "broker") }).map(drop)
}

/// Returns the word that stands in place of an action.
fn definitions() -> Action {
    #[expect(clippy::expect_used, reason = "letters satisfy the grammar")]
    "definitions".parse().expect("an action")
}
