//! A channel as it is written in the file: flat, so that an unknown key is named with the nearest known one.

use super::{ChannelTable, Format, NoticeEvent, Way, check_name, is_safe};
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::{Group, Level, Provider};
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Command,
    Webhook,
    Nanoclaw,
    Telegram,
    Matrix,
    Slack,
}

/// A channel through which people are notified.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// The channel's name: 1 to 64 lower-case letters, digits, `-` and `_`.
    name: String,
    /// The type of the channel: `command`, `webhook`, `nanoclaw`, `telegram`, `matrix` or `slack`.
    kind: Kind,
    /// command: the program and its arguments. The program reads one JSON document from standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// webhook: the URL; https, or http on this machine. telegram: the URL of the Bot API; absent means
    /// `https://api.telegram.org`. matrix: the URL of the account's server. slack: the URL of the Web API; absent means
    /// `https://slack.com/api`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// webhook: the format of the body, `json`, `ntfy` or `slack`; absent means `json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
    /// webhook: the secret that signs each request; absent means no signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signing: Option<SecretSource>,
    /// webhook: the secret that is sent as a bearer token; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bearer: Option<SecretSource>,
    /// nanoclaw: the directory `messages/` that NanoClaw reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    /// nanoclaw: the chat that receives the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chat_jid: Option<String>,
    /// telegram, slack: the secret with the token of the bot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bot_token: Option<SecretSource>,
    /// telegram: the number of the chat. The bot talks to this chat only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chat_id: Option<i64>,
    /// matrix: the secret with the access token of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    access_token: Option<SecretSource>,
    /// matrix: the id of the room, such as `!abc:example.org`. The account talks to this room only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    room_id: Option<String>,
    /// slack: the secret with the app-level token, which fetches answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    app_token: Option<SecretSource>,
    /// slack: the id of the channel, such as `C0123456789`. The app talks to this channel only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channel_id: Option<String>,
    /// The events that the channel notifies of.
    #[serde(default = "usual_events")]
    events: BTreeSet<NoticeEvent>,
    /// The groups whose approval requests are sent; absent means all groups.
    #[serde(default)]
    groups: Option<Vec<Group>>,
    /// The providers whose approval requests are sent; absent means all providers.
    #[serde(default)]
    providers: Option<Vec<Provider>>,
    /// The highest level of approval requests that are sent; absent means any level.
    #[serde(default)]
    max_level: Option<Level>,
    /// The people whom the channel reaches. Only approval requests that one of them can answer are sent; empty means
    /// all.
    #[serde(default)]
    approvers: Vec<String>,
    /// Whether notices contain the full card and the approval code. Use it only where no group can read or write.
    #[serde(default)]
    full_cards: bool,
    /// Whether full cards and answers are for calls that join private data, untrusted content and an egress channel, too.
    #[serde(default)]
    trifecta: bool,
    /// The highest level of the calls with full cards and with answers: 1, 2 or 3.
    #[serde(default = "write")]
    chat_max_level: Level,
    /// The time without an answer after which the notice is sent, in seconds.
    #[serde(default)]
    escalate_after_s: u64,
    /// Whether the channel accepts answers. A telegram, matrix or slack channel fetches them; another one
    /// requires `token_sha256`.
    #[serde(default)]
    accepts_answers: bool,
    /// The SHA-256 of the token that authenticates answers, as 64 lower-case hexadecimal digits.
    #[serde(default)]
    token_sha256: Option<String>,
}

/// The Bot API of Telegram.
const TELEGRAM: &str = "https://api.telegram.org";
/// The Web API of Slack.
const SLACK: &str = "https://slack.com/api";

fn write() -> Level {
    Level::Write
}

fn usual_events() -> BTreeSet<NoticeEvent> {
    BTreeSet::from([NoticeEvent::Asked, NoticeEvent::Lapsed])
}

impl From<ChannelTable> for Written {
    fn from(table: ChannelTable) -> Self {
        let mut written = Self {
            name: table.name,
            kind: table.way.kind(),
            command: None,
            url: None,
            format: None,
            signing: None,
            bearer: None,
            directory: None,
            chat_jid: None,
            bot_token: None,
            chat_id: None,
            access_token: None,
            room_id: None,
            app_token: None,
            channel_id: None,
            events: table.events,
            groups: table.groups,
            providers: table.providers,
            max_level: table.max_level,
            approvers: table.approvers,
            full_cards: table.full_cards,
            trifecta: table.trifecta,
            chat_max_level: table.chat_max_level,
            escalate_after_s: table.escalate_after_s,
            accepts_answers: table.token_sha256.is_some() || table.receives,
            token_sha256: table.token_sha256,
        };
        match table.way {
            Way::Command(command) => written.command = Some(command),
            Way::Webhook { url, format, signing, bearer } => {
                (written.url, written.format, written.signing, written.bearer) =
                    (Some(url), Some(format), signing, bearer);
            }
            Way::Nanoclaw { directory, chat_jid } => {
                (written.directory, written.chat_jid) = (Some(directory), Some(chat_jid));
            }
            Way::Telegram { url, bot_token, chat_id } => {
                (written.url, written.bot_token, written.chat_id) = (Some(url), Some(bot_token), Some(chat_id));
            }
            Way::Matrix { url, access_token, room_id } => {
                (written.url, written.access_token, written.room_id) = (Some(url), Some(access_token), Some(room_id));
            }
            Way::Slack { url, bot_token, app_token, channel_id } => {
                (written.url, written.bot_token) = (Some(url), Some(bot_token));
                (written.app_token, written.channel_id) = (app_token, Some(channel_id));
            }
        }
        written
    }
}

impl TryFrom<Written> for ChannelTable {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let name = written.name.clone();
        check_name(&name)?;
        written.foreign().map_or(Ok(()), Err)?;
        let lacks = |key: &str| format!("the channel `{name}` needs `{key}`");
        let receives = written.accepts_answers && matches!(written.kind, Kind::Telegram | Kind::Matrix | Kind::Slack);
        if written.accepts_answers != written.token_sha256.is_some() && !receives {
            return Err(lacks("accepts_answers = true and token_sha256 together, or neither"));
        }
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if written.token_sha256.as_ref().is_some_and(|hex| hex.len() != 64 || !hex.chars().all(is_hex)) {
            return Err(format!(
                "the channel `{name}`: token_sha256 must be 64 lower-case hexadecimal digits; use: printf %s TOKEN | sha256sum"
            ));
        }
        if written.events.is_empty() {
            return Err(format!("the channel `{name}` has no events; add some to `events`, or remove the key"));
        }
        let way = match written.kind {
            Kind::Command => {
                let command = written.command.ok_or_else(|| lacks("command"))?;
                if command.first().is_none_or(String::is_empty) {
                    return Err(lacks("command = [\"program\", \"argument\"]"));
                }
                Way::Command(command)
            }
            Kind::Webhook => {
                let url = written.url.ok_or_else(|| lacks("url"))?;
                is_safe(&url).map_err(|fault| format!("the channel `{name}`: {fault}"))?;
                let format = written.format.unwrap_or_default();
                Way::Webhook { url, format, signing: written.signing, bearer: written.bearer }
            }
            Kind::Nanoclaw => Way::Nanoclaw {
                directory: written.directory.ok_or_else(|| lacks("directory"))?,
                chat_jid: written.chat_jid.filter(|jid| !jid.is_empty()).ok_or_else(|| lacks("chat_jid"))?,
            },
            Kind::Telegram => {
                let url = written.url.unwrap_or_else(|| TELEGRAM.to_owned());
                is_safe(&url).map_err(|fault| format!("the channel `{name}`: {fault}"))?;
                Way::Telegram {
                    url: url.trim_end_matches('/').to_owned(),
                    bot_token: written.bot_token.ok_or_else(|| lacks("bot_token"))?,
                    chat_id: written.chat_id.ok_or_else(|| lacks("chat_id"))?,
                }
            }
            Kind::Matrix => {
                let url = written.url.ok_or_else(|| lacks("url"))?;
                is_safe(&url).map_err(|fault| format!("the channel `{name}`: {fault}"))?;
                let room_id = written.room_id.ok_or_else(|| lacks("room_id"))?;
                if !room_id.starts_with('!') {
                    return Err(format!(
                        "the channel `{name}`: room_id must be like !abc:example.org; `{room_id}` may be the alias of the room"
                    ));
                }
                let access_token = written.access_token.ok_or_else(|| lacks("access_token"))?;
                Way::Matrix { url: url.trim_end_matches('/').to_owned(), access_token, room_id }
            }
            Kind::Slack => {
                let url = written.url.unwrap_or_else(|| SLACK.to_owned());
                is_safe(&url).map_err(|fault| format!("the channel `{name}`: {fault}"))?;
                let is_plain = |id: &String| {
                    id.starts_with(['C', 'G', 'D']) && id.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
                };
                let channel_id = written.channel_id.ok_or_else(|| lacks("channel_id"))?;
                if !is_plain(&channel_id) {
                    return Err(format!(
                        "the channel `{name}`: channel_id must be like C0123456789; `{channel_id}` may be the name of the channel"
                    ));
                }
                if receives && written.app_token.is_none() {
                    return Err(lacks("app_token"));
                }
                Way::Slack {
                    url: url.trim_end_matches('/').to_owned(),
                    bot_token: written.bot_token.ok_or_else(|| lacks("bot_token"))?,
                    app_token: written.app_token,
                    channel_id,
                }
            }
        };
        Ok(Self {
            name: written.name,
            way,
            events: written.events,
            groups: written.groups,
            providers: written.providers,
            max_level: written.max_level,
            approvers: written.approvers,
            full_cards: written.full_cards,
            trifecta: written.trifecta,
            chat_max_level: written.chat_max_level,
            escalate_after_s: written.escalate_after_s,
            token_sha256: written.token_sha256,
            receives,
        })
    }
}

impl Written {
    /// Returns a key that belongs to another kind.
    fn foreign(&self) -> Option<String> {
        use Kind::{Command, Matrix, Nanoclaw, Slack, Telegram, Webhook};
        let keys: [(&str, bool, &[Kind]); 13] = [
            ("command", self.command.is_some(), &[Command]),
            ("url", self.url.is_some(), &[Webhook, Telegram, Matrix, Slack]),
            ("format", self.format.is_some(), &[Webhook]),
            ("signing", self.signing.is_some(), &[Webhook]),
            ("bearer", self.bearer.is_some(), &[Webhook]),
            ("directory", self.directory.is_some(), &[Nanoclaw]),
            ("chat_jid", self.chat_jid.is_some(), &[Nanoclaw]),
            ("bot_token", self.bot_token.is_some(), &[Telegram, Slack]),
            ("chat_id", self.chat_id.is_some(), &[Telegram]),
            ("access_token", self.access_token.is_some(), &[Matrix]),
            ("room_id", self.room_id.is_some(), &[Matrix]),
            ("app_token", self.app_token.is_some(), &[Slack]),
            ("channel_id", self.channel_id.is_some(), &[Slack]),
        ];
        // A chat fetches its answers, so nobody hands them in with a token.
        let token = [("token_sha256", self.token_sha256.is_some(), &[Command, Webhook, Nanoclaw][..])];
        let mut keys = keys.into_iter().chain(token);
        let (key, ..) = keys.find(|(_, is_set, kinds)| *is_set && !kinds.contains(&self.kind))?;
        let kind = self.kind.word();
        Some(format!("the channel `{}` is of kind `{kind}`, which has no `{key}`; remove it", self.name))
    }
}

impl Kind {
    /// Returns it as the file has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Webhook => "webhook",
            Self::Nanoclaw => "nanoclaw",
            Self::Telegram => "telegram",
            Self::Matrix => "matrix",
            Self::Slack => "slack",
        }
    }
}
