//! Provider: notes, one in each line of a file: `NONCE BYTES TEXT`.

use model::{EffectMarker, Exposure, Refusal};
use provider::child;
use provider::contract::{Execution, Failure, Guard, Probed, Success};
use provider::kind::{BuiltProvider, Configured, ProviderDeps, ProviderKind, SettingsKind};
use provider::native::{NativeAction, SharedState, operation};
use provider::table;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{Code, Level, Provider, Timestamp};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind `notes`.
pub const KIND: &dyn ProviderKind = &SettingsKind::<Settings>::new("notes");

/// The provider reads no more bytes of the file.
const BYTES_MAX: u64 = 1024 * 1024;

/// The settings of the notes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The path of the file, relative to the home.
    pub file: PathBuf,
}

impl Configured for Settings {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        table::write(self)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        BTreeMap::new()
    }

    fn child(&self) -> Option<&child::Settings> {
        None
    }

    fn trusted_files(&self) -> Vec<&Path> {
        // The notes decide nothing.
        Vec::new()
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let notes = Arc::new(Notes { file: deps.home.path().join(&self.file) });
        let actions = [operation::<ListNotes>(name, &notes), operation::<AddNote>(name, &notes)];
        let actions: Result<Vec<_>, _> = actions.into_iter().collect();
        Ok(vec![BuiltProvider::new(name, actions.map_err(|error| error.to_string())?)])
    }
}

/// The state that the actions share.
struct Notes {
    file: PathBuf,
}

// The provider has no accounts of persons.
impl SharedState for Notes {}

/// The parameters of `list_notes`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListNotes {
    /// Only the notes that contain this text.
    #[serde(default)]
    contains: Option<String>,
}

/// The result of `list_notes`.
#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    notes: Vec<String>,
}

impl NativeAction for ListNotes {
    type Shared = Notes;
    type Facts = ();
    type Output = Listed;

    const NAME: &'static str = "list_notes";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Lists the notes, the oldest first.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = Exposure { untrusted: true, sensitive: true, egress: false };

    fn summary(&self) -> String {
        "list the notes".to_owned()
    }

    fn guard(&self, _notes: &Notes, _facts: Option<&()>, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    async fn run(self, notes: &Notes, _facts: Option<()>, _execution: &Execution) -> Result<(Listed, String), Failure> {
        let notes: Vec<String> = lines(&notes.file)
            .await?
            .iter()
            .filter_map(|line| parsed(line))
            .map(|(_nonce, note)| note.to_owned())
            .filter(|note| self.contains.as_ref().is_none_or(|wanted| note.contains(wanted)))
            .collect();
        let summary = format!("{} notes", notes.len());
        Ok((Listed { notes }, summary))
    }
}

/// Returns the nonce and the text of a line; `None` if the line is incomplete.
fn parsed(line: &str) -> Option<(&str, &str)> {
    let (nonce, rest) = line.split_once(' ')?;
    let (bytes, note) = rest.split_once(' ')?;
    (bytes.parse() == Ok(note.len())).then_some((nonce, note))
}

/// Reads the lines of the file. A file can block, so another thread reads it.
async fn lines(file: &Path) -> Result<Vec<String>, Failure> {
    let file = file.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        File::open(file)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    });
    let text: Result<String, std::io::Error> =
        read.await.map_err(|_panic| Failure::Unavailable { message: "the provider failed".to_owned() })?;
    match text {
        Ok(text) if u64::try_from(text.len()).is_ok_and(|bytes| bytes <= BYTES_MAX) => {
            Ok(text.lines().map(str::to_owned).collect())
        }
        Ok(_) => Err(Failure::Unavailable { message: "the file is too long".to_owned() }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Failure::Unavailable { message: error.to_string() }),
    }
}

/// The parameters of `add_note`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddNote {
    /// The note, one line.
    #[schemars(length(min = 1, max = 1000))]
    text: String,
}

/// The result of `add_note`.
#[derive(Debug, Serialize, JsonSchema)]
struct Added {
    bytes: usize,
}

impl NativeAction for AddNote {
    type Shared = Notes;
    type Facts = ();
    type Output = Added;

    const NAME: &'static str = "add_note";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str = "Adds a note.";
    const IDEMPOTENT: bool = false;
    // The note stays on this host.
    const EXPOSES: Exposure = Exposure::NONE;

    fn summary(&self) -> String {
        format!("add a note of {} bytes", self.text.len())
    }

    fn guard(&self, _notes: &Notes, _facts: Option<&()>, _now: Timestamp) -> Guard {
        if self.text.contains(char::is_control) {
            return Guard::Refuse(Refusal { code: Code::Guardrail, reason: "A note is one line.".to_owned() });
        }
        Guard::Pass
    }

    async fn run(self, notes: &Notes, _facts: Option<()>, execution: &Execution) -> Result<(Added, String), Failure> {
        let bytes = self.text.len();
        // The line break comes first: a note never continues an incomplete line.
        let line = format!("\n{} {bytes} {}", execution.nonce().as_str(), self.text);
        let file = notes.file.clone();
        let added = tokio::task::spawn_blocking(move || {
            let opened = OpenOptions::new().create(true).append(true).open(file);
            // Nothing was changed before the file is open.
            let mut opened = opened.map_err(|error| Failure::Refused { message: error.to_string() })?;
            // A write that fails may have written a part.
            opened.write_all(line.as_bytes()).map_err(|error| Failure::Unknown { message: error.to_string() })
        });
        added.await.map_err(|_panic| Failure::Unknown { message: "the provider failed".to_owned() })??;
        Ok((Added { bytes }, format!("added a note of {bytes} bytes")))
    }

    fn probe_handle(&self, _facts: Option<&()>, marker: &EffectMarker) -> Option<Value> {
        Some(json!(marker.nonce.as_str()))
    }

    async fn probe(notes: &Notes, handle: Value, _execution: &Execution) -> Result<Probed, Failure> {
        let Some(nonce) = handle.as_str() else {
            return Ok(Probed::State { message: "the handle is damaged".to_owned() });
        };
        let lines = lines(&notes.file).await?;
        let Some(line) = lines.iter().find(|line| line.split(' ').next() == Some(nonce)) else {
            return Ok(Probed::Absent { message: "the note is not in the file".to_owned() });
        };
        Ok(match parsed(line) {
            Some((_nonce, note)) => {
                Probed::Happened(Success::new(json!({ "bytes": note.len() }), "the note is in the file".to_owned()))
            }
            None => Probed::State { message: "a part of the note is in the file".to_owned() },
        })
    }
}
