//! Edits of `broker.toml` as text, so that a person's comments and order stay.
//!
//! An edit is only valid if the file then says exactly the same as before except for the one table, and if the whole
//! still passes as a configuration. All other edits are left to the person.

use crate::cli::Context;
use crate::cli::interrupt;
use crate::cli::output::CliError;
use config::{Config, permissions};
use platform::lock::Lock;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long another command may hold the lock of the configuration: a reload and the start of a server.
const LOCK_TIMEOUT: Duration = Duration::from_secs(90);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Takes the lock of the configuration: two commands that edit it, or reload the daemon, run one after the other.
///
/// # Errors
/// [`CliError`] if another command holds it for too long.
pub(in crate::cli) fn lock(context: &Context) -> Result<Lock, CliError> {
    // Without a configuration, there is nothing to edit, and nothing is made.
    Config::text(&context.home.config()).map_err(|error| CliError::configuration(&error))?;
    let path = context.home.path().join("edit.lock");
    let failed = |error: std::io::Error| CliError::home(format!("cannot lock {}: {error}", path.display()));
    let asked = Instant::now();
    loop {
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(failed)?;
        if let Some(lock) = Lock::take(file).map_err(|errno| failed(errno.into()))? {
            return Ok(lock);
        }
        interrupt::check()?;
        if asked.elapsed() > LOCK_TIMEOUT {
            return Err(CliError::stuck("another command edits broker.toml or reloads the daemon; try again later"));
        }
        std::thread::park_timeout(LOCK_PAUSE);
    }
}

/// Applies an edit to the configuration, atomically.
///
/// # Errors
/// [`CliError`]; the file is as it was.
pub(in crate::cli) fn change(
    context: &Context,
    edit: impl FnOnce(&str) -> Result<String, CliError>,
) -> Result<(), CliError> {
    change_under(&lock(context)?, context, edit)
}

/// Does the same for a command that holds the lock.
///
/// # Errors
/// As [`change`].
pub(in crate::cli) fn change_under(
    _lock: &Lock,
    context: &Context,
    edit: impl FnOnce(&str) -> Result<String, CliError>,
) -> Result<(), CliError> {
    let (edited, _config) = draft(context, edit)?;
    let path = context.home.config();
    replace(&path, &edited)
        .map_err(|error| CliError::home(format!("cannot write {}: {error}; nothing was changed", path.display())))
}

/// Returns the edited text and its configuration, without writing it. It is refused where a daemon would refuse it at its
/// start.
///
/// # Errors
/// [`CliError`].
pub(in crate::cli) fn draft(
    context: &Context,
    edit: impl FnOnce(&str) -> Result<String, CliError>,
) -> Result<(String, Config), CliError> {
    let path = context.home.config();
    let text = Config::text(&path).map_err(|error| CliError::configuration(&error))?;
    let edited = edit(&text)?;
    let config = Config::parse(&edited, &path, &context.platform.environment, context.kinds);
    let checked = config.and_then(|config| permissions::check_named(&context.home, &config).map(|()| config));
    let config = checked.map_err(|error| CliError::configuration(&error).and_so("nothing was changed"))?;
    Ok((edited, config))
}

/// The text with these lines at its end, which say the table `parent.name`.
///
/// # Errors
/// [`CliError`] if the text cannot be continued with these lines.
pub(in crate::cli) fn with_table(
    text: &str,
    [parent, name]: [&str; 2],
    table: &toml::Table,
    lines: &str,
) -> Result<String, CliError> {
    let mut edited = text.trim_end().to_owned();
    if !edited.is_empty() {
        edited.push_str("\n\n");
    }
    edited.push_str(lines);
    let mut expected = parse(text)?;
    let all = expected.entry(parent).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let Some(all) = all.as_table_mut() {
        all.insert(name.to_owned(), toml::Value::Table(table.clone()));
    }
    // A file that ends inside something else, or that has its tables in one line, cannot be continued.
    if toml::from_str::<toml::Table>(&edited).is_ok_and(|found| found == expected) {
        Ok(edited)
    } else {
        Err(CliError::usage(format!(
            "broker.toml cannot be edited safely; add the table [{parent}.{name}] by hand:\n{lines}"
        )))
    }
}

/// The text without the table `parent.name` and the tables in it.
///
/// # Errors
/// [`CliError`] if the text without these lines would say something else.
pub(in crate::cli) fn removed(text: &str, [parent, name]: [&str; 2]) -> Result<String, CliError> {
    let by_hand =
        || CliError::usage(format!("broker.toml cannot be edited safely; take {parent}.{name} out of it by hand"));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (mut edited, mut rest) = (String::new(), lines.as_slice());
    while let Some((line, after)) = rest.split_first() {
        rest = after;
        if !is_header_of(line, [parent, name]) {
            edited.push_str(line);
            continue;
        }
        let length = rest.iter().take_while(|line| !line.trim_start().starts_with('[')).count();
        // Comments after the last value may belong to the next table, so they stay.
        let values = rest.iter().take(length).rposition(|line| is_value(line)).map_or(0, |last| last + 1);
        rest = rest.get(values..).unwrap_or_default();
        // One empty line between two tables is enough.
        while let Some((line, after)) = rest.split_first()
            && (edited.is_empty() || edited.ends_with("\n\n"))
            && line.trim().is_empty()
        {
            rest = after;
        }
    }
    let mut expected = parse(text)?;
    let all = expected.get_mut(parent).and_then(toml::Value::as_table_mut);
    all.and_then(|all| all.remove(name)).ok_or_else(by_hand)?;
    let mut found = toml::from_str::<toml::Table>(&edited).map_err(|_worse| by_hand())?;
    // The last header may have made the table around it.
    found.entry(parent).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if found == expected { Ok(edited) } else { Err(by_hand()) }
}

fn parse(text: &str) -> Result<toml::Table, CliError> {
    toml::from_str(text).map_err(|error| CliError::configuration(&error))
}

/// Returns whether a line begins the table `parent.name`, or a table in it.
fn is_header_of(line: &str, [parent, name]: [&str; 2]) -> bool {
    let header = Some(line).filter(|line| line.trim_start().starts_with('['));
    let header: Option<toml::Table> = header.and_then(|line| toml::from_str(line).ok());
    header.is_some_and(|header| header.get(parent).is_some_and(|all| all.get(name).is_some()))
}

fn is_value(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// Replaces the file with a new one of the same mode: a reader sees the old text or the new.
fn replace(path: &Path, text: &str) -> Result<(), std::io::Error> {
    // The file itself, should its name be a link.
    let path = path.canonicalize()?;
    let mode = std::fs::metadata(&path)?.permissions().mode();
    let beside = path.with_extension("toml.new");
    std::fs::remove_file(&beside)
        .or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode & 0o777).open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let replaced = written.and_then(|()| std::fs::rename(&beside, path));
    if replaced.is_err() {
        std::fs::remove_file(&beside).ok();
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broker.toml");
        std::fs::write(&path, "old").unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        // No file takes the name of a directory.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        replace(&path, "newer").unwrap_err();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_group_is_taken_out_and_comments_stay() {
        let text = "[groups.a]\nmain = true\n\n# about b\n[groups.\"b\"] # b\nuid = 1\n# about c\n[groups.c]\n";
        let edited = removed(text, ["groups", "b"]).unwrap();
        assert_eq!(edited, "[groups.a]\nmain = true\n\n# about b\n# about c\n[groups.c]\n");
        assert_eq!(removed("[groups.a]\n", ["groups", "a"]).unwrap(), "");
    }

    #[test]
    fn a_provider_is_taken_out_with_all_its_tables() {
        let text = "[providers.a]\nkind = \"mcp\"\n\n[providers.a.tools]\nx = 1\n\n[providers.ab]\nkind = \"mcp\"\n\n\
                    [[providers.a.more]]\ny = [\n    \"[providers.a]\",\n]\n\n[groups.a]\n\n[providers . 'a'.last]\nz = 1\n";
        let edited = removed(text, ["providers", "a"]).unwrap();
        assert_eq!(edited, "[providers.ab]\nkind = \"mcp\"\n\n[groups.a]\n\n");
        let persons = "[providers.\"team.tasks\"]\nkind = \"mcp\"\n";
        assert_eq!(removed(persons, ["providers", "team.tasks"]).unwrap(), "");
        assert!(removed(persons, ["providers", "team"]).is_err());
    }

    #[test]
    fn tables_that_cannot_be_edited_safely_are_left_to_a_person() {
        let fault = |result: Result<String, CliError>| result.unwrap_err().text;
        let added = |text: &str| with_table(text, ["groups", "b"], &toml::Table::new(), "[groups.b]\n");
        assert!(fault(added("groups = { a = {} }\n")).contains("by hand"));
        assert!(fault(removed("groups = { a = {} }\n", ["groups", "a"])).contains("by hand"));
        assert!(fault(removed("[groups]\na = {}\n", ["groups", "a"])).contains("by hand"));
        // A header inside a text is no header.
        let text = "[providers.x]\nscript = '''\n[groups.a]\n'''\n[groups.a]\n";
        assert!(fault(removed(text, ["groups", "a"])).contains("by hand"));
    }
}
