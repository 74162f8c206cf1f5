//! The conversion from a tool's answer to the data of a reply.
//!
//! ```json
//! { "content": [{ "type": "text", "text": "…" }], "structuredContent": { … }, "isError": true }
//! ```
//!
//! It is the result as the server gives it, without `_meta`, and with `isError` only where the tool says that it
//! failed.

use base64::Engine as _;
use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};

/// So much of a result may be pictures, sounds and files, in bytes of their base64: a reply holds no more than 256 KiB, and
/// half a picture is none.
const BINARY_MAX: usize = 160 * 1024;

/// The data of a reply.
pub(super) fn data(result: CallToolResult) -> Value {
    let CallToolResult { content, structured_content, is_error, .. } = result;
    let mut left = BINARY_MAX;
    let blocks = content.into_iter().filter_map(|block| serde_json::to_value(block).ok());
    let blocks: Vec<Value> = blocks.map(|block| shown(block, &mut left)).collect();
    let mut data = Map::from_iter([("content".to_owned(), Value::Array(blocks))]);
    data.extend(structured_content.map(|value| ("structuredContent".to_owned(), value)));
    if is_error == Some(true) {
        data.insert("isError".to_owned(), Value::Bool(true));
    }
    Value::Object(data)
}

/// Checks whether the tool says that it failed.
pub(super) fn has_failed(data: &Value) -> bool {
    data.get("isError") == Some(&Value::Bool(true))
}

/// Returns a block without `_meta`; in the place of a too long one, a note of its kind.
fn shown(mut block: Value, left: &mut usize) -> Value {
    let Some(members) = block.as_object_mut() else { return block };
    members.remove("_meta");
    let mut inner = members.get_mut("resource").and_then(Value::as_object_mut);
    if let Some(resource) = &mut inner {
        resource.remove("_meta");
    }
    let (holder, key) = match inner {
        Some(resource) => (resource, "blob"),
        None => (members, "data"),
    };
    let Some(encoded) = holder.get(key).and_then(Value::as_str) else { return block };
    if let Some(rest) = left.checked_sub(encoded.len()) {
        *left = rest;
        return block;
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).map_or(encoded.len(), |bytes| bytes.len());
    let what = holder.get("mimeType").and_then(Value::as_str).unwrap_or("something binary");
    json!({ "type": "text", "text": format!("({what}, {bytes} bytes: too long for a reply, so it was left out)") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(result: Value) -> Value {
        data(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn every_kind_of_block_comes_through_without_meta() {
        let blocks = json!([
            { "type": "text", "text": "hello", "annotations": { "audience": ["user"], "priority": 1.0 } },
            { "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" },
            { "type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav" },
            { "type": "resource_link", "uri": "file:///a", "name": "a" },
            { "type": "resource", "resource": { "uri": "file:///a", "mimeType": "text/plain", "text": "a" } },
            { "type": "resource", "resource": { "uri": "file:///b", "blob": "aGVsbG8=" } },
        ]);
        let mut with_meta = blocks.clone();
        for block in with_meta.as_array_mut().unwrap() {
            block["_meta"] = json!({ "secret": "of the server's" });
            if let Some(resource) = block.get_mut("resource") {
                resource["_meta"] = json!({ "x": 1 });
            }
        }
        let result = json!({ "content": with_meta, "structuredContent": { "n": 1 }, "_meta": { "x": 1 } });
        assert_eq!(answered(result), json!({ "content": blocks, "structuredContent": { "n": 1 } }));
    }

    #[test]
    fn only_a_failure_is_marked() {
        let failed = answered(json!({ "content": [], "isError": true }));
        assert_eq!((has_failed(&failed), &failed), (true, &json!({ "content": [], "isError": true })));
        assert_eq!(answered(json!({ "content": [], "isError": false })), json!({ "content": [] }));
    }

    #[test]
    fn structured_content_may_be_null() {
        let result = json!({ "content": [], "structuredContent": null });
        assert_eq!(answered(result.clone()), result);
    }

    #[test]
    fn content_too_long_for_a_reply_is_left_out_whole() {
        let picture = "QUJD".repeat(BINARY_MAX / 4);
        let image = |data: &str| json!({ "type": "image", "data": data, "mimeType": "image/png" });
        let answer = answered(json!({ "content": [image(&picture), image("QUJD")] }));
        assert_eq!(answer["content"][0], image(&picture));
        let said = answer["content"][1]["text"].as_str().unwrap();
        assert_eq!(said, "(image/png, 3 bytes: too long for a reply, so it was left out)");
        let file = json!({ "type": "resource", "resource": { "uri": "file:///a", "blob": format!("{picture}QUJD") } });
        let answer = answered(json!({ "content": [file] }));
        assert!(answer["content"][0]["text"].as_str().unwrap().starts_with("(something binary, "), "{answer}");
    }
}
