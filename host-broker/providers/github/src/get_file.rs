//! `get_file`.

use crate::base::Target;
use crate::client::Session;
use crate::fields::{count, text};
use crate::guardrails::refusal;
use crate::params::{BranchName, FilePath, Owner, Repo, RepoName};
use crate::read::Read;
use crate::unusual;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use provider::contract::{Failure, Guard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::limits::DATA_BYTES_MAX;

/// The most bytes of a file in one answer, and of their JSON. A cut answer would lose text between two parts.
const PART_BYTES: usize = 128 * 1024;
const JSON_BYTES: usize = DATA_BYTES_MAX / 4 * 3;
/// A directory with so many entries can have more. GitHub lists no others.
const ENTRIES: usize = 1000;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetFile {
    /// The owner of the repository.
    owner: Owner,
    /// The name of the repository.
    repo: RepoName,
    /// The path of a file or directory; the top directory, unless set.
    #[serde(default)]
    path: Option<FilePath>,
    /// A branch, a tag, or a full commit id; the default branch, unless set.
    #[serde(default)]
    r#ref: Option<BranchName>,
    /// The `next_offset` of the part before.
    #[serde(default)]
    #[schemars(range(max = 1_048_576))]
    offset: usize,
}

/// A file, or the entries of a directory.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Content {
    /// The id of the content (the blob).
    #[serde(skip_serializing_if = "Option::is_none")]
    sha: Option<String>,
    /// The bytes of the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// The text, at most 128 KiB of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The bytes in base64, if the file is not UTF-8; at most 128 KiB of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// The offset of the next part, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// The entries of a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<Entry>>,
    /// Whether the directory can have more entries than GitHub lists.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

/// An entry of a directory.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// The path.
    path: String,
    /// `file`, `dir` or `symlink`. GitHub lists a submodule as a file.
    kind: String,
    /// The bytes of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

impl Read for GetFile {
    type Output = Content;

    const NAME: &'static str = "get_file";
    const DESCRIPTION: &'static str =
        "Reads a file of at most 1 MiB in parts, or lists a directory, at a branch, a tag or a commit.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("read a file of {}", self.repo())
    }

    fn guard(&self) -> Guard {
        let is_pull = |name: &BranchName| name.as_str().to_ascii_lowercase().starts_with("pull/");
        if self.r#ref.as_ref().is_some_and(is_pull) {
            return Guard::Refuse(refusal("ref is a branch, a tag or a full commit id, such as head_sha of get_pr."));
        }
        Guard::Pass
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Content, String), Failure> {
        let at = Target::repo(self.repo()).then("contents");
        let at = self.path.iter().fold(at, Target::file);
        let at = self.r#ref.iter().fold(at, |at, name| at.with("ref", name.as_str()));
        let v = session.get(&at).await?;
        let content = match &v {
            Value::Array(entries) => {
                let entries: Option<Vec<Entry>> = entries.iter().map(entry).collect();
                let entries = entries.ok_or_else(unusual)?;
                Content { more: entries.len() >= ENTRIES, entries: Some(entries), ..Content::default() }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => self.file(&v)?,
        };
        Ok((content, format!("a file of {}", self.repo())))
    }
}

impl GetFile {
    fn file(&self, v: &Value) -> Result<Content, Failure> {
        let refused = |message: &str| Failure::Refused { message: message.to_owned() };
        match text(v, "/type").as_deref() {
            Some("file") => {}
            Some(_) => return Err(refused("The path is a link or a submodule, which has no content of its own.")),
            None => return Err(unusual()),
        }
        // GitHub leaves the content of a larger file out.
        if text(v, "/encoding").as_deref() != Some("base64") {
            return Err(refused("The file has more than 1 MiB."));
        }
        let lines = text(v, "/content").ok_or_else(unusual)?;
        let bytes = BASE64_STANDARD.decode(lines.replace(['\n', '\r'], "")).map_err(|_bad| unusual())?;
        let rest = bytes.get(self.offset..).ok_or_else(|| refused("The offset is past the end of the file."))?;
        let whole_text = std::str::from_utf8(&bytes).is_ok();
        let mut most = rest.len().min(PART_BYTES);
        let (end, part_text) = loop {
            let mut end = most;
            while whole_text && end < rest.len() && !is_boundary(rest, end) {
                end -= 1;
            }
            let part = rest.get(..end).unwrap_or_default();
            let part_text = String::from_utf8(part.to_vec()).ok().filter(|_| whole_text);
            let is_small = part_text.as_ref().is_none_or(|text| json!(text).to_string().len() <= JSON_BYTES);
            if is_small {
                break (end, part_text);
            }
            most /= 2;
        };
        let part = rest.get(..end).unwrap_or_default();
        Ok(Content {
            sha: text(v, "/sha"),
            size: count(v, "/size"),
            base64: part_text.is_none().then(|| BASE64_STANDARD.encode(part)),
            text: part_text,
            next_offset: (end < rest.len()).then_some(self.offset.saturating_add(end)),
            ..Content::default()
        })
    }
}

/// Returns whether a character of UTF-8 begins at this place.
fn is_boundary(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
}

fn entry(v: &Value) -> Option<Entry> {
    Some(Entry { path: text(v, "/path")?, kind: text(v, "/type")?, size: count(v, "/size") })
}
