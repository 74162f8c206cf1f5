//! The channels of notices, and the senders of a chat.
//!
//! ```toml
//! [[channels]]
//! name = "phone"
//! kind = "webhook"
//! url = "https://ntfy.example.com/broker"
//! format = "ntfy"
//! bearer = { file = "/etc/host-broker/ntfy-token" }
//! ```

pub mod fit;
mod written;

use crate::Config;
use http::Uri;
use model::NoticeEvent;
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::{Group, Level, Provider};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use written::{Kind, Written};

/// The settings of notices that apply to all channels.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoticesTable {
    /// The URL of the inbox, such as `https://broker.example.com/inbox`. Notices contain it; absent means no link.
    pub link_base: Option<String>,
}

/// One channel, checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct ChannelTable {
    /// Its name.
    pub name: String,
    /// The way out.
    pub way: Way,
    /// The events that the channel notifies of.
    pub events: BTreeSet<NoticeEvent>,
    /// The groups whose approval requests are sent; absent means all groups.
    pub groups: Option<Vec<Group>>,
    /// The providers whose approval requests are sent; absent means all providers.
    pub providers: Option<Vec<Provider>>,
    /// The highest level of approval requests that are sent; absent means any level.
    pub max_level: Option<Level>,
    /// The people whom the channel reaches; empty means that no person is named.
    pub approvers: Vec<String>,
    /// Whether notices contain the full card and the approval code.
    pub full_cards: bool,
    /// Whether that applies to calls that join private data, untrusted content and an egress channel, too.
    pub trifecta: bool,
    /// The highest level of the calls to which both apply.
    pub chat_max_level: Level,
    /// The time without an answer after which a notice is sent, in seconds.
    pub escalate_after_s: u64,
    /// The SHA-256 of the token that authenticates answers; absent means that none are handed in.
    pub token_sha256: Option<String>,
    /// Whether the broker fetches answers from the chat.
    pub receives: bool,
}

/// The way out of a notice.
#[derive(Debug, Clone)]
pub enum Way {
    /// A program with the document on its standard input.
    Command(Vec<String>),
    /// A request.
    Webhook {
        /// The URL.
        url: String,
        /// The format of the body.
        format: Format,
        /// The secret that signs it.
        signing: Option<SecretSource>,
        /// The bearer token.
        bearer: Option<SecretSource>,
    },
    /// A document in a NanoClaw's `messages/`.
    Nanoclaw {
        /// The directory.
        directory: PathBuf,
        /// The chat.
        chat_jid: String,
    },
    /// A chat of a Telegram bot.
    Telegram {
        /// The URL of the Bot API.
        url: String,
        /// The token of the bot.
        bot_token: SecretSource,
        /// The chat.
        chat_id: i64,
    },
    /// A room of a Matrix account.
    Matrix {
        /// The URL of the account's server.
        url: String,
        /// The access token of the account.
        access_token: SecretSource,
        /// The room.
        room_id: String,
    },
    /// A channel of a Slack app.
    Slack {
        /// The URL of the Web API.
        url: String,
        /// The token of the app's bot.
        bot_token: SecretSource,
        /// The token with which the app fetches answers.
        app_token: Option<SecretSource>,
        /// The channel.
        channel_id: String,
    },
}

impl Way {
    fn kind(&self) -> Kind {
        match self {
            Self::Command(_) => Kind::Command,
            Self::Webhook { .. } => Kind::Webhook,
            Self::Nanoclaw { .. } => Kind::Nanoclaw,
            Self::Telegram { .. } => Kind::Telegram,
            Self::Matrix { .. } => Kind::Matrix,
            Self::Slack { .. } => Kind::Slack,
        }
    }
}

/// The format of a webhook's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The JSON document of the notice.
    #[default]
    Json,
    /// The format of ntfy: text and headers.
    Ntfy,
    /// The format of Slack and compatible services.
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
    /// Returns the secrets it needs, by their keys.
    pub fn secrets(&self) -> BTreeMap<&'static str, &SecretSource> {
        match &self.way {
            Way::Webhook { signing, bearer, .. } => {
                let named = [("signing", signing.as_ref()), ("bearer", bearer.as_ref())];
                named.into_iter().filter_map(|(key, source)| Some((key, source?))).collect()
            }
            Way::Telegram { bot_token, .. } => BTreeMap::from([("bot_token", bot_token)]),
            Way::Matrix { access_token, .. } => BTreeMap::from([("access_token", access_token)]),
            Way::Slack { bot_token, app_token, .. } => {
                let app_token = app_token.iter().map(|source| ("app_token", source));
                app_token.chain([("bot_token", bot_token)]).collect()
            }
            Way::Command(_) | Way::Nanoclaw { .. } => BTreeMap::new(),
        }
    }

    /// Returns whether a reply to a card can be an answer. In a chat of the broker's own, nobody else passes replies on.
    pub fn takes_replies(&self) -> bool {
        match &self.way {
            Way::Telegram { .. } | Way::Matrix { .. } | Way::Slack { .. } => self.receives,
            Way::Command(_) | Way::Webhook { .. } | Way::Nanoclaw { .. } => true,
        }
    }

    /// Returns the name under which one of its secrets is loaded.
    pub fn secret_name(&self, key: &str) -> String {
        format!("channels.{}.{key}", self.name)
    }

    /// Returns its kind, in the file's word.
    pub fn kind(&self) -> &'static str {
        self.way.kind().word()
    }

    /// Makes relative paths absolute.
    pub(super) fn settle(&mut self, folder: &Path) {
        if let Way::Nanoclaw { directory, .. } = &mut self.way {
            *directory = folder.join(&*directory);
        }
    }
}

impl Config {
    /// Returns the channels from whose chats the broker fetches answers.
    pub fn receiving_channels(&self) -> impl Iterator<Item = &ChannelTable> {
        self.channels.iter().filter(|table| table.receives)
    }

    /// Returns the person who has this identity in a chat.
    pub fn speaker(&self, identity: &str) -> Option<&str> {
        let speaks = |table: &super::PersonTable| table.chat.iter().any(|known| known == identity);
        self.people.iter().find(|(_, table)| speaks(table)).map(|(name, _)| name.as_str())
    }
}

/// Checks a chat identity such as `telegram:12345`: a messenger and a user, in plain signs.
///
/// # Errors
/// A sentence with the error.
pub fn is_identity(text: &str) -> Result<(), String> {
    let fits = text.split_once(':').is_some_and(|(network, who)| {
        !network.is_empty() && network.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()) && !who.is_empty()
    });
    if fits && text.len() <= 128 && text.chars().all(|c| c.is_ascii_graphic()) {
        Ok(())
    } else {
        Err("a chat identity must be like telegram:12345, at most 128 ASCII characters".to_owned())
    }
}

/// Checks the name of a channel or a sink.
///
/// # Errors
/// A sentence with the error.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!("the name `{name}` must be 1 to 64 lower-case letters, digits, `-` and `_`"))
}

/// Checks whether a URL is safe. A notice names callers and actions, and may carry a token: it does not cross a network
/// in plain.
pub(crate) fn is_safe(url: &str) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|_bad| format!("`{url}` is not a URL"))?;
    let is_here = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_here => Ok(()),
        Some("http") => Err("the url must be https; http is valid for this machine only".to_owned()),
        Some(_) | None => Err(format!("`{url}` must begin with https://")),
    }
}

#[cfg(test)]
mod tests;
