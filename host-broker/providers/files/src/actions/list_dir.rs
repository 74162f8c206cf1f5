//! `list_dir`.

use super::{READS, clipped, guarded, named};
use crate::context::{FilesContext, unread};
use crate::reply::ActionReply;
use crate::workspace::Kind;
use model::Exposure;
use provider::contract::{Execution, Failure, Guard, SideOutput};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::numbers::counted;
use shared::{Level, Timestamp};

/// How many entries are returned unless another number is given.
const ENTRIES: usize = 200;
/// How many entries are returned at most.
const ENTRIES_MAX: usize = 1000;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListDir {
    /// The directory, relative to the workspace; without it, the workspace itself.
    path: Option<String>,
    /// Only names behind this one: the last of the page before.
    after: Option<String>,
    /// At most this many entries, 200 unless given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
}

/// The entries of the directory.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Directory {
    entries: Vec<Entry>,
    /// Whether there are more: ask again with `after`.
    truncated: bool,
    /// How many have names that cannot be asked for.
    unreadable: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    name: String,
    kind: Sort,
    /// How many bytes a file has.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Sort {
    File,
    Directory,
    Link,
    Other,
}

impl ListDir {
    /// The workspace itself has several names.
    fn directory(&self) -> Option<&str> {
        let path = self.path.as_deref().map(|path| path.strip_suffix('/').unwrap_or(path));
        path.filter(|path| !matches!(*path, "" | "."))
    }
}

impl NativeAction for ListDir {
    type Shared = FilesContext;
    type Facts = ();
    type Output = ActionReply<Directory>;

    const NAME: &'static str = "list_dir";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str =
        "Lists a directory of the workspace, in the order of the names. Paths that no call may use are not listed.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;
    const VERBATIM: bool = true;

    fn about(&self) -> Option<Value> {
        Some(json!({ "op": "list_dir", "path": self.directory().map_or_else(|| ".".to_owned(), clipped) }))
    }

    fn summary(&self) -> String {
        format!("list {}", self.directory().map_or_else(|| ".".to_owned(), named))
    }

    fn guard(&self, context: &FilesContext, _facts: Option<&()>, _now: Timestamp) -> Guard {
        self.directory().map_or(Guard::Pass, |path| guarded(context, path))
    }

    fn aside(output: &mut Self::Output) -> Option<SideOutput> {
        output.take_aside()
    }

    async fn run(
        self,
        context: &FilesContext,
        _facts: Option<()>,
        execution: &Execution,
    ) -> Result<(Self::Output, String), Failure> {
        context
            .work(execution, move |context, _, workspace| {
                let path = self.directory().map(|path| context.path(path)).transpose().map_err(Failure::Guard)?;
                let name = path.as_ref().map_or(".", |path| path.as_str());
                let most = self.limit.unwrap_or(ENTRIES).min(ENTRIES_MAX);
                let listing = workspace
                    .list(path.as_ref(), &context.rules, self.after.as_deref(), most)
                    .map_err(|fault| unread(name, &fault))?;
                let entries: Vec<Entry> = listing
                    .items
                    .into_iter()
                    .map(|item| Entry {
                        name: item.name,
                        kind: match item.kind {
                            Kind::File => Sort::File,
                            Kind::Directory => Sort::Directory,
                            Kind::Link => Sort::Link,
                            Kind::Other => Sort::Other,
                        },
                        size: item.size,
                    })
                    .collect();
                let summary = format!("{} of {name}", counted(entries.len(), "entry", "entries"));
                let noted = json!({ "op": "list_dir", "path": name, "entries": entries.len() });
                let directory = Directory { entries, truncated: listing.more, unreadable: listing.unreadable };
                Ok((ActionReply::allowed("fs.list", name, directory, noted), summary))
            })
            .await
    }
}
