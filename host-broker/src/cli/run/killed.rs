//! The containers of commands that were killed: each is found by its labels, and removed.
//!
//! A command that runs a container keeps a note with a lock in the home. A note without a lock is of a command that was
//! killed. Only then an engine is asked, because the question itself creates files of the engine. A container whose note
//! has a lock is never touched.

use crate::cli::Context;
use platform::Platform;
use platform::container::{ContainerError, Engine, Fate, Orphan, Owner};
use platform::home::{Home, make_private_directory, quoted};
use platform::lock::Lock;
use shared::Timestamp;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// The extension of a note that is being written.
const NEW: &str = "new";
/// A note without a container is kept for this time: the engine of a killed command may still create the container.
const STARTED: Duration = Duration::from_secs(600);
/// How often and how long to wait for another command that removes containers: 60 s.
const ATTEMPTS: u32 = 300;
const PAUSE: Duration = Duration::from_millis(200);
/// The remedy of a fault in the home.
const CORRECT: &str = "correct that; the next run and doctor look again";

/// The note about a container that this process runs.
#[derive(Debug)]
pub(super) struct Note {
    path: PathBuf,
    _lock: Lock,
}

impl Note {
    /// Removes the note: nothing of the container is left over.
    pub(super) fn end(self) {
        std::fs::remove_file(&self.path).ok();
    }
}

/// A finding about the containers of killed commands.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum Found {
    /// A container of a killed command, and whether a note of this home names it.
    Orphan { engine: Engine, orphan: Orphan, has_note: bool },
    /// The engine does not know the container of an old note.
    Gone { engine: Engine, note: PathBuf, is_note_removed: bool },
    /// The engine does not list the containers of these notes.
    NoAnswer { engine: Engine, fault: String, notes: Vec<PathBuf> },
    /// The containers are unknown for another reason.
    Unknown { fault: String, remedy: &'static str },
}

impl Found {
    /// Returns the finding for a person.
    pub(in crate::cli) fn text(&self) -> String {
        match self {
            Self::Orphan { orphan: Orphan { name, group, fate }, .. } => match fate {
                Fate::Found => {
                    format!("the command of the container {name} of {group} was killed, and its agent may still work")
                }
                Fate::Removed => {
                    format!("the container {name} of an agent of {group} was removed, because its command was killed")
                }
                Fate::Stays(fault) => {
                    format!(
                        "the command of the container {name} of {group} was killed, and the container stays: {fault}"
                    )
                }
                Fate::Unknown(fault) => {
                    format!("the command of the container {name} of {group} may have been killed: {fault}")
                }
            },
            Self::Gone { engine, note, .. } => format!(
                "{engine} no longer knows the container {} of a killed command; look with the environment of that command",
                name_of(note)
            ),
            Self::NoAnswer { engine, fault, .. } => {
                format!("{engine} cannot be asked for containers of killed commands: {fault}")
            }
            Self::Unknown { fault, .. } => format!("the containers of killed commands are unknown: {fault}"),
        }
    }

    /// Returns the next step of the operator; `None` if there is nothing to do.
    pub(in crate::cli) fn remedy(&self) -> Option<String> {
        match self {
            Self::Orphan { engine, orphan: Orphan { name, fate, .. }, .. } => match fate {
                Fate::Removed => None,
                Fate::Found | Fate::Stays(_) => Some(format!("{engine} rm --force --volumes {name}")),
                // It can be the container of another machine, so its volumes stay.
                Fate::Unknown(_) => Some(format!("{engine} rm --force {name}")),
            },
            Self::Gone { is_note_removed: true, .. } => None,
            Self::Gone { note, .. } => Some(format!("rm {}", quoted(note))),
            Self::NoAnswer { notes, .. } => {
                let notes: Vec<String> = notes.iter().map(|note| quoted(note)).collect();
                Some(format!("correct that, or if none of these containers runs: rm {}", notes.join(" ")))
            }
            Self::Unknown { remedy, .. } => Some((*remedy).to_owned()),
        }
    }

    /// Returns whether an agent of a killed command may still work, so that no other one starts beside it.
    pub(in crate::cli) fn is_blocking(&self) -> bool {
        match self {
            Self::Orphan { orphan, has_note, .. } => match orphan.fate {
                Fate::Found | Fate::Stays(_) => true,
                Fate::Unknown(_) => *has_note,
                Fate::Removed => false,
            },
            Self::Gone { .. } => false,
            Self::NoAnswer { .. } | Self::Unknown { .. } => true,
        }
    }
}

fn directory(home: &Home) -> PathBuf {
    home.path().join("sandboxes").join(".containers")
}

/// Notes that this process runs a container of this name, until the note is ended.
///
/// # Errors
/// The note cannot be written; the text names it.
pub(super) fn note(home: &Home, engine: Engine, name: &str) -> Result<Note, String> {
    let directory = directory(home);
    let path = directory.join(name);
    let cannot = |error: io::Error| format!("cannot write {}: {error}", path.display());
    make_private_directory(&directory).map_err(cannot)?;
    let beside = directory.join(format!("{name}.{NEW}"));
    let open = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
    let mut file = open.map_err(cannot)?;
    file.write_all(engine.word().as_bytes()).map_err(cannot)?;
    let lock = Lock::take(file).map_err(|errno| cannot(errno.into()))?;
    let lock = lock.ok_or_else(|| format!("{} is in use", path.display()))?;
    // Named only with its lock: a note without one is of a killed command.
    std::fs::rename(&beside, &path).map_err(cannot)?;
    Ok(Note { path, _lock: lock })
}

/// Whether a container of a killed command is removed, or only named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Find,
    Remove,
}

/// Finds the containers of this home whose command was killed, and changes nothing.
pub(in crate::cli) fn find(context: &Context) -> Vec<Found> {
    match take(&directory(&context.home)) {
        // Another command removes them now, and says so.
        Ok(None) => Vec::new(),
        Ok(Some(lock)) => {
            // ORDER: the locks of the notes first. A command with this lock takes them for those of commands that run.
            let left = of_killed(&context.home, Mode::Find).map(without_locks);
            drop(lock);
            left.map_or_else(|fault| vec![fault], |left| examined(context, &left, Mode::Find))
        }
        Err(error) => unreadable(&context.home, &error).into_iter().collect(),
    }
}

/// Removes the containers of this home whose command was killed. No other command does that at the same time.
pub(in crate::cli) fn remove(context: &Context) -> Vec<Found> {
    // ORDER: without the lock, another command would see the locks of this one as those of commands that run.
    for _ in 0..ATTEMPTS {
        match take(&directory(&context.home)) {
            Ok(None) => std::thread::park_timeout(PAUSE),
            Ok(Some(_lock)) => {
                let left = of_killed(&context.home, Mode::Remove);
                return left.map_or_else(|fault| vec![fault], |left| examined(context, &left, Mode::Remove));
            }
            Err(error) => return unreadable(&context.home, &error).into_iter().collect(),
        }
    }
    vec![Found::Unknown { fault: "another command removes some of them".to_owned(), remedy: "try again later" }]
}

/// Locks a file or a directory; `None` if another process holds the lock.
fn take(path: &Path) -> io::Result<Option<Lock>> {
    Ok(Lock::take(File::open(path)?)?)
}

/// Returns the finding about notes that cannot be read; `None` if there are none.
fn unreadable(home: &Home, error: &io::Error) -> Option<Found> {
    let fault = format!("cannot read {}: {error}", directory(home).display());
    (error.kind() != io::ErrorKind::NotFound).then_some(Found::Unknown { fault, remedy: CORRECT })
}

/// Returns the findings about these notes.
fn examined(context: &Context, left: &[Left], mode: Mode) -> Vec<Found> {
    if left.is_empty() {
        return Vec::new();
    }
    let owner = match Owner::of_home(context.home.path()) {
        Ok(owner) => owner,
        Err(error) => return vec![Found::Unknown { fault: error.to_string(), remedy: CORRECT }],
    };
    let (directory, now) = (directory(&context.home), context.platform.clock.now());
    let runs = |name: &str| runs(&directory, left, name);
    let mut found = Vec::new();
    for engine in Engine::ALL {
        let notes: Vec<&Path> =
            left.iter().filter(|note| note.engine == engine).map(|note| note.path.as_path()).collect();
        if notes.is_empty() {
            continue;
        }
        match asked(&context.platform, (engine, &owner), runs, mode) {
            Ok(orphans) => found.extend(compared(engine, orphans, (&notes, now), mode)),
            Err(error) => {
                let fault = if matches!(error, ContainerError::NoEngine(_)) {
                    "it is not installed in a directory of the system".to_owned()
                } else {
                    model::errors::chain(&error)
                };
                let notes = notes.into_iter().map(Path::to_owned).collect();
                found.push(Found::NoAnswer { engine, fault, notes });
            }
        }
    }
    found
}

/// Asks one engine.
fn asked(
    platform: &Platform,
    (engine, owner): (Engine, &Owner),
    runs: impl Fn(&str) -> Option<bool>,
    mode: Mode,
) -> Result<Vec<Orphan>, ContainerError> {
    let environment = &platform.environment;
    match mode {
        Mode::Find => platform.runtime.block_on(engine.orphans(environment, owner, runs)),
        Mode::Remove => platform.runtime.block_on(engine.remove_orphans(environment, owner, runs)),
    }
}

/// Compares the containers of an engine with the notes, and removes each note whose container is gone.
fn compared(engine: Engine, orphans: Vec<Orphan>, (notes, now): (&[&Path], Timestamp), mode: Mode) -> Vec<Found> {
    let mut gone = Vec::new();
    for note in notes {
        let is_over = match orphans.iter().find(|orphan| orphan.name == name_of(note)) {
            Some(orphan) => orphan.fate == Fate::Removed,
            None => is_old(note, now),
        };
        let is_note_removed = is_over && mode == Mode::Remove && std::fs::remove_file(note).is_ok();
        if is_over && !orphans.iter().any(|orphan| orphan.name == name_of(note)) {
            gone.push(Found::Gone { engine, note: note.to_path_buf(), is_note_removed });
        }
    }
    let found = orphans.into_iter().map(|orphan| {
        let has_note = notes.iter().any(|note| orphan.name == name_of(note));
        Found::Orphan { engine, orphan, has_note }
    });
    found.chain(gone).collect()
}

/// Returns whether the command of the container of this name runs; `None` if it has no note. Each note beside those of
/// killed commands has a lock, or is a new one.
fn runs(directory: &Path, left: &[Left], name: &str) -> Option<bool> {
    if left.iter().any(|note| name_of(&note.path) == name) {
        return Some(false);
    }
    directory.join(name).try_exists().unwrap_or(true).then_some(true)
}

/// Returns the name of the container of a note.
fn name_of(note: &Path) -> Cow<'_, str> {
    note.file_name().map(OsStr::to_string_lossy).unwrap_or_default()
}

/// A note of a killed command.
#[derive(Debug)]
struct Left {
    path: PathBuf,
    engine: Engine,
    // Held while its container is removed.
    _lock: Option<Lock>,
}

/// Releases the locks.
fn without_locks(left: Vec<Left>) -> Vec<Left> {
    left.into_iter().map(|note| Left { _lock: None, ..note }).collect()
}

/// Returns the notes that no process holds.
fn of_killed(home: &Home, mode: Mode) -> Result<Vec<Left>, Found> {
    let directory = directory(home);
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) => return unreadable(home, &error).map_or(Ok(Vec::new()), Err),
    };
    let is_whole = |path: &PathBuf| path.extension().is_none_or(|extension| extension != NEW);
    let mut left = Vec::new();
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(is_whole) {
        let Ok(Some(lock)) = take(&path) else { continue };
        match std::fs::read_to_string(&path).unwrap_or_default().parse() {
            Ok(engine) => left.push(Left { path, engine, _lock: Some(lock) }),
            // No command of this version writes such a note.
            Err(_unknown) if mode == Mode::Remove => drop(std::fs::remove_file(&path)),
            Err(_unknown) => {}
        }
    }
    Ok(left)
}

/// Returns whether the engine of a command that wrote this note has created its container by now.
fn is_old(note: &Path, now: Timestamp) -> bool {
    let written = note.metadata().and_then(|metadata| metadata.modified());
    let written = written.ok().and_then(|written| written.duration_since(UNIX_EPOCH).ok());
    let written = written.and_then(|since| i64::try_from(since.as_millis()).ok());
    written.is_none_or(|written| Timestamp::from_millis(written).plus(STARTED) < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "broker-developer-0123abcd";

    #[test]
    fn only_a_note_that_no_process_holds_is_of_a_killed_command() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().to_owned());
        assert!(of_killed(&home, Mode::Remove).unwrap().is_empty());
        let note = note(&home, Engine::Podman, NAME).unwrap();
        assert!(of_killed(&home, Mode::Remove).unwrap().is_empty(), "its command runs");
        assert_eq!(runs(&directory(&home), &[], NAME), Some(true), "its command runs");
        assert_eq!(runs(&directory(&home), &[], "broker-developer-4567abcd"), None, "it has no note");
        let path = note.path.clone();
        drop(note);
        let left = of_killed(&home, Mode::Remove).unwrap();
        assert_eq!(left.iter().map(|left| (&left.path, left.engine)).collect::<Vec<_>>(), [(&path, Engine::Podman)]);
        let looked = runs(&directory(&home), &left, NAME);
        assert_eq!(looked, Some(false), "this process holds its lock, to look at it");
        drop(left);
        std::fs::write(&path, "another engine").unwrap();
        assert!(of_killed(&home, Mode::Find).unwrap().is_empty());
        assert!(path.exists(), "a look changes nothing");
        assert!(of_killed(&home, Mode::Remove).unwrap().is_empty());
        assert!(!path.exists());
    }

    #[test]
    fn an_old_note_without_a_container_is_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, "podman").unwrap();
        let written = path.metadata().unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let young = Timestamp::from_millis(i64::try_from(written.as_millis()).unwrap());
        let old = young.plus(STARTED + Duration::from_secs(1));
        let after = |now, mode| compared(Engine::Podman, Vec::new(), (&[path.as_path()], now), mode);
        assert_eq!(after(young, Mode::Remove), []);
        let looked = after(old, Mode::Find);
        assert_eq!(looked[0].remedy(), Some(format!("rm {}", quoted(&path))));
        assert!(path.exists(), "a look changes nothing");
        let removed = after(old, Mode::Remove);
        let text = removed[0].text();
        assert!(text.starts_with(&format!("podman no longer knows the container {NAME}")), "{text}");
        assert_eq!((removed[0].remedy(), removed[0].is_blocking(), path.exists()), (None, false, false));
    }

    #[test]
    fn a_note_without_a_container_is_kept_while_an_engine_may_still_create_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        std::fs::write(&path, "podman").unwrap();
        let written = path.metadata().unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let written = Timestamp::from_millis(i64::try_from(written.as_millis()).unwrap());
        assert!(!is_old(&path, written.plus(STARTED)));
        assert!(is_old(&path, written.plus(STARTED + Duration::from_secs(1))));
        assert!(is_old(&folder.path().join("none"), written));
    }

    fn orphan(fate: Fate, has_note: bool) -> Found {
        let orphan = Orphan { name: NAME.to_owned(), group: "developer".parse().unwrap(), fate };
        Found::Orphan { engine: Engine::Docker, orphan, has_note }
    }

    #[test]
    fn a_container_that_stays_is_named_with_the_command_that_removes_it_and_blocks_the_next_agent() {
        let removed = orphan(Fate::Removed, true);
        assert!(removed.text().contains(&format!("{NAME} of an agent of developer was removed")));
        assert_eq!((removed.remedy(), removed.is_blocking()), (None, false));
        let stays = orphan(Fate::Stays("device busy".to_owned()), false);
        assert!(stays.text().ends_with("the container stays: device busy"), "{}", stays.text());
        let command = format!("docker rm --force --volumes {NAME}");
        assert_eq!((stays.remedy().as_ref(), stays.is_blocking()), (Some(&command), true));
        assert_eq!(orphan(Fate::Found, true).remedy(), Some(command));
        // Without a note, it can be the container of another home.
        for has_note in [true, false] {
            assert_eq!(orphan(Fate::Unknown("no".to_owned()), has_note).is_blocking(), has_note);
        }
    }

    #[test]
    fn an_engine_that_is_gone_blocks_until_its_note_is_removed() {
        let note = PathBuf::from("/srv/my broker/sandboxes/.containers").join(NAME);
        let fault = "it is not installed in a directory of the system".to_owned();
        let found = Found::NoAnswer { engine: Engine::Podman, fault, notes: vec![note] };
        assert!(found.is_blocking() && found.text().contains("podman cannot be asked"), "{}", found.text());
        let remedy = found.remedy().unwrap();
        assert!(remedy.ends_with(&format!("rm '/srv/my broker/sandboxes/.containers/{NAME}'")), "{remedy}");
    }

    #[test]
    fn two_commands_do_not_remove_containers_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let one = take(folder.path()).unwrap();
        assert!(one.is_some() && take(folder.path()).unwrap().is_none());
        drop(one);
        assert!(take(folder.path()).unwrap().is_some());
    }
}
