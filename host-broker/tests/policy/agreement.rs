//! The decision agrees with its model on random facts, and keeps the promises that follow from the policy.

use crate::policy::facts::{agreed, any_facts, exceeded, exposure, nobody, operation, orderly, session};
use crate::policy::model::{Answer, decided, model};
use model::approval::ApprovalReason;
use model::{Exposed, Exposure};
use policy::decide::{Judgement, Step, Verdict, decide};
use policy::facts::{
    Agreed, ChatsFact, EgressFact, Facts, GrantFact, KilledBy, LiveGrant, OperationFact, Outage, PersonFact,
    ProviderFact, RulesFact, SessionFact,
};
use policy::profile::ApprovalMode;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use shared::{Code, Level};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

const CASES: u32 = 200_000;

/// The same cases in every run; a failing one is made as small as possible before it is shown.
fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(strategy, test).unwrap();
}

fn answer(facts: &Facts) -> Answer {
    Answer::of(&decide(facts).verdict)
}

fn with_grant(facts: &Facts, change: impl FnOnce(&mut LiveGrant)) -> Facts {
    let mut facts = facts.clone();
    if let GrantFact::Live(live) = &mut facts.grant {
        change(live);
    }
    facts
}

#[test]
fn the_decision_agrees_with_the_policys_text_on_two_hundred_thousand_random_facts() {
    let seen: RefCell<BTreeMap<String, u32>> = RefCell::default();
    check(CASES, &any_facts(), |facts| {
        let (expected, found) = (model(&facts), decided(&decide(&facts)));
        *seen.borrow_mut().entry(format!("{expected:?}")).or_default() += 1;
        prop_assert_eq!(expected, found);
        Ok(())
    });
    let seen = seen.into_inner();
    // A comparison that never meets a permit or some code compares nothing there.
    for code in [
        Code::KillSwitch,
        Code::PolicyStale,
        Code::NoGrant,
        Code::GrantExpired,
        Code::ContextTokenMissing,
        Code::ContextTokenInvalid,
        Code::ContextTokenExpired,
        Code::ProviderDisabled,
        Code::UnknownAction,
        Code::ActionNotAllowed,
        Code::LevelTooLow,
        Code::ActionDenied,
        Code::InvalidParams,
        Code::Guardrail,
        Code::RepoNotAllowed,
        Code::RangeTooWide,
        Code::TaskUnknown,
        Code::TaskRequired,
        Code::GateMissing,
        Code::RuleDenied,
        Code::Trifecta,
        Code::RateLimited,
        Code::QuotaExceeded,
        Code::BreakerOpen,
        Code::CapabilityAccessDenied,
        Code::CapabilityAuthRequired,
        Code::CapabilityAccountAmbiguous,
        Code::CapabilityInvalidInput,
    ] {
        let met: u32 = seen.iter().filter(|(key, _)| key.starts_with(&format!("(No({code:?})"))).map(|(_, n)| n).sum();
        assert!(met >= 100, "{code:?} was met {met} times: {seen:#?}");
    }
    for word in
        ["(Yes, ", "(AskPerson, Some(Tier", "(AskPerson, Some(Trifecta", "(AskPerson, Some(Departing", "(AskRemote, "]
    {
        let met: u32 = seen.iter().filter(|(key, _)| key.starts_with(word)).map(|(_, n)| n).sum();
        assert!(met >= 400, "{word} was met {met} times: {seen:#?}");
    }
}

#[test]
fn a_caller_without_a_grant_learns_nothing_about_provider_or_action() {
    check(20_000, &(any_facts(), any_facts()), |(mut one, mut other)| {
        one.grant = GrantFact::None;
        other.grant = GrantFact::None;
        other.kill = one.kill;
        other.stale = one.stale.clone();
        other.provider = one.provider.clone();
        let (first, second) = (decide(&one).verdict, decide(&other).verdict);
        // Not only the code: the sentence too is the same whatever exists.
        prop_assert_eq!(&first, &second);
        let expected = match (&one.kill, &one.stale) {
            (Some(_), _) => Code::KillSwitch,
            (None, Some(_)) => Code::PolicyStale,
            (None, None) => Code::NoGrant,
        };
        prop_assert_eq!(Answer::of(&first), Answer::No(expected));
        Ok(())
    });
}

#[test]
fn capabilities_of_persons_need_a_known_person() {
    check(20_000, &(any_facts(), any::<bool>()), |(facts, is_named)| {
        let provider = if is_named { "person.mail" } else { "github" }.parse().unwrap();
        let known = Facts { provider, person: PersonFact::Known, ..facts };
        let unknown = Facts { person: nobody(Code::ContextTokenMissing), ..known.clone() };
        let bound = matches!(&known.grant, GrantFact::Live(live) if live.chats != ChatsFact::Any)
            || known.operation.is_some_and(|found| found.chats != ChatsFact::Any);
        if is_named || bound {
            prop_assert!(answer(&unknown).is_refusal());
        } else {
            prop_assert_eq!(answer(&unknown), answer(&known));
        }
        Ok(())
    });
}

#[test]
fn nothing_is_permitted_without_a_live_grant_at_an_enabled_provider() {
    check(20_000, &any_facts(), |facts| {
        if answer(&facts).is_refusal() {
            return Ok(());
        }
        let GrantFact::Live(live) = &facts.grant else { return Err(TestCaseError::fail("no live grant")) };
        let operation = facts.operation.ok_or_else(|| TestCaseError::fail("no such action"))?;
        prop_assert!(live.level >= operation.demanded && live.allowed && !live.denied);
        prop_assert!(live.chats != ChatsFact::Elsewhere);
        if live.chats == ChatsFact::Here || facts.provider.is_namespaced() {
            prop_assert_eq!(facts.person, PersonFact::Known);
        }
        prop_assert_eq!(live.catalogued, Some(operation.declared));
        prop_assert_eq!(facts.provider_state, ProviderFact::Enabled);
        prop_assert_eq!((facts.kill, facts.stale), (None, None));
        Ok(())
    });
}

#[test]
fn a_caller_has_the_authority_if_nothing_up_to_the_lists_stands_against_the_call() {
    let against_authority: &[fn(&Facts) -> bool] = &[
        |f| f.kill.is_some(),
        |f| f.stale.is_some(),
        |f| f.provider_state != ProviderFact::Enabled,
        |f| f.operation.is_none(),
        |f| match (&f.grant, f.operation) {
            (GrantFact::Live(live), Some(found)) => {
                live.chats == ChatsFact::Elsewhere
                    || found.chats == ChatsFact::Elsewhere
                    || (live.chats == ChatsFact::Here || found.chats == ChatsFact::Here || f.provider.is_namespaced())
                        && f.person != PersonFact::Known
                    || live.catalogued != Some(found.declared)
                    || live.level < found.demanded
                    || live.denied
                    || !live.allowed
                    || found.setting == ApprovalMode::Off
            }
            (GrantFact::Live(_) | GrantFact::None | GrantFact::Expired | GrantFact::Refused(_), _) => true,
        },
    ];
    check(20_000, &any_facts(), |facts| {
        let stands = against_authority.iter().any(|applies| applies(&facts));
        prop_assert_eq!(decide(&facts).has_authority(), !stands);
        Ok(())
    });
}

#[test]
fn a_denied_action_is_refused_even_if_the_allowed_list_has_it() {
    check(20_000, &any_facts(), |facts| {
        let listed = with_grant(&facts, |live| (live.denied, live.allowed) = (true, true));
        let unlisted = with_grant(&facts, |live| (live.denied, live.allowed) = (true, false));
        prop_assert!(answer(&listed).is_refusal() && answer(&unlisted).is_refusal());
        prop_assert_eq!(answer(&listed), answer(&unlisted));
        Ok(())
    });
}

#[test]
fn a_higher_level_never_turns_a_permit_into_a_refusal() {
    check(20_000, &any_facts(), |facts| {
        for level in Level::ALL {
            let raised = with_grant(&facts, |live| live.level = live.level.max(level));
            prop_assert!(answer(&facts).is_refusal() || answer(&facts) == answer(&raised));
        }
        Ok(())
    });
}

#[test]
fn another_restriction_never_turns_a_refusal_into_a_permit() {
    let restrictions: &[fn(&Facts) -> Facts] = &[
        |f| with_grant(f, |live| live.denied = true),
        |f| with_grant(f, |live| live.allowed = false),
        |f| with_grant(f, |live| live.catalogued = None),
        |f| with_grant(f, |live| live.chats = ChatsFact::Elsewhere),
        |f| Facts { provider: "person.mail".parse().unwrap(), person: nobody(Code::ContextTokenMissing), ..f.clone() },
        |f| Facts { kill: Some(KilledBy::Caller), ..f.clone() },
        |f| Facts { kill: Some(KilledBy::Everything), ..f.clone() },
        |f| Facts { grant: GrantFact::None, ..f.clone() },
        |f| Facts { grant: GrantFact::Expired, ..f.clone() },
        |f| Facts { provider_state: ProviderFact::Killed, ..f.clone() },
        |f| Facts { provider_state: ProviderFact::Disabled(Outage::NoSecret), ..f.clone() },
        |f| Facts { rules: RulesFact::Forbid { rule: "a".into(), reason: None }, ..f.clone() },
        |f| Facts { limits: exceeded(Code::RateLimited), ..f.clone() },
        |f| Facts { departing: EgressFact::Hostile(vec!["It is.".into()]), ..f.clone() },
    ];
    check(20_000, &any_facts(), |facts| {
        for restrict in restrictions {
            let restricted = restrict(&facts);
            prop_assert!(!answer(&facts).is_refusal() || answer(&restricted).is_refusal());
            // And where it bites, it refuses.
            prop_assert!(restricted == facts || answer(&restricted).is_refusal());
        }
        Ok(())
    });
}

#[test]
fn the_verdict_is_the_strictest_judgement_and_every_step_is_judged_once_in_order() {
    check(20_000, &any_facts(), |facts| {
        let decision = decide(&facts);
        let steps: Vec<_> = decision.judgements.iter().map(|judgement| judgement.step).collect();
        let mut sorted = steps.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(&steps, &sorted);
        prop_assert_eq!(steps.len(), 16);
        let refused = decision.judgements.iter().any(|judgement| Answer::of(&judgement.verdict).is_refusal());
        prop_assert_eq!(refused, Answer::of(&decision.verdict).is_refusal());
        Ok(())
    });
}

#[test]
fn every_refusal_is_a_sentence() {
    check(20_000, &any_facts(), |facts| {
        for judgement in decide(&facts).judgements {
            let (Verdict::Refuse { reason, .. } | Verdict::RequireApproval { reason, .. }) = judgement.verdict else {
                continue;
            };
            let begins = reason.chars().next().is_some_and(char::is_uppercase);
            prop_assert!(begins && reason.ends_with('.') && !reason.ends_with(".."), "{}", reason);
        }
        Ok(())
    });
}

#[test]
fn another_exposure_of_an_action_never_makes_a_decision_less_strict() {
    check(20_000, &(any_facts(), any::<u8>()), |(facts, bits)| {
        let adds = facts.session.adds.and(exposure(bits));
        let more = Facts { session: SessionFact { adds, ..facts.session.clone() }, ..facts.clone() };
        prop_assert!(answer(&more).strictness() >= answer(&facts).strictness());
        Ok(())
    });
}

#[test]
fn another_exposure_of_a_session_never_lets_more_out() {
    check(20_000, &(any_facts(), any::<u8>()), |(mut facts, bits)| {
        facts.session.adds.egress = true;
        let mut more = facts.clone();
        let exposed = |earlier: &Exposed| Exposed { exposes: earlier.exposes.and(exposure(bits)), ..earlier.clone() };
        more.session.earlier = more.session.earlier.iter().map(exposed).collect();
        prop_assert!(answer(&more).strictness() >= answer(&facts).strictness());
        Ok(())
    });
}

#[test]
fn a_rule_decides_nothing_but_its_own_step() {
    check(20_000, &any_facts(), |facts| {
        let rule = || "a".to_owned();
        for rules in [RulesFact::Permit { rule: rule() }, RulesFact::NoMatch, RulesFact::Failed { rule: rule() }] {
            let others = |facts: &Facts| {
                let judgements = decide(facts).judgements;
                judgements.into_iter().filter(|judgement| judgement.step != Step::Rules).collect::<Vec<_>>()
            };
            prop_assert_eq!(others(&facts), others(&Facts { rules, ..facts.clone() }));
        }
        // And with a permit nothing else becomes permitted.
        let permitted = Facts { rules: RulesFact::Permit { rule: rule() }, ..facts.clone() };
        let rest = |judgement: &Judgement| judgement.step == Step::Rules || judgement.verdict == Verdict::Permit;
        prop_assert_eq!(answer(&permitted) == Answer::Yes, decide(&facts).judgements.iter().all(rest));
        Ok(())
    });
}

#[test]
fn a_persons_yes_satisfies_what_stood_on_the_card_and_nothing_else() {
    check(20_000, &any_facts(), |facts| {
        let asked: BTreeSet<ApprovalReason> = decide(&facts).asks().into_iter().map(|(ask, _)| ask).collect();
        let covered = facts.agreed.as_ref().map(|agreed| agreed.covers.clone()).unwrap_or_default();
        prop_assert!(asked.is_disjoint(&covered));
        // With a yes to everything that it asks, nobody is asked again.
        let covers = covered.union(&asked).copied().collect();
        let agreed = Facts { agreed: Some(Agreed { covers, ..agreed() }), ..facts.clone() };
        prop_assert!(decide(&agreed).asks().is_empty());
        prop_assert_eq!(answer(&agreed).is_refusal(), answer(&facts).is_refusal());
        Ok(())
    });
}

#[test]
fn every_reason_for_which_a_person_is_asked_is_told() {
    let all = session(
        Exposure { untrusted: true, sensitive: true, egress: false },
        Exposure { egress: true, ..Exposure::NONE },
    );
    let facts = Facts {
        operation: Some(OperationFact { setting: ApprovalMode::Human, ..operation(Level::Read) }),
        session: all,
        departing: EgressFact::Suspicious(vec!["It has hidden characters.".to_owned()]),
        ..orderly()
    };
    let asks = decide(&facts).asks();
    assert_eq!(
        asks.iter().map(|(ask, _)| *ask).collect::<Vec<_>>(),
        [ApprovalReason::Trifecta, ApprovalReason::Departing, ApprovalReason::Tier]
    );
    for (reason, word) in asks.iter().map(|(_, reason)| reason).zip(["mail.read at", "hidden characters", "must agree"])
    {
        assert!(reason.contains(word), "{reason}");
    }
    assert_eq!(decide(&orderly()).asks(), []);
}

#[test]
fn of_many_earlier_calls_eight_are_named_and_the_others_counted() {
    let reason = |calls: usize| {
        let one = session(Exposure { egress: false, ..Exposure::ALL }, Exposure { egress: true, ..Exposure::NONE });
        let earlier = one.earlier.iter().cycle().take(calls).cloned().collect();
        let facts = Facts { session: SessionFact { earlier, ..one }, ..orderly() };
        let Verdict::RequireApproval { reason, .. } = decide(&facts).verdict else { panic!() };
        reason
    };
    // Each for content that others wrote and for private data.
    assert_eq!((reason(8).matches("mail.read").count(), reason(8).contains("more")), (16, false));
    assert_eq!((reason(9).matches("mail.read").count(), reason(9).matches("1 more").count()), (16, 2));
    assert!(reason(9).contains("an egress channel (this call)"), "{}", reason(9));
}

#[test]
fn a_call_that_makes_another_one_is_permitted_only_if_both_are() {
    let both = (any_facts(), any_facts());
    check(20_000, &both, |(outer, inner)| {
        let together = Facts { nested: Some(Box::new(inner.clone())), ..outer.clone() };
        let (own, nested, found) = (decide(&outer), decide(&inner), decide(&together));
        let strictest = answer(&outer).strictness().max(answer(&inner).strictness());
        prop_assert_eq!(Answer::of(&found.verdict).strictness(), strictest);
        prop_assert_eq!(found.has_authority(), own.has_authority() && nested.has_authority());
        let kinds = |decision: &policy::decide::Decision| -> BTreeSet<ApprovalReason> {
            decision.asks().into_iter().map(|(ask, _)| ask).collect()
        };
        // A step that only one of them refuses asks nobody.
        prop_assert!(kinds(&found).is_subset(&kinds(&own).union(&kinds(&nested)).copied().collect()));
        for (step, judgement) in found.judgements.iter().enumerate() {
            let parts = [&own.judgements[step].verdict, &nested.judgements[step].verdict];
            prop_assert!(parts.contains(&&judgement.verdict), "{}", judgement.step);
        }
        Ok(())
    });
}
