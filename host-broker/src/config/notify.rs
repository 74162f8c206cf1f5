//! The channels through which people hear of questions, and who speaks in a chat.
//!
//! ```toml
//! [[notify]]
//! name = "phone"
//! kind = "webhook"
//! url = "https://ntfy.example.com/broker"
//! format = "ntfy"
//! bearer = { file = "/etc/host-broker/ntfy-token" }
//! ```

use crate::config::Config;
use crate::config::home::Home;
use crate::secrets::source::SecretSource;
use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Group, Level, Provider};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

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
pub struct NotifyTable {
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
    pub after_s: u64,
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
struct Written {
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
    after_s: u64,
    /// Whether answers come in through it.
    #[serde(default)]
    answers: bool,
    /// The SHA-256 of the token with which they do, as 64 hexadecimal digits.
    #[serde(default)]
    token_sha256: Option<String>,
}

fn usual_events() -> BTreeSet<NoticeEvent> {
    BTreeSet::from([NoticeEvent::Asked, NoticeEvent::Lapsed])
}

impl JsonSchema for NotifyTable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NotifyTable".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Written::json_schema(generator)
    }
}

impl From<NotifyTable> for Written {
    fn from(table: NotifyTable) -> Self {
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
            after_s: table.after_s,
            answers: table.token_sha256.is_some(),
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

impl TryFrom<Written> for NotifyTable {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let name = written.name.clone();
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return Err(format!("the name `{name}` must be 1 to 64 small letters, digits, `-` and `_`"));
        }
        written.foreign().map_or(Ok(()), Err)?;
        let lacks = |key: &str| format!("the channel `{name}` needs `{key}`");
        if written.answers != written.token_sha256.is_some() {
            return Err(lacks("answers = true and token_sha256 together, or neither"));
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
            after_s: written.after_s,
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

impl NotifyTable {
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
    /// Whether channels and people fit each other and the rest.
    pub(super) fn check_notify(&self, folder: &Path) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for table in &self.notify {
            let place = format!("notify `{}`", table.name);
            if !names.insert(&table.name) {
                return Err(format!("{place}: there are two of this name; give each its own"));
            }
            if let Some(unknown) = table.groups.iter().flatten().find(|group| !self.groups.contains_key(*group)) {
                return Err(format!("{place}: there is no group `{unknown}`; add [groups.{unknown}]"));
            }
            let mut providers = table.providers.iter().flatten();
            if let Some(unknown) = providers.find(|provider| !self.providers.contains_key(*provider)) {
                return Err(format!("{place}: there is no provider `{unknown}`; add [providers.{unknown}]"));
            }
            let approves = |name: &String| self.people.get(name).is_some_and(|person| person.approves.is_some());
            if let Some(unknown) = table.approvers.iter().find(|name| !approves(name)) {
                return Err(format!(
                    "{place}: `{unknown}` approves nothing; add `approves` to [people.{unknown}] or name another"
                ));
            }
            self.check_place(table, &Home::at(folder.to_owned())).map_err(|fault| format!("{place}: {fault}"))?;
        }
        if let Some(base) = &self.notices.link_base {
            is_safe(base).map_err(|fault| format!("notices.link_base: {fault}"))?;
        }
        let mut speakers = BTreeMap::new();
        for (name, person) in &self.people {
            for identity in &person.chat {
                is_identity(identity).map_err(|fault| format!("people.{name}.chat: {fault}"))?;
                if let Some(other) = speakers.insert(identity, name) {
                    return Err(format!("people.{name}.chat: `{identity}` is {other} already; one of them only"));
                }
            }
        }
        Ok(())
    }

    /// SECURITY: who can read a full card knows the code, and who can write beside it can counterfeit one. So neither may
    /// be a group. A program in a group's reach would be the group's program.
    fn check_place(&self, table: &NotifyTable, home: &Home) -> Result<(), String> {
        let within = |path: &Path| {
            let path = real(path);
            self.groups.keys().find_map(|group| {
                let places = [home.mailbox(group), home.path().join("workspaces").join(group.as_str())];
                let place = places.into_iter().find(|place| path.starts_with(real(place)))?;
                Some((group, place))
            })
        };
        match &table.way {
            Way::Command(command) => {
                let mut paths = command.iter().map(Path::new).filter(|path| path.is_absolute());
                paths.find_map(within).map_or(Ok(()), |(group, place)| {
                    let place = place.display();
                    Err(format!("the program lies in {place}, which group `{group}` can write to; put it elsewhere"))
                })
            }
            Way::Webhook { .. } => Ok(()),
            Way::Nanoclaw { .. } if !table.full_cards => Ok(()),
            Way::Nanoclaw { directory, .. } => {
                let shown = directory.display();
                let remedy = "choose a directory that no sandbox mounts, or set full_cards = false";
                if let Some((group, place)) = within(directory) {
                    return Err(format!(
                        "full_cards, but the directory {shown} lies in {}, which group `{group}` reads and writes; \
                         {remedy}",
                        place.display()
                    ));
                }
                // What is not there yet is looked at again at the next start.
                let Ok(found) = std::fs::metadata(directory) else { return Ok(()) };
                let owner = self.groups.iter().find(|(_, group)| group.uid == Some(found.uid()));
                if let Some((group, _)) = owner {
                    return Err(format!(
                        "full_cards, but the directory {shown} belongs to the user of group `{group}`; {remedy}"
                    ));
                }
                if found.mode() & 0o007 != 0 {
                    return Err(format!(
                        "full_cards, but others may look into the directory {shown}; chmod o= {shown}, or {remedy}"
                    ));
                }
                Ok(())
            }
        }
    }

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

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for ancestor in path.ancestors() {
        if let Ok(mut found) = ancestor.canonicalize() {
            found.extend(rest.iter().rev());
            return found;
        }
        rest.extend(ancestor.file_name());
    }
    path.to_owned()
}

#[cfg(test)]
mod tests;
