//! The rules, as they are asked about real documents: only where the profile leaves a call to them, with the parameters
//! as they were written and the session as the ledger knows it.

use crate::policy::world::{START, World, with_mock};
use config::Policy;
use engine::catalogue::{Catalogue, Listed};
use engine::facts::judge;
use engine::request::{ParseContext, hypothetical};
use kernel::call::Call;
use platform::clock::SystemClock;
use policy::decide::{Step, Verdict};
use policy::explain::explain;
use policy::facts::RulesFact;
use policy::profile::{ApprovalMode, Profile, Profiles};
use provider_github::Identity;
use rules::{RuleFile, Rules, Vocabulary};
use secrets::identity::issuers::Issuers;
use serde_json::{Value, json};
use shared::{Code, Provider, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const SCRIPT: &str = r#"
[actions.create_event]
level = 2
input_schema = { type = "object", required = ["calendar"], properties = { calendar = { type = "string" } } }
"#;

const RULES: &str = r#"
@id("own-calendar")
permit (principal == Group::"developer", action == Action::"mock.create_event", resource)
when { context.params.calendar == "dev@example.com" };
@id("closed")
forbid (principal, action, resource) when { context.params has calendar && context.params.calendar == "closed@example.com" };
@id("nothing-after-mail")
@reason("Nothing is written after private data was read.")
forbid (principal, action in Action::"write", resource) when { context.session.sensitive };
"#;

fn catalogue() -> Catalogue {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mock.toml");
    std::fs::write(&path, SCRIPT).unwrap();
    let operations = provider_mock::operations(&"mock".parse().unwrap(), &path).unwrap();
    with_mock(Listed::ready("mock", operations))
}

struct Ruled {
    world: World,
    parse_context: ParseContext,
    policy: Policy,
}

impl Ruled {
    fn new(setting: ApprovalMode) -> Self {
        let world = World::new();
        let catalogue = Arc::new(catalogue());
        let parse_context = ParseContext {
            catalogue: Arc::clone(&catalogue),
            key: Arc::clone(&world.dispatcher.key),
            issuers: Arc::new(Issuers::nobody()),
            ids: Arc::clone(&world.dispatcher.ids),
            timeout: Duration::from_secs(30),
            unknown_requests: world.dispatcher.config.broker.unknown_requests,
            filters: None,
        };
        let groups = world.dispatcher.config.groups.keys().cloned();
        let file = RuleFile { path: "own.cedar".into(), text: RULES.to_owned() };
        let rules = Rules::parse(&[file], &catalogue.named(), groups.clone().collect()).unwrap();
        let profile = Profile { write: Some(setting), ..Profile::default() };
        let profiles = Profiles::new(groups.map(|group| (group, profile.clone())).collect());
        Self { world, parse_context, policy: Policy { rules, profiles, ..Policy::default() } }
    }

    fn call(&self, params: &Value) -> Box<Call> {
        let document = json!({ "type": "ext_call", "provider": "mock", "action": "create_event", "params": params });
        hypothetical("developer".parse().unwrap(), None, document.to_string().as_bytes(), &self.parse_context).unwrap()
    }

    /// The answer of the rules, and the verdict of their step.
    fn said(&self, params: &Value) -> (RulesFact, Verdict) {
        let now = Timestamp::from_millis(START);
        let (facts, decision) =
            judge(self.world.ledger.view(), (now, self.world.ledger.steady()), &self.call(params), &self.policy, None)
                .unwrap();
        let step = decision.judgements.into_iter().find(|judgement| judgement.step == Step::Rules).unwrap();
        (facts.rules, step.verdict)
    }
}

fn refused(reason: &str) -> Verdict {
    Verdict::Refuse { code: Code::RuleDenied, reason: reason.to_owned() }
}

#[test]
fn an_event_may_be_created_if_the_calendar_is_the_groups_own() {
    let ruled = Ruled::new(ApprovalMode::Rules);
    let own = ruled.said(&json!({ "calendar": "dev@example.com" }));
    assert_eq!(own, (RulesFact::Permit { rule: "own-calendar".into() }, Verdict::Permit));
    let other = ruled.said(&json!({ "calendar": "boss@example.com" }));
    assert_eq!(other, (RulesFact::NoMatch, refused("No rule permits action 'create_event' like this.")));
}

#[test]
fn the_rules_decide_only_where_the_profile_says_so_forbid_everywhere_and_see_parameters_that_fit() {
    for setting in [ApprovalMode::Auto, ApprovalMode::Human, ApprovalMode::Off] {
        let said = Ruled::new(setting).said(&json!({ "calendar": "boss@example.com" }));
        assert_eq!(said, (RulesFact::Unasked, Verdict::Permit), "{setting:?}");
    }
    let closed = |setting| Ruled::new(setting).said(&json!({ "calendar": "closed@example.com" }));
    let forbidden = RulesFact::Forbid { rule: "closed".into(), reason: None };
    for setting in [ApprovalMode::Auto, ApprovalMode::Human, ApprovalMode::Rules] {
        let no = (forbidden.clone(), refused("The rule 'closed' forbids this."));
        assert_eq!(closed(setting), no, "what forbids holds at every tier: {setting:?}");
    }
    assert_eq!(closed(ApprovalMode::Off), (RulesFact::Unasked, Verdict::Permit));
    let unfit = Ruled::new(ApprovalMode::Rules).said(&json!({ "calendar": 5 }));
    assert_eq!(unfit, (RulesFact::Unasked, refused("The rules were not asked.")));
}

#[test]
fn no_rules_at_all_refuse() {
    let mut ruled = Ruled::new(ApprovalMode::Rules);
    ruled.policy.rules = Rules::default();
    let said = ruled.said(&json!({ "calendar": "dev@example.com" }));
    assert_eq!(said, (RulesFact::NoMatch, refused("No rule permits action 'create_event' like this.")));
}

#[test]
fn an_explanation_names_the_rule() {
    let ruled = Ruled::new(ApprovalMode::Rules);
    let call = ruled.call(&json!({ "calendar": "dev@example.com" }));
    let now = Timestamp::from_millis(START);
    let (facts, decision) =
        judge(ruled.world.ledger.view(), (now, ruled.world.ledger.steady()), &call, &ruled.policy, None).unwrap();
    let explained = explain(&facts, &decision);
    let steps = explained["steps"].as_array().unwrap();
    let named: Vec<&Value> = steps.iter().filter(|step| step.get("rule").is_some()).collect();
    assert_eq!(named, [&json!({ "step": "rules", "verdict": "permit", "rule": "own-calendar" })]);
}

#[tokio::test]
async fn rules_see_every_parameter_of_the_github_actions() {
    let provider: Provider = "github".parse().unwrap();
    let settings = toml::from_str("repos = [\"acme/app\"]").unwrap();
    let operations =
        provider_github::operations(&provider, settings, Identity::Token(None), Arc::new(SystemClock)).unwrap();
    let mut catalogue = Catalogue::default();
    catalogue.insert(provider, Listed::ready("github", operations));
    let vocabulary = Vocabulary::new(&catalogue.named(), BTreeSet::new()).unwrap();
    assert!(vocabulary.unseen().count() > 0);
    for (_, action, unseen) in vocabulary.unseen() {
        let places: Vec<&str> = unseen.iter().map(|unseen| unseen.place.as_str()).collect();
        assert_eq!(places, Vec::<&str>::new(), "{action}");
    }
}
