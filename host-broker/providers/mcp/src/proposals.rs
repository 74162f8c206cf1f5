//! Proposed levels and exposures of a tool, from the server's description.
//!
//! A proposal is a suggestion to a person. It never counts by itself: only lines in `broker.toml` count. If a
//! definition says too little, the stricter value is proposed.

use super::tools::{ServerTool, ToolTable};
use model::{Exposes, Tier};
use serde_json::Value;
use shared::Level;

/// Names of tools that only read begin with one of these words.
const READS: [&str; 26] = [
    "get",
    "list",
    "read",
    "search",
    "find",
    "fetch",
    "show",
    "view",
    "describe",
    "lookup",
    "count",
    "query",
    "status",
    "diff",
    "log",
    "check",
    "open",
    "browse",
    "download",
    "explain",
    "summarize",
    "tree",
    "info",
    "whoami",
    "convert",
    "calculate",
];
/// Words in the names of tools that take something away or cannot be undone.
const DESTROYS: [&str; 12] = [
    "delete",
    "remove",
    "drop",
    "purge",
    "destroy",
    "reset",
    "revoke",
    "wipe",
    "kill",
    "overwrite",
    "uninstall",
    "cancel",
];
/// Words in the names of tools that move money or change production.
const COSTS: [&str; 12] = [
    "pay", "payment", "transfer", "charge", "refund", "purchase", "buy", "order", "payout", "deploy", "merge",
    "release",
];
/// Words in the names of tools that look for public data, or compute something.
const PUBLIC: [&str; 15] = [
    "web",
    "internet",
    "url",
    "website",
    "news",
    "wikipedia",
    "time",
    "timezone",
    "weather",
    "forecast",
    "calculate",
    "calculator",
    "math",
    "currency",
    "dictionary",
];
/// Words that may stand beside those: `get_current_time` is about public data, `get_time_entries` may not be.
const BESIDE_PUBLIC: [&str; 9] = ["current", "now", "today", "local", "for", "in", "of", "the", "page"];
/// Words in the names of parameters that choose where a request goes.
const ADDRESSES: [&str; 14] = [
    "url",
    "urls",
    "uri",
    "href",
    "link",
    "domain",
    "host",
    "endpoint",
    "webhook",
    "email",
    "recipient",
    "recipients",
    "to",
    "address",
];

/// A proposal, and why it is made.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The proposed settings.
    pub table: ToolTable,
    /// The reasons for a person, half a sentence each.
    pub why: Vec<&'static str>,
}

/// Proposes settings for this tool. `has_network` says whether the server can reach anything. The operator's own line has
/// the `level` if there is one; the exposures are then those of a tool of this level.
pub fn propose(said: &ServerTool, has_network: bool, level: Option<Level>) -> Proposal {
    let mut why = Vec::new();
    let name = words(said.name());
    let has = |list: &[&str]| name.iter().any(|word| list.contains(&word.as_str()));
    let hint = |key: &str| said.annotations().and_then(|hints| hints.get(key)).and_then(Value::as_bool);
    let destroys = hint("destructiveHint") == Some(true) && hint("readOnlyHint") != Some(true) || has(&DESTROYS);
    let reads = match hint("readOnlyHint") {
        Some(true) if has(&DESTROYS) || has(&COSTS) => {
            why.push("it says that it only reads, but its name says otherwise");
            false
        }
        Some(true) => {
            why.push("it says that it only reads");
            true
        }
        Some(false) => {
            why.push("it says that it changes something");
            false
        }
        None if !destroys && name.first().is_some_and(|first| READS.contains(&first.as_str())) => {
            why.push("its name is that of a read");
            true
        }
        None => {
            why.push("it does not say that it only reads");
            false
        }
    };
    let (proposed, tier) = if reads {
        (Level::Read, None)
    } else if has(&COSTS) {
        why.push("its name is about money or production");
        (Level::Production, Some(Tier::Human))
    } else if destroys {
        why.push("it takes something away");
        (Level::Write, Some(Tier::Human))
    } else {
        (Level::Write, None)
    };
    let idempotent = reads || hint("idempotentHint") == Some(true);
    let is_read = level.map_or(reads, |level| level <= Level::Read);
    if is_read != reads {
        why.push("your line for it says otherwise, and counts");
    }
    let exposes = exposes(said, &name, is_read, has_network, hint("openWorldHint"), &mut why);
    Proposal { table: ToolTable { level: proposed, tier, exposes: Some(exposes), idempotent }, why }
}

fn exposes(
    said: &ServerTool,
    name: &[String],
    reads: bool,
    has_network: bool,
    open_world: Option<bool>,
    why: &mut Vec<&'static str>,
) -> Vec<Exposes> {
    let is_public = is_public(name);
    let takes_address = parameters(said).iter().any(|word| ADDRESSES.contains(&word.as_str()));
    // SECURITY: an output schema binds only the structured part of a result. Its `content` is free text.
    let mut exposes = vec![Exposes::Untrusted];
    if is_public {
        why.push("its name is about public content, so its results are not private");
    } else {
        exposes.push(Exposes::Sensitive);
    }
    if !has_network {
        why.push("its server reaches nothing, so no data leaves");
    } else if open_world == Some(false) {
        why.push("it says that it stays in a closed world, so no data leaves");
    } else if !reads || is_public || takes_address {
        exposes.push(Exposes::Egress);
    } else {
        why.push("it is a read that takes no address, so no data leaves");
    }
    exposes
}

/// Returns whether a name is plainly about public data: every word of it is.
fn is_public(name: &[String]) -> bool {
    let is_of = |list: &[&str], word: &String| list.contains(&word.as_str());
    name.iter().any(|word| is_of(&PUBLIC, word))
        && name.iter().all(|word| [&PUBLIC[..], &BESIDE_PUBLIC, &READS].iter().any(|list| is_of(list, word)))
}

/// Returns the words of a name: `getFile_info` has three.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the words in the names of its parameters.
fn parameters(said: &ServerTool) -> Vec<String> {
    let schema = said.input_schema();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|all| all.keys().flat_map(|name| words(name)).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn proposed(tool: Value, has_network: bool) -> (u8, Option<&'static str>, Vec<Exposes>) {
        let Proposal { table, why } =
            propose(&ServerTool::of(&serde_json::from_value(tool).unwrap()), has_network, None);
        assert!(!why.is_empty());
        (table.level.number(), table.tier.map(Tier::word), table.exposes.unwrap())
    }

    #[test]
    fn a_proposal_follows_the_hints_and_the_name_and_is_strict_where_they_say_nothing() {
        use Exposes::{Egress, Sensitive, Untrusted};
        let tool = |name: &str, hints: Value| json!({ "name": name, "inputSchema": {}, "annotations": hints });
        let (read, open) = (json!({ "readOnlyHint": true }), json!({ "readOnlyHint": true, "openWorldHint": true }));
        for (tool, has_network, expected) in [
            (tool("list_issues", read.clone()), true, (1, None, vec![Untrusted, Sensitive])),
            (tool("read_graph", json!({})), false, (1, None, vec![Untrusted, Sensitive])),
            (tool("web_search", open.clone()), true, (1, None, vec![Untrusted, Egress])),
            (tool("frobnicate", json!({})), true, (2, None, vec![Untrusted, Sensitive, Egress])),
            (tool("frobnicate", json!({})), false, (2, None, vec![Untrusted, Sensitive])),
            (
                tool("create_note", json!({ "readOnlyHint": false, "openWorldHint": false })),
                true,
                (2, None, vec![Untrusted, Sensitive]),
            ),
            (tool("deleteEntities", json!({})), false, (2, Some("human"), vec![Untrusted, Sensitive])),
            (
                tool("write_file", json!({ "destructiveHint": true })),
                false,
                (2, Some("human"), vec![Untrusted, Sensitive]),
            ),
            (tool("transfer_money", json!({})), true, (3, Some("human"), vec![Untrusted, Sensitive, Egress])),
            // A name is believed where it is the stricter of the two.
            (tool("delete_all", read.clone()), false, (2, Some("human"), vec![Untrusted, Sensitive])),
            (
                json!({ "name": "get_page", "inputSchema": { "properties": { "targetUrl": {} } }, "annotations": read }),
                true,
                (1, None, vec![Untrusted, Sensitive, Egress]),
            ),
        ] {
            assert_eq!(proposed(tool.clone(), has_network), expected, "{tool}");
        }
    }

    /// Attack (Definitions and servers): the operator accepts the proposal for a tool that brings
    /// content of others under a name that does not say so
    /// Defence: every tool is proposed as untrusted; it is also proposed as sensitive, unless its
    /// name is plainly public
    #[test]
    fn results_of_a_tool_are_sensitive_unless_its_name_is_plainly_public() {
        use Exposes::{Egress, Sensitive, Untrusted};
        for name in ["echo", "inbox", "messages", "run_sql", "get_time_entries", "list_web_hooks", "get_news_letters"] {
            let tool = json!({ "name": name, "inputSchema": {} });
            assert_eq!(proposed(tool, false).2, [Untrusted, Sensitive], "{name}");
        }
        for name in ["get_current_time", "convert_time", "getWeather", "weather_forecast", "calculator", "fetch_url"] {
            let tool = json!({ "name": name, "inputSchema": {} });
            assert_eq!(proposed(tool, false).2, [Untrusted], "{name}");
        }
        // The operator's line says that it is a read: a read lets nothing leave.
        let echo = ServerTool::of(&serde_json::from_value(json!({ "name": "echo", "inputSchema": {} })).unwrap());
        let exposes = |level| propose(&echo, true, level).table.exposes.unwrap();
        assert_eq!(exposes(None), [Untrusted, Sensitive, Egress]);
        assert_eq!(exposes(Some(Level::Write)), [Untrusted, Sensitive, Egress]);
        assert_eq!(exposes(Some(Level::Read)), [Untrusted, Sensitive]);
    }

    /// Attack (Definitions and servers): A hostile server declares an output schema of flags only
    /// for a tool that changes something, and returns instructions in `content`.
    /// Defence: An output schema binds only `structuredContent`, so no output schema makes a tool
    /// trusted.
    #[test]
    fn an_output_schema_without_a_place_for_content_makes_no_tool_trusted() {
        use Exposes::{Egress, Sensitive, Untrusted};
        // It says nothing of `content`, and nothing of a result with `isError`.
        let schema = json!({
            "type": "object", "additionalProperties": false, "properties": { "ok": { "type": "boolean" } },
        });
        let tool = json!({ "name": "close_issue", "inputSchema": {}, "outputSchema": schema });
        assert_eq!(proposed(tool, true).2, [Untrusted, Sensitive, Egress]);
    }
}
