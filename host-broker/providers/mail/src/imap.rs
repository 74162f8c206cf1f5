//! The way to the mailbox: one connection for each call (RFC 9051).

use crate::Mail;
use crate::backend::{Content, Opened, Servers};
use crate::failures::{self, Sending, explained, not_signed_in, unreachable};
use crate::limited::Limited;
use crate::list_messages::{Day, Listed, Marks, Search, Summary};
use crate::reference::{Cursor, Folder, MessageRef, Place};
use crate::settings::{Auth, Encryption};
use async_imap::error::Error;
use async_imap::types::{Fetch, Flag};
use async_imap::{Authenticator, Client, Session};
use futures_util::TryStreamExt as _;
use provider::contract::{Execution, Failure, Probed};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection that is signed in.
pub(crate) struct Mailbox {
    session: Session<Limited>,
}

/// The most bytes of a message that one answer brings.
const PIECE_BYTES: usize = 1024 * 1024;
/// The fields of a message that a list shows, with a bound for the header.
const LISTED: &str =
    "(UID FLAGS RFC822.SIZE BODY.PEEK[HEADER.FIELDS (FROM TO CC SUBJECT DATE MESSAGE-ID IN-REPLY-TO)]<0.16384>)";
/// The numbers of messages that one search covers. Its answer has up to eight bytes for each.
const SEARCHED: u32 = 50_000;
/// The most searches of one call.
const SEARCHES_MAX: usize = 100;
/// To end a connection takes no longer.
const CLOSING: Duration = Duration::from_millis(500);
/// The most messages whose fields one call fetches.
const FETCHED_MAX: usize = 100;

impl Mail {
    /// Opens a connection and signs in.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn imap(&self, servers: &Servers, execution: &Execution) -> Result<Mailbox, Failure> {
        let client = connected(servers).await?;
        let (user, secret) = self.account.sign_in(execution)?;
        let session = match self.settings.auth {
            Auth::Password => client.login(user, secret.as_str()).await,
            Auth::Xoauth2 => client.authenticate("XOAUTH2", Xoauth2(Some(bearer(user, &secret)))).await,
        };
        match session {
            Ok(session) => Ok(Mailbox { session }),
            Err((error, _client)) => {
                // RFC 5530: the server is not able to check the credential now.
                let is_temporary = matches!(&error, Error::No(text) if text.contains("UNAVAILABLE"));
                let failure = not_signed_in(failures::imap(error));
                Err(if is_temporary { failure } else { self.account.not_signed_in(failure) })
            }
        }
    }
}

/// Opens a connection, encrypted as the table says, without signing in.
///
/// # Errors
/// [`Failure`]; nothing was changed.
pub(crate) async fn connected(servers: &Servers) -> Result<Client<Limited>, Failure> {
    let Servers { imap: server, tls, .. } = servers;
    let tcp = TcpStream::connect((server.host.as_str(), server.port)).await.map_err(|e| unreachable(&e))?;
    match server.tls {
        Encryption::None => greeted(Client::new(Limited::imap(tcp))).await,
        Encryption::Implicit => {
            let encrypted = tls.connect(&server.host, tcp).await.map_err(|e| unreachable(&e))?;
            greeted(Client::new(Limited::imap(encrypted))).await
        }
        Encryption::Starttls => {
            let mut plain = greeted(Client::new(Limited::imap(tcp))).await?;
            plain.run_command_and_check_ok("STARTTLS", None).await.map_err(failures::imap)?;
            // SECURITY: bytes that came before the handshake are dropped with the client.
            let tcp = plain.into_inner().into_inner();
            let encrypted = tls.connect(&server.host, tcp).await.map_err(|e| unreachable(&e))?;
            Ok(Client::new(Limited::imap(encrypted)))
        }
    }
}

/// Reads the server's greeting.
async fn greeted(mut client: Client<Limited>) -> Result<Client<Limited>, Failure> {
    match client.read_response().await {
        Ok(Some(_greeting)) => Ok(client),
        Ok(None) => Err(Failure::Unavailable { message: "The mail server closed the connection.".into() }),
        Err(error) => Err(failures::connection(&error)),
    }
}

/// The first answer of SASL `XOAUTH2`.
fn bearer(user: &str, token: &str) -> String {
    format!("user={user}\u{1}auth=Bearer {token}\u{1}\u{1}")
}

/// SASL `XOAUTH2`: the token once, then nothing. A server that refuses it sends one more challenge with the reason.
struct Xoauth2(Option<String>);

impl Authenticator for Xoauth2 {
    type Response = String;

    fn process(&mut self, _challenge: &[u8]) -> String {
        self.0.take().unwrap_or_default()
    }
}

impl Mailbox {
    /// Opens a folder for reading. Returns the validity of its numbers, and the next number if the server tells it.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    async fn examine(&mut self, folder: &Folder) -> Result<(u32, Option<u32>), Failure> {
        let opened = self.session.examine(folder.as_str()).await.map_err(failures::imap)?;
        let validity = opened.uid_validity.ok_or_else(without_numbers)?;
        Ok((validity, opened.uid_next))
    }

    /// Lists the messages that match, the newest first.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn list(&mut self, search: &Search) -> Result<Listed, Failure> {
        let folder = &search.folder;
        let cursor = match &search.cursor {
            Some(Cursor::Below(place)) => Some(place),
            Some(Cursor::Page(_)) => return Err(failures::unknown_reference("cursor")),
            None => None,
        };
        let (validity, next) = self.examine(folder).await?;
        if cursor.is_some_and(|cursor| cursor.validity != validity) {
            let message = "The server has numbered the messages again since the cursor was given. List the folder from its beginning.";
            return Err(Failure::Refused { message: message.into() });
        }
        let below = cursor.map(|cursor| cursor.uid).or(next);
        let (page, rest) = self.newest(&criteria(search), below, search.limit).await?;
        let place = |uid: u32| Place { folder: folder.clone(), validity, uid }.to_string();
        let mut messages = Vec::new();
        if !page.is_empty() {
            let fetched = self.fetch_all(&page, LISTED).await?;
            for uid in &page {
                // A message can be removed while it is listed.
                if let Some(fetch) = fetched.iter().find(|fetch| fetch.uid == Some(*uid)) {
                    messages.push(Summary::of(place(*uid), fetch.header().unwrap_or_default(), &marks(fetch)));
                }
            }
        }
        Ok(Listed { messages, next_cursor: rest.map(place) })
    }

    /// Opens the folder of a message for reading, and finds the message.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn open(&mut self, message: &MessageRef) -> Result<Opened, Failure> {
        let place = place(message)?;
        let (validity, _) = self.examine(&place.folder).await?;
        if validity != place.validity {
            return Err(gone());
        }
        let fetch = self.fetch(place.uid, "(UID FLAGS RFC822.SIZE)").await?.ok_or_else(gone)?;
        let size = fetch.size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        Ok(Opened { size, is_read: marks(&fetch).is_read })
    }

    /// Opens the folder of a message for changes, and checks that the message is there.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    async fn select(&mut self, place: &Place) -> Result<(), Failure> {
        let opened = self.session.select(place.folder.as_str()).await.map_err(failures::imap)?;
        let validity = opened.uid_validity.ok_or_else(without_numbers)?;
        if validity != place.validity || self.fetch(place.uid, "(UID)").await?.is_none() {
            return Err(gone());
        }
        Ok(())
    }

    /// Looks whether a message is still in its folder.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn probe_move(&mut self, message: &MessageRef) -> Result<Probed, Failure> {
        let place = place(message)?;
        let (validity, _) = self.examine(&place.folder).await?;
        let is_there = validity == place.validity && self.fetch(place.uid, "(UID)").await?.is_some();
        let folder = place.folder.as_str();
        Ok(if is_there {
            Probed::Absent { message: format!("The message is still in {folder}.") }
        } else {
            Probed::State { message: format!("The message is no longer in {folder}.") }
        })
    }

    /// Returns the numbers of at most so many messages that match, the newest first, from below a number on; `None` is
    /// the end of a folder whose end is not known. Also returns the number below which the search goes on, if there may
    /// be more.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    async fn newest(
        &mut self,
        criteria: &str,
        below: Option<u32>,
        most: usize,
    ) -> Result<(Vec<u32>, Option<u32>), Failure> {
        // Without an end, the first search covers everything.
        let (mut covered, mut below) = (below.map_or(u32::MAX, |_| SEARCHED), below.unwrap_or(u32::MAX));
        let mut uids = Vec::new();
        for _ in 0..SEARCHES_MAX {
            if below <= 1 {
                return Ok((uids, None));
            }
            let first = below.saturating_sub(covered).max(1);
            let mut found = self.search(&format!("UID {first}:{} {criteria}", below - 1)).await?;
            found.retain(|uid| (first..below).contains(uid));
            uids.append(&mut found);
            (covered, below) = (SEARCHED, first);
            if uids.len() > most {
                uids.truncate(most);
                return Ok((uids.clone(), uids.last().copied()));
            }
        }
        Ok((uids, Some(below)))
    }

    /// Returns the numbers of the messages that match, the newest first.
    async fn search(&mut self, criteria: &str) -> Result<Vec<u32>, Failure> {
        let found = self.session.uid_search(criteria).await.map_err(failures::imap)?;
        let mut uids: Vec<u32> = found.into_iter().collect();
        uids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(uids)
    }

    /// Fetches items of one message; `None` if it is not there.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    async fn fetch(&mut self, uid: u32, items: &str) -> Result<Option<Arc<Fetch>>, Failure> {
        let fetched = self.fetch_all(&[uid], items).await?;
        Ok(fetched.into_iter().find(|fetched| fetched.uid == Some(uid)))
    }

    /// Fetches items of some messages, in any order.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    async fn fetch_all(&mut self, uids: &[u32], items: &str) -> Result<Vec<Arc<Fetch>>, Failure> {
        let set: Vec<String> = uids.iter().take(FETCHED_MAX).map(u32::to_string).collect();
        let mut fetches = self.session.uid_fetch(set.join(","), items).await.map_err(failures::imap)?;
        let mut all = Vec::new();
        // A server can send what nobody asked for. It counts as bytes, and so as a number here.
        while let Some(fetch) = fetches.try_next().await.map_err(failures::imap)? {
            if all.len() < 2 * FETCHED_MAX {
                all.push(Arc::new(fetch));
            }
        }
        Ok(all)
    }

    /// Reads the first bytes of a message in pieces. Its folder is open.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn content(
        &mut self,
        message: &MessageRef,
        opened: Opened,
        most: usize,
    ) -> Result<Content, Failure> {
        let Place { uid, .. } = place(message)?;
        let mut bytes = Vec::new();
        while bytes.len() < most {
            let asked = PIECE_BYTES.min(most - bytes.len());
            let fetch =
                self.fetch(*uid, &format!("(UID BODY.PEEK[]<{}.{asked}>)", bytes.len())).await?.ok_or_else(gone)?;
            let piece = fetch.body().unwrap_or_default();
            bytes.extend_from_slice(piece.get(..asked).unwrap_or(piece));
            if piece.len() < asked {
                break;
            }
        }
        let is_cut = opened.size.is_some_and(|size| size > bytes.len());
        Ok(Content { bytes, is_cut })
    }

    /// Returns the names of at most so many folders, and whether there are more.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn folders(&mut self, most: usize) -> Result<(Vec<String>, bool), Failure> {
        let mut names = Vec::new();
        let mut listed = self.session.list(Some(""), Some("*")).await.map_err(failures::imap)?;
        let mut has_more = false;
        while let Some(name) = listed.try_next().await.map_err(failures::imap)? {
            if names.len() < most {
                names.push(name.name().to_owned());
            } else {
                has_more = true;
            }
        }
        names.sort();
        Ok((names, has_more))
    }

    /// Returns whether the server has a capability: `MOVE`, `UIDPLUS`.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    async fn can(&mut self, capability: &str) -> Result<bool, Failure> {
        let capabilities = self.session.capabilities().await.map_err(failures::imap)?;
        Ok(capabilities.has_str(capability))
    }

    /// Moves a message to another folder in one step (RFC 6851). `key` names that folder in the table of the account.
    ///
    /// # Errors
    /// [`Failure`]; while `sending` is under way, the message may have been moved.
    pub(crate) async fn move_to(
        &mut self,
        message: &MessageRef,
        (key, folder): (&str, &Folder),
        sending: &Sending,
    ) -> Result<(), Failure> {
        let place = place(message)?;
        self.select(place).await?;
        if !self.can("MOVE").await? {
            let message = "The mail server cannot move messages in one step (RFC 6851).";
            return Err(Failure::Refused { message: message.into() });
        }
        sending.begin();
        let folder = folder.as_str();
        let remedy = format!("Does the folder `{folder}` exist? The table of the account names it: `{key}`.");
        let moved = self.session.uid_mv(place.uid.to_string(), folder).await.map_err(failures::imap);
        moved.map_err(|failure| explained(failure, |message| format!("{message} {remedy}")))?;
        sending.end();
        Ok(())
    }

    /// Puts a message into a folder.
    ///
    /// # Errors
    /// [`Failure`]; unless it is [`Failure::Refused`], the message may be there.
    pub(crate) async fn append(&mut self, folder: &str, flags: &str, message: &str) -> Result<(), Failure> {
        self.session.append(folder, Some(flags), None, message).await.map_err(failures::imap)
    }

    /// Returns whether a folder has a message with this `Message-ID`.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn has_message_id(&mut self, folder: &Folder, message_id: &str) -> Result<bool, Failure> {
        self.examine(folder).await?;
        Ok(!self.search(&format!("HEADER Message-ID {}", quoted(message_id))).await?.is_empty())
    }

    /// Ends the connection in good order. A server that does not answer costs little time, and changes nothing.
    ///
    /// A change does not end so: the deadline could come in between, and make a success a failure.
    pub(crate) async fn close(mut self) {
        timeout(CLOSING, self.session.logout()).await.ok();
    }
}

fn without_numbers() -> Failure {
    Failure::InvalidOutput { message: "The mail server gives its messages no lasting numbers (UIDVALIDITY).".into() }
}

/// There is no such message.
fn gone() -> Failure {
    let message = "There is no such message in its folder any more. List the folder again.";
    Failure::Refused { message: message.into() }
}

/// Returns the place of a message.
///
/// # Errors
/// [`Failure`] if the id is not one of IMAP.
fn place(message: &MessageRef) -> Result<&Place, Failure> {
    match message {
        MessageRef::Imap(place) => Ok(place),
        MessageRef::Gmail(_) => Err(failures::unknown_reference("id")),
    }
}

fn marks(fetch: &Fetch) -> Marks {
    let has = |flag: &Flag<'_>| fetch.flags().any(|of| of == *flag);
    let (is_read, is_answered) = (has(&Flag::Seen), Some(has(&Flag::Answered)));
    Marks { bytes: fetch.size.unwrap_or_default(), is_read, is_answered }
}

/// Returns a search as IMAP writes it.
fn criteria(search: &Search) -> String {
    let mut criteria = String::from(if search.unread { "UNSEEN" } else { "ALL" });
    let texts = [("FROM", &search.from), ("TO", &search.to), ("SUBJECT", &search.subject), ("TEXT", &search.text)];
    for (key, text) in texts {
        if let Some(text) = text {
            write!(criteria, " {key} {}", quoted(text)).ok();
        }
    }
    for (key, day) in [("SINCE", search.since), ("BEFORE", search.before)] {
        if let Some(day) = day {
            write!(criteria, " {key} {}", date(day)).ok();
        }
    }
    criteria
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns a day as IMAP writes it: `26-Nov-2026`.
fn date(day: Day) -> String {
    let month = day.month.checked_sub(1).and_then(|index| MONTHS.get(index)).unwrap_or(&"Jan");
    format!("{}-{month}-{}", day.of_month, day.year)
}

/// Returns an ASCII text as a quoted string of IMAP.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn criteria_are_quoted_and_days_are_in_the_form_of_imap() {
        let search = |params: Value| serde_json::from_value::<Search>(params).unwrap();
        let all = search(
            json!({ "from": "a\"b\\c", "subject": "x", "since": "2026-02-01", "before": "2026-12-31", "unread": true }),
        );
        assert_eq!(criteria(&all), r#"UNSEEN FROM "a\"b\\c" SUBJECT "x" SINCE 1-Feb-2026 BEFORE 31-Dec-2026"#);
        assert_eq!(criteria(&search(json!({}))), "ALL");
    }
}
