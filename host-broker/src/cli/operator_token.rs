//! `operator-token`: tokens for remote operators of flows.

use crate::cli::Context;
use crate::cli::ask::told;
use crate::cli::home_reader::seconds;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand, ValueEnum};
use engine::request;
use model::TokenId;
use serde_json::Value;
use shared::flow::operations::Part;
use shared::flow::{Scope, Vault};
use store::state::operators::TokenRequest;

/// Manage the tokens of remote operators of flows.
///
/// Remote operators work with flows over HTTP.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker operator-token create --scopes flows:read,flows:grants --label gateway --for 30d
  host-broker operator-token list
  host-broker operator-token revoke optk_0c1d2e4b5a693f9a0c1d2e4b
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:7420/api/v1/flows

--json prints, for create and revoke, {token_id, label, scopes, tiers, vault_id, issued_by, issued_at, expires_at, \
    revoked_at}; create adds bearer; list prints {tokens: […]}")]
pub struct OperatorToken {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a token and print it once.
    ///
    /// The token acts in your name. It ends when it expires, when you revoke it, or when you are removed from broker.toml.
    Create(Create),
    /// List the tokens.
    List,
    /// Revoke a token and every access that it created.
    Revoke(Named),
}

#[derive(Debug, Args)]
struct Create {
    /// The permitted operations: flows:read, flows:write (propose, request approval, deprecate), flows:grants (create and
    /// revoke the accesses of external agents).
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', required = true)]
    scopes: Vec<Part>,
    /// The scopes of the flows; all by default.
    #[arg(long, value_enum, value_name = "TIERS", value_delimiter = ',', default_value = "personal,project,org")]
    tiers: Vec<Tier>,
    /// The vault.
    #[arg(long, default_value = "default")]
    vault: Vault,
    /// The lifetime: 15m, 8h, 30d; at most 90d.
    #[arg(long = "for", value_name = "DURATION", value_parser = seconds, default_value = "8h")]
    life: u64,
    /// A label for your own use.
    #[arg(long, default_value = "")]
    label: String,
}

impl OperatorToken {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; no token was created or revoked.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Create(create) => create.run(context),
            Command::List => list(context),
            Command::Revoke(named) => named.run(context),
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Tier {
    Personal,
    Project,
    Org,
}

#[derive(Debug, Args)]
struct Named {
    /// The id of the token.
    #[arg(value_name = "TOKEN_ID")]
    token: TokenId,
}

impl Create {
    fn run(self, context: &Context) -> Result<(), CliError> {
        let Self { scopes: parts, tiers, vault, life, label } = self;
        let scope = |tier| match tier {
            Tier::Personal => Scope::Personal,
            Tier::Project => Scope::Project,
            Tier::Org => Scope::Org,
        };
        let wanted = TokenRequest {
            parts: parts.into_iter().collect(),
            scopes: tiers.into_iter().map(scope).collect(),
            vault,
            life_seconds: life,
            label,
        };
        told(context, request::Command::MintOperator(wanted), |data| context.output.show(data, || minted(data)))?;
        context.output.is_whole(
            "the token exists, but its bearer was not printed completely; find it with host-broker operator-token list and \
             revoke it with host-broker operator-token revoke TOKEN_ID",
        )
    }
}

impl Named {
    fn run(self, context: &Context) -> Result<(), CliError> {
        let text = format!("Revoked {} and every access that it created.", self.token);
        let command = request::Command::RevokeOperator { token_id: self.token };
        told(context, command, |data| context.output.show(data, || text.clone()))
    }
}

fn list(context: &Context) -> Result<(), CliError> {
    told(context, request::Command::ListOperators, |data| context.output.show(data, || listed(data)))
}

fn word(row: &Value, member: &str) -> String {
    row.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn words(row: &Value, member: &str) -> String {
    let all = row.get(member).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

fn minted(data: &Value) -> String {
    format!(
        "Token:   {}, until {}\nBearer:  {}\n\nThe bearer is shown only once.",
        word(data, "token_id"),
        word(data, "expires_at"),
        word(data, "bearer"),
    )
}

fn listed(data: &Value) -> String {
    let row = |row: &Value| {
        let until = match (row.get("revoked_at").and_then(Value::as_str), word(row, "refused_because").as_str()) {
            (Some(at), _) => format!("revoked {at}"),
            (None, "") => word(row, "expires_at"),
            (None, why) => format!("refused: {why}"),
        };
        let label = model::card::visible(&word(row, "label"));
        vec![word(row, "token_id"), label, words(row, "scopes"), words(row, "tiers"), word(row, "issued_by"), until]
    };
    let rows: Vec<_> = data.get("tokens").and_then(Value::as_array).into_iter().flatten().map(row).collect();
    let head = ["TOKEN", "LABEL", "SCOPES", "TIERS", "CREATED BY", "EXPIRES"];
    Output::table_or("No operator tokens.", &head, &rows)
}
