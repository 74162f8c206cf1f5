//! The permits of accepted writes whose tier is `rules`: without one, no rule of a new home permits them.

use super::Name;
use crate::cli::Context;
use crate::cli::output::CliError;
use config::Config;
use platform::home::write_new;
use shared::Action;
use std::path::PathBuf;

/// Returns the path of the file.
pub(in crate::cli::provider) fn path(context: &Context, name: &Name) -> PathBuf {
    context.home.policy().join(format!("accepted-{name}.cedar"))
}

/// Returns the writes that an acceptance causes, or those that the policy of another host must permit, for a person; `None` if
/// there are none.
pub(super) fn text(context: &Context, config: &Config, name: &Name, tools: &[Action]) -> Option<String> {
    if tools.is_empty() {
        return None;
    }
    if let Some(from) = config.policy_from() {
        return Some(format!(
            "Where the tier is `rules`, a rule in the policy of the host {from} must permit {}.",
            listed(tools)
        ));
    }
    (!path(context, name).exists()).then(|| {
        format!(
            "The acceptance also writes policy/accepted-{name}.cedar, which permits {} where the tier is `rules`.",
            listed(tools)
        )
    })
}

fn listed(tools: &[Action]) -> String {
    tools.iter().map(|tool| format!("`{tool}`")).collect::<Vec<_>>().join(", ")
}

/// Writes the permits. A file that exists is the operator's and stays as it is.
///
/// # Errors
/// [`CliError`] if the file cannot be written; the definitions are accepted then.
pub(super) fn write(
    context: &Context,
    config: &Config,
    name: &Name,
    tools: &[Action],
) -> Result<Option<String>, CliError> {
    if config.policy_from().is_some() {
        return Ok(text(context, config, name, tools).map(|text| format!(" {text}")));
    }
    if tools.is_empty() {
        return Ok(None);
    }
    let path = path(context, name);
    let failed = |error: std::io::Error| {
        CliError::home(format!("the definitions are accepted, but {} cannot be written: {error}", path.display()))
    };
    if !write_new(&path, rules(name, tools).as_bytes()).map_err(failed)? {
        return Ok(None);
    }
    Ok(Some(format!(
        " policy/accepted-{name}.cedar permits {}; a running daemon reads it with: host-broker reload",
        listed(tools)
    )))
}

/// The text of the file.
fn rules(name: &Name, tools: &[Action]) -> String {
    let head = format!(
        "// The writes of {name} that were accepted with the tier `rules`. They decide calls whose tier is `rules`; grants\n\
         // and levels hold as always. Narrow or delete a rule as you like: this file is not written again.\n"
    );
    let permit = |tool: &Action| {
        format!(
            "\n@id(\"accepted-{name}-{tool}\")\npermit (principal, action == Action::\"{name}.{tool}\", resource);\n"
        )
    };
    head + &tools.iter().map(permit).collect::<Vec<_>>().concat()
}
