//! `init`: makes a home.

use crate::cli::Context;
use crate::cli::output::CliError;
use crate::host::LoadedHome;
use crate::mailboxes::Mailboxes;
use clap::Args;
use config::{Config, permissions, profiles, rules};
use platform::Environment;
use platform::home::make_private_directory;
use serde_json::json;
use shared::Group;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Create a home with configuration, keys, directories and three groups.
///
/// The groups are main, developer and security. The command grants no access and never overwrites a file.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  host-broker init --home /srv/broker

--json prints {home, config, groups: [{group, mailbox, claude_md, mount}], register, suggested_grants, \
    suggested_after_configuration}")]
pub struct Init {
    /// The user id of the sandboxes, if it is not yours; the broker refuses requests of any other owner.
    #[arg(long)]
    uid: Option<u32>,
}

const TEMPLATE: &str = include_str!("init/broker.toml");

/// The lines of the template that switch the inbox on.
const WEB: &str = "# [web]\n# listen = \"127.0.0.1:7420\"\n";

/// The text for each group's agent, by group.
const GROUPS: [(&str, &str); 3] = [
    ("main", include_str!("../../../groups/main/CLAUDE.md")),
    ("developer", include_str!("../../../groups/developer/CLAUDE.md")),
    ("security", include_str!("../../../groups/security/CLAUDE.md")),
];

/// The suggested first grants: the provider, and the command's words.
const SUGGESTED: [(&str, &str); 6] = [
    ("github", "developer github 2 --deny merge_pr"),
    ("cloud-logs", "developer cloud-logs 1"),
    ("github", "security github 1"),
    ("cloud-logs", "security cloud-logs 1"),
    ("github", "main github 3 --gate Security"),
    ("cloud-logs", "main cloud-logs 1"),
];

const REGISTER: &str = "claude mcp add broker -- mcp-shim";

impl Init {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; an existing file is never overwritten.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let config = create(context, self.uid, None)?;
        report(context, &config);
        Ok(())
    }
}

/// Creates the home. `listen` is the address of its inbox; without one it serves none.
///
/// # Errors
/// [`CliError`]; an existing file is never overwritten.
pub(super) fn create(context: &Context, uid: Option<u32>, listen: Option<SocketAddr>) -> Result<Config, CliError> {
    let config_path = context.home.config();
    if config_path.exists() {
        return Err(exists(&config_path));
    }
    let text = text(&context.platform.environment, uid, listen);
    let config = Config::parse(&text, &config_path, &context.platform.environment, context.kinds)
        .map_err(|error| CliError::configuration(&error))?;
    make_home(context, &config)?;
    // It comes last, because this file makes the directory a home: a run that fails before can simply be repeated.
    write_new(&config_path, &text).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists { exists(&config_path) } else { cannot(&config_path, &error) }
    })?;
    LoadedHome::open(context.home.clone(), &context.platform, context.kinds)?
        .ledger(Arc::clone(&context.platform.clock))?;
    for warning in context.warnings(&config)? {
        context.output.say(&format!("host-broker: {warning}"));
    }
    Ok(config)
}

/// Returns the text of the configuration.
fn text(environment: &Environment, uid: Option<u32>, listen: Option<SocketAddr>) -> String {
    let own = rustix::process::geteuid().as_raw();
    let mut text = TEMPLATE.replace("PERSON", &person(environment, own)).replace("UID", &own.to_string());
    if let Some(uid) = uid {
        text = GROUPS.iter().fold(text, |text, (group, _)| {
            text.replace(&format!("\n[groups.{group}]\n"), &format!("\n[groups.{group}]\nuid = {uid}\n"))
        });
    }
    match listen {
        Some(listen) => text.replace(WEB, &format!("[web]\nlisten = \"{listen}\"\n")),
        None => text,
    }
}

fn exists(config: &Path) -> CliError {
    CliError::usage(format!(
        "{} exists already, so this is a home; nothing was changed. Edit that file, or name another directory with \
         --home DIR",
        config.display()
    ))
}

fn cannot(path: &Path, error: &std::io::Error) -> CliError {
    CliError::home(format!("cannot create {}: {error}", path.display()))
}

/// Makes the directories, and their files except the configuration.
fn make_home(context: &Context, config: &Config) -> Result<(), CliError> {
    let home = context.home.path();
    let found_empty = home.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    make_private_directory(home).map_err(|error| cannot(home, &error))?;
    if found_empty {
        std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o700)).map_err(|error| cannot(home, &error))?;
    }
    permissions::check(&context.home).map_err(|error| CliError::configuration(&error))?;
    let mode = std::fs::metadata(home).map_err(|error| cannot(home, &error))?.permissions().mode();
    if mode & 0o077 != 0 {
        let home = home.display();
        context.output.say(&format!("host-broker: other users can read {home}; to prevent this: chmod 700 {home}"));
    }
    for (group, text) in GROUPS {
        let path = claude_md(context, group);
        let folder = path.parent().unwrap_or(home);
        make_private_directory(folder).map_err(|error| cannot(folder, &error))?;
        match write_new(&path, text) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(cannot(&path, &error)),
            Ok(()) | Err(_) => {}
        }
    }
    for group in config.groups.keys() {
        profiles::write(&context.home, group, policy::profile::STARTING)
            .map_err(|error| CliError::configuration(&error))?;
    }
    rules::create_missing(&context.home).map_err(|error| CliError::configuration(&error))?;
    Mailboxes::open(&context.home, config).map_err(|error| CliError::configuration(&error))?;
    Ok(())
}

fn claude_md(context: &Context, group: &str) -> PathBuf {
    context.home.path().join("groups").join(group).join("CLAUDE.md")
}

fn write_new(path: &Path, text: &str) -> Result<(), std::io::Error> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The name of the person who runs this, as far as the environment knows it, fit for a key of the configuration.
pub(super) fn person(environment: &Environment, uid: u32) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    ["LOGNAME", "USER"]
        .into_iter()
        .filter_map(|name| environment.get(name))
        .map(|name| name.chars().map(|c| if fits(c) { c } else { '-' }).take(64).collect::<String>())
        .find(|name| name.contains(|c: char| c.is_ascii_alphanumeric()))
        .unwrap_or_else(|| format!("uid-{uid}"))
}

/// Prints the new files, and the next steps.
fn report(context: &Context, config: &Config) {
    let home = context.home.path();
    let mount = |group: &Group| {
        let mailbox = context.home.mailbox(group);
        let mailbox = mailbox.display();
        format!("-v {mailbox}:/workspace/ipc:ro -v {mailbox}/tasks:/workspace/ipc/tasks")
    };
    let command = |words: &str| format!("{} {words}", context.program());
    let configured = |provider: &str| config.providers.keys().any(|name| name.as_str() == provider);
    let suggested = |now: bool| -> Vec<String> {
        let fitting = SUGGESTED.iter().filter(|(provider, _)| configured(provider) == now);
        fitting.map(|(_, words)| command(&format!("grant {words}"))).collect()
    };
    let (now, later) = (suggested(true), suggested(false));
    let groups = config.groups.keys().map(|group| {
        json!({
            "group": group,
            "mailbox": context.home.mailbox(group),
            "claude_md": claude_md(context, group.as_str()),
            "mount": mount(group),
        })
    });
    let document = json!({
        "home": home,
        "config": context.home.config(),
        "groups": groups.collect::<Vec<_>>(),
        "register": REGISTER,
        "suggested_grants": now,
        "suggested_after_configuration": later,
    });
    context.output.show(&document, || {
        let list = |title: &str, lines: &[String]| format!("{title}\n  {}", lines.join("\n  "));
        let mounts: Vec<String> = config.groups.keys().map(&mount).collect();
        let mut parts = vec![
            format!(
                "Created {}: broker.toml (the configuration), groups/<group>/CLAUDE.md (for each group's agent), \
                 policy/profiles/<group>.toml (the tier of each action), policy/default.cedar (the rules), ipc/<group> (shared with its sandbox). No \
                 group has any access yet.",
                home.display()
            ),
            list("Mount each group's directory into its sandbox, read-only except tasks; for docker run:", &mounts),
            format!("Register the shim there, and give the agent its CLAUDE.md:\n  {REGISTER}"),
        ];
        if !now.is_empty() {
            parts.push(list("Suggested grants:", &now));
        }
        if !later.is_empty() {
            parts.push(list("Suggested grants after you add these providers to broker.toml:", &later));
        }
        parts.push(format!("Start the broker:\n  {}", command("serve")));
        parts.join("\n\n")
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_the_lines_that_are_replaced() {
        let environment = Environment::from([("USER".to_owned(), "alice".to_owned())]);
        let plain = text(&environment, None, None);
        let full = text(&environment, Some(7), Some("127.0.0.1:1".parse().unwrap()));
        assert!(!plain.contains("\n[web]\n") && !plain.contains("\nuid = 7\n"), "{plain}");
        assert!(full.contains("\n[web]\nlisten = \"127.0.0.1:1\"\n"), "{full}");
        assert_eq!(full.matches("\nuid = 7\n").count(), GROUPS.len(), "{full}");
        assert!(plain.contains("[people.alice]"), "{plain}");
    }

    #[test]
    fn a_persons_name_is_fit_for_a_key_in_every_environment() {
        let named = |pairs: &[(&str, &str)]| {
            let environment = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            person(&environment, 7)
        };
        assert_eq!(named(&[("LOGNAME", "alice"), ("USER", "bob")]), "alice");
        assert_eq!(named(&[("USER", "a.b\"]\n[x")]), "a-b----x");
        assert_eq!(named(&[("LOGNAME", ""), ("USER", "--")]), "uid-7");
        assert_eq!(named(&[]), "uid-7");
    }
}
