//! Standing approvals: a person approves a call, and later calls like it for a while.
//!
//! ```text
//! approval request ── offer: the parameters that may vary, and a digest of everything else
//!   └─ yes with a scope ──► standing approval ──► covers a later call ──► its intent counts the use
//!                                └──► ended: by a person, with the session, at its time
//! ```
//! A standing approval answers only where a person would be asked, and only for the reasons on its card. The decision
//! judges every other step as usual. A call that needs a person for one more reason asks for all of them.

use crate::broker::Broker;
use crate::clean::Filtered;
use crate::facts;
use crate::features::Feature;
use config::{Config, Policy};
use kernel::authorize::Refusal;
use kernel::call::Call;
use model::approval::{Approval, ApprovalReason, SubjectKind};
use model::card::Together;
use model::standing_approval::{
    NamedExposures, ParamPattern, Params, StandingApproval, StandingOffer, StandingScope, is_named,
};
use model::{Caller, Exposed, Exposure};
use policy::facts::{Agreed, AgreedBy, SessionFact};
use serde_json::{Map, Value, json};
use shared::digest::Digest;
use shared::{Action, Code, Level, Provider, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;
use store::state::{approvals, standing_approvals};
use store::{StoreError, Transaction, View};

/// The standing approvals that have expired.
pub(crate) struct StandingApprovals;

impl Feature for StandingApprovals {
    fn before_decision(&self, _: &View, _: Timestamp, _: &mut Call) -> Result<(), StoreError> {
        Ok(())
    }

    fn precondition(&self, _: &View, _: &Call) -> Result<Option<Refusal>, StoreError> {
        Ok(None)
    }

    fn with_intent(&self, _: &mut Broker, _: &Transaction<'_>, _: &mut Call) -> Result<(), StoreError> {
        Ok(())
    }

    fn with_outcome(&self, _: &mut Broker, _: &Transaction<'_>, _: &mut Filtered) -> Result<(), StoreError> {
        Ok(())
    }

    fn forget_old(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        standing_approvals::end_expired(tx)
    }
}

/// The shortest time of a standing approval.
const SHORTEST_S: u64 = 60;
/// The most bytes of the parameters of an offer, as JSON.
const OFFER_BYTES_MAX: usize = 64 * 1024;

/// Returns the parameters of a call that a standing approval can cover. It covers no call of an external agent, with a
/// one-time value or with a nested call. It covers no file proposal, and no call that depends on the state of its
/// target.
fn coverable(call: &Call) -> Option<&Map<String, Value>> {
    call.params.members().filter(|_| crate::approvals::is_plain(call))
}

/// Returns the digest of everything about a call that must be the same, beside its parameters and the policy.
fn terms(call: &Call) -> Digest {
    let mut terms = json!({
        "caller": call.header.caller_key,
        "person": call.header.behalf.person().map(crate::approvals::agreed_for),
        "provider": call.provider,
        "action": call.action,
        "level": call.target.demanded(),
        "declared": crate::approvals::declared(call),
        "task": call.task_id,
        "account": call.account_ref,
    });
    if let Some(members) = terms.as_object_mut() {
        members.extend(call.account_key.map(|key| ("account_key".to_owned(), json!(key))));
    }
    Digest::of(&shared::json::canonical(&terms))
}

/// Returns the digest of the profiles, and of the settings of a provider.
pub fn policy_digest(policy: &Policy, provider: &Provider) -> Digest {
    Digest::of(&shared::json::canonical(&json!([policy.profiles.version(), policy.settings.get(provider)])))
}

fn name(provider: &Provider, action: &Action) -> String {
    format!("{provider}.{action}")
}

/// Returns the standing approval that a person can give with the answer to an approval request about this call. `earlier`
/// is the exposure of its session, and `together` the part of it that the card names.
pub(crate) fn offer(
    call: &Call,
    policy: &Policy,
    (earlier, together): (&[Exposed], Option<&Together>),
) -> Option<StandingOffer> {
    let params = coverable(call)?;
    policy.approvals.standing_max(&call.provider, &call.action)?;
    let words = |exposure: Exposure| exposure.words().into_iter().map(str::to_owned);
    let mut exposures = NamedExposures::new();
    let own = (name(&call.provider, &call.action), facts::exposure(call, &policy.profiles).0);
    for (name, exposure) in earlier.iter().map(|one| (name(&one.provider, &one.action), one.exposes)).chain([own]) {
        exposures.entry(name).or_default().extend(words(exposure));
    }
    let declaration = call.target.operation()?.declaration();
    let offer = StandingOffer {
        person: call.header.behalf.key(),
        params: Params(params.clone()),
        may_vary: declaration.may_vary.iter().cloned().collect(),
        terms: terms(call),
        policy: policy_digest(policy, &call.provider),
        exposures: together.is_none_or(Together::is_complete).then_some(exposures),
    };
    let bytes = serde_json::to_vec(&offer.params).ok()?.len();
    (bytes <= OFFER_BYTES_MAX).then_some(offer)
}

/// Returns the standing approval that covers all of these reasons to ask about a call.
///
/// # Errors
/// [`StoreError`] if they cannot be read; a person is asked then.
pub(crate) fn covering(
    view: &View,
    now: Timestamp,
    call: &Call,
    policy: &Policy,
    (session, asks): (&SessionFact, &BTreeSet<ApprovalReason>),
) -> Result<Option<Agreed>, StoreError> {
    let (false, Some(params)) = (call.is_resumed(), coverable(call)) else {
        return Ok(None);
    };
    let digests = (terms(call), policy_digest(policy, &call.provider));
    let action = (&call.provider, &call.action);
    let found = standing_approvals::in_force(view, &call.header.caller_key, action, digests, now)?;
    // SECURITY: what was read since is not what the card named.
    let is_known = |standing: &StandingApproval| {
        let is_named = |one: &Exposed| is_named(&standing.exposures, &name(&one.provider, &one.action), one.exposes);
        session.earlier.iter().all(|exposed| exposed.is_egress_alone() || is_named(exposed))
    };
    let covers = |standing: &StandingApproval| {
        state(standing, policy, now) == State::InForce
            && asks.is_subset(&standing.covers)
            && (!asks.contains(&ApprovalReason::Trifecta) || is_known(standing))
            && standing.pattern.as_ref().is_some_and(|pattern| pattern.covers(params))
    };
    Ok(found.into_iter().find(covers).map(|standing| Agreed {
        by: AgreedBy::Standing(standing.id),
        reference: standing.reference(),
        covers: standing.covers,
    }))
}

/// The state of a standing approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It covers calls.
    InForce,
    /// It covers none. The profiles or the settings of the provider are not those at the approval. Or its approver has
    /// lost the right, or `[approvals]` allows none.
    Suspended,
    /// Its time is over.
    Expired,
    /// A person or the end of the session ended it.
    Ended,
}

impl State {
    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::InForce => "in force",
            Self::Suspended => "suspended",
            Self::Expired => "expired",
            Self::Ended => "ended",
        }
    }
}

/// Returns the state of a standing approval under this policy.
pub fn state(standing: &StandingApproval, policy: &Policy, now: Timestamp) -> State {
    let StandingApproval { provider, action, .. } = standing;
    match &standing.ended {
        Some((_, by)) if by == store::state::standing_approvals::EXPIRY => return State::Expired,
        Some(_) => return State::Ended,
        None if !standing.is_in_force(now) => return State::Expired,
        None => {}
    }
    let group = standing.group();
    let table = standing.given_by.strip_prefix("person:").and_then(|person| policy.approvers.get(person));
    let approves = table.is_some_and(|table| table.covers(group.as_ref(), provider, standing.level));
    let longest = policy.approvals.standing_max(provider, action);
    let lasts = longest.is_some_and(|longest| now < standing.given_at.plus(longest));
    if approves && lasts && standing.policy == policy_digest(policy, provider) {
        State::InForce
    } else {
        State::Suspended
    }
}

/// Returns whether this person may end a standing approval: its approver, and each one who may approve its calls.
pub fn may_end(config: &Config, person: &str, standing: &StandingApproval) -> bool {
    standing.given_by == Caller::Person(person.to_owned()).to_string()
        || config.may_approve(person, standing.group().as_ref(), &standing.provider, standing.level)
}

impl Broker {
    /// Returns the standing approval with this scope, if the approver can give it with the answer.
    ///
    /// # Errors
    /// Outside: [`StoreError`]. Inside: the reason why it cannot be given; nothing is answered then.
    pub(crate) fn standing_approval(
        &self,
        tx: &Transaction<'_>,
        (approval, by): (&Approval, &str),
        scope: &StandingScope,
    ) -> Result<Result<StandingApproval, (Code, String)>, StoreError> {
        let no = |reason: String| Ok(Err((Code::Guardrail, reason)));
        let longest = self.config.approvals.standing_max_s;
        if longest == 0 {
            return no(
                "Standing approvals are switched off: `approvals.standing_max_s` in broker.toml is 0.".to_owned()
            );
        }
        if !(SHORTEST_S..=longest).contains(&scope.for_s) {
            return Ok(Err((
                Code::InvalidParams,
                format!(
                    "A standing approval lasts {SHORTEST_S} to {longest} seconds; `approvals.standing_max_s` in broker.toml \
                     sets the longest time."
                ),
            )));
        }
        let offer = match approval.kind {
            SubjectKind::Call => approvals::standing_offer(tx.view(), approval.id)?,
            SubjectKind::Grant
            | SubjectKind::File
            | SubjectKind::Account
            | SubjectKind::Definition
            | SubjectKind::Flow
            | SubjectKind::Access
            | SubjectKind::Plan => None,
        };
        let offer = offer.filter(|_| approval.quorum <= 1);
        let Some(offer) = offer else {
            return no(format!("A standing approval cannot cover {UNCOVERED}; approve this request alone."));
        };
        if approval.level >= Level::Production && !scope.production {
            return no("It is a production action; a standing approval must name that with --production.".to_owned());
        }
        if let Some(unknown) = scope.fixed.iter().find(|name| !offer.may_vary.contains(*name)) {
            let known: Vec<&str> = offer.may_vary.iter().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Ok(Err((
                Code::InvalidParams,
                format!("'{unknown}' is no parameter that may vary; these may: {known}."),
            )));
        }
        let (covers, exposures) = match covered(&approval.asks, offer.exposures, scope.trifecta) {
            Ok(covered) => covered,
            Err(reason) => return no(reason.to_owned()),
        };
        if standing_approvals::is_full(tx.view(), &approval.caller)? {
            return no(format!(
                "{} standing approvals of this group are in force; end one: host-broker approvals standing list.",
                standing_approvals::IN_FORCE_MAX
            ));
        }
        let may_vary: BTreeSet<String> = offer.may_vary.difference(&scope.fixed).cloned().collect();
        Ok(Ok(StandingApproval {
            id: 0,
            caller: approval.caller.clone(),
            person: offer.person,
            provider: approval.provider.clone(),
            action: approval.action.clone(),
            level: approval.level,
            terms: offer.terms,
            policy: offer.policy,
            pattern: Some(ParamPattern::new(&offer.params.0, may_vary)),
            covers,
            exposures,
            asked_seq: approval.asked_seq,
            given_by: by.to_owned(),
            given_at: tx.now(),
            until: tx.now().plus(Duration::from_secs(scope.for_s)),
            of_session: scope.session,
            ended: None,
            uses: 0,
            used_at: None,
        }))
    }
}

/// Returns the reasons on a card that a standing approval covers, with the exposure if it covers the combination.
fn covered(
    asks: &BTreeSet<ApprovalReason>,
    exposures: Option<NamedExposures>,
    trifecta: bool,
) -> Result<(BTreeSet<ApprovalReason>, NamedExposures), &'static str> {
    let mut covers = asks.clone();
    covers.remove(&ApprovalReason::Departing);
    let mut named = NamedExposures::new();
    if !trifecta {
        covers.remove(&ApprovalReason::Trifecta);
    } else if covers.contains(&ApprovalReason::Trifecta) {
        named = exposures.ok_or(
            "The card does not name all calls that brought private data or untrusted content, so a standing approval \
             cannot cover them.",
        )?;
    }
    if covers.is_empty() {
        return Err(
            "No reason on the card can be covered: suspicious data never is, and the combination of private data, \
                    untrusted content and an egress channel only with --trifecta.",
        );
    }
    Ok((covers, named))
}

/// The calls that a standing approval cannot cover.
const UNCOVERED: &str = "this: it is no call of a group, reveals a one-time value, makes another call, takes several \
                         approvers, or depends on the state of its target";

/// Returns the members of the row of an approver's answer that gives a standing approval. They are public: the names of
/// parameters, and no values.
pub(crate) fn in_row(standing: &StandingApproval) -> Value {
    let pattern = standing.pattern.as_ref();
    let fixed: Vec<&String> = pattern.iter().flat_map(|pattern| pattern.fixed.keys()).collect();
    json!({
        "name": standing.reference(),
        "fixed": fixed,
        "may_vary": pattern.map(|pattern| &pattern.may_vary),
        "covers": standing.covers,
        "exposures": standing.exposures,
        "terms": standing.terms,
        "policy": standing.policy,
        "until": standing.until,
        "of_session": standing.of_session,
    })
}

/// Returns the sentence that tells an approver its scope.
pub(crate) fn in_words(standing: &StandingApproval) -> String {
    let words = standing.pattern.as_ref().map(ParamPattern::names).unwrap_or_default();
    let session = if standing.of_session { ", and no longer than the session" } else { "" };
    let still = if standing.covers.contains(&ApprovalReason::Trifecta) {
        ""
    } else {
        " A call that joins private data, untrusted content and an egress channel still needs a person."
    };
    format!(
        "{} covers {}.{}, until {}{session}: {words}.{still}",
        standing.reference(),
        standing.provider,
        standing.action,
        standing.until
    )
}
