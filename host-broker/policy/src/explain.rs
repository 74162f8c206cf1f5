//! The judgements of a call, step by step, for a person.

use crate::decide::{Decision, Step, Verdict};
use crate::facts::{Agreed, AgreedBy, Facts, RulesFact};
use serde_json::{Value, json};

/// Returns every step with its verdict, as an object.
///
/// ```json
/// {"group": "Group 'developer'", "provider": "github", "action": "merge_pr", "verdict": "refuse",
///  "code": "level_too_low", "reason": "…", "steps": [{"step": "grant", "verdict": "permit"},
///  {"step": "rules", "verdict": "permit", "rule": "native-writes"}]}
/// ```
pub fn explain(facts: &Facts, decision: &Decision) -> Value {
    let steps: Vec<Value> = decision
        .judgements
        .iter()
        .map(|judgement| {
            let mut step = describe(&judgement.verdict);
            if let Some(object) = step.as_object_mut() {
                object.insert("step".into(), judgement.step.to_string().into());
                // With a nested call, the verdict can be that of either.
                let own = if facts.nested.is_none() { deciding(&facts.rules) } else { None };
                if let (Step::Rules, Some(rule)) = (judgement.step, own) {
                    object.insert("rule".into(), rule.into());
                }
                if let (Step::Tier, Some(Agreed { by: AgreedBy::Standing(_), reference, .. })) =
                    (judgement.step, &facts.agreed)
                {
                    object.insert("note".into(), format!("covered by {reference}").into());
                }
                if judgement.step == Step::Trifecta && facts.session.own {
                    object.insert("note".into(), OWN.into());
                }
            }
            step
        })
        .collect();
    let mut whole = describe(&decision.verdict);
    if let Some(object) = whole.as_object_mut() {
        object.insert("caller".into(), facts.caller.clone().into());
        object.insert("provider".into(), facts.provider.as_str().into());
        object.insert("action".into(), facts.action.as_str().into());
        object.insert("steps".into(), steps.into());
    }
    whole
}

/// The note of a call whose destinations are the owner's own.
const OWN: &str = "all destinations are the owner's own";

fn deciding(rules: &RulesFact) -> Option<&str> {
    match rules {
        RulesFact::Permit { rule } | RulesFact::Forbid { rule, .. } | RulesFact::Failed { rule } => Some(rule),
        RulesFact::Unasked | RulesFact::NotEvaluable { .. } | RulesFact::NoMatch => None,
    }
}

fn describe(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Permit => json!({ "verdict": "permit" }),
        Verdict::NeedsRemote => json!({ "verdict": "needs remote facts" }),
        Verdict::RequireApproval { reason, .. } => json!({ "verdict": "ask a person", "reason": reason }),
        Verdict::Refuse { code, reason } => json!({ "verdict": "refuse", "code": code.word(), "reason": reason }),
    }
}
