//! `mock`: a broker without credentials, for development against the shim.

use crate::cli::Context;
use crate::cli::ask::{answer, running};
use crate::cli::init::person;
use crate::cli::output::CliError;
use crate::cli::serve::{READY, serve, start_log};
use crate::host::reload::Start;
use clap::Args;
use config::profiles;
use config::provider::ProviderTable;
use engine::request;
use model::Nonce;
use platform::home::Home;
use platform::home::make_private_directory;
use serde_json::{Map, Value, json};
use shared::request::{Expiry, GrantRequest, TaskRequest};
use shared::{Group, Level};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Run a broker with a scripted provider that needs no credentials.
///
/// The groups already have access. Without --home, the home is a temporary directory, and the broker removes it when it
/// stops. After SIGHUP or `host-broker reload`, the broker reads its files again and prints `ready` again.
#[derive(Debug, Args)]
#[command(
    after_help = "The provider is `mock`. Its actions are echo, slow, fail (L1), note, lose, ask (L2) and charge (L3, \
    task mock-task, gate Security). mock.toml in the home scripts the actions.

--json prints {ready: true, home, ipc: {GROUP: DIR}, task_id}"
)]
pub struct Mock {}

const CONFIG: &str = include_str!("mock/broker.toml");
/// The first line of a mock's configuration, also after changes of its owner.
const MARK: &str = "# A broker without credentials, for development against the shim.";
const SCRIPT: &str = include_str!("mock/mock.toml");
const TASK: &str = "mock-task";

/// The grants for the mock.
const GRANTS: [(&str, Level); 3] = [("main", Level::Read), ("developer", Level::Production), ("security", Level::Read)];

impl Mock {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing is running then.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        if context.home_is_chosen {
            return run(context);
        }
        let path = temporary(context)?;
        let own =
            Context { home: Home::at(path.clone()), home_is_chosen: true, home_is_argument: true, ..context.clone() };
        let result = run(&own);
        std::fs::remove_dir_all(&path).map_err(|error| cannot(&path, &error)).and(result)
    }
}

fn run(context: &Context) -> Result<(), CliError> {
    if running(context)?.is_some() {
        return Err(CliError::refused(format!(
            "a broker runs on {} already; stop it with: {} stop",
            context.home.path().display(),
            context.program()
        )));
    }
    if make(context)? {
        grant(context)?;
    }
    let ipc: Map<String, Value> =
        GRANTS.iter().map(|(group, _)| ((*group).to_owned(), mailbox(context, group).into())).collect();
    let document = json!({ "ready": true, "home": context.home.path(), "ipc": ipc, "task_id": TASK });
    if !context.output.json {
        context.output.line(&format!(
            "A mock broker in {home}. Run the shim as the developer group's agent would:\n  \
             EXT_IPC_DIR={developer} mcp-shim call mock echo '{{\"hello\":\"world\"}}'\n\
             or as its MCP server:\n  \
             EXT_IPC_DIR={developer} mcp-shim\n\
             For the action that needs a person, call it, and answer the approval request in another terminal:\n  \
             EXT_IPC_DIR={developer} mcp-shim call mock ask\n  \
             {program} approvals watch\n\
             For the production action, open its gate once for each call:\n  \
             {program} gate approve {TASK} Security",
            home = context.home.path().display(),
            developer = mailbox(context, "developer"),
            program = context.program(),
        ));
    }
    // In this process, because another one would make another temporary home.
    let _log = start_log(context, None)?;
    let mut next = Some(Start::First);
    while let Some(start) = next {
        next = serve(context, &document, start, &|_| READY.to_owned())?.map(|(_, files)| Start::Reload(Some(files)));
    }
    Ok(())
}

fn mailbox(context: &Context, group: &str) -> String {
    context.home.path().join("ipc").join(group).display().to_string()
}

fn temporary(context: &Context) -> Result<PathBuf, CliError> {
    let folder = context.platform.environment.get("TMPDIR").map_or("/tmp", String::as_str);
    let nonce = Nonce::fresh(context.platform.ids.as_ref()).map_err(|error| CliError::internal(&error))?;
    let name: String = nonce.as_str().chars().take(12).collect();
    Ok(Path::new(folder).join(format!("host-broker-mock-{name}")))
}

fn cannot(path: &Path, error: &std::io::Error) -> CliError {
    CliError::home(format!("cannot use {}: {error}", path.display()))
}

/// Makes the home; `false` if it is a mock's home already.
fn make(context: &Context) -> Result<bool, CliError> {
    let uid = rustix::process::geteuid().as_raw();
    let config = CONFIG.replace("PERSON", &person(&context.platform.environment, uid)).replace("UID", &uid.to_string());
    let path = context.home.config();
    match std::fs::read_to_string(&path) {
        Ok(found) if found.starts_with(MARK) && is_of_mock(context) => return Ok(false),
        Ok(_) => {
            return Err(CliError::home(format!(
                "{} is the home of another broker, not of a mock; name another directory with --home DIR",
                context.home.path().display()
            )));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot(&path, &error)),
    }
    make_private_directory(context.home.path()).map_err(|error| cannot(context.home.path(), &error))?;
    write(&context.home.path().join("mock.toml"), SCRIPT)?;
    for (group, _) in GRANTS {
        let group = group.parse().map_err(|error| CliError::internal(&error))?;
        profiles::write(&context.home, &group, &profiles::with_free_mock("mock"))
            .map_err(|error| CliError::configuration(&error))?;
    }
    write(&path, &config)?;
    Ok(true)
}

/// Returns whether the home is a mock, also after changes of its owner: its only provider is a script.
fn is_of_mock(context: &Context) -> bool {
    let is_script = |table: &ProviderTable| table.kind == provider_mock::KIND.name();
    context.config().is_ok_and(|config| {
        config.providers.keys().any(|name| name.as_str() == "mock") && config.providers.values().all(is_script)
    })
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        .map_err(|error| cannot(path, &error))
}

/// The access, and the task that the production action needs.
fn grant(context: &Context) -> Result<(), CliError> {
    let name = |text: &str| text.parse::<Group>().map_err(|error| CliError::internal(&error));
    for (group, level) in GRANTS {
        done(
            context,
            request::Command::Grant(GrantRequest {
                group_folder: name(group)?,
                provider: "mock".parse().map_err(|error| CliError::internal(&error))?,
                access_level: level,
                allowed_actions: None,
                denied_actions: None,
                requires_task_gate: Some("Security".parse().map_err(|error| CliError::internal(&error))?),
                expires_at: Some(Expiry::Never),
                expires_in_s: None,
                rate_per_minute: None,
                daily_quota: None,
                chat_types: None,
                chat_ids: None,
                timeout_ms: None,
            }),
        )?;
    }
    done(
        context,
        request::Command::TaskCreate(TaskRequest {
            title: "Try the production action".to_owned(),
            group_folder: name("developer")?,
            task_id: Some(TASK.parse().map_err(|error| CliError::internal(&error))?),
        }),
    )
}

fn done(context: &Context, command: request::Command) -> Result<(), CliError> {
    let reply = answer(context, command)?;
    match reply.get("error").and_then(Value::as_str) {
        None => Ok(()),
        Some(no) => Err(CliError::refused(no)),
    }
}
