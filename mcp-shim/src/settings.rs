//! The shim's settings from the sandbox, all of them from the environment.
//!
//! Only this module knows the names of environment variables; nothing here reads a file.

use shared::limits::{POLL_INTERVAL, TIMEOUT_DEFAULT, TIMEOUT_MAX};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Where the mailbox is, and how the shim behaves at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The group's directory: `EXT_IPC_DIR`, else `NANOCLAW_WORKSPACE_IPC`, else `/workspace/ipc`.
    pub ipc: PathBuf,
    /// Which of the two variables named it; `None` for the default.
    pub ipc_variable: Option<&'static str>,
    /// The way of the documents: `EXT_TRANSPORT`.
    pub transport: Transport,
    /// `EXT_CALL_TIMEOUT`, if it was set.
    pub timeout: Option<Duration>,
    /// The longest pause between two looks for a reply: `EXT_POLL_INTERVAL_MS`.
    pub poll_interval: Duration,
    /// On whose behalf requests are made.
    pub token: TokenSource,
    /// The key that signs every request: `EXT_SIGNING_KEY_FILE`.
    pub signing_key: Option<PathBuf>,
    /// The assumption without a snapshot about whether this is the main group: `NANOCLAW_IS_MAIN=1`.
    pub assumed_main: bool,
    /// Whether each granted action is a tool of its own; `--no-action-tools` turns it off.
    pub action_tools: bool,
    /// Whether the first request begins a conversation where the host asks for one. Only the MCP server does: the
    /// command line has a process for each request.
    pub begins_conversations: bool,
}

/// The way of the documents to the host and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Over the host's socket where it can be reached, else as files.
    Auto,
    /// Over the host's socket only.
    Socket,
    /// As files only.
    Files,
}

/// Where the context token comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenSource {
    /// There is none.
    None,
    /// It is this: `EXT_CONTEXT_TOKEN`, else `ASH_CONTEXT_TOKEN`.
    Fixed(String),
    /// It is in this file, which another process renews: `EXT_CONTEXT_TOKEN_FILE`. Read for every request.
    File(PathBuf),
}

/// A variable that cannot be meant as it is. The shim does not start with it: a mistyped limit that is quietly
/// replaced by another shows only on the day when it matters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} must be {expected}")]
pub struct BadSetting {
    variable: &'static str,
    expected: &'static str,
}

const DEFAULT_DIRECTORY: &str = "/workspace/ipc";
/// Longer pauses than this are no polling any more.
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(10);

impl Settings {
    /// Reads the settings; `variable` looks up an environment variable.
    ///
    /// # Errors
    /// [`BadSetting`] for a duration that is none, or an unknown transport.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, BadSetting> {
        // Container set-ups pass variables on unset as empty; both mean that nothing was said.
        let said = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| said(name).and_then(|value| value.into_string().ok());
        let directory =
            ["EXT_IPC_DIR", "NANOCLAW_WORKSPACE_IPC"].into_iter().find_map(|name| Some((name, said(name)?)));
        let token =
            match (said("EXT_CONTEXT_TOKEN_FILE"), text("EXT_CONTEXT_TOKEN").or_else(|| text("ASH_CONTEXT_TOKEN"))) {
                (Some(file), _) => TokenSource::File(file.into()),
                (None, Some(token)) => TokenSource::Fixed(token.trim().to_owned()),
                (None, None) => TokenSource::None,
            };
        let timeout = millis("EXT_CALL_TIMEOUT", said("EXT_CALL_TIMEOUT"), TIMEOUT_MAX)?;
        let poll_interval = millis("EXT_POLL_INTERVAL_MS", said("EXT_POLL_INTERVAL_MS"), POLL_INTERVAL_MAX)?;
        let transport = match text("EXT_TRANSPORT").as_deref().map(str::trim) {
            // A name that is no text is no name of a transport.
            None if said("EXT_TRANSPORT").is_some() => return Err(BAD_TRANSPORT),
            None | Some("auto") => Transport::Auto,
            Some("socket") => Transport::Socket,
            Some("files") => Transport::Files,
            Some(_) => return Err(BAD_TRANSPORT),
        };
        Ok(Self {
            transport,
            ipc_variable: directory.as_ref().map(|(name, _)| *name),
            ipc: directory.map_or_else(|| DEFAULT_DIRECTORY.into(), |(_, path)| path.into()),
            timeout,
            poll_interval: poll_interval.unwrap_or(POLL_INTERVAL),
            token,
            signing_key: said("EXT_SIGNING_KEY_FILE").map(PathBuf::from),
            assumed_main: text("NANOCLAW_IS_MAIN").is_some_and(|value| value == "1"),
            action_tools: true,
            begins_conversations: false,
        })
    }

    /// Returns the timeout for a reply, with the snapshot's timeout of the provider.
    ///
    /// A slow provider has a longer timeout than usual, but never a longer one than the sandbox's own setting.
    pub fn timeout(&self, provider: Option<Duration>) -> Duration {
        let timeout = match (self.timeout, provider) {
            (Some(ours), Some(theirs)) => ours.min(theirs),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => TIMEOUT_DEFAULT,
        };
        timeout.min(TIMEOUT_MAX)
    }
}

const BAD_TRANSPORT: BadSetting = BadSetting { variable: "EXT_TRANSPORT", expected: "auto, socket or files" };

fn millis(variable: &'static str, value: Option<OsString>, max: Duration) -> Result<Option<Duration>, BadSetting> {
    let Some(value) = value else { return Ok(None) };
    match value.to_str().and_then(|text| text.trim().parse().ok()) {
        None | Some(0) => Err(BadSetting { variable, expected: "a whole number of milliseconds, at least 1" }),
        Some(number) => Ok(Some(Duration::from_millis(number).min(max))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, BadSetting> {
        Settings::read(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn our_variables_come_before_those_of_others() {
        assert_eq!(read(&[]).unwrap().ipc, PathBuf::from("/workspace/ipc"));
        assert_eq!(read(&[("NANOCLAW_WORKSPACE_IPC", "/n")]).unwrap().ipc, PathBuf::from("/n"));
        let both = read(&[("NANOCLAW_WORKSPACE_IPC", "/n"), ("EXT_IPC_DIR", "/e")]).unwrap();
        assert_eq!(both.ipc, PathBuf::from("/e"));
        let empty = read(&[("NANOCLAW_WORKSPACE_IPC", "/n"), ("EXT_IPC_DIR", "")]).unwrap();
        assert_eq!((empty.ipc, empty.ipc_variable), (PathBuf::from("/n"), Some("NANOCLAW_WORKSPACE_IPC")));
    }

    #[test]
    fn a_token_file_comes_before_a_fixed_token() {
        assert_eq!(read(&[]).unwrap().token, TokenSource::None);
        let fixed = read(&[("ASH_CONTEXT_TOKEN", "a"), ("EXT_CONTEXT_TOKEN", "e")]).unwrap();
        assert_eq!(fixed.token, TokenSource::Fixed("e".into()));
        assert_eq!(read(&[("ASH_CONTEXT_TOKEN", "a")]).unwrap().token, TokenSource::Fixed("a".into()));
        let file = read(&[("EXT_CONTEXT_TOKEN", "e"), ("EXT_CONTEXT_TOKEN_FILE", "/t")]).unwrap();
        assert_eq!(file.token, TokenSource::File("/t".into()));
    }

    #[test]
    fn the_timeout_is_capped_and_can_only_be_shortened() {
        let s = |n| Duration::from_secs(n);
        let default = read(&[]).unwrap();
        assert_eq!(default.timeout(None), s(30));
        assert_eq!(default.timeout(Some(s(90))), s(90));
        assert_eq!(default.timeout(Some(s(900))), s(120));
        let set = read(&[("EXT_CALL_TIMEOUT", "60000")]).unwrap();
        assert_eq!(set.timeout(None), s(60));
        assert_eq!(set.timeout(Some(s(90))), s(60));
        assert_eq!(set.timeout(Some(s(5))), s(5));
        assert_eq!(read(&[("EXT_CALL_TIMEOUT", "999999")]).unwrap().timeout(None), s(120));
    }

    #[test]
    fn a_duration_that_is_none_is_said() {
        for value in ["0", "-1", "30s", "1.5", " ", "99999999999999999999"] {
            let fault = read(&[("EXT_CALL_TIMEOUT", value)]).unwrap_err();
            assert!(fault.to_string().starts_with("EXT_CALL_TIMEOUT must be"), "{value}");
        }
        assert_eq!(read(&[("EXT_POLL_INTERVAL_MS", "99999")]).unwrap().poll_interval, POLL_INTERVAL_MAX);
    }
}
