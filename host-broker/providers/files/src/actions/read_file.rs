//! `read_file`.

use super::{READS, clipped, guarded, named, refuse};
use crate::context::{FilesContext, no, unread};
use crate::reply::ActionReply;
use crate::workspace::{Excerpt, Lines};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::Exposure;
use provider::contract::{Execution, Failure, Guard, SideOutput};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::{Code, Level, Timestamp};

/// How many lines are returned unless another end is given.
const LINES: u64 = 200;

/// The most bytes of content as JSON, which leaves space for the rest of a reply.
const JSON_BYTES_MAX: usize = 250_000;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// The file, relative to the workspace.
    path: String,
    /// The first line to return; the first of the file is 1.
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// The last line to return; without it, 200 lines.
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
    /// At most this many bytes of content; the operator sets a limit.
    #[schemars(range(min = 1))]
    max_bytes: Option<u64>,
    /// `utf8` for lines of text, `base64` for a whole file of any bytes.
    encoding: Option<Encoding>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Utf8,
    Base64,
}

/// The part of the file that was read.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Read {
    content: String,
    encoding: Encoding,
    returned_range: Range,
    /// SHA-256 of the whole file.
    base_hash: Digest,
    /// Whether something that was asked for is missing.
    truncated: bool,
    max_bytes: usize,
    /// How many lines the file has.
    total_lines: u64,
    /// How many bytes the file has.
    size: u64,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
struct Range {
    start_line: u64,
    end_line: u64,
}

impl ReadFile {
    fn lines(&self) -> Lines {
        let start = self.start_line.unwrap_or(1);
        Lines { start, end: self.end_line.unwrap_or(start.saturating_add(LINES - 1)) }
    }

    fn max_bytes(&self, files: &FilesContext) -> usize {
        let asked = self.max_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        asked.unwrap_or(files.settings.max_read_bytes_default).min(files.settings.max_read_bytes_hard)
    }
}

impl NativeAction for ReadFile {
    type Shared = FilesContext;
    type Facts = ();
    type Output = ActionReply<Read>;

    const NAME: &'static str = "read_file";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Reads lines of a file of the workspace, with base_hash, the SHA-256 of the whole \
        file. Binary files: encoding base64.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;
    const VERBATIM: bool = true;

    fn about(&self) -> Option<Value> {
        Some(json!({ "op": "read_file", "path": clipped(&self.path) }))
    }

    fn summary(&self) -> String {
        let Lines { start, end } = self.lines();
        format!("read {} lines {start}-{end}", named(&self.path))
    }

    fn guard(&self, files: &FilesContext, _facts: Option<&()>, _now: Timestamp) -> Guard {
        let Lines { start, end } = self.lines();
        if end < start {
            return refuse(Code::InvalidParams, "end_line is before start_line.".into());
        }
        guarded(files, &self.path)
    }

    fn aside(output: &mut Self::Output) -> Option<SideOutput> {
        output.take_aside()
    }

    async fn run(
        self,
        files: &FilesContext,
        _facts: Option<()>,
        execution: &Execution,
    ) -> Result<(Self::Output, String), Failure> {
        files
            .work(execution, move |files, _, workspace| {
                let path = files.path(&self.path).map_err(Failure::Guard)?;
                let max_bytes = self.max_bytes(files);
                let fault = |fault| unread(path.as_str(), &fault);
                let content = match self.encoding.unwrap_or(Encoding::Utf8) {
                    Encoding::Utf8 => {
                        let read = workspace.read_lines(&path, self.lines(), max_bytes).map_err(fault)?;
                        let Excerpt { content, returned, total_lines, size, hash, truncated } = read;
                        Read {
                            content,
                            encoding: Encoding::Utf8,
                            returned_range: Range { start_line: returned.start, end_line: returned.end },
                            base_hash: hash,
                            truncated,
                            max_bytes,
                            total_lines,
                            size,
                        }
                    }
                    Encoding::Base64 => {
                        let most = u64::try_from(max_bytes).unwrap_or(u64::MAX);
                        let state = workspace.read_whole(&path, most).map_err(fault)?;
                        let bytes = state.bytes();
                        let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
                        let total_lines = u64::try_from(lines).unwrap_or(u64::MAX);
                        Read {
                            content: STANDARD.encode(bytes),
                            encoding: Encoding::Base64,
                            returned_range: Range { start_line: 1, end_line: total_lines },
                            base_hash: state.hash(),
                            truncated: false,
                            max_bytes,
                            total_lines,
                            size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
                        }
                    }
                };
                // Written as JSON it can be several times as long; a cut could not be told from the content.
                if serde_json::to_string(&content.content).is_ok_and(|text| text.len() > JSON_BYTES_MAX) {
                    return Err(no(Code::TooLarge, &"these bytes are too long as JSON; ask for fewer with max_bytes"));
                }
                let Range { start_line, end_line } = content.returned_range;
                let summary = format!("{path} lines {start_line}-{end_line} of {}", content.total_lines);
                let noted = json!({
                    "op": "read_file",
                    "path": path.as_str(),
                    "base_hash": content.base_hash,
                    "returned_range": content.returned_range,
                });
                Ok((ActionReply::allowed("fs.read", path.as_str(), content, noted), summary))
            })
            .await
    }
}
