//! The systemd journal, through `journalctl`.
//!
//! Nothing an agent writes becomes an option: options are ours, behind `--` there are only `FIELD=value` matches, and
//! text is searched for here and not by `journalctl`.

pub(super) mod decode;

use crate::backend::{Access, Backend, BackendError, Found, Source, Sources};
use crate::position::{EntryId, StreamKey};
use crate::search::{Newest, Search, Skipped};
use crate::window::Window;
use decode::{Decoded, Output, Shown};
use platform::commands::{Command, CommandError, Commands, Ending, Finished, Stream};
use provider::contract::Running;
use shared::numbers::counted;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::Instant;

const WHAT: &str = "journald";
/// How many entries are fetched at once.
const BATCH: usize = 500;
/// How many bytes of them.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// How many services are listed.
const SERVICES_MAX: usize = 500;
/// The longest name of a service.
const NAME_MAX: usize = 128;
/// How far the machine's clock may have been put back between two entries.
const DISORDER_MS: i64 = 60 * 1000;
/// The fields of an entry that a list shows or searches.
const FIELDS: &str = "MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_SYSTEMD_UNIT,_COMM,_PID,_HOSTNAME,_TRANSPORT";

/// Where the journal is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where this machine keeps it.
    Machine,
    /// In this directory.
    Directory(PathBuf),
    /// In these files; `*` and `?` are expanded by `journalctl`.
    Files(Vec<PathBuf>),
}

/// One journal.
#[derive(Clone)]
pub(crate) struct Journald {
    commands: Arc<dyn Commands>,
    place: Place,
    key: StreamKey,
}

impl Journald {
    /// The journal at this place.
    pub(crate) fn new(commands: Arc<dyn Commands>, place: Place) -> Self {
        let key = StreamKey::of(format!("journald {place:?}").as_bytes());
        Self { commands, place, key }
    }

    fn command(&self, deadline: Instant) -> Command {
        let mut command = Command::new("journalctl", deadline).arg("--no-pager");
        match &self.place {
            Place::Machine => {}
            Place::Directory(path) => command.args.push(option("--directory=", path)),
            Place::Files(paths) => command.args.extend(paths.iter().map(|path| option("--file=", path))),
        }
        command.stdout_max = BATCH_BYTES;
        command
    }

    async fn run(&self, command: Command) -> Result<Finished, BackendError> {
        let done = self.commands.run(command).await.map_err(|fault| match fault {
            CommandError::Deadline => BackendError::Deadline,
            CommandError::NotFound(_) => unavailable("journalctl is not installed"),
            CommandError::BadName(_)
            | CommandError::Start { .. }
            | CommandError::Write(_)
            | CommandError::Read(_)
            | CommandError::Wait(_) => unavailable("journalctl cannot be run"),
        })?;
        let complaint = String::from_utf8_lossy(&done.stderr);
        if complaint.contains("No journal files were") {
            return Err(unavailable("there is no journal, or the broker may not read it"));
        }
        match done.ending {
            Ending::Exited(0) | Ending::Overflowed(Stream::Stdout) => Ok(done),
            // A damaged or missing file: the readable part was written.
            Ending::Exited(_) if !done.stdout.is_empty() => Ok(done),
            Ending::Exited(status) => Err(unavailable(&format!("journalctl failed with status {status}"))),
            Ending::Signalled(_) | Ending::Overflowed(Stream::Stderr) => Err(unavailable("journalctl failed")),
        }
    }

    async fn search(&self, search: &Search, deadline: Instant) -> Result<Found, BackendError> {
        let mut newest = Newest::new(search.limit);
        let mut skipped = Vec::new();
        let mut after: Option<String> = None;
        let mut undecoded = 0;
        let mut later = i64::MAX;
        loop {
            let done = self.run(self.batch(search, after.as_deref(), deadline)).await?;
            let cut = matches!(done.ending, Ending::Overflowed(_));
            let Output { entries: decoded, undecoded: strange } =
                decode::entries(&done.stdout, cut, self.key, Shown::Brief);
            undecoded += strange;
            note_complaints(&done, &mut skipped);
            let Some(last) = decoded.last() else {
                if cut {
                    skipped.push(Skipped::new(WHAT, "an entry is too big to be read, and those before it are missing"));
                }
                break;
            };
            let full = decoded.len() + strange >= BATCH || cut;
            for time in decoded.iter().map(|decoded| decoded.record.position.time) {
                // From the newest on, so a later time than the one before is a clock that was put back.
                if later.saturating_add(DISORDER_MS) < time {
                    skipped.push(Skipped::new(WHAT, "the clock was put back, so entries may be missing"));
                }
                later = time;
            }
            let reached = last.record.position.time.saturating_add(DISORDER_MS);
            let next = last.cursor.clone();
            for Decoded { record, .. } in decoded {
                if search.admits(record.position) && search.wants(&record.parsed) {
                    newest.offer(record);
                }
            }
            let enough = newest.floor().is_some_and(|floor| reached < floor.time);
            if !full || enough || reached < search.window.since || after.as_ref() == Some(&next) {
                break;
            }
            after = Some(next);
        }
        if undecoded > 0 {
            let entries = counted(undecoded, "entry", "entries");
            skipped.push(Skipped::new(WHAT, &format!("{entries} cannot be decoded")));
        }
        skipped.dedup();
        Ok(Found { records: newest.into_records(), skipped })
    }

    /// The next entries towards the past: from the window's end, or behind a cursor of the journal's own.
    fn batch(&self, search: &Search, after: Option<&str>, deadline: Instant) -> Command {
        let Window { since, until } = search.open_window();
        let mut command = self
            .command(deadline)
            .arg("--output=json")
            .arg("--all")
            .arg(format!("--output-fields={FIELDS}"))
            .arg("--reverse")
            .arg(format!("--lines={BATCH}"))
            .arg(format!("--until={}", instant(until)));
        command = match after {
            // Cannot be combined with `--since`; the loop ends there by itself.
            Some(cursor) => command.arg(format!("--after-cursor={cursor}")),
            None => command.arg(format!("--since={}", instant(since))),
        };
        if let Some(level) = search.level {
            command = command.arg(format!("--priority=0..{}", level.syslog()));
        }
        command = command.arg("--");
        if let Some(service) = &search.service {
            command = command
                .arg(format!("SYSLOG_IDENTIFIER={service}"))
                .arg("+")
                .arg(format!("_SYSTEMD_UNIT={service}"))
                .arg("+")
                .arg(format!("_SYSTEMD_UNIT={service}.service"));
        }
        command
    }

    async fn find(&self, id: EntryId, deadline: Instant) -> Result<Found, BackendError> {
        if id.stream != self.key {
            return Ok(Found::default());
        }
        let command = self
            .command(deadline)
            .arg("--output=json")
            .arg("--all")
            .arg(format!("--since={}", instant(id.time)))
            .arg(format!("--until={}", instant(id.time.saturating_add(1))));
        let done = self.run(command).await?;
        let cut = matches!(done.ending, Ending::Overflowed(_));
        let entries = decode::entries(&done.stdout, cut, self.key, Shown::Whole).entries;
        let records = entries.into_iter().map(|decoded| decoded.record).filter(|record| record.id() == id).collect();
        let mut found = Found { records, ..Found::default() };
        note_complaints(&done, &mut found.skipped);
        if cut && found.records.is_empty() {
            found.skipped.push(Skipped::new(WHAT, "an entry is too big to be read"));
        }
        Ok(found)
    }

    async fn list_services(&self, deadline: Instant) -> Result<Sources, BackendError> {
        let done = self.run(self.command(deadline).arg("--field=SYSLOG_IDENTIFIER")).await?;
        let text = String::from_utf8_lossy(&done.stdout);
        let mut names: Vec<String> =
            text.lines().filter(|name| !name.is_empty()).map(|name| crate::public_name(name, NAME_MAX)).collect();
        names.sort();
        names.dedup();
        let mut skipped = Vec::new();
        note_complaints(&done, &mut skipped);
        if names.len() > SERVICES_MAX {
            names.truncate(SERVICES_MAX);
            skipped.push(Skipped::new(WHAT, "there are more services than are listed"));
        }
        // The times of each would take two searches of the whole journal.
        let service = |service| Source { service, kind: WHAT.into(), earliest: None, latest: None };
        // A search also finds units, which are not listed.
        Ok(Sources { services: names.into_iter().map(service).collect(), skipped, has_unlisted: true })
    }
}

fn option(name: &str, path: &std::path::Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

/// A time as `journalctl` takes it.
fn instant(millis: i64) -> String {
    let millis = millis.max(0);
    format!("@{}.{:03}", millis / 1000, millis % 1000)
}

fn unavailable(reason: &str) -> BackendError {
    BackendError::Unavailable { what: WHAT, reason: reason.to_owned() }
}

fn note_complaints(done: &Finished, skipped: &mut Vec<Skipped>) {
    let complaint = String::from_utf8_lossy(&done.stderr);
    if complaint.contains("not seeing messages from") || complaint.contains("insufficient permissions") {
        skipped.push(Skipped::new(WHAT, "the broker may read only a part of the journal"));
    } else if complaint.contains("corrupt") || complaint.contains("truncated") {
        skipped.push(Skipped::new(WHAT, "a part of the journal is damaged"));
    }
}

impl Backend for Journald {
    fn query(&self, search: Arc<Search>, access: Access) -> Running<Result<Found, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.search(&search, access.deadline).await })
    }

    fn entry(&self, id: EntryId, access: Access) -> Running<Result<Found, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.find(id, access.deadline).await })
    }

    fn services(&self, access: Access) -> Running<Result<Sources, BackendError>> {
        let this = self.clone();
        Box::pin(async move { this.list_services(access.deadline).await })
    }
}

#[cfg(test)]
mod tests;
