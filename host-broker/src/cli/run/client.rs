//! The MCP clients: where each of them takes its servers from, and how it passes variables to them.

use clap::ValueEnum;
use platform::home::quoted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The name of the server in every configuration.
const SERVER: &str = "broker";

/// An MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// The Codex CLI.
    Codex,
    /// Cursor.
    Cursor,
    /// The Gemini CLI.
    Gemini,
    /// Visual Studio Code.
    Vscode,
}

/// The way in which a client learns of a server inside a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// A file of the system, which the client cannot change.
    File(&'static str, String),
    /// Arguments before those of the user.
    Arguments(Vec<String>),
    /// A script for `sh -c` that registers the shim, and then becomes the program of `$0` and `$@`.
    Script(String),
}

impl Client {
    /// Returns the client that is this program.
    pub(super) fn of_program(program: &Path) -> Option<Self> {
        match program.file_name()?.to_str()? {
            "claude" => Some(Self::ClaudeCode),
            "codex" => Some(Self::Codex),
            "gemini" => Some(Self::Gemini),
            _ => None,
        }
    }

    /// The hosts of the client's model, and the variable with its key, for a hint.
    pub(super) const fn model(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::ClaudeCode => Some(("api.anthropic.com", "ANTHROPIC_API_KEY")),
            Self::Codex => Some(("api.openai.com", "OPENAI_API_KEY")),
            Self::Gemini => Some(("generativelanguage.googleapis.com", "GEMINI_API_KEY")),
            Self::ClaudeDesktop | Self::Cursor | Self::Vscode => None,
        }
    }

    /// The file for the configuration that [`Self::configuration`] returns.
    pub(super) const fn place(self) -> &'static str {
        match self {
            Self::ClaudeCode => ".mcp.json in the directory where claude starts",
            Self::ClaudeDesktop => "claude_desktop_config.json",
            Self::Codex => "~/.codex/config.toml",
            Self::Cursor => ".cursor/mcp.json or ~/.cursor/mcp.json",
            Self::Gemini => "~/.gemini/settings.json",
            Self::Vscode => ".vscode/mcp.json",
        }
    }

    /// Returns the configuration that registers this shim with these variables, as the client reads it.
    pub(super) fn configuration(self, shim: &str, variables: &BTreeMap<String, String>) -> String {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor => {
                pretty(&json!({ "mcpServers": { SERVER: started(shim, variables) } }))
            }
            Self::Vscode => {
                let mut server = started(shim, variables);
                if let Some(members) = server.as_object_mut() {
                    members.insert("type".to_owned(), "stdio".into());
                }
                pretty(&json!({ "servers": { SERVER: server } }))
            }
            // It drops variables whose names look like those of secrets. The command itself can set them.
            Self::Gemini => {
                let server = if variables.is_empty() {
                    started(shim, variables)
                } else {
                    let set = variables.iter().map(|(name, value)| format!("{name}={value}"));
                    json!({ "command": "env", "args": set.chain([shim.to_owned()]).collect::<Vec<_>>() })
                };
                pretty(&json!({ "mcpServers": { SERVER: server } }))
            }
            Self::Codex => {
                let mut text = format!("[mcp_servers.{SERVER}]\ncommand = {}\n", Value::from(shim));
                if !variables.is_empty() {
                    let set = variables.iter().map(|(name, value)| format!("{name} = {}", Value::from(value.as_str())));
                    writeln!(text, "env = {{ {} }}", set.collect::<Vec<_>>().join(", ")).ok();
                }
                text
            }
        }
    }

    /// Returns how the client learns of this shim inside a sandbox; `None` for a client that runs in no terminal.
    pub(super) fn registration(self, shim: &str, variables: &BTreeMap<String, String>) -> Option<Registration> {
        match self {
            // It passes its whole environment on.
            Self::ClaudeCode => Some(Registration::File(
                "/etc/claude-code/managed-mcp.json",
                self.configuration(shim, &BTreeMap::new()),
            )),
            // It reads files of the system only if root owns them, and nothing in a sandbox belongs to root. A mount in the
            // home of the agent would follow a link that an earlier agent left there.
            Self::Gemini => {
                let set = variables.iter().map(|(name, value)| format!("{name}={value}"));
                let env = (!variables.is_empty()).then(|| "env".to_owned());
                let words = env.into_iter().chain(set).chain([shim.to_owned()]);
                let words: Vec<String> = words.map(|word| quoted(Path::new(&word))).collect();
                Some(Registration::Script(format!(
                    "grep -qsF {shim} ~/.gemini/settings.json || \"$0\" mcp add --scope user {SERVER} {words} >/dev/null 2>&1; \
                     exec \"$0\" \"$@\"",
                    shim = quoted(Path::new(shim)),
                    words = words.join(" "),
                )))
            }
            Self::Codex => {
                let option = |key: &str, value: &Value| {
                    ["-c".to_owned(), format!("mcp_servers.{SERVER}.{key}={value}")].into_iter()
                };
                let variables = variables.iter().flat_map(|(name, value)| {
                    option(&format!("env.{name}"), &Value::from(value.as_str())).collect::<Vec<_>>()
                });
                Some(Registration::Arguments(option("command", &Value::from(shim)).chain(variables).collect()))
            }
            Self::ClaudeDesktop | Self::Cursor | Self::Vscode => None,
        }
    }
}

fn started(shim: &str, variables: &BTreeMap<String, String>) -> Value {
    if variables.is_empty() { json!({ "command": shim }) } else { json!({ "command": shim, "env": variables }) }
}

fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_starts_the_shim_with_the_variables() {
        let variables = BTreeMap::from([("EXT_CONTEXT_TOKEN_FILE".to_owned(), "/run/a \"b\"".to_owned())]);
        for client in Client::value_variants() {
            for variables in [&variables, &BTreeMap::new()] {
                let text = client.configuration("mcp-shim", variables);
                let server = match client {
                    Client::Codex => {
                        let table: toml::Table = text.parse().unwrap();
                        serde_json::to_value(&table["mcp_servers"]["broker"]).unwrap()
                    }
                    Client::Vscode => serde_json::from_str::<Value>(&text).unwrap()["servers"]["broker"].clone(),
                    Client::ClaudeCode | Client::ClaudeDesktop | Client::Cursor | Client::Gemini => {
                        serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["broker"].clone()
                    }
                };
                match variables.first_key_value() {
                    None => assert_eq!(server["command"], "mcp-shim", "{client:?}"),
                    Some((name, value)) if *client == Client::Gemini => {
                        assert_eq!(server["args"], json!([format!("{name}={value}"), "mcp-shim"]));
                    }
                    Some((name, value)) => assert_eq!(server["env"][name], json!(value), "{client:?}"),
                }
            }
        }
    }
}
