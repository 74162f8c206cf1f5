//! `restore`: makes a home of a backup, in which nobody has access.
//!
//! Everything is checked before anything is written. The home is made in a directory of its own in the new home. Its
//! files get their places when all access has ended, and the configuration comes last: without it, there is no home.

mod access;
mod checks;

use crate::cli::Context;
use crate::cli::ask::own_person;
use crate::cli::backup::files::{self, Links};
use crate::cli::backup::manifest::{CONFIG, Manifest};
use crate::cli::interrupt;
use crate::cli::output::{CliError, Progress};
use crate::sinks::position;
use access::Again;
use checks::Checked;
use clap::Args;
use config::{Config, permissions};
use engine::broker::Broker;
use engine::event::Event;
use engine::restored::Restored;
use kernel::Ledger;
use platform::home::{Home, make_private_directory};
use secrets::keys;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Durability;
use store::StoreError;

/// Make a home of a backup, in which nobody has access.
///
/// The new home must not exist, or be empty. The command first checks every file, every row and the keys.
///
/// A backup is a copy of an earlier state. The broker does not know what was revoked or used since. So the command ends
/// every grant and token, cancels every approval request, and records each running call as unknown. A row of the ledger
/// says so. The command prints the commands that give access again.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  host-broker restore /mnt/backup/broker-2026-11-28 --keys /mnt/safe/keys --home /srv/broker

--json prints {restored: true, home, head: {seq, event_hash}, taken_at, row, ended: {grants, approvals, open_intents, \
    standing_approvals, external_grants, operator_tokens, gate_approvals, account_shares, link_sessions, \
    one_time_values}, grants: [COMMAND], next: [COMMAND]}")]
pub struct Restore {
    /// The backup.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The directory of the keys; the default is keys/ in the backup.
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
}

/// The directory in the new home in which it is made.
const DRAFT: &str = "restore.partial";

impl Restore {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; there is no home then.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let backup = std::path::absolute(&self.directory).unwrap_or(self.directory);
        let keys = self.keys.unwrap_or_else(|| backup.join("keys"));
        let exists = is_free(context, &backup)?;
        interrupt::watch(context)?;
        let checked = checks::check((&backup, &keys), context.output);
        let checked = checked.map_err(|error| match interrupt::check() {
            Ok(()) => error,
            Err(interrupted) => interrupted.and_so("nothing was restored"),
        })?;
        let home = context.home.path();
        let failed = |path: &Path, error: &dyn std::fmt::Display| {
            CliError::home(format!("cannot write {}: {error}", path.display()))
        };
        let draft = claim(home).map_err(|error| failed(home, &error))?;
        let restored = make(context, &checked, &draft).and_then(|(row, again)| {
            move_files(home, &draft).map_err(|error| failed(home, &error))?;
            Ok((row, again))
        });
        let (row, again) = restored.map_err(|error| {
            if context.home.config().exists() {
                return error.and_so("the home is whole, but a power cut can still lose it");
            }
            remove(home, exists);
            interrupt::instead_of(error).and_so("nothing was restored")
        })?;
        report(context, &checked.manifest, &row, &again);
        Ok(())
    }
}

/// Checks that a home can be made there. Returns whether the directory exists.
fn is_free(context: &Context, backup: &Path) -> Result<bool, CliError> {
    let home = context.home.path();
    let shown = home.display();
    permissions::check(&context.home).map_err(|error| CliError::configuration(&error))?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_none| path.to_owned());
    let parent = real(home.parent().unwrap_or(home));
    if parent.starts_with(real(backup)) {
        return Err(CliError::usage(format!("{shown} is in the backup; name another directory with --home DIR")));
    }
    match home.read_dir() {
        Ok(mut entries) => match entries.next() {
            None => Ok(true),
            Some(_) => Err(CliError::usage(format!(
                "{shown} is not empty; a backup is restored into a directory that does not exist or is empty: name one \
                 with --home DIR"
            ))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && home.symlink_metadata().is_err() => Ok(false),
        Err(error) => Err(CliError::home(format!("cannot use {shown} as a home: {error}"))),
    }
}

/// Takes the directory for this restore, and returns the path of its draft. Another one at the same time fails.
fn claim(home: &Path) -> Result<PathBuf, std::io::Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    make_private_directory(home)?;
    let draft = home.join(DRAFT);
    std::fs::DirBuilder::new().mode(0o700).create(&draft)?;
    for entry in home.read_dir()? {
        if entry?.file_name() != DRAFT {
            std::fs::remove_dir(&draft)?;
            return Err(std::io::Error::new(std::io::ErrorKind::DirectoryNotEmpty, "it is not empty any more"));
        }
    }
    Ok(draft)
}

/// Makes the home in the draft, and ends all access in it. Returns the row that says so, and the commands that give
/// access again.
fn make(context: &Context, checked: &Checked<'_>, draft: &Path) -> Result<(Value, Again), CliError> {
    let Checked { backup, keys, keys_needed, manifest, policy_version } = checked;
    let cannot = |path: &str, error: &dyn std::fmt::Display| {
        CliError::home(format!("cannot restore {}: {error}", draft.join(path).display()))
    };
    let mut progress = Progress::new(context.output);
    for expected in &manifest.files {
        let copy = files::copy((backup, &expected.path), draft, Links::Refused, &mut progress);
        if copy.map_err(|error| cannot(&expected.path, &error))? != *expected {
            return Err(CliError::failed(format!("{} of the backup was changed just now", expected.path)));
        }
    }
    let home = Home::at(draft.to_owned());
    keys_needed.iter().try_for_each(|key| keys::copy(keys, &home.keys(), key))?;
    if keys_needed.iter().any(|key| keys::is_checkpoint(&key.name)) {
        // The home that was backed up may have signed later checkpoints. A key never signs two histories.
        keys::renew_checkpoint(&home, context.platform.ids.as_ref())?;
    }
    position::hold(draft).map_err(|error| cannot("sinks", &error))?;
    let paths = manifest.files.iter().map(|entry| entry.path.as_str()).chain(["keys/ledger.key"]);
    files::sync_directories(draft, paths).map_err(|error| cannot("", &error))?;
    interrupt::check()?;
    let made = end_access(context, &home, manifest, policy_version)?;
    // The closed database and its directory last before anything gets its place.
    File::open(draft).and_then(|directory| directory.sync_all()).map_err(|error| cannot("", &error))?;
    Ok(made)
}

/// Ends all access in a ledger, in one transaction.
fn end_access(
    context: &Context,
    home: &Home,
    manifest: &Manifest,
    policy_version: &str,
) -> Result<(Value, Again), CliError> {
    // The configuration may need changes on this machine. All of it counts when the daemon starts.
    let config = Config::load(&home.config(), &context.platform.environment, context.kinds).ok();
    let groups: BTreeSet<_> = config.iter().flat_map(|config| config.groups.keys().cloned()).collect();
    let none = Config::parse("", &home.config(), &platform::Environment::new(), context.kinds);
    let none = Arc::new(none.map_err(|error| CliError::configuration(&error))?);
    let mut broker = Broker::new(none, Arc::default(), config::Policy::default(), Arc::clone(&context.platform.ids));
    let clock = Arc::clone(&context.platform.clock);
    let now = clock.now();
    let mut ledger = Ledger::open_restored(home.path(), clock, policy_version.to_owned())?;
    let again = Again::of(context, ledger.view(), &groups, now)?;
    let restored = Restored { by: own_person(config.as_ref()), taken_at: manifest.taken_at, groups };
    let batch = ledger.batch(Durability::Full, vec![Event::Restored(Box::new(restored))], &mut broker);
    if let Some((_, error)) = batch.unwritten.first() {
        return Err(CliError::internal(error.as_ref()));
    }
    let row = ledger.row(manifest.head.seq.saturating_add(1))?.ok_or(StoreError::Stored { what: "row" })?;
    let body: Value = serde_json::from_str(&row.body).map_err(|_bad| StoreError::Stored { what: "row" })?;
    Ok((json!({ "row": row.seq, "body": body }), again))
}

/// Moves the files to their places, the configuration last.
fn move_files(home: &Path, draft: &Path) -> Result<(), std::io::Error> {
    std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o700))?;
    let mut names =
        draft.read_dir()?.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()?;
    names.sort_by_key(|name| name.to_str() == Some(CONFIG));
    let sync = || File::open(home)?.sync_all();
    for name in names {
        if name.to_str() == Some(CONFIG) {
            sync()?;
        }
        std::fs::rename(draft.join(&name), home.join(&name))?;
    }
    std::fs::remove_dir(draft)?;
    // The directory above may be unreadable. Then only a power cut can lose the home.
    File::open(home.parent().unwrap_or(home)).and_then(|parent| parent.sync_all()).ok();
    sync()
}

/// Removes what was written into a directory that was empty.
fn remove(home: &Path, exists: bool) {
    if !exists {
        std::fs::remove_dir_all(home).ok();
        return;
    }
    for entry in home.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        std::fs::remove_dir_all(&path).or_else(|_file| std::fs::remove_file(&path)).ok();
    }
}

fn report(context: &Context, manifest: &Manifest, row: &Value, again: &Again) {
    let home = context.home.path();
    let ended = row.pointer("/body/ended").cloned().unwrap_or_default();
    let document = json!({
        "restored": true,
        "home": home,
        "head": manifest.head,
        "taken_at": manifest.taken_at,
        "row": row.get("row"),
        "ended": ended,
        "grants": again.grants,
        "next": again.next,
    });
    context.output.show(&document, || {
        let mut parts = vec![format!(
            "Restored {} from the backup of {}. Its ledger ends with row {}; row {} says that it was restored.",
            home.display(),
            manifest.taken_at,
            manifest.head.seq,
            row.get("row").unwrap_or(&Value::Null),
        )];
        let counts = ended.as_object().into_iter().flatten();
        let counts: Vec<String> = counts
            .filter(|(_, count)| count.as_u64() != Some(0))
            .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
            .collect();
        parts.push(if counts.is_empty() {
            "Nobody had access in it.".to_owned()
        } else {
            format!("Nobody has access in it. Ended: {}.", counts.join(", "))
        });
        let list = |title: &str, lines: &[String]| format!("{title}\n  {}", lines.join("\n  "));
        if !again.grants.is_empty() {
            parts.push(list("To give the same grants again, where they are still right:", &again.grants));
        }
        parts.push(list("Next:", &again.next));
        parts.join("\n\n")
    });
}
