//! Results of MCP tools that came through the broker: their blocks are passed on as they are, pictures as pictures.
//!
//! A result is known by its shape, which other providers could have, too. It does not matter: only the display of the
//! data follows from it.

use rmcp::model::ContentBlock;
use serde_json::{Value, json};
use shared::{Reply, Status};

/// A tool's answer.
pub(super) struct Answer {
    /// Its blocks.
    pub(super) content: Vec<ContentBlock>,
    /// Whether the tool says that it failed.
    pub(super) has_failed: bool,
}

/// The tool's answer in a reply, if it is one.
pub(super) fn answer(reply: &Reply) -> Option<Answer> {
    let data = reply.data.as_ref().filter(|_| reply.status == Status::Executed)?.as_object()?;
    let known = |key: &String| ["content", "structuredContent", "isError"].contains(&key.as_str());
    if !data.keys().all(known) {
        return None;
    }
    let blocks = data.get("content")?.as_array()?.iter().cloned().map(serde_json::from_value);
    let content = blocks.collect::<Result<Vec<ContentBlock>, _>>().ok()?;
    let has_failed = data.get("isError") == Some(&Value::Bool(true));
    Some(Answer { content, has_failed })
}

impl Answer {
    /// Checks whether all of it can be read as text. Clients that show their model the data instead of the blocks would
    /// else keep a picture from it.
    pub(super) fn is_text(&self) -> bool {
        self.content.iter().all(|block| block.as_text().is_some())
    }

    /// Returns the one text that a model reads of it.
    pub(super) fn text(&self) -> String {
        let said = |block: &ContentBlock| match block.as_text() {
            Some(text) => text.text.clone(),
            None => json!(block).to_string(),
        };
        self.content.iter().map(said).collect::<Vec<_>>().join("\n")
    }
}
