//! Errors of the configuration: the file, the place, the fault and the likely intended word.

use ::rules::RulesError;
use platform::home::quoted;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}{}", remedy(path, source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML, or a key or value in it is wrong.
    #[error("{path}: {place}{fault}{hint}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The place in it, with a colon, or empty.
        place: String,
        /// The error.
        fault: String,
        /// The likely intended word, or empty.
        hint: String,
    },
    /// The values do not fit each other.
    #[error("{path}: {fault}")]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// The conflict and the remedy.
        fault: String,
    },
    /// Another user could change it.
    #[error("{path} is not safe: {fault}")]
    Unsafe {
        /// The file or directory.
        path: PathBuf,
        /// The users who can change it, and the command that fixes it.
        fault: String,
    },
    /// The home belongs to another user.
    #[error("{path} belongs to user {user}; run the command as that user: {}", as_user(user, path))]
    Foreign {
        /// The home.
        path: PathBuf,
        /// The name of the user, or the number after `#`.
        user: String,
    },
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The rules cannot be used.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// A value of the environment is wrong.
    #[error("environment variable {name}: {fault}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// The error.
        fault: String,
    },
}

/// Returns the beginning of a command that the owner of the home runs.
fn as_user(user: &str, home: &Path) -> String {
    format!("sudo -u {} host-broker --home {} …", quoted(Path::new(user)), quoted(home))
}

/// Returns the next step after a file could not be read, as the end of a sentence.
fn remedy(path: &Path, source: &std::io::Error) -> &'static str {
    let kind = source.kind();
    if kind == ErrorKind::NotFound && path.ends_with("broker.toml") {
        "; make a home with: host-broker init --home DIR"
    } else if kind == ErrorKind::IsADirectory {
        "; put a file in its place or remove it"
    } else if kind == ErrorKind::InvalidData {
        "; save it as UTF-8"
    } else {
        ""
    }
}

/// Parses a TOML document. An error names the line, the key and the nearest known word.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(text: &str, path: &Path) -> Result<T, ConfigError> {
    let error = |place: String, error: &toml::de::Error| parse_error(text, path, &place, error.span(), error.message());
    let deserializer = toml::Deserializer::parse(text).map_err(|fault| error(String::new(), &fault))?;
    serde_path_to_error::deserialize(deserializer).map_err(|fault| error(fault.path().to_string(), fault.inner()))
}

pub(crate) fn parse_error(
    text: &str,
    path: &Path,
    place: &str,
    span: Option<Range<usize>>,
    message: &str,
) -> ConfigError {
    let line = span.as_ref().map(|span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
    let place = match (line, place) {
        (Some(line), "" | ".") => format!("line {line}: "),
        (Some(line), place) => format!("line {line}, {place}: "),
        (None, "" | ".") => String::new(),
        (None, place) => format!("{place}: "),
    };
    let fault = match span.and_then(|span| text.get(span)).map(str::trim) {
        Some(key) if message == "duplicate key" && !key.is_empty() => format!("`{key}` occurs twice; merge the two"),
        _ => plain(message),
    };
    let hint = suggestion(&fault).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    ConfigError::Parse { path: path.into(), place, fault, hint }
}

/// Returns serde's message with the range of a number in place of the name of its type.
fn plain(fault: &str) -> String {
    match shared::numbers::range_of(fault) {
        Some((said, range)) => format!("{said}, expected a whole number from {range}"),
        None => fault.to_owned(),
    }
}

/// Returns the expected word nearest to the unknown one, from serde's own message:
/// ``unknown field `grup`, expected one of `groups`, `gates` ``.
fn suggestion(fault: &str) -> Option<String> {
    let (_, rest) = fault.split_once("unknown ")?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    nearest(unknown, quoted).map(ToOwned::to_owned)
}

/// Returns the known name nearest to an unknown one.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = |word: &&str| strsim::damerau_levenshtein(name, word);
    known.filter(|word| far(word) <= 2.max(name.len() / 3)).min_by_key(far)
}

/// Returns the same for the end of a sentence: ` (did you mean 'github'?)`, or nothing.
pub fn near_miss<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map(|word| format!(" (did you mean '{word}'?)")).unwrap_or_default()
}
