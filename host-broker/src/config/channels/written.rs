//! A channel as it is written in the file: flat, so that an unknown key is named with the nearest known one.

use super::{ChannelTable, Format, NoticeEvent, Way, is_safe};
use crate::secrets::source::SecretSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Group, Level, Provider};
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Command,
    Webhook,
    Nanoclaw,
}

/// One channel, as it is written in the file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// Its name: small letters, digits, `-` and `_`.
    name: String,
    /// `command`, `webhook` or `nanoclaw`.
    kind: Kind,
    /// command: the program and its arguments; it reads one JSON document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// webhook: where to; https, or http on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// webhook: `json`, `ntfy` or `slack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
    /// webhook: the secret that signs what is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signing: Option<SecretSource>,
    /// webhook: the secret that is sent with it as a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bearer: Option<SecretSource>,
    /// nanoclaw: the directory `messages/` that it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    /// nanoclaw: the chat to which the message goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chat_jid: Option<String>,
    /// What it tells of.
    #[serde(default = "usual_events")]
    events: BTreeSet<NoticeEvent>,
    /// Questions of these groups only; absent means all.
    #[serde(default)]
    groups: Option<Vec<Group>>,
    /// Questions about these providers only; absent means all.
    #[serde(default)]
    providers: Option<Vec<Provider>>,
    /// Questions up to this level only; absent means any.
    #[serde(default)]
    max_level: Option<Level>,
    /// The people behind it; it tells only of what one of them may answer.
    #[serde(default)]
    approvers: Vec<String>,
    /// Whether it shows the whole card and the code. Only where no group can write to it or read it.
    #[serde(default)]
    full_cards: bool,
    /// It tells only of questions that nobody has answered for so long, in seconds.
    #[serde(default)]
    escalate_after_s: u64,
    /// Whether answers come in through it.
    #[serde(default)]
    accepts_answers: bool,
    /// The SHA-256 of the token with which they do, as 64 hexadecimal digits.
    #[serde(default)]
    token_sha256: Option<String>,
}

fn usual_events() -> BTreeSet<NoticeEvent> {
    BTreeSet::from([NoticeEvent::Asked, NoticeEvent::Lapsed])
}

impl From<ChannelTable> for Written {
    fn from(table: ChannelTable) -> Self {
        let mut written = Self {
            name: table.name,
            kind: Kind::Command,
            command: None,
            url: None,
            format: None,
            signing: None,
            bearer: None,
            directory: None,
            chat_jid: None,
            events: table.events,
            groups: table.groups,
            providers: table.providers,
            max_level: table.max_level,
            approvers: table.approvers,
            full_cards: table.full_cards,
            escalate_after_s: table.escalate_after_s,
            accepts_answers: table.token_sha256.is_some(),
            token_sha256: table.token_sha256,
        };
        match table.way {
            Way::Command(command) => written.command = Some(command),
            Way::Webhook { url, format, signing, bearer } => {
                written.kind = Kind::Webhook;
                (written.url, written.format, written.signing, written.bearer) =
                    (Some(url), Some(format), signing, bearer);
            }
            Way::Nanoclaw { directory, chat_jid } => {
                written.kind = Kind::Nanoclaw;
                (written.directory, written.chat_jid) = (Some(directory), Some(chat_jid));
            }
        }
        written
    }
}

impl TryFrom<Written> for ChannelTable {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let name = written.name.clone();
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return Err(format!("the name `{name}` must be 1 to 64 small letters, digits, `-` and `_`"));
        }
        written.foreign().map_or(Ok(()), Err)?;
        let lacks = |key: &str| format!("the channel `{name}` needs `{key}`");
        if written.accepts_answers != written.token_sha256.is_some() {
            return Err(lacks("accepts_answers = true and token_sha256 together, or neither"));
        }
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if written.token_sha256.as_ref().is_some_and(|hex| hex.len() != 64 || !hex.chars().all(is_hex)) {
            return Err(format!(
                "the channel `{name}`: token_sha256 must be 64 small hexadecimal digits; printf %s TOKEN | sha256sum"
            ));
        }
        if written.events.is_empty() {
            return Err(format!("the channel `{name}` tells of nothing; name `events`, or leave the key out"));
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
            escalate_after_s: written.escalate_after_s,
            token_sha256: written.token_sha256,
        })
    }
}

impl Written {
    /// A key that belongs to another kind.
    fn foreign(&self) -> Option<String> {
        let command = [("command", self.command.is_some())];
        let webhook = [
            ("url", self.url.is_some()),
            ("format", self.format.is_some()),
            ("signing", self.signing.is_some()),
            ("bearer", self.bearer.is_some()),
        ];
        let nanoclaw = [("directory", self.directory.is_some()), ("chat_jid", self.chat_jid.is_some())];
        let (kind, others) = match self.kind {
            Kind::Command => ("command", [&webhook[..], &nanoclaw[..]]),
            Kind::Webhook => ("webhook", [&command[..], &nanoclaw[..]]),
            Kind::Nanoclaw => ("nanoclaw", [&command[..], &webhook[..]]),
        };
        let (key, _) = others.into_iter().flatten().find(|(_, is_set)| *is_set)?;
        Some(format!("the channel `{}` is of kind `{kind}`, which has no `{key}`; remove it", self.name))
    }
}
