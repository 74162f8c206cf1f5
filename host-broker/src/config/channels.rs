//! The channels through which people hear of questions, and who speaks in a chat.
//!
//! ```toml
//! [[channels]]
//! name = "phone"
//! kind = "webhook"
//! url = "https://ntfy.example.com/broker"
//! format = "ntfy"
//! bearer = { file = "/etc/host-broker/ntfy-token" }
//! ```

pub(crate) mod fit;
mod written;

use crate::config::Config;
use crate::secrets::source::SecretSource;
use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Group, Level, Provider};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use written::Written;

/// How people are told, whatever the channel.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoticesTable {
    /// Where the inbox is, such as `https://broker.example.com/inbox`; notices name it.
    pub link_base: Option<String>,
}

/// What people can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoticeEvent {
    /// A question waits.
    Asked,
    /// It was answered, or withdrawn.
    Answered,
    /// Nobody answered it in time.
    Lapsed,
}

impl NoticeEvent {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Asked, Self::Answered, Self::Lapsed];

    /// The word in files and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Answered => "answered",
            Self::Lapsed => "lapsed",
        }
    }
}

/// One channel, checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct ChannelTable {
    /// Its name.
    pub name: String,
    /// What goes out.
    pub way: Way,
    /// What it tells of.
    pub events: BTreeSet<NoticeEvent>,
    /// Questions of these groups only; absent means all.
    pub groups: Option<Vec<Group>>,
    /// Questions about these providers only; absent means all.
    pub providers: Option<Vec<Provider>>,
    /// Questions up to this level only; absent means any.
    pub max_level: Option<Level>,
    /// The people behind it: it tells only of what one of them may answer; empty means that nobody is named.
    pub approvers: Vec<String>,
    /// Whether it shows the whole card and the code, where that is allowed.
    pub full_cards: bool,
    /// It tells only of questions that nobody has answered for so long, in seconds.
    pub escalate_after_s: u64,
    /// The digest of the token with which answers come in through it; absent means that none do.
    pub token_sha256: Option<String>,
}

/// How a notice goes out.
#[derive(Debug, Clone)]
pub enum Way {
    /// A program with the document on its standard input.
    Command(Vec<String>),
    /// A request.
    Webhook {
        /// Where to.
        url: String,
        /// What it says.
        format: Format,
        /// Signs it.
        signing: Option<SecretSource>,
        /// Goes with it.
        bearer: Option<SecretSource>,
    },
    /// A document in a NanoClaw's `messages/`.
    Nanoclaw {
        /// The directory.
        directory: PathBuf,
        /// The chat.
        chat_jid: String,
    },
}

/// What a webhook is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The document.
    #[default]
    Json,
    /// What ntfy takes: the text, and headers.
    Ntfy,
    /// What Slack, and what speaks like it, takes.
    Slack,
}

impl JsonSchema for ChannelTable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ChannelTable".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Written::json_schema(generator)
    }
}

impl ChannelTable {
    /// The secrets it needs, by their keys.
    pub fn secrets(&self) -> BTreeMap<&'static str, &SecretSource> {
        match &self.way {
            Way::Webhook { signing, bearer, .. } => {
                let named = [("signing", signing.as_ref()), ("bearer", bearer.as_ref())];
                named.into_iter().filter_map(|(key, source)| Some((key, source?))).collect()
            }
            Way::Command(_) | Way::Nanoclaw { .. } => BTreeMap::new(),
        }
    }

    /// The name under which one of its secrets is loaded.
    pub fn secret_name(&self, key: &str) -> String {
        format!("notify.{}.{key}", self.name)
    }

    /// Its kind, in the file's word.
    pub fn kind(&self) -> &'static str {
        match &self.way {
            Way::Command(_) => "command",
            Way::Webhook { .. } => "webhook",
            Way::Nanoclaw { .. } => "nanoclaw",
        }
    }

    /// Makes relative paths absolute.
    pub(super) fn settle(&mut self, folder: &Path) {
        if let Way::Nanoclaw { directory, .. } = &mut self.way {
            *directory = folder.join(&*directory);
        }
    }
}

impl Config {
    /// The person who speaks under this identity in a chat.
    pub fn speaker(&self, identity: &str) -> Option<&str> {
        let speaks = |table: &super::PersonTable| table.chat.iter().any(|known| known == identity);
        self.people.iter().find(|(_, table)| speaks(table)).map(|(name, _)| name.as_str())
    }
}

/// A chat identity such as `telegram:12345`: what it is of, and who, in plain signs.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn is_identity(text: &str) -> Result<(), String> {
    let fits = text.split_once(':').is_some_and(|(network, who)| {
        !network.is_empty() && network.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()) && !who.is_empty()
    });
    if fits && text.len() <= 128 && text.chars().all(|c| c.is_ascii_graphic()) {
        Ok(())
    } else {
        Err("a chat identity is like telegram:12345, at most 128 plain signs".to_owned())
    }
}

/// A notice says who asks for what, and may carry a token: it does not cross a network in plain.
fn is_safe(url: &str) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|_bad| format!("`{url}` is no address"))?;
    let is_here = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_here => Ok(()),
        Some("http") => Err("the url must be https; http is for this machine only".to_owned()),
        Some(_) | None => Err(format!("`{url}` must begin with https://")),
    }
}

#[cfg(test)]
mod tests;
