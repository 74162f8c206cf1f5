//! `flow grant`: the grants of external agents.

use super::told;
use crate::cli::Context;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use serde_json::Value;
use shared::flow::request::{FlowRequest, GrantList, GrantMint, GrantNamed};
use shared::flow::{GrantId, Id, Opaque, Vault, Version};

/// Manage the accesses of external agents.
#[derive(Debug, Subcommand)]
pub(super) enum Grant {
    /// Create an access to a flow and some of its tools for an external agent.
    Mint(Mint),
    /// Revoke an access immediately and permanently.
    Revoke(Named),
    /// List accesses, including those that expired recently.
    List(List),
}

#[derive(Debug, Args)]
#[command(after_help = "The command prints the bearer once. Anyone who has the bearer has the access. \
    --json prints {schema, grant: {grant_id, flow_id, flow_version, allowed_tools, expires_at, …}, bearer, expires_at}")]
pub(super) struct Mint {
    /// The flow.
    flow: Id,
    /// Its canonical version.
    #[arg(value_name = "VERSION")]
    flow_version: Version,
    /// A tool that a step of the flow names as `external_tool`; repeatable.
    #[arg(long = "tool", value_name = "ID", required = true)]
    tools: Vec<Opaque>,
    /// The lifetime in seconds; the default is in the configuration.
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u32>,
    /// A label for the external agent. The broker stores only its hash.
    #[arg(long, value_name = "LABEL")]
    actor: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The id of the access.
    #[arg(value_name = "GRANT_ID")]
    grant: GrantId,
}

#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {vault_id, grants: [{grant_id, flow_id, flow_version, allowed_tools, expires_at, \
    revoked_at, invocation_count, max_invocations, …}], next_cursor}"
)]
pub(super) struct List {
    /// Show only accesses to this flow.
    #[arg(long)]
    flow: Option<Id>,
    /// The maximum number of accesses, at most 200.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// The `next_cursor` of the previous list, to continue it.
    #[arg(long)]
    cursor: Option<GrantId>,
}

impl Grant {
    pub(super) fn run(self, context: &Context, vault: Vault) -> Result<(), CliError> {
        match self {
            Self::Mint(Mint { flow, flow_version, tools, ttl, actor }) => {
                let request = FlowRequest::FlowExternalGrantMint(GrantMint {
                    flow_id: flow,
                    flow_version,
                    requested_tools: tools,
                    ttl_seconds: ttl,
                    actor_label: actor,
                });
                told(context, vault, request, |data| context.output.show(data, || minted(data)))?;
                context.output.is_whole(
                    "the access exists, but its bearer is lost; find it with host-broker flow grant list and revoke it \
                     with host-broker flow grant revoke GRANT_ID",
                )
            }
            Self::Revoke(Named { grant }) => {
                let text = format!("Revoked {grant}.");
                let request = FlowRequest::FlowExternalGrantRevoke(GrantNamed { grant_id: grant });
                told(context, vault, request, |data| context.output.show(data, || text.clone()))
            }
            Self::List(List { flow, limit, cursor }) => {
                let wanted = GrantList { flow_id: flow, limit: Some(limit), cursor };
                let request = FlowRequest::FlowExternalGrantList(wanted);
                told(context, vault, request, |data| context.output.show(data, || listed(data)))
            }
        }
    }
}

fn word(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn minted(data: &Value) -> String {
    format!(
        "Access:  {}, expires {}\nBearer:  {}\n\nThe bearer is not shown again. To use it: \
         curl -H \"Authorization: Bearer …\" …/api/v1/flows/{}/projection?harness=agent_bundle",
        word(data, "/grant/grant_id"),
        word(data, "/expires_at"),
        word(data, "/bearer"),
        word(data, "/grant/flow_id"),
    )
}

fn listed(data: &Value) -> String {
    let tools = |row: &Value| {
        let tools = row.get("allowed_tools").and_then(Value::as_array).into_iter().flatten();
        tools.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
    };
    let row = |row: &Value| {
        let used = match row.get("max_invocations").and_then(Value::as_u64) {
            Some(0) | None => word(row, "/invocation_count"),
            Some(most) => format!("{} of {most}", word(row, "/invocation_count")),
        };
        let until = match (row.get("revoked_at").and_then(Value::as_str), word(row, "/refused_because").as_str()) {
            (Some(at), _) => format!("revoked {at}"),
            (None, "") => word(row, "/expires_at"),
            (None, why) => format!("refused: {why}"),
        };
        let flow = format!("{}@{}", word(row, "/flow_id"), word(row, "/flow_version"));
        vec![word(row, "/grant_id"), flow, tools(row), used, until]
    };
    let rows: Vec<_> = data.get("grants").and_then(Value::as_array).into_iter().flatten().map(row).collect();
    let head = ["ACCESS", "FLOW", "TOOLS", "CALLS", "EXPIRES"];
    let table = Output::table_or("No accesses of external agents.", &head, &rows);
    match data.get("next_cursor").and_then(Value::as_str) {
        Some(next) => format!("{table}\n\nMore accesses: --cursor {next}"),
        None => table,
    }
}
