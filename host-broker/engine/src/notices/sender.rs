//! Delivery of notices: a program, a request, a document, a message. No attempt takes longer than ten seconds.

use super::chats::{Chat, ChatReceiver, escaped, matrix, slack, telegram};
use config::Config;
use config::channels::fit::is_closed;
use config::channels::{ChannelTable, Format, Way};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use kernel::{Message, OpenChannel, OutgoingNotice};
use model::Clock;
use platform::Platform;
use platform::commands::{Command, Commands};
use platform::delivery::{bearer, to_program, to_server};
use platform::http::Http;
use secrets::{Secret, Secrets};
use serde_json::json;
use sha2::Sha256;
use shared::mailbox::Directory;
use shared::{Group, Timestamp};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// The timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The header with the time of the signature, in seconds since 1970.
pub const TIMESTAMP: HeaderName = HeaderName::from_static("x-broker-timestamp");
/// `sha256=<64 hex>`: HMAC-SHA256 over the time stamp, a full stop and the body.
pub const SIGNATURE: HeaderName = HeaderName::from_static("x-broker-signature");

/// The channels, with their runtime and secrets.
pub struct NoticeSender {
    channels: BTreeMap<String, Channel>,
    // The group of the chat in a NanoClaw document.
    main: Option<Group>,
    commands: Arc<dyn Commands>,
    http: Arc<dyn Http>,
    clock: Arc<dyn Clock>,
    runtime: Handle,
}

struct Channel {
    table: ChannelTable,
    // The secrets of the channel, or the reason why one is missing.
    secrets: BTreeMap<&'static str, Result<Arc<Secret>, String>>,
}

impl NoticeSender {
    /// Makes the sender for the channels of this configuration.
    pub fn new(config: &Config, secrets: &Secrets, platform: &Platform) -> Self {
        let channel = |table: &ChannelTable| {
            let load = |key: &'static str| (key, secrets.usable(key, &table.secret_name(key)));
            let secrets = table.secrets().into_keys().map(load).collect();
            (table.name.clone(), Channel { table: table.clone(), secrets })
        };
        Self {
            channels: config.channels.iter().map(channel).collect(),
            main: config.groups.iter().find(|(_, table)| table.main).map(|(group, _)| group.clone()),
            commands: Arc::clone(&platform.commands),
            http: Arc::clone(&platform.http),
            clock: Arc::clone(&platform.clock),
            runtime: platform.runtime.clone(),
        }
    }

    /// Returns whether there is any channel.
    pub fn has_channels(&self) -> bool {
        !self.channels.is_empty()
    }

    /// Delivers one notice.
    ///
    /// # Errors
    /// One sentence for the operator, without anything of the notice or of the response. The notice may have arrived
    /// all the same.
    pub async fn deliver(&self, outgoing: &OutgoingNotice) -> Result<(), String> {
        let Some(channel) = self.channels.get(outgoing.channel()) else {
            return Err("the channel is not configured".to_owned());
        };
        let deadline = Instant::now() + TIMEOUT;
        match &channel.table.way {
            Way::Command(command) => self.run(command, outgoing, deadline).await,
            Way::Webhook { url, format, .. } => self.post(channel, url, *format, outgoing, deadline).await,
            Way::Telegram { .. } | Way::Matrix { .. } | Way::Slack { .. } => {
                let chat = self.chat(outgoing.channel(), |secret| secret.expose_to(outgoing))?;
                chat.send(outgoing.message(), deadline).await.map_err(|fault| fault.reason)
            }
            Way::Nanoclaw { directory, chat_jid } => {
                let group = self.main.as_ref().map_or("main", Group::as_str);
                let document = json!({
                    "type": "message",
                    "chatJid": chat_jid,
                    "text": outgoing.message().text,
                    "groupFolder": group,
                    "timestamp": self.clock.now(),
                });
                let shows_card = outgoing.message().shows_card;
                let mode = if shows_card { 0o640 } else { 0o644 };
                let (directory, name) = (directory.clone(), format!("broker-{}.json", outgoing.message().name));
                let write = move || {
                    if shows_card {
                        // The directory may have been made, or opened to others, after the start.
                        is_closed(&directory)?;
                    }
                    put(&directory, &name, document.to_string().as_bytes(), mode)
                };
                // A directory that does not answer blocks this channel, and no more than one thread.
                match self.runtime.spawn_blocking(write).await {
                    Ok(written) => written,
                    Err(_gone) => Err("it could not be written".to_owned()),
                }
            }
        }
    }

    /// Returns the receiver of the answers in the chat of a channel.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub fn receiver(&self, channel: &OpenChannel) -> Result<ChatReceiver<'_>, String> {
        Ok(self.chat(channel.name(), |secret| secret.expose_on(channel))?.receiver())
    }

    fn chat<'a>(&'a self, name: &str, expose: impl Fn(&'a Secret) -> &'a str) -> Result<Chat<'a>, String> {
        let missing = || "the channel is not configured as a chat".to_owned();
        let channel = self.channels.get(name).ok_or_else(missing)?;
        let secret = |key| Ok::<_, String>(expose(channel.secret(key)?.ok_or_else(missing)?));
        let http = self.http.as_ref();
        Ok(match &channel.table.way {
            Way::Telegram { url, chat_id, .. } => {
                Chat::Telegram(telegram::Bot { http, url, token: secret("bot_token")?, chat_id: *chat_id })
            }
            Way::Matrix { url, room_id, .. } => {
                Chat::Matrix(matrix::Account { http, url, token: secret("access_token")?, room: room_id })
            }
            Way::Slack { url, channel_id, app_token, .. } => {
                let app_token = app_token.as_ref().map(|_| secret("app_token")).transpose()?;
                Chat::Slack(slack::SlackApp { http, url, token: secret("bot_token")?, app_token, channel: channel_id })
            }
            Way::Command(_) | Way::Webhook { .. } | Way::Nanoclaw { .. } => return Err(missing()),
        })
    }

    async fn run(&self, command: &[String], outgoing: &OutgoingNotice, deadline: Instant) -> Result<(), String> {
        let Some((program, arguments)) = command.split_first() else { return Err("there is no program".to_owned()) };
        let mut command = arguments.iter().fold(Command::new(program, deadline), Command::arg);
        let mut document = outgoing.message().document.to_string().into_bytes();
        document.push(b'\n');
        command.stdin = Some(document);
        to_program(&*self.commands, command).await
    }

    async fn post(
        &self,
        channel: &Channel,
        url: &str,
        format: Format,
        outgoing: &OutgoingNotice,
        deadline: Instant,
    ) -> Result<(), String> {
        let (body, mut headers) = body(format, outgoing.message())?;
        if let Some(secret) = channel.secret("bearer")? {
            headers.insert(AUTHORIZATION, bearer("bearer", secret.expose_to(outgoing))?);
        }
        if let Some(secret) = channel.secret("signing")? {
            sign(secret.expose_to(outgoing), self.clock.now(), &body, &mut headers);
        }
        to_server(&*self.http, url, headers, body, deadline).await
    }
}

impl Channel {
    fn secret(&self, key: &str) -> Result<Option<&Secret>, String> {
        match self.secrets.get(key) {
            Some(Ok(secret)) => Ok(Some(secret)),
            Some(Err(fault)) => Err(fault.clone()),
            None => Ok(None),
        }
    }
}

/// Returns the body of a request, with its headers.
fn body(format: Format, message: &Message) -> Result<(Vec<u8>, HeaderMap), String> {
    const JSON: HeaderValue = HeaderValue::from_static("application/json");
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| match HeaderValue::from_str(value) {
        Ok(value) => {
            headers.insert(HeaderName::from_static(name), value);
            Ok(())
        }
        Err(_bad) => Err(format!("`{name}` cannot be written as a header")),
    };
    let body = match format {
        Format::Json => {
            set("idempotency-key", &message.name)?;
            message.document.to_string()
        }
        Format::Ntfy => {
            set("title", &message.title)?;
            set("priority", if message.is_question { "high" } else { "default" })?;
            if let Some(link) = &message.link {
                set("click", link)?;
            }
            message.text.clone()
        }
        Format::Slack => json!({ "text": escaped(&message.text), "mrkdwn": false }).to_string(),
    };
    headers.insert(
        CONTENT_TYPE,
        if format == Format::Ntfy { HeaderValue::from_static("text/plain; charset=utf-8") } else { JSON },
    );
    Ok((body.into_bytes(), headers))
}

/// Signs a body, with the time. The receiver refuses old bodies and other signatures.
fn sign(secret: &str, now: Timestamp, body: &[u8], headers: &mut HeaderMap) {
    let seconds = (now.millis() / 1000).to_string();
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    mac.update(seconds.as_bytes());
    mac.update(b".");
    mac.update(body);
    let signature = format!("sha256={}", base16ct::lower::encode_string(&mac.finalize().into_bytes()));
    for (name, value) in [(TIMESTAMP, seconds), (SIGNATURE, signature)] {
        headers.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
    }
}

/// Writes a document under a temporary name and renames it; a repeated write makes the same file.
///
/// SECURITY: a sandbox may own the directories above. The last step to the directory follows no link, and the broker
/// chooses the name in it.
fn put(directory: &Path, name: &str, bytes: &[u8], mode: u32) -> Result<(), String> {
    let fault = |why: &shared::mailbox::MailboxError| {
        format!(
            "{}: {why} ({})",
            directory.display(),
            std::error::Error::source(why).map(ToString::to_string).unwrap_or_default()
        )
    };
    let (Some(parent), Some(last)) = (directory.parent(), directory.file_name().and_then(|last| last.to_str())) else {
        return Err(format!("{} is no directory with a name", directory.display()));
    };
    let parent = Directory::open(parent).map_err(|why| fault(&why))?;
    let target = parent.open_dir(last).map_err(|why| fault(&why))?;
    target.write(name, bytes, mode).map_err(|why| fault(&why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn message(text: &str) -> Message {
        Message {
            name: "ask-1-asked".to_owned(),
            title: "APPROVAL REQUIRED: demo.charge (L2)".to_owned(),
            text: text.to_owned(),
            link: Some("https://broker/inbox".to_owned()),
            shows_card: false,
            is_question: true,
            document: json!({ "type": "approval_notice", "text": text }),
        }
    }

    #[test]
    fn each_format_says_the_same_in_its_own_way() {
        let message = message("<!channel> a & b");
        let (slack, _) = body(Format::Slack, &message).unwrap();
        let slack: Value = serde_json::from_slice(&slack).unwrap();
        assert_eq!(slack, json!({ "text": "&lt;!channel&gt; a &amp; b", "mrkdwn": false }));
        let (ntfy, headers) = body(Format::Ntfy, &message).unwrap();
        assert_eq!(ntfy, b"<!channel> a & b");
        assert_eq!(headers["click"], "https://broker/inbox");
        let (json, headers) = body(Format::Json, &message).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), message.document);
        assert_eq!(headers["idempotency-key"], "ask-1-asked");
    }

    #[test]
    fn a_signature_covers_the_time_and_the_body() {
        let signed = |seconds: i64, body: &[u8]| {
            let mut headers = HeaderMap::new();
            sign("a secret key", Timestamp::from_millis(seconds * 1000), body, &mut headers);
            (headers[TIMESTAMP].clone(), headers[SIGNATURE].clone())
        };
        // printf '1700000000.hello' | openssl dgst -sha256 -hmac 'a secret key'
        let (time, signature) = signed(1_700_000_000, b"hello");
        assert_eq!((time, signature.clone()), ("1700000000".parse().unwrap(), SIGNED.parse().unwrap()));
        assert_ne!(signed(1_700_000_001, b"hello").1, signature);
        assert_ne!(signed(1_700_000_000, b"hallo").1, signature);
    }

    const SIGNED: &str = "sha256=225f1cfb72a37d0b9eaea588178f1165558544db7ee3ba41d252a2e068ed2153";

    /// Attack (Approvals and notices): A link stands in the place of a NanoClaw's `messages/`.
    /// Defence: The last step follows no link.
    #[test]
    fn a_document_appears_whole_and_never_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let messages = folder.path().join("messages");
        assert!(put(&messages, "a.json", b"{}", 0o644).unwrap_err().contains("opening the directory failed"));
        std::fs::create_dir(&messages).unwrap();
        put(&messages, "a.json", b"{}", 0o644).unwrap();
        put(&messages, "a.json", b"{}", 0o644).unwrap();
        let names: Vec<_> = std::fs::read_dir(&messages).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a.json"]);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&messages, &link).unwrap();
        assert!(put(&link, "b.json", b"{}", 0o644).is_err());
    }
}
