//! An operator's settings for an MCP server.

use super::presets::Preset;
use super::tools::ToolTable;
use http::Uri;
use provider::oauth;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::{Action, Level, Provider};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The longest timeout of a tool, in seconds: no caller waits longer.
const SECONDS_MAX: u64 = 118;

/// The settings of an MCP server, in addition to those of its program or address.
///
/// ```toml
/// [providers.git]
/// kind = "mcp"
/// command = ["/opt/mcp/bin/mcp-server-git"]
/// readable = ["/srv/repo"]
/// [providers.git.tools]
/// git_status = { level = 1, exposes = ["sensitive"] }
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The timeout of one tool call, in seconds: 1 to 118.
    #[serde(default = "seconds")]
    pub timeout_seconds: u64,
    /// A predefined set of tools with levels, for a common server.
    #[serde(default)]
    pub preset: Option<Preset>,
    /// The tools that can be called, in addition to those of the preset. All other tools are off.
    #[serde(default)]
    pub tools: BTreeMap<Action, ToolTable>,
}

/// The settings of a tool.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The table.
    pub table: ToolTable,
    /// Whether the operator has said it, so that the tool must be there.
    pub by_operator: bool,
}

fn seconds() -> u64 {
    28
}

impl Settings {
    /// The keys.
    pub const KEYS: [&'static str; 3] = ["timeout_seconds", "preset", "tools"];

    /// Returns the tools with settings.
    pub fn wanted(&self) -> BTreeMap<Action, Wanted> {
        let preset = self.preset.map(Preset::tools).unwrap_or_default();
        let preset = preset.into_iter().map(|(tool, table)| (tool, Wanted { table, by_operator: false }));
        let own =
            self.tools.iter().map(|(tool, table)| (tool.clone(), Wanted { table: table.clone(), by_operator: true }));
        let mut wanted: BTreeMap<Action, Wanted> = preset.chain(own).collect();
        // How an operator takes one of the preset's away.
        wanted.retain(|_, wanted| wanted.table.level != Level::None);
        wanted
    }

    /// Checks the settings against each other.
    ///
    /// # Errors
    /// One sentence without a period.
    pub fn check(&self, name: &Provider, of_persons: bool) -> Result<(), String> {
        match (name.is_namespaced(), of_persons) {
            (true, false) => {
                return Err(
                    "kind: a provider whose name contains `.` needs `oauth`; add it or choose a name without `.`"
                        .to_owned(),
                );
            }
            (false, true) => {
                return Err("oauth: a provider with accounts of persons needs a name in two parts, such as team.tasks"
                    .to_owned());
            }
            (true, true) | (false, false) => {}
        }
        if !(1..=SECONDS_MAX).contains(&self.timeout_seconds) {
            return Err(format!("timeout_seconds must be 1 to {SECONDS_MAX}"));
        }
        let preset = self.preset.map(Preset::tools).unwrap_or_default();
        let off = |(tool, table): &(&Action, &ToolTable)| table.level == Level::None && !preset.contains_key(*tool);
        match self.tools.iter().find(off) {
            Some((tool, _)) => Err(format!("tools.{tool}.level must be 1 to 3; to disable the tool, remove it")),
            None => Ok(()),
        }
    }
}

/// The settings of a remote MCP server, in addition to those of [`Settings`].
///
/// ```toml
/// [providers.tasks]
/// kind = "mcp"
/// url = "https://tasks.example.com/mcp"
/// token = { env = "TASKS_TOKEN" }
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// The URL of the server: https, or http on this machine.
    pub url: String,
    /// The bearer token that is sent to the server; absent means none.
    #[serde(default)]
    pub token: Option<SecretSource>,
    /// The OAuth client with which people link their accounts. Each call then uses the account of the person for whom
    /// it is made. The provider's name then has two parts, and `token` only serves to list the tools.
    #[serde(default)]
    pub oauth: Option<oauth::Settings>,
}

impl Address {
    /// The keys.
    pub const KEYS: [&'static str; 3] = ["url", "token", "oauth"];

    /// Checks the settings against each other.
    ///
    /// # Errors
    /// One sentence without a period.
    pub fn check(&self) -> Result<(), String> {
        safe_address("url", &self.url)?;
        self.oauth.as_ref().map_or(Ok(()), oauth::Settings::check)
    }
}

/// Returns an address to which a secret can be sent: https, or http on this machine.
///
/// # Errors
/// One sentence without a period. It does not quote the address, which may have a password.
pub(crate) fn safe_address(key: &str, text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{key}: the value is not a URL: {error}"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match uri.scheme_str() {
        _ if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) => {
            Err(format!("{key}: the value contains a name or a password; a secret has a key of its own"))
        }
        Some("https") => Ok(uri),
        Some("http") if is_here => Ok(uri),
        _ => Err(format!("{key} must begin with https:// (http:// is valid for this machine only)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn settings_of_the_operator_replace_those_of_a_preset() {
        let settings =
            settings("preset = \"time\"\ntools = { convert_time = { level = 2 }, get_current_time = { level = 0 } }");
        settings.check(&"clock".parse().unwrap(), false).unwrap();
        let wanted = settings.wanted();
        let seen: Vec<_> =
            wanted.iter().map(|(tool, wanted)| (tool.as_str(), wanted.table.level, wanted.by_operator)).collect();
        assert_eq!(seen, [("convert_time", Level::Write, true)]);
    }
}
