//! `group`: the groups of the configuration.

pub(in crate::cli) mod mailbox;

use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::edit;
use crate::cli::home_reader::known_group;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use config::{ExposureEnd, profiles};
use platform::home::write_new;
use serde_json::{Value, json};
use shared::{Group as Name, Provider};
use std::fmt::Write as _;
use store::state::grants;

/// Manage groups; each group shares one directory with one sandbox.
#[derive(Debug, Args)]
pub struct Group {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the groups.
    List(List),
    /// Add a group to the configuration.
    ///
    /// The group starts without access, and each of its writes requires an approval.
    Add(Add),
    /// Remove a group from the configuration.
    ///
    /// First revoke all access of the group.
    Remove(Remove),
}

#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {groups: [{group, main, uid, signed, mailbox, opens_gates, providers, may_request, \
    exposure_ends}]}"
)]
struct List {}

#[derive(Debug, Args)]
#[command(
    after_help = "The command adds a [groups.NAME] table at the end of broker.toml and keeps comments. A running daemon \
    uses it after `host-broker reload`. policy/profiles/NAME.toml sets the tier of each action.

--json prints {group, added: true, mailbox, restart_needed}"
)]
struct Add {
    /// The name of the group and of its directory.
    name: Name,
    /// The user id of the sandbox; the broker refuses requests of any other owner.
    #[arg(long)]
    uid: Option<u32>,
    /// Providers to which the group's agent may request access (comma-separated); a person decides on each request.
    #[arg(long, value_name = "PROVIDER", value_delimiter = ',')]
    may_request: Vec<Provider>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command removes the [groups.NAME] table from broker.toml and keeps comments. The directory of the \
    group and its rows in the ledger stay. A running daemon serves the group until `host-broker reload`.

--json prints {group, removed: true, restart_needed}"
)]
struct Remove {
    /// The group.
    name: Name,
}

impl Group {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; the configuration is as it was.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::List(List {}) => list(context),
            Command::Add(Add { name, uid, may_request }) => add(context, &name, uid, &may_request),
            Command::Remove(Remove { name }) => remove(context, &name),
        }
    }
}

fn list(context: &Context) -> Result<(), CliError> {
    let config = context.config()?;
    let now = context.platform.clock.now();
    let mut grants =
        context.ledger_if_any()?.map(|ledger| grants::list(&ledger, None)).transpose()?.unwrap_or_default();
    grants.retain(|grant| grant.is_live(now));
    let providers = |group: &Name| -> Vec<String> {
        let own = grants.iter().filter(|grant| &grant.group == group);
        own.map(|grant| format!("{} L{}", grant.provider, grant.level.number())).collect()
    };
    let values: Vec<Value> = config
        .groups
        .iter()
        .map(|(name, table)| {
            json!({
                "group": name,
                "main": table.main,
                "uid": table.uid,
                "signed": table.signing_key_file.is_some(),
                "mailbox": context.home.mailbox(name),
                "opens_gates": config.gates_opened_by_group(name),
                "providers": providers(name),
                "may_request": table.may_request,
                "exposure_ends": table.exposure_ends,
            })
        })
        .collect();
    context.output.show(&json!({ "groups": values }), || {
        let row = |(name, table): (&Name, &config::GroupTable)| {
            let flags = [
                table.main.then(|| "main".to_owned()),
                table.uid.map(|uid| format!("uid {uid}")),
                table.signing_key_file.as_ref().map(|_| "signed".to_owned()),
                (table.exposure_ends == ExposureEnd::Conversation)
                    .then(|| "exposure ends with a conversation".to_owned()),
            ];
            let flags: Vec<_> = flags.into_iter().flatten().collect();
            let access = providers(name);
            let access = if access.is_empty() { "no access".to_owned() } else { access.join(", ") };
            vec![name.to_string(), flags.join(", "), access, context.home.mailbox(name).display().to_string()]
        };
        let rows: Vec<_> = config.groups.iter().map(row).collect();
        Output::table_or("The configuration has no groups.", &["GROUP", "FLAGS", "ACCESS", "DIRECTORY"], &rows)
    });
    Ok(())
}

fn add(context: &Context, name: &Name, uid: Option<u32>, may_request: &[Provider]) -> Result<(), CliError> {
    let lock = edit::lock(context)?;
    let config = context.config()?;
    if config.groups.contains_key(name) {
        return Err(CliError::usage(format!("there is a group `{name}` already; nothing was changed")));
    }
    edit::change_under(&lock, context, |text| added(text, name, uid, may_request))?;
    // The profile comes last: a group without one has the strict profile, and a profile without its group is invalid.
    let published = config.policy_from();
    if published.is_none() {
        profiles::write(&context.home, name, policy::profile::STARTING)
            .map_err(|error| CliError::configuration(&error).and_so("the group is added, with the strict profile"))?;
    }
    let restart = running(context)?.is_some();
    let mailbox = context.home.mailbox(name);
    if let Some(uid) = uid {
        // If this fails, a warning names the command for root.
        mailbox::give(&mailbox, uid).ok();
        for warning in context.warnings(&context.config()?)?.iter().filter(|warning| warning.contains("chown")) {
            context.output.say(&format!("host-broker: {warning}"));
        }
    }
    let document = json!({ "group": name, "added": true, "mailbox": mailbox, "restart_needed": restart });
    context.output.show(&document, || {
        let profile = published.map_or_else(String::new, |from| {
            format!(
                "Its profile is profiles/{name}.toml in the policy of the host {from}; without one, it is strict.\n"
            )
        });
        format!(
            "Added group {name} without access. Its directory is {}.\n{profile}{}",
            mailbox.display(),
            follow_up(context, restart, "serves the group")
        )
    });
    Ok(())
}

fn remove(context: &Context, name: &Name) -> Result<(), CliError> {
    let lock = edit::lock(context)?;
    known_group(&context.config()?, name)?;
    // Access that is only out of sight would be back with the next group of that name.
    if let Some(ledger) = context.ledger_if_any()? {
        let now = context.platform.clock.now();
        let live = grants::list(&ledger, Some(name))?.into_iter().filter(|grant| grant.is_live(now));
        let mut commands: Vec<_> = live.map(|grant| format!("host-broker revoke {name} {}", grant.provider)).collect();
        // The grants of one provider are beside each other.
        commands.dedup();
        if !commands.is_empty() {
            return Err(CliError::refused(format!(
                "group {name} still has access, which a new group of that name would get; revoke it \
                 first: {}",
                commands.join("; ")
            )));
        }
    }
    let edit = |text: &str| edit::removed(text, ["groups", name.as_str()]);
    edit::draft(context, edit)?;
    // The profile goes first: a group without one has the strict profile, and a profile without its group is invalid. If
    // the command ends in between, another one completes it.
    let path = context.home.profile(name);
    let profile = std::fs::read(&path);
    if let Err(error) = std::fs::remove_file(&path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(CliError::home(format!("cannot remove {}: {error}; nothing was changed", path.display())));
    }
    if let Err(fault) = edit::change_under(&lock, context, edit) {
        profile.ok().map(|profile| write_new(&path, &profile));
        return Err(fault);
    }
    let restart = running(context)?.is_some();
    context.output.show(&json!({ "group": name, "removed": true, "restart_needed": restart }), || {
        format!(
            "Removed group {name} from the configuration.\n{}",
            follow_up(context, restart, "stops serving the group")
        )
    });
    Ok(())
}

fn follow_up(context: &Context, restart: bool, what: &str) -> String {
    context.at_home(&if restart {
        format!("The running daemon {what} after: host-broker reload")
    } else {
        format!("The next host-broker serve {what}.")
    })
}

/// The text with a table for the group at its end.
fn added(text: &str, group: &Name, uid: Option<u32>, may_request: &[Provider]) -> Result<String, CliError> {
    let mut table = toml::Table::new();
    let mut lines = format!("[groups.{group}]\n");
    // Writing to a string does not fail.
    if let Some(uid) = uid {
        writeln!(lines, "uid = {uid}").ok();
        table.insert("uid".to_owned(), toml::Value::Integer(uid.into()));
    }
    if !may_request.is_empty() {
        let names = may_request.iter().map(|provider| toml::Value::String(provider.to_string())).collect();
        let names = toml::Value::Array(names);
        writeln!(lines, "may_request = {names}").ok();
        table.insert("may_request".to_owned(), names);
    }
    edit::with_table(text, ["groups", group.as_str()], &table, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_added_below_and_nothing_else_changes() {
        let text = "# mine\n[groups.main] # the first\nmain = true\n";
        let web: Name = "web".parse().unwrap();
        let edited = added(text, &web, Some(1000), &[]).unwrap();
        assert_eq!(edited, "# mine\n[groups.main] # the first\nmain = true\n\n[groups.web]\nuid = 1000\n");
        assert_eq!(
            added("", &web, None, &["mail".parse().unwrap()]).unwrap(),
            "[groups.web]\nmay_request = [\"mail\"]\n"
        );
    }
}
