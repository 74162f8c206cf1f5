//! Calls in the form for the rules.

use crate::shape;
use crate::vocabulary::{Vocabulary, level_name};
use cedar_policy::{Context, Request, RestrictedExpression};
use model::Exposure;
use model::{ChatType, Person};
use policy::facts::RulesFact;
use serde_json::{Map, Value};
use shared::{Action, Group, Level, Provider, TaskId, Timestamp};

/// A call that the rules are asked about.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// The caller.
    pub group: &'a Group,
    /// The provider.
    pub provider: &'a Provider,
    /// The action.
    pub action: &'a Action,
    /// The level that this call demands.
    pub demanded: Level,
    /// Whether the rules decide it; otherwise they can only forbid it.
    pub decides: bool,
    /// The governance task that it names.
    pub task: Option<&'a TaskId>,
    /// The person on whose behalf it is made.
    pub person: Option<&'a Person>,
    /// The exposure of the caller's session before it.
    pub session: Exposure,
    /// The time of the decision.
    pub now: Timestamp,
}

impl Asking<'_> {
    /// Returns the part of the rules' decision that counts.
    pub(super) fn heard(&self, said: RulesFact) -> RulesFact {
        let is_no = !matches!(said, RulesFact::Permit { .. } | RulesFact::NoMatch);
        if self.decides || is_no { said } else { RulesFact::Unasked }
    }
}

const HOUR: i64 = 3_600_000;
const WEEK: [&str; 7] = ["thursday", "friday", "saturday", "sunday", "monday", "tuesday", "wednesday"];

impl Vocabulary {
    /// Makes the parameters of a call, as the schema has them.
    pub(super) fn params(
        &self,
        asking: &Asking<'_>,
        params: &Map<String, Value>,
    ) -> Result<RestrictedExpression, String> {
        let key = (asking.provider.clone(), asking.action.clone());
        let record = self.params.get(&key).ok_or("the rules do not know this action")?;
        shape::params(record, params).map_err(|place| format!("they cannot represent `{place}`"))
    }

    /// Makes the request, checked against the schema: a validated rule then cannot fail on a missing or mistyped fact.
    pub(super) fn request(&self, asking: &Asking<'_>, params: RestrictedExpression) -> Result<Request, String> {
        self.put(asking, params, true)
    }

    /// Makes the request from the ledger's knowledge alone, for rules that read neither parameters nor session.
    pub(super) fn request_without_params(&self, asking: &Asking<'_>) -> Result<Request, String> {
        let nothing = RestrictedExpression::new_record([]).map_err(|error| error.to_string())?;
        self.put(asking, nothing, false)
    }

    fn put(&self, asking: &Asking<'_>, params: RestrictedExpression, checked: bool) -> Result<Request, String> {
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let millis = asking.now.millis();
        let hour = millis.rem_euclid(24 * HOUR) / HOUR;
        let days = millis.div_euclid(24 * HOUR).rem_euclid(7);
        // Day 0 was a Thursday.
        let weekday = usize::try_from(days).ok().and_then(|day| WEEK.get(day)).copied().unwrap_or_default();
        let mut context = vec![
            ("params".to_owned(), params),
            ("level".to_owned(), text(level_name(asking.demanded))),
            ("session".to_owned(), session(asking.session)?),
            ("now".to_owned(), RestrictedExpression::new_datetime(asking.now.to_string())),
            ("hour".to_owned(), RestrictedExpression::new_long(hour)),
            ("weekday".to_owned(), text(weekday)),
        ];
        context.extend(asking.task.map(|task| ("task".to_owned(), text(task.as_str()))));
        if let Some(person) = asking.person {
            context.push(("person".to_owned(), text(&person.key())));
            context.push(("chat".to_owned(), chat(person)?));
        }
        let context = Context::from_pairs(context).map_err(|error| error.to_string())?;
        let schema = checked.then_some(&self.schema);
        let action = self.action(asking.provider, asking.action);
        Request::new(self.group(asking.group), action, self.provider(asking.provider), context, schema)
            .map_err(|error| error.to_string())
    }
}

fn chat(person: &Person) -> Result<RestrictedExpression, String> {
    let named = [("id", person.chat_id.as_deref()), ("kind", person.chat_type.map(ChatType::word))];
    let fields = named
        .into_iter()
        .filter_map(|(name, said)| Some((name.to_owned(), RestrictedExpression::new_string(said?.to_owned()))));
    RestrictedExpression::new_record(fields).map_err(|error| error.to_string())
}

fn session(exposed: Exposure) -> Result<RestrictedExpression, String> {
    let flags = [("untrusted", exposed.untrusted), ("sensitive", exposed.sensitive), ("egress", exposed.egress)];
    let fields = flags.map(|(name, is)| (name.to_owned(), RestrictedExpression::new_bool(is)));
    RestrictedExpression::new_record(fields).map_err(|error| error.to_string())
}
