//! `config`: the configuration, checked, described, shown.

use crate::assembly::secrets::secret_warnings;
use crate::cli::Context;
use crate::cli::output::CliError;
use clap::{Args, Subcommand};
use config::{Config, ConfigError};
use policy::profile::Profile;
use serde_json::{Map, Value, json};
use shared::numbers::counted;
use std::path::Path;

/// Check, describe and show the configuration.
#[derive(Debug, Args)]
pub struct Configuration {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the configuration without starting anything.
    ///
    /// If the configuration is invalid, the command names the line, the error and the fix, and exits with 4.
    Check(Check),
    /// Print the JSON Schema of the configuration, for editors.
    Schema(Schema),
    /// Print the values of the configuration and of the environment.
    Show(Show),
}

#[derive(Debug, Args)]
#[command(after_help = "To check the providers: `host-broker provider check`

--json prints {ok, path, groups, providers, warnings: [TEXT]}, or for an invalid configuration {error, exit: 4}")]
struct Check {}

#[derive(Debug, Args)]
struct Schema {
    /// Print the schema of policy/profiles/GROUP.toml, the profile of a group.
    #[arg(long)]
    profile: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "The command shows the source of a secret, but never its value.

--json prints {path, values: {…}, environment: {NAME: VALUE}}; a secret is shown as `(set)`")]
struct Show {
    /// Include default values, and apply the environment.
    #[arg(long)]
    effective: bool,
}

/// The variables that override the file, and whether their values may be shown.
const OVERRIDES: [(&str, bool); 5] = [
    ("EXT_CALL_TIMEOUT", true),
    ("EXT_GITHUB_REPOS", true),
    ("EXT_LOG_QUERY_MAX_HOURS", true),
    ("EXT_LOG_QUERY_MAX_RESULTS", true),
    ("GITHUB_TOKEN", false),
];

impl Configuration {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if the configuration cannot be used.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Check(Check {}) => check(context),
            Command::Schema(Schema { profile }) => schema(context, profile),
            Command::Show(Show { effective }) => show(context, effective),
        }
    }
}

fn check(context: &Context) -> Result<(), CliError> {
    let config = context.config_alone()?;
    context.policy(&config, &context.catalogue(&config))?;
    config.formats(&context.home.config()).map_err(|error| CliError::configuration(&error))?;
    let path = context.home.config().display().to_string();
    let mut warnings = context.warnings(&config)?;
    let secrets = secret_warnings(&config, &context.platform);
    warnings.extend(secrets.into_iter().filter(|(provider, _)| provider.is_some()).map(|(_, warning)| warning));
    let (groups, providers) = (config.groups.len(), config.providers.len());
    let document = json!({ "ok": true, "path": path, "groups": groups, "providers": providers, "warnings": warnings });
    context.output.show(&document, || {
        let (groups, providers) = (counted(groups, "group", "groups"), counted(providers, "provider", "providers"));
        let head = format!("{path} is right: {groups}, {providers}.");
        let lines = warnings.iter().map(|warning| format!("Warning: {warning}"));
        [head].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

fn schema(context: &Context, profile: bool) -> Result<(), CliError> {
    let schema = if profile { schemars::schema_for!(Profile) } else { Config::schema(context.kinds) };
    let schema = Value::from(schema);
    let pretty = serde_json::to_string_pretty(&schema).map_err(|error| CliError::internal(&error))?;
    context.output.show(&schema, || pretty);
    Ok(())
}

fn show(context: &Context, effective: bool) -> Result<(), CliError> {
    // An invalid configuration is not shown as if it were in force.
    let config = context.config()?;
    let path = context.home.config();
    let values = if effective { said_by(&config)? } else { said_in(&path)? };
    let printed = toml::to_string(&values).map_err(|error| CliError::internal(&error))?;
    let environment: Map<String, Value> = OVERRIDES
        .into_iter()
        .filter_map(|(name, public)| {
            let value = context.platform.environment.get(name)?;
            Some((name.to_owned(), if public { value.as_str().into() } else { "(set)".into() }))
        })
        .collect();
    let document = json!({ "path": path.display().to_string(), "values": values, "environment": environment });
    context.output.show(&document, || {
        let overrides: Vec<String> = environment.iter().map(|(name, value)| format!("# {name} = {value}")).collect();
        let overrides = match overrides.as_slice() {
            [] => String::new(),
            some if effective => format!("\n# Already applied from the environment:\n{}", some.join("\n")),
            some => format!("\n# The environment overrides:\n{}", some.join("\n")),
        };
        format!("# {}\n{printed}{overrides}", path.display())
    });
    Ok(())
}

/// Returns the content of the file.
fn said_in(path: &Path) -> Result<toml::Table, CliError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| CliError::configuration(&ConfigError::Read { path: path.to_owned(), source }))?;
    toml::from_str(&text).map_err(|error| CliError::configuration(&error))
}

/// Returns the values in force. Neither a configuration nor its parts contain a secret, only where one comes from.
fn said_by(config: &Config) -> Result<toml::Table, CliError> {
    let mut values = serde_json::to_value(config).map_err(|error| CliError::internal(&error))?;
    without_nulls(&mut values);
    toml::Table::try_from(values).map_err(|error| CliError::internal(&error))
}

/// Removes nulls, because TOML has no word for an absent value.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
