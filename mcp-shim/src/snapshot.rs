//! The snapshot: the group's capabilities, as the host last wrote them, and the tools that follow from them.
//!
//! It informs; it permits nothing. The host decides every call again, independent of the snapshot.

use crate::document::now;
use crate::render::{self, Unusable};
use crate::settings::Settings;
use crate::tools::{self, action::ActionTool};
use rmcp::model::Tool;
use serde_json::{Map, Value};
use shared::Provider;
use shared::digest::Digest;
use shared::limits::REPLY_BYTES_MAX;
use shared::mailbox::{self, Directory, FileIdentity, MailboxError, ReadError};
use shared::snapshot::Snapshot;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One state of the snapshot and everything that is derived from it.
#[derive(Debug, Default)]
pub struct View {
    /// The document as it was written, with the members that this version does not know.
    pub document: Option<Value>,
    /// The part that this version knows.
    pub snapshot: Option<Snapshot>,
    /// Why there is no document although there should be one, for an agent.
    pub fault: Option<String>,
    /// Whether the group's directory could be opened.
    pub mounted: bool,
    /// Whether this is the main group.
    pub is_main: bool,
    /// The granted actions that are tools of their own.
    pub actions: Vec<ActionTool>,
    /// All tools, in the order in which they are listed.
    pub tools: Vec<Tool>,
}

/// Reads the snapshot when it has changed.
#[derive(Debug)]
pub struct Snapshots {
    settings: Settings,
    seen: Mutex<Option<Seen>>,
}

/// A view, and its source.
#[derive(Debug)]
struct Seen {
    identity: Option<FileIdentity>,
    /// Whether the file had been at rest when it was read. One that had just been written may be written again
    /// within the clock's grain, on the same inode, and would look the same.
    settled: bool,
    source: Source,
    view: Arc<View>,
}

/// The file in the place of the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// No document.
    Nothing,
    /// One with this content.
    Document(Digest),
    /// Something that cannot be read, and why.
    Fault(String),
}

/// Coarser than the time stamps of any file system that matters.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

impl Snapshots {
    /// Reads nothing yet.
    pub fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone(), seen: Mutex::new(None) }
    }

    /// Returns the present view.
    ///
    /// It costs one look at the file while it does not change. The same content keeps the same view, so a comparison of
    /// views shows no change.
    pub fn view(&self) -> Arc<View> {
        let directory = Directory::open(&self.settings.ipc);
        let mounted = directory.is_ok();
        let identity = directory.as_ref().ok().and_then(|directory| directory.look(mailbox::SNAPSHOT));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.as_ref().filter(|before| before.view.mounted == mounted);
        if let Some(before) = before
            && before.settled
            && before.identity == identity
        {
            return Arc::clone(&before.view);
        }
        let (source, bytes) = self.read(&directory);
        let view = match before {
            Some(before) if before.source == source => Arc::clone(&before.view),
            Some(_) | None => Arc::new(self.build(&source, &bytes, mounted)),
        };
        let settled = identity.is_none_or(settled);
        *seen = Some(Seen { identity, settled, source, view: Arc::clone(&view) });
        view
    }

    fn read(&self, directory: &Result<Directory, MailboxError>) -> (Source, Vec<u8>) {
        let fault = |fault: String| (Source::Fault(fault), Vec::new());
        match directory.as_ref().map(|directory| directory.read(mailbox::SNAPSHOT, REPLY_BYTES_MAX, None)) {
            Ok(Ok(contents)) => (Source::Document(Digest::of(&contents.bytes)), contents.bytes),
            Ok(Err(ReadError::Missing)) => (Source::Nothing, Vec::new()),
            Ok(Err(unread)) => fault(render::unreadable_snapshot(&unread.to_string())),
            Err(error) => fault(render::unusable_mailbox(&self.settings, Unusable::Directory, error)),
        }
    }

    fn build(&self, source: &Source, bytes: &[u8], mounted: bool) -> View {
        let mut view = View { mounted, ..View::default() };
        match source {
            Source::Nothing => {}
            Source::Fault(fault) => view.fault = Some(fault.clone()),
            Source::Document(_) => match parse(bytes) {
                Ok((document, snapshot)) => (view.document, view.snapshot) = (Some(document), Some(snapshot)),
                Err(fault) => view.fault = Some(render::unreadable_snapshot(&fault)),
            },
        }
        // Hosts that know no main group in a snapshot tell the sandbox in the environment.
        let said = view.document.as_ref().and_then(|document| document.get("is_main")).and_then(Value::as_bool);
        view.is_main = said.unwrap_or(self.settings.assumed_main);
        if self.settings.action_tools {
            view.actions = view.snapshot.as_ref().map(tools::action::all).unwrap_or_default();
        }
        view.tools = tools::list(&view);
        view
    }
}

impl View {
    /// How long the host says a caller of this provider should wait.
    pub fn timeout(&self, provider: &Provider) -> Option<Duration> {
        let capabilities = &self.snapshot.as_ref()?.capabilities;
        let capability = capabilities.iter().find(|capability| capability.provider == *provider)?;
        capability.timeout_ms.map(Duration::from_millis)
    }

    /// Checks whether the group may open some gate.
    pub fn opens_gates(&self) -> bool {
        self.is_main || self.snapshot.as_ref().is_some_and(|snapshot| !snapshot.opens_gates.is_empty())
    }

    /// Checks whether the group may request access to a provider.
    pub fn requests_access(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| !snapshot.may_request.is_empty())
    }

    /// Checks whether the group may link accounts of persons.
    pub fn links_accounts(&self) -> bool {
        self.snapshot.as_ref().is_some_and(tools::action::links_accounts)
    }
}

fn settled(identity: FileIdentity) -> bool {
    let now_ns = i128::from(now().millis()) * 1_000_000;
    now_ns.saturating_sub(identity.changed_ns) > i128::try_from(CLOCK_GRAIN.as_nanos()).unwrap_or(i128::MAX)
}

fn parse(bytes: &[u8]) -> Result<(Value, Snapshot), String> {
    let document: Map<String, Value> = shared::json::parse_object(bytes).map_err(|fault| fault.to_string())?;
    let document = Value::Object(document);
    let snapshot = serde_json::from_value(document.clone()).map_err(|fault| fault.to_string())?;
    Ok((document, snapshot))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshots(directory: &tempfile::TempDir) -> Snapshots {
        let mut settings = Settings::read(|_| None).unwrap();
        settings.ipc = directory.path().to_owned();
        Snapshots::new(&settings)
    }

    fn write(directory: &tempfile::TempDir, text: &str) {
        Directory::open(directory.path()).unwrap().write(mailbox::SNAPSHOT, text.as_bytes(), 0o644).unwrap();
    }

    const EMPTY: &str = r#"{"generatedAt":"x","capabilities":[],"providers_available":[]}"#;

    #[test]
    fn a_change_is_seen_however_soon_it_comes() {
        let directory = tempfile::tempdir().unwrap();
        let snapshots = snapshots(&directory);
        assert!(snapshots.view().document.is_none());
        for round in 0..50 {
            let text = EMPTY.replace("\"x\"", &format!("\"{round}\""));
            write(&directory, &text);
            assert_eq!(snapshots.view().snapshot.as_ref().unwrap().generated_at, round.to_string());
        }
        std::fs::remove_file(directory.path().join(mailbox::SNAPSHOT)).unwrap();
        assert!(snapshots.view().document.is_none());
    }

    #[test]
    fn the_same_content_keeps_the_same_view() {
        let directory = tempfile::tempdir().unwrap();
        let snapshots = snapshots(&directory);
        write(&directory, EMPTY);
        let view = snapshots.view();
        write(&directory, EMPTY);
        assert!(Arc::ptr_eq(&view, &snapshots.view()));
    }

    #[test]
    fn a_snapshot_that_cannot_be_read_is_not_the_same_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let snapshots = snapshots(&directory);
        for text in ["{", "[]", "{}", r#"{"generatedAt":1,"capabilities":[]}"#] {
            write(&directory, text);
            let view = snapshots.view();
            assert!(view.fault.is_some() && view.document.is_none(), "{text}");
            assert!(!view.tools.is_empty());
        }
    }

    #[test]
    fn a_directory_that_is_not_mounted_is_not_one_without_a_grant_and_may_be_mounted_later() {
        let directory = tempfile::tempdir().unwrap();
        let mut snapshots = snapshots(&directory);
        snapshots.settings.ipc = directory.path().join("later");
        assert!(snapshots.view().fault.as_ref().unwrap().contains("is not mounted"));
        std::fs::create_dir(directory.path().join("later")).unwrap();
        assert_eq!(snapshots.view().fault, None);
    }

    #[test]
    fn the_environment_counts_only_where_the_snapshot_is_silent() {
        let directory = tempfile::tempdir().unwrap();
        let mut snapshots = snapshots(&directory);
        snapshots.settings.assumed_main = true;
        assert!(snapshots.view().is_main);
        write(&directory, EMPTY);
        assert!(snapshots.view().is_main);
        write(&directory, &EMPTY.replace('}', r#","is_main":false}"#));
        assert!(!snapshots.view().is_main);
        snapshots.settings.assumed_main = false;
        write(&directory, &EMPTY.replace('}', r#","is_main":true}"#));
        assert!(snapshots.view().is_main);
    }
}
