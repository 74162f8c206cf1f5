//! The programs that run containers, their images and their users.

use super::ContainerError;
use super::limits::{DockerInfo, PodmanHost, Unsupported};
use crate::Environment;
use crate::commands::located;
use rustix::process::{getegid, geteuid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::str::FromStr;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// The variables of this process that an engine gets: they say where its own files and its daemon are.
///
/// SECURITY: an engine runs outside the container. No other variable reaches it: `LD_PRELOAD` would run code in it, and
/// a proxy with its password would reach the container.
const PASSED: [&str; 17] = [
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "HOME",
    "LANG",
    "LOGNAME",
    "TERM",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];
/// The directories in which an engine looks up its own programs, and those of an image that names none.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The longest time of a command that only looks, or that ends a container.
const ANSWER: Duration = Duration::from_secs(20);

/// A program that runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Podman.
    Podman,
    /// Docker.
    Docker,
}

/// The name of an image, as an engine takes it: `ghcr.io/acme/agent:1.2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Image(String);

/// The users of a container, as its engine makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    /// The numbers are those of the machine.
    Machine,
    /// The engine maps the numbers, but keeps this user's own.
    Kept,
    /// The engine maps the numbers unless an option keeps those of the machine.
    MappedByDefault,
    /// The engine runs as this user, who is root inside.
    Rootless,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Returns the engine that is meant: this one, or the first of both that is installed.
    ///
    /// # Errors
    /// [`ContainerError::NoEngine`].
    pub fn chosen(named: Option<Self>) -> Result<Self, ContainerError> {
        let is_there = |engine: &Self| engine.path().is_some();
        let mut meant = named.map_or(Self::ALL.to_vec(), |named| vec![named]).into_iter();
        let none = ContainerError::NoEngine(named.map_or("podman or docker", Self::word));
        meant.find(is_there).ok_or(none)
    }

    /// Returns its name on a command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    // SECURITY: not in the PATH of this process, which can have a directory that an agent writes to.
    fn path(self) -> Option<PathBuf> {
        located(Path::new(self.word()))
    }

    /// Returns how the engine makes the users of a container.
    ///
    /// # Errors
    /// The engine is not installed, or its daemon does not answer.
    pub async fn users(self, outer: &Environment) -> Result<Users, ContainerError> {
        match self {
            Self::Podman if geteuid().is_root() => Ok(Users::Machine),
            Self::Podman => Ok(Users::Kept),
            Self::Docker => {
                let said = self.asked(outer, &["info", "--format", "{{json .SecurityOptions}}"]).await?;
                // The command of Docker ends well without its daemon, and says why on standard error.
                let options: Option<Vec<String>> = serde_json::from_slice(&said.stdout).ok();
                let is_there = |options: &Vec<String>| !options.is_empty() || said.stderr.is_empty();
                options.filter(|options| said.status.success() && is_there(options)).map_or_else(
                    || Err(ContainerError::Unusable { engine: self, why: last_line(&said.stderr) }),
                    |options| Ok(Users::of(&options)),
                )
            }
        }
    }

    /// Returns the limits that the engine cannot set for a container on this machine.
    ///
    /// # Errors
    /// The engine is not installed, or does not describe itself.
    pub async fn unsupported(self, outer: &Environment) -> Result<Unsupported, ContainerError> {
        let unreadable = |error: serde_json::Error| ContainerError::Unusable {
            engine: self,
            why: format!("its description of itself cannot be read: {error}"),
        };
        match self {
            Self::Podman => {
                let described = self.done(outer, &["info", "--format", "{{json .Host}}"]).await?;
                // The configuration of Podman can have no control groups. Only the help of the command shows that.
                let help = self.done(outer, &["run", "--help"]).await?;
                let host: PodmanHost = serde_json::from_slice(&described).map_err(unreadable)?;
                Ok(Unsupported::of_podman(&host, &String::from_utf8_lossy(&help)))
            }
            Self::Docker => {
                let described = self.done(outer, &["info", "--format", "{{json .}}"]).await?;
                let info: DockerInfo = serde_json::from_slice(&described).map_err(unreadable)?;
                Ok(Unsupported::of_docker(&info))
            }
        }
    }

    /// Runs a command of the engine, and returns its output.
    pub(super) async fn done(self, outer: &Environment, words: &[&str]) -> Result<Vec<u8>, ContainerError> {
        let said = self.asked(outer, words).await?;
        if !said.status.success() {
            return Err(ContainerError::Unusable { engine: self, why: last_line(&said.stderr) });
        }
        Ok(said.stdout)
    }

    /// Returns the engine with its own variables.
    pub(super) fn command(self, outer: &Environment) -> Result<Command, ContainerError> {
        let path = self.path().ok_or(ContainerError::NoEngine(self.word()))?;
        #[expect(clippy::disallowed_methods, reason = "the one place that starts an engine of containers")]
        let mut command = Command::new(path);
        command.env_clear().env("PATH", PATH).kill_on_drop(true);
        command.envs(PASSED.iter().filter_map(|name| Some((name, outer.get(*name)?))));
        Ok(command)
    }

    /// Runs a command of the engine to its end, or until its time is over.
    pub(super) async fn asked(self, outer: &Environment, words: &[&str]) -> Result<Output, ContainerError> {
        let mut command = self.command(outer)?;
        let output = command.args(words).stdin(Stdio::null()).output();
        let late = |_elapsed| ContainerError::Unusable {
            engine: self,
            why: format!("it did not answer within {} s", ANSWER.as_secs()),
        };
        Ok(timeout(ANSWER, output).await.map_err(late)??)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|engine| engine.word() == text);
        known.ok_or_else(|| format!("`{text}` is neither podman nor docker"))
    }
}

impl FromStr for Image {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // SECURITY: the engine would take a word with a hyphen before it as an option.
        let is_part = |b: u8| b.is_ascii_alphanumeric() || b"._-/:@".contains(&b);
        let is_image = text.bytes().all(is_part) && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if is_image { Ok(Self(text.to_owned())) } else { Err(format!("`{text}` is not the name of an image")) }
    }
}

impl TryFrom<String> for Image {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Image> for String {
    fn from(image: Image) -> Self {
        image.0
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Users {
    fn of(options: &[String]) -> Self {
        let has = |name: &str| options.iter().any(|option| option.split(',').any(|part| part == name));
        if has("name=rootless") {
            Self::Rootless
        } else if has("name=userns") {
            Self::MappedByDefault
        } else {
            Self::Machine
        }
    }

    /// Returns the numbers of the agent inside the container. On the machine, they are those of this process.
    pub fn numbers(self) -> (u32, u32) {
        match self {
            Self::Machine | Self::Kept | Self::MappedByDefault => (geteuid().as_raw(), getegid().as_raw()),
            Self::Rootless => (0, 0),
        }
    }

    /// Returns the options of the engine for these users.
    pub(super) fn options(self) -> Vec<OsString> {
        let (user, group) = self.numbers();
        let mapping: &[&str] = match self {
            Self::Machine | Self::Rootless => &[],
            Self::Kept => &["--userns", "keep-id"],
            Self::MappedByDefault => &["--userns", "host"],
        };
        let mut options: Vec<OsString> = mapping.iter().map(OsString::from).collect();
        options.extend(["--user".into(), format!("{user}:{group}").into()]);
        options
    }
}

/// Returns the last line of an error message, without the word before it.
pub(super) fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let line = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it gives no reason").trim();
    line.strip_prefix("Error: ").unwrap_or(line).trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::ffi::OsStr;

    #[test]
    fn an_engine_gets_its_own_variables_only() {
        let engine = Engine::ALL.into_iter().find(|engine| engine.path().is_some());
        let Some(engine) = engine else { return };
        let outer: Environment = ["HOME", "LD_PRELOAD", "PATH", "HTTP_PROXY", "ANTHROPIC_API_KEY"]
            .map(|name| (name.to_owned(), "given".to_owned()))
            .into();
        let command = engine.command(&outer).unwrap();
        let set: BTreeMap<_, _> = command.as_std().get_envs().collect();
        let set = |name: &str| set.get(OsStr::new(name)).copied().flatten();
        assert_eq!(set("HOME"), Some(OsStr::new("given")));
        assert_eq!(set("PATH"), Some(OsStr::new(PATH)));
        assert_eq!([set("LD_PRELOAD"), set("HTTP_PROXY"), set("ANTHROPIC_API_KEY")], [None; 3]);
    }

    #[test]
    fn the_users_follow_from_the_engine() {
        let of = |options: &[&str]| Users::of(&options.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["name=seccomp,profile=builtin", "name=cgroupns"]), Users::Machine);
        assert_eq!(of(&["name=seccomp,profile=builtin", "name=rootless"]), Users::Rootless);
        assert_eq!(of(&["name=apparmor", "name=userns"]), Users::MappedByDefault);
        assert_eq!(Users::Rootless.options(), ["--user", "0:0"]);
    }

    #[test]
    fn the_name_of_an_image_is_no_option() {
        for image in ["alpine", "ghcr.io/acme/agent:1.2", "a@sha256:0123", "127.0.0.1:5000/a_b"] {
            assert_eq!(image.parse::<Image>().unwrap().to_string(), image);
        }
        for wrong in ["", "-v", "--privileged", "a b", "/a", "a\n", "a,b"] {
            wrong.parse::<Image>().unwrap_err();
        }
    }

    #[test]
    fn the_reason_of_an_engine_is_its_last_line() {
        assert_eq!(
            last_line(b"one\nError: inspecting object: a: image not known\n\n"),
            "inspecting object: a: image not known"
        );
        assert_eq!(last_line(b""), "it gives no reason");
    }
}
