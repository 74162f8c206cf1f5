//! `flow`: pieces of work, step by step, that people approve and agents work by.

mod grant;
mod starter;

use crate::cli::Context;
use crate::cli::ask::{self, ask};
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand, ValueEnum};
use engine::request::FlowCommand;
use serde_json::{Value, json};
use shared::flow::request::{self, FlowList, FlowNamed, FlowProject, FlowRequest, FlowVersion};
use shared::flow::{BUNDLE_MAX, Bundle, Id, Scope, Vault, Version};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Manage flows: versioned workflows that people approve and agents follow.
#[derive(Debug, Args)]
pub struct Flow {
    /// The vault of the flows.
    #[arg(long, global = true, default_value = "default")]
    vault: Vault,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List versions of flows.
    List(List),
    /// Show a flow with its steps.
    Get(Named),
    /// Propose a version of a flow, or a flow that ships with the broker.
    Propose(Propose),
    /// Propose a flow from an exported document.
    ///
    /// The configuration must allow the tools for external agents that the flow names.
    Import(Import),
    /// Print a flow as one document, for `flow import`.
    Export(Named),
    /// Request the approval that makes a proposed version canonical.
    Approve(OfVersion),
    /// Deprecate a canonical version, or withdraw a proposed one.
    Deprecate(OfVersion),
    /// Render a flow for a harness.
    Project(Project),
    /// Manage the accesses of external agents.
    #[command(subcommand)]
    Grant(grant::Grant),
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints {vault_id, flows: [{flow_id, version, state, scope, title, steps, digest, \
    proposed_by, proposed_at}], next_cursor}")]
struct List {
    /// Show only versions in this state.
    #[arg(long, value_enum, default_value = "approved")]
    state: State,
    /// Show only flows of this scope.
    #[arg(long, value_enum)]
    scope: Option<Of>,
    /// The maximum number of versions, at most 200.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// The `next_cursor` of the previous list, to continue it.
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    Proposed,
    Approved,
    Deprecated,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Of {
    Personal,
    Project,
    Org,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Harness {
    CursorRule,
    CliRunbook,
    AgentBundle,
}

#[derive(Debug, Args)]
struct Named {
    /// The flow.
    flow: Id,
    /// The version; the default is the canonical version.
    #[arg(long, value_name = "VERSION")]
    flow_version: Option<Version>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The document is {flow, steps}; see docs/guide/flows.md. To print an example: `host-broker flow propose --starter \
    incident_triage` and `host-broker flow export flow_incident_triage --flow-version 1.0.0`"
)]
struct Propose {
    /// The file; `-` means standard input.
    #[arg(required_unless_present = "starter")]
    file: Option<PathBuf>,
    /// The name of a flow that ships with the broker.
    #[arg(long, conflicts_with = "file", value_parser = starter::names())]
    starter: Option<String>,
}

#[derive(Debug, Args)]
struct Import {
    /// The file; `-` means standard input.
    file: PathBuf,
}

#[derive(Debug, Args)]
struct OfVersion {
    /// The flow.
    flow: Id,
    /// The version.
    #[arg(value_name = "VERSION")]
    flow_version: Version,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command prints the text for the harness. --json prints the envelope {schema, projection: {flow_id, \
    flow_version, harness, rendered, fidelity: {dropped_fields, notes}, …}, stale, canonical_version}"
)]
struct Project {
    /// The flow.
    flow: Id,
    /// The harness.
    #[arg(long, value_enum)]
    harness: Harness,
    /// The version; the default is the canonical version.
    #[arg(long, value_name = "VERSION")]
    flow_version: Option<Version>,
}

impl Flow {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing was changed.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let vault = self.vault;
        let request = match self.command {
            Command::List(wanted) => return list(context, vault, wanted),
            Command::Grant(command) => return command.run(context, vault),
            Command::Get(Named { flow, flow_version: version }) => {
                let request = FlowRequest::FlowGet(FlowNamed { flow_id: flow, version });
                return told(context, vault, request, |data| context.output.show(data, || whole(data)));
            }
            Command::Export(Named { flow, flow_version: version }) => {
                let request = FlowRequest::FlowExport(FlowNamed { flow_id: flow, version });
                let text = |data: &Value| serde_json::to_string_pretty(data).unwrap_or_default();
                return told(context, vault, request, |data| context.output.raw(data, || text(data)));
            }
            Command::Project(Project { flow, harness, flow_version: version }) => {
                let harness = match harness {
                    Harness::CursorRule => request::Harness::CursorRule,
                    Harness::CliRunbook => request::Harness::CliRunbook,
                    Harness::AgentBundle => request::Harness::AgentBundle,
                };
                let request = FlowRequest::FlowProject(FlowProject { flow_id: flow, version, harness });
                let text = |data: &Value| {
                    let rendered = data.pointer("/projection/rendered").and_then(Value::as_str);
                    rendered.unwrap_or_default().trim_end().to_owned()
                };
                return told(context, vault, request, |data| context.output.raw(data, || text(data)));
            }
            Command::Propose(Propose { file, starter }) => FlowRequest::FlowPropose(match (file, starter) {
                (Some(file), _) => bundle(&read(&file)?)?,
                (None, starter) => bundle(starter::named(&starter.unwrap_or_default()).unwrap_or_default().as_bytes())?,
            }),
            Command::Import(Import { file }) => FlowRequest::FlowImport(bundle(&read(&file)?)?),
            Command::Approve(OfVersion { flow, flow_version: version }) => {
                FlowRequest::FlowApprove(FlowVersion { flow_id: flow, version })
            }
            Command::Deprecate(OfVersion { flow, flow_version: version }) => {
                FlowRequest::FlowDeprecate(FlowVersion { flow_id: flow, version })
            }
        };
        ask(context, FlowCommand { vault, request })
    }
}

fn list(context: &Context, vault: Vault, wanted: List) -> Result<(), CliError> {
    let List { state, scope, limit, cursor } = wanted;
    let state = match state {
        State::Proposed => request::State::Proposed,
        State::Approved => request::State::Approved,
        State::Deprecated => request::State::Deprecated,
    };
    let scope = scope.map(|scope| match scope {
        Of::Personal => Scope::Personal,
        Of::Project => Scope::Project,
        Of::Org => Scope::Org,
    });
    let wanted = FlowList { state: Some(state), scope, limit: Some(limit), cursor };
    let text = |data: &Value| {
        let word = |row: &Value, member: &str| match row.get(member) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let row = |row: &Value| ["flow_id", "version", "scope", "steps", "title"].map(|of| word(row, of)).to_vec();
        let rows: Vec<_> = data.get("flows").and_then(Value::as_array).into_iter().flatten().map(row).collect();
        let none = format!("No {} versions.", state.word());
        let table = Output::table_or(&none, &["FLOW", "VERSION", "SCOPE", "STEPS", "TITLE"], &rows);
        match data.get("next_cursor").and_then(Value::as_str) {
            Some(next) => format!("{table}\n\nMore versions: --cursor {next}"),
            None => table,
        }
    };
    told(context, vault, FlowRequest::FlowList(wanted), |data| context.output.show(data, || text(data)))
}

fn told(context: &Context, vault: Vault, request: FlowRequest, print: impl FnOnce(&Value)) -> Result<(), CliError> {
    ask::told(context, FlowCommand { vault, request }, print)
}

/// A flow as people read it.
fn whole(data: &Value) -> String {
    let text = |value: &Value, member: &str| {
        let text = value.get(member).and_then(Value::as_str).unwrap_or_default();
        model::card::visible(text)
    };
    let flow = data.get("flow").unwrap_or(&Value::Null);
    let head = format!(
        "{}@{} · {} · {}\n{}\n{}",
        text(flow, "flow_id"),
        text(flow, "version"),
        text(data, "state"),
        text(flow, "scope"),
        text(flow, "title"),
        text(flow, "summary"),
    );
    let steps = data.get("steps").and_then(Value::as_array).into_iter().flatten();
    let steps = steps.map(|step| {
        let fields = ["owned_job", "trigger", "when_not_to_run", "instruction", "output_shape"];
        let lines = fields.map(|field| format!("  {field}: {}", text(step, field)));
        format!("{}\n{}", text(step, "step_id"), lines.join("\n"))
    });
    [head].into_iter().chain(steps).collect::<Vec<_>>().join("\n\n")
}

fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    // One more than a flow can be long, to see that it is too long.
    let most = u64::try_from(BUNDLE_MAX * 2 + 1).unwrap_or(u64::MAX);
    let read = if file == Path::new("-") {
        std::io::stdin().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|error| CliError::usage(format!("{} cannot be read: {error}", file.display())))?;
    Ok(bytes)
}

/// Parses the document as a flow, or returns its fault.
fn bundle(bytes: &[u8]) -> Result<Bundle, CliError> {
    let object = shared::json::parse_object(bytes)
        .map_err(|fault| CliError::usage(format!("the document is not a flow: {fault}")))?;
    let found: Result<Bundle, _> = serde_path_to_error::deserialize(json!(object));
    found.map_err(|error| CliError::usage(format!("the document is not a flow: {}: {}", error.path(), error.inner())))
}
