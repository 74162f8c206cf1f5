//! `explain`: the decision on a call and its reason, without an approval request or a change.

use crate::assembly::filters::{filters, scrubber};
use crate::cli::Context;
use crate::cli::home_reader::{chat_type, known_group, person};
use crate::cli::output::{CliError, Output};
use clap::Args;
use config::flows::FlowsTable;
use config::{Config, near_miss};
use engine::catalogue::Catalogue;
use engine::facts;
use engine::features;
use engine::inspection::Inspector;
use engine::request::{ParseContext, hypothetical, hypothetical_of_tool};
use kernel::call::Call;
use model::{ChatType, LedgerKey, Person};
use policy::explain::explain;
use secrets::Secrets;
use secrets::identity::issuers::Issuers;
use serde_json::{Map, Value};
use shared::flow::{GrantId, Opaque};
use shared::{Action, Group, Provider, TaskId};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use store::steady_estimate;

/// Explain the decision about a call step by step, without making the call.
///
/// The command evaluates every step, also after the first refusal. It contacts no provider: a step that depends on the
/// provider shows `needs remote facts`. It changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker explain developer github.merge_pr '{\"owner\":\"acme\",\"repo\":\"app\",\"number\":7}' --task gov-42
  host-broker explain family person.mail.search '{\"text\":\"lunch\"}' --person broker:ann --chat-type private
  host-broker explain fgrnt_9c1f… query_logs '{\"query\":\"timeout\"}'

--json prints {verdict, code?, reason?, caller, provider, action, steps: [{step, verdict, code?, reason?, rule?, note?}]};
verdict is `permit`, `ask a person`, `needs remote facts` or `refuse`")]
pub struct Explain {
    /// The group that makes the call, or an access of an external agent.
    #[arg(value_name = "GROUP|ACCESS")]
    caller: Who,
    /// The provider and the action, for example `github.list_issues`; for an external agent, the tool.
    #[arg(value_name = "PROVIDER.ACTION|TOOL")]
    target: String,
    /// The parameters, as a JSON object.
    #[arg(default_value = "{}")]
    params: String,
    /// The governance task of the call.
    #[arg(long)]
    task: Option<TaskId>,
    /// The person for whom the call is made, as the ledger names persons: ash:user-1.
    #[arg(long, value_name = "ISSUER:PERSON", value_parser = person)]
    person: Option<Person>,
    /// The chat of the person.
    #[arg(long, requires = "person")]
    chat_id: Option<String>,
    /// The kind of the chat: private, group or channel.
    #[arg(long, requires = "person", value_parser = chat_type)]
    chat_type: Option<ChatType>,
}

/// `developer`, `fgrnt_9c1f…`
#[derive(Debug, Clone)]
enum Who {
    Group(Group),
    Access(GrantId),
}

impl FromStr for Who {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(access) = text.parse() {
            return Ok(Self::Access(access));
        }
        text.parse().map(Self::Group).map_err(|error: shared::names::BadName| error.to_string())
    }
}

/// Every way to read `a.b.c` as a provider and an action; a provider's name may have one dot, an action's any number.
fn splits(text: &str) -> impl Iterator<Item = (Provider, Action)> {
    text.match_indices('.').filter_map(|(dot, _)| {
        let (provider, action) = (text.get(..dot)?, text.get(dot + 1..)?);
        Some((provider.parse().ok()?, action.parse().ok()?))
    })
}

impl Explain {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if there is no such group, no ledger, or the parameters are no JSON object.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let config = context.config()?;
        let catalogue = Arc::new(context.catalogue_as_seen(&config)?);
        let policy = context.policy(&config, &catalogue)?;
        // Nothing that is digested here is compared with anything or kept.
        let key = Arc::new(LedgerKey::new(Vec::new()));
        // A program that prints a secret is not run to explain something, so the broker's own are not looked for.
        let secrets = Secrets::default();
        let inspector = Inspector::new(&config.inspection, policy.profiles.clone(), &secrets, &context.platform);
        let formats = config.formats(&context.home.config()).map_err(|error| CliError::configuration(&error))?;
        let filters = filters(&catalogue, scrubber(&secrets, &key, formats)?, &key, inspector)?;
        let parse_context = ParseContext {
            catalogue,
            key,
            issuers: Arc::new(Issuers::nobody()),
            ids: Arc::clone(&context.platform.ids),
            timeout: config.timeout(),
            unknown_requests: config.broker.unknown_requests,
            filters: None,
        };
        let mut call = match &self.caller {
            Who::Group(group) => {
                known_group(&config, group)?;
                self.of_group(group, &parse_context)?
            }
            Who::Access(access) => self.of_access(access, &config.flows, &parse_context)?,
        };
        let ledger = context.ledger()?;
        // The steps look at several tables; all of them as of one moment.
        let now = context.platform.clock.now();
        let (facts, decision) = ledger.at_one_moment(|view| {
            features::supply(view, now, &mut call)?;
            facts::judge(view, (now, steady_estimate(view, now)?), &call, &policy, Some(&filters))
        })?;
        let mut explained = explain(&facts, &decision);
        if let Some(hint) = hint(&config, &parse_context.catalogue, &call)
            && let Some(explained) = explained.as_object_mut()
        {
            explained.insert("hint".to_owned(), hint.into());
        }
        context.output.show(&explained, || text(&explained));
        Ok(())
    }

    fn of_group(&self, group: &Group, parse_context: &ParseContext) -> Result<Box<Call>, CliError> {
        let mut splits = splits(&self.target).collect::<Vec<_>>();
        splits.sort_by_key(|(provider, _)| parse_context.catalogue.provider(provider).is_none());
        let Some((provider, action)) = splits.into_iter().next() else {
            let how = "write the provider and the action with a dot between them, for example github.list_issues";
            return Err(CliError::usage(format!("`{}`: {how}", self.target)));
        };
        // By themselves first: they must not be able to add to the document around them.
        self.given()?;
        let document = document(&provider, &action, &self.params, self.task.as_ref());
        let person = self.person.clone().map(|person| Person {
            chat_id: self.chat_id.clone(),
            chat_type: self.chat_type,
            ..person
        });
        hypothetical(group.clone(), person, document.as_bytes(), parse_context).map_err(|fault| no_object(&fault))
    }

    fn of_access(
        &self,
        access: &GrantId,
        flows: &FlowsTable,
        parse_context: &ParseContext,
    ) -> Result<Box<Call>, CliError> {
        if self.person.is_some() || self.task.is_some() {
            let why =
                "an external agent acts for no person, and its tools name their task; leave --person and --task out";
            return Err(CliError::usage(why));
        }
        let tool: Opaque = self.target.parse().map_err(|_bad| {
            CliError::usage(format!("`{}` is no tool; flow grant list shows those of an access", self.target))
        })?;
        hypothetical_of_tool(access.clone(), tool, self.given()?, flows, parse_context).map_err(CliError::usage)
    }

    fn given(&self) -> Result<Map<String, Value>, CliError> {
        serde_json::from_str(&self.params).map_err(|fault| no_object(&fault))
    }
}

/// Returns the nearest names, if the configuration has no such provider, or the provider has no such action.
fn hint(config: &Config, catalogue: &Catalogue, call: &Call) -> Option<String> {
    let (provider, action) = (&call.provider, &call.action);
    if config.table_of(provider).is_none() {
        let near = near_miss(provider.as_str(), config.providers.keys().map(Provider::as_str));
        return Some(format!("The configuration has no provider `{provider}`{near}."));
    }
    let listed = catalogue.provider(provider)?;
    if listed.operations.is_empty() || listed.operations.contains_key(action) {
        return None;
    }
    let near = near_miss(action.as_str(), listed.operations.keys().map(Action::as_str));
    Some(format!("{provider} has no action `{action}`{near}."))
}

fn no_object(fault: &dyn Display) -> CliError {
    CliError::usage(format!("the parameters are not a JSON object: {fault}"))
}

/// The document that a sandbox would write, with the parameters to the letter: a number that cannot be kept exactly
/// must still be seen as it was written.
fn document(provider: &Provider, action: &Action, params: &str, task: Option<&TaskId>) -> String {
    let task = task.map_or_else(String::new, |task| format!(r#","task_id":"{task}""#));
    format!(r#"{{"type":"ext_call","provider":"{provider}","action":"{action}"{task},"params":{params}}}"#)
}

fn text(explained: &Value) -> String {
    let word = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let because = |value: &Value| match (word(value, "code").as_str(), word(value, "reason").as_str()) {
        ("", "") if !word(value, "rule").is_empty() => format!("rule `{}`", word(value, "rule")),
        ("", "") => word(value, "note"),
        ("", reason) => reason.to_owned(),
        (code, reason) => format!("{code}: {reason}"),
    };
    let steps = explained.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<_> =
        steps.iter().map(|step| vec![word(step, "step"), word(step, "verdict"), because(step)]).collect();
    let verdict = match (word(explained, "verdict"), because(explained)) {
        (verdict, reason) if reason.is_empty() => verdict,
        (verdict, reason) => format!("{verdict} ({reason})"),
    };
    let hint = match word(explained, "hint").as_str() {
        "" => String::new(),
        hint => format!("\n{hint}"),
    };
    format!(
        "{} calls {}.{}: {verdict}{hint}\n\n{}",
        word(explained, "caller"),
        word(explained, "provider"),
        word(explained, "action"),
        Output::table(&["STEP", "VERDICT", "REASON"], &rows)
    )
}
