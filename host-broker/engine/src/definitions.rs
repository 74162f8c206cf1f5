//! A server says something else of its tools than what was accepted: noted, asked about, and after a yes it is what counts.
//!
//! ```text
//! look ─► different ─► withdrawn at once, row `noted` ─► question with the difference ─► yes: row `approved`
//!                                                                                         ─► new ruleset, row `noted`
//! ```
//!
//! What cannot be offered, or cannot be shown in full, nobody is asked about: an operator looks at it at the command line.

use crate::approval_requests::ApprovalDraft;
use crate::broker::Broker;
use crate::file_proposals::named_after;
use crate::ruleset::Ruleset;
use config::Policy;
use kernel::call::{Header, Origin};
use model::approval::{Approval, ApprovalReason, Kind, State};
use model::card::{BYTES_MAX, Card};
use model::{Caller, Nonce, Subject};
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

/// How long such a question waits: nobody waits for the answer but whoever wants the tool.
const TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
/// So long after a question no other one is put about the same server: one that changes with every look asks nobody to death.
const PAUSE: Duration = Duration::from_secs(10 * 60);
/// What a yes has come to that cannot be made to count.
const FAILED: &str = "failed";
/// Added to the reply if the files of the operators differ from those of the ruleset.
const BEHIND: &str = " Changes of broker.toml, profiles or rules since the start have no effect before the next start.";
/// What is longer, in bytes, is looked at at the command line.
const LENGTH_MAX: usize = 256 * 1024;
/// Of so many tools it is said that they look odd.
const WARNINGS_MAX: usize = 10;

/// A look at a server's tools, after which some are withdrawn, or none is any more.
#[derive(Debug)]
pub struct DefinitionsChanged {
    /// Which.
    pub changed: Changed,
    /// What a person can be asked about.
    pub proposed: Option<Proposed>,
}

/// What a server says now, to be accepted.
#[derive(Debug)]
pub struct Proposed {
    // What was accepted before, which the card shows the difference from.
    before: Digest,
    said: PinnedDefinitions,
    card: Card,
    level: Level,
}

impl Proposed {
    /// Of what a server says now, beside what was accepted of it.
    ///
    /// # Errors
    /// Why nobody is asked about it.
    pub fn new(name: &Provider, before: &PinnedDefinitions, listed: &dyn ListedDefinitions) -> Result<Self, String> {
        let now = PinnedDefinitions::new(listed.document()?);
        if *before == now {
            return Err("these definitions are accepted, and have effect from the next start".to_owned());
        }
        if !now.can_be_kept() || shared::json::canonical(now.said()).len() > LENGTH_MAX {
            return Err("it is too long for a question".to_owned());
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
            "Until somebody agrees, the tools that are not what was accepted are switched off; what is accepted, agents \
             read."
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

/// What was accepted of a provider, and what it comes to.
pub struct RulesetReplaced {
    /// The provider.
    pub provider: Provider,
    /// What was accepted, if it could be read.
    pub digest: Option<Digest>,
    /// The new ruleset, or the reason why there is none. Then the old one stays in force.
    pub ruleset: Result<Ruleset, String>,
    /// Whether what the operators have written since the start is not in them.
    pub is_behind: bool,
    /// The question whose yes it was.
    pub question: Option<RequestId>,
    /// Where the reply goes.
    pub answer: Option<oneshot::Sender<Vec<u8>>>,
}

impl fmt::Debug for RulesetReplaced {
    /// Without the ruleset, which is everything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exchanged({}, {:?})", self.provider, self.ruleset.as_ref().map(|ruleset| &ruleset.version))
    }
}

impl RulesetReplaced {
    /// What whoever accepted it is told.
    pub fn reply(&self) -> Value {
        match &self.ruleset {
            Ok(ruleset) => {
                let listed = ruleset.catalogue.provider(&self.provider);
                let idle = listed.and_then(|listed| listed.state.as_ref().err());
                let but = idle.map_or_else(String::new, |why| format!(", but {} takes no calls: {why}", self.provider));
                let behind = if self.is_behind { BEHIND } else { "" };
                json!({
                    "status": "executed",
                    "summary": format!("It counts from now on{but}.{behind}"),
                    "data": { "provider": self.provider, "digest": self.digest, "policy_version": ruleset.version },
                })
            }
            Err(why) => json!({ "status": "failed", "error": why }),
        }
    }
}

/// Everything that a person agrees to: what the server says, in the place of what, and how the operator has set it up.
pub fn agreed(provider: &Provider, said: Digest, before: Option<Digest>, policy: &Policy) -> Digest {
    Digest::of(&shared::json::canonical(&json!({
        "provider": provider,
        "provider_settings": policy.settings.get(provider),
        "definitions": said,
        "instead_of": before,
    })))
}

/// What a question is about.
///
/// # Errors
/// What was kept of it is damaged.
pub fn asked_about(document: &[u8]) -> Result<PinnedDefinitions, String> {
    let said: Map<String, Value> = shared::json::parse_object(document).map_err(|fault| fault.to_string())?;
    Ok(PinnedDefinitions::new(said))
}

impl Broker {
    /// An auditor should know what could be called when, no agent is offered what cannot, and a person may say that it is right.
    pub(crate) fn redefined(&mut self, tx: &Transaction<'_>, redefined: &DefinitionsChanged) -> Result<(), StoreError> {
        // What is exchanged in this very batch is not what it was held against.
        if !self.is_of_now(&redefined.changed) || self.is_replaced(&redefined.changed.provider) {
            return Ok(());
        }
        let DefinitionsChanged { changed: Changed { provider, withdrawn, epoch: _ }, proposed } = redefined;
        let proposed = proposed.as_ref().filter(|_| !withdrawn.is_empty());
        if self.withdrawn.get(provider).unwrap_or(&Withdrawn::new()) != withdrawn {
            let body = json!({ "redefined": provider, "withdrawn": withdrawn });
            tx.append(&Draft { body, ..Draft::new(chain::Kind::Noted, "broker") })?;
            self.follow_ups.stale_snapshots.extend(self.config.groups.keys().cloned());
        }
        let earlier = approvals::about_definitions(tx.view(), provider)?;
        let agreed_to =
            |proposed: &Proposed| agreed(provider, proposed.said.digest(), Some(proposed.before), &self.policy);
        let digest = proposed.map(agreed_to);
        // What it does not say any more nobody is to agree to.
        self.cancel_definitions(tx, &earlier, |asked| Some(asked.digest) == digest)?;
        let (Some(proposed), Some(digest)) = (proposed, digest) else { return Ok(()) };
        let is_settled = |asked: &Approval| {
            let became = asked.became.as_deref().unwrap_or_default();
            asked.state != State::Closed || became == State::Denied.word() || became == FAILED
        };
        let is_asked = earlier.iter().any(|asked| asked.digest == digest && is_settled(asked));
        let is_recent = earlier.iter().any(|asked| asked.asked_at.plus(PAUSE) > tx.now());
        if is_asked || is_recent { Ok(()) } else { self.ask_about_definitions(tx, provider, proposed, digest) }
    }

    fn ask_about_definitions(
        &mut self,
        tx: &Transaction<'_>,
        provider: &Provider,
        proposed: &Proposed,
        digest: Digest,
    ) -> Result<(), StoreError> {
        // Without a name for it nobody is asked now; the next look tries again.
        let Ok(nonce) = Nonce::fresh(self.ids.as_ref()) else { return Ok(()) };
        let said = shared::json::canonical(proposed.said.said());
        let action = definitions();
        let quorum = self.config.quorum_for_definitions(provider);
        let header = Header {
            caller_key: Caller::Broker.to_string().into(),
            caller: Caller::Broker,
            behalf: Subject::NOBODY,
            request_id: named_after("definitions", &nonce),
            request_digest: proposed.said.digest(),
            origin: Origin::Broker,
            arrived: Instant::now(),
            timeout: Duration::ZERO,
            weight: None,
        };
        let posed = ApprovalDraft {
            kind: Kind::Definition,
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
            card: &proposed.card,
            document: Some(&said),
            params_digest: None,
            summary: Some(format!("accept what {provider} says of its tools: {}", proposed.said.digest())),
            task_id: None,
        };
        self.pose(tx, &header, &posed).map(|_posed| ())
    }

    /// An approval request about definitions is over. If it is approved, it is closed when the ruleset is replaced.
    pub(crate) fn end_definitions(
        &mut self,
        tx: &Transaction<'_>,
        asked: &Approval,
        state: State,
    ) -> Result<(), StoreError> {
        self.follow_ups.approvals_changed = true;
        if state == State::Approved {
            return Ok(());
        }
        approvals::close(tx, &asked.caller, &asked.request_id, state.word())
    }

    /// Records a new ruleset, or that there is none, before it is in force.
    pub(crate) fn exchanged(&mut self, tx: &Transaction<'_>, exchanged: &RulesetReplaced) -> Result<(), StoreError> {
        let RulesetReplaced { provider, digest, ruleset, is_behind: _, question, answer: _ } = exchanged;
        let (body, became) = match ruleset {
            Ok(ruleset) => {
                (json!({ "exchanged": provider, "digest": digest, "policy_version": ruleset.version }), "accepted")
            }
            Err(why) => (json!({ "not_exchanged": provider, "digest": digest, "why": why }), FAILED),
        };
        tx.append(&Draft { body, ..Draft::new(chain::Kind::Noted, "broker") })?;
        if let Some(question) = question {
            approvals::close(tx, &Caller::Broker.to_string(), question, became)?;
        }
        if ruleset.is_ok() {
            self.uncommitted.replaced.insert(provider.clone());
            // What waits shows a difference from what counted before.
            let earlier = approvals::about_definitions(tx.view(), provider)?;
            self.cancel_definitions(tx, &earlier, |_asked| false)?;
        }
        self.follow_ups.approvals_changed = true;
        Ok(())
    }

    /// An operator has accepted something at the command line: what people were asked, or have agreed to and does not count
    /// yet, is over.
    pub(crate) fn accepted_elsewhere(&mut self, tx: &Transaction<'_>, provider: &Provider) -> Result<(), StoreError> {
        let earlier = approvals::about_definitions(tx.view(), provider)?;
        self.cancel_definitions(tx, &earlier, |_asked| false)?;
        for agreed in earlier.iter().filter(|asked| asked.state == State::Approved) {
            self.end_definitions(tx, agreed, State::Cancelled)?;
        }
        Ok(())
    }

    /// What was last seen of a server is durable.
    pub fn has_noted(&mut self, redefined: DefinitionsChanged) {
        if self.is_of_now(&redefined.changed) {
            let Changed { provider, withdrawn, epoch: _ } = redefined.changed;
            self.withdrawn.insert(provider, withdrawn);
        }
    }

    /// Whether it was held against what counts now.
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
        for asked in asked.iter().filter(|asked| asked.state == State::Waiting && !stays(asked)) {
            tx.append(&Draft {
                provider: Some(&asked.provider),
                action: Some(&asked.action),
                approval: Some(asked.reference()),
                body: json!({ "cancelled": asked.reference() }),
                ..Draft::new(chain::Kind::Noted, "broker")
            })?;
            approvals::resolve(tx, asked.id, State::Cancelled)?;
            self.end_definitions(tx, asked, State::Cancelled)?;
        }
        Ok(())
    }

    /// Puts the ruleset in force.
    pub fn hold_to(&mut self, ruleset: &Ruleset, exchanged: &Provider) {
        let Ruleset { catalogue, policy, filters, version: _ } = ruleset.clone();
        self.catalogue = catalogue;
        self.policy = policy;
        self.filters = Some(filters);
        // What is seen of the one that was exchanged is seen anew.
        self.withdrawn.remove(exchanged);
        self.replaced.remove(exchanged);
    }
}

/// The word that stands where an action does.
fn definitions() -> Action {
    #[expect(clippy::expect_used, reason = "letters satisfy the grammar")]
    "definitions".parse().expect("an action")
}
