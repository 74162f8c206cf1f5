//! Where a secret comes from.

use super::{SecretError, dotenv, file, keyring};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use zeroize::Zeroizing;

/// The source of one secret: `{ env = "NAME" }`, `{ file = "/path" }`, `{ env_file = "/path/.env", name = "NAME" }`,
/// `{ keyring = "description" }`, or `{ command = ["op", "read", "op://vault/github/token"] }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a secret's source is one of { env = \"NAME\" }, { file = \"/path\" }, \
                 { env_file = \"/path/.env\", name = \"NAME\" }, { keyring = \"description\" } and \
                 { command = [\"program\", \"argument\"] }"
)]
pub enum SecretSource {
    /// A variable of the broker's environment.
    Env {
        /// Its name.
        env: String,
    },
    /// A file that only its owner can read; line breaks at its end do not count.
    File {
        /// Its path.
        file: PathBuf,
    },
    /// A variable of a `.env` file that only its owner can read.
    EnvFile {
        /// The file's path.
        env_file: PathBuf,
        /// The variable's name.
        name: String,
    },
    /// A key of the kernel's keyrings, of type `user`; line breaks at its end do not count. `keyctl padd user
    /// DESCRIPTION @u` adds one, which lasts until the machine is started again. For the keyrings of desktops there is
    /// a `command`: `["secret-tool", "lookup", "service", "github"]`.
    Keyring {
        /// Its description.
        keyring: String,
    },
    /// The output of a program; line breaks at its end do not count.
    Command {
        /// The program and its arguments. No shell reads them.
        #[schemars(length(min = 1))]
        command: Vec<String>,
    },
}

impl SecretSource {
    /// Checks whether a look at it starts a program, which may ask a person to unlock a vault.
    pub fn runs_a_program(&self) -> bool {
        match self {
            Self::Command { .. } => true,
            Self::Env { .. } | Self::File { .. } | Self::EnvFile { .. } | Self::Keyring { .. } => false,
        }
    }
}

impl fmt::Display for SecretSource {
    /// Where it lies; of a program only the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env { env } => write!(f, "the environment variable {env}"),
            Self::File { file } => write!(f, "the file {}", file.display()),
            Self::EnvFile { env_file, name } => write!(f, "{name} in {}", env_file.display()),
            Self::Keyring { keyring } => write!(f, "the key {keyring} of the kernel's keyrings"),
            Self::Command { command } => write!(f, "the program {}", command.first().map_or("", String::as_str)),
        }
    }
}

/// Runs a program for its output.
pub trait CommandOutput: Send + Sync {
    /// Runs it to its end and returns its output, within the runner's own limits of time and size.
    ///
    /// # Errors
    /// One sentence for the operator, without anything of the output, if it could not be run or failed.
    fn output<'a>(&'a self, command: &'a [String]) -> Output<'a>;
}

/// The return type of [`CommandOutput::output`].
pub type Output<'a> = Pin<Box<dyn Future<Output = Result<Zeroizing<Vec<u8>>, String>> + Send + 'a>>;

/// Fetches the text of a secret.
pub(super) async fn fetch(
    source: &SecretSource,
    environment: &BTreeMap<String, String>,
    commands: &dyn CommandOutput,
) -> Result<Zeroizing<String>, SecretError> {
    match source {
        SecretSource::Env { env } => match environment.get(env) {
            Some(text) if !text.is_empty() => Ok(Zeroizing::new(text.clone())),
            _ => Err(missing(format!("set the environment variable {env} and restart the broker"))),
        },
        SecretSource::File { file } => Ok(without_line_end(&text(&file::read(file)?, &file.display().to_string())?)),
        SecretSource::EnvFile { env_file, name } => {
            let content = text(&file::read(env_file)?, &env_file.display().to_string())?;
            match dotenv::lookup(&content, name) {
                Ok(Some(value)) => Ok(value),
                Ok(None) => Err(missing(format!("add {name}=… to {}", env_file.display()))),
                Err(line) => Err(missing(format!("correct line {line} of {}", env_file.display()))),
            }
        }
        SecretSource::Keyring { keyring: description } => {
            Ok(without_line_end(&text(&keyring::read(description)?, &source.to_string())?))
        }
        SecretSource::Command { command } => {
            let program = command.first().map_or("", String::as_str);
            let output = commands.output(command).await;
            let output = output.map_err(|why| missing(format!("the command {program} gave none: {why}")))?;
            Ok(without_line_end(&text(&output, program)?))
        }
    }
}

pub(super) fn missing(what: String) -> SecretError {
    SecretError::Missing { what }
}

fn text(bytes: &[u8], origin: &str) -> Result<Zeroizing<String>, SecretError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(missing(format!("the value from {origin} is not UTF-8 text"))),
    }
}

fn without_line_end(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned())
}
