//! `token mint-operator` and its kin: who works with flows from elsewhere.

use crate::cli::Context;
use crate::cli::ask::told;
use crate::cli::output::{Fault, Output};
use crate::cli::reading::seconds;
use crate::control::Control;
use crate::operators::Wanted;
use clap::{Args, ValueEnum};
use model::TokenId;
use serde_json::Value;
use shared::flow::operations::Part;
use shared::flow::{Scope, Vault};

#[derive(Debug, Args)]
#[command(
    after_help = "Prints the token, this once: whoever has it works with flows in your name, until it is over or \
    you are no more in broker.toml.

    host-broker token mint-operator --scopes flows:read,flows:grants --label gateway --for 30d
    curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:7420/api/v1/flows"
)]
pub(super) struct Mint {
    /// What may be done: flows:read, flows:write (propose, ask for approval, deprecate), flows:grants (mint and revoke
    /// accesses of agents outside).
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', required = true)]
    scopes: Vec<Part>,
    /// With flows of which scopes; without, of all.
    #[arg(long, value_enum, value_name = "TIERS", value_delimiter = ',', default_value = "personal,project,org")]
    tiers: Vec<Tier>,
    /// In which vault.
    #[arg(long, default_value = "default")]
    vault: Vault,
    /// How long it lives: 15m, 8h, 30d; at most 90d.
    #[arg(long = "for", value_name = "DURATION", value_parser = seconds, default_value = "8h")]
    life: u64,
    /// What you will know it by.
    #[arg(long, default_value = "")]
    label: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Tier {
    Personal,
    Project,
    Org,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The token, by its name.
    #[arg(value_name = "TOKEN_ID")]
    token: TokenId,
}

impl Mint {
    pub(super) fn run(self, context: &Context) -> Result<(), Fault> {
        let Self { scopes: parts, tiers, vault, life, label } = self;
        let scope = |tier| match tier {
            Tier::Personal => Scope::Personal,
            Tier::Project => Scope::Project,
            Tier::Org => Scope::Org,
        };
        let wanted = Wanted {
            parts: parts.into_iter().collect(),
            scopes: tiers.into_iter().map(scope).collect(),
            vault,
            life_seconds: life,
            label,
        };
        told(context, &Control::MintOperator(wanted), |data| context.output.show(data, || minted(data)))?;
        context.output.is_whole(
            "the token exists, but nobody has its bearer; find it with host-broker token list-operators and end it with \
             host-broker token revoke-operator TOKEN_ID",
        )
    }
}

impl Named {
    pub(super) fn run(self, context: &Context) -> Result<(), Fault> {
        let text = format!("{} is ended, and every access that it has given.", self.token);
        let control = Control::RevokeOperator { token_id: self.token };
        told(context, &control, |data| context.output.show(data, || text.clone()))
    }
}

pub(super) fn list(context: &Context) -> Result<(), Fault> {
    told(context, &Control::ListOperators, |data| context.output.show(data, || listed(data)))
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
        "Token:   {}, until {}\nBearer:  {}\n\nIt is shown this once.",
        word(data, "token_id"),
        word(data, "expires_at"),
        word(data, "bearer"),
    )
}

fn listed(data: &Value) -> String {
    let row = |row: &Value| {
        let until = match (row.get("revoked_at").and_then(Value::as_str), word(row, "refused_because").as_str()) {
            (Some(at), _) => format!("ended {at}"),
            (None, "") => word(row, "expires_at"),
            (None, why) => format!("refused: {why}"),
        };
        let label = crate::approvals::card::visible(&word(row, "label"));
        vec![word(row, "token_id"), label, words(row, "scopes"), words(row, "tiers"), word(row, "issued_by"), until]
    };
    let rows: Vec<_> = data.get("tokens").and_then(Value::as_array).into_iter().flatten().map(row).collect();
    let head = ["TOKEN", "LABEL", "SCOPES", "TIERS", "MADE BY", "UNTIL"];
    Output::table_or("There is no operator's token.", &head, &rows)
}
