//! The way to the mailbox: one connection for each call (RFC 9051).

use crate::Mail;
use crate::failures::{self, not_signed_in, unreachable};
use crate::limited::Limited;
use crate::reference::{Folder, MessageRef};
use crate::settings::{Auth, Encryption};
use async_imap::error::Error;
use async_imap::types::Fetch;
use async_imap::{Authenticator, Client, Session};
use futures_util::TryStreamExt as _;
use provider::contract::{Execution, Failure};
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
/// The numbers of messages that one search covers. Its answer has up to eight bytes for each.
const SEARCHED: u32 = 50_000;
/// The most searches of one call.
const SEARCHES_MAX: usize = 100;
/// To end a connection takes no longer.
const CLOSING: Duration = Duration::from_millis(500);
/// The most messages whose fields one call fetches.
pub(crate) const FETCHED_MAX: usize = 100;

impl Mail {
    /// Opens a connection and signs in.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn mailbox(&self, execution: &Execution) -> Result<Mailbox, Failure> {
        let server = &self.settings.imap;
        let tcp = TcpStream::connect((server.host.as_str(), server.port)).await.map_err(|e| unreachable(&e))?;
        let client = match server.tls {
            Encryption::None => greeted(Client::new(Limited::imap(tcp))).await?,
            Encryption::Implicit => {
                let encrypted = self.tls.connect(&server.host, tcp).await.map_err(|e| unreachable(&e))?;
                greeted(Client::new(Limited::imap(encrypted))).await?
            }
            Encryption::Starttls => {
                let mut plain = greeted(Client::new(Limited::imap(tcp))).await?;
                plain.run_command_and_check_ok("STARTTLS", None).await.map_err(failures::imap)?;
                // SECURITY: bytes that came before the handshake are dropped with the client.
                let tcp = plain.into_inner().into_inner();
                let encrypted = self.tls.connect(&server.host, tcp).await.map_err(|e| unreachable(&e))?;
                Client::new(Limited::imap(encrypted))
            }
        };
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
    pub(crate) async fn examine(&mut self, folder: &Folder) -> Result<(u32, Option<u32>), Failure> {
        let opened = self.session.examine(folder.as_str()).await.map_err(failures::imap)?;
        let validity = opened.uid_validity.ok_or_else(without_numbers)?;
        Ok((validity, opened.uid_next))
    }

    /// Opens the folder of a message for reading, and fetches items of the message.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn find(&mut self, message: &MessageRef, items: &str) -> Result<Arc<Fetch>, Failure> {
        let (validity, _) = self.examine(&message.folder).await?;
        if validity != message.validity {
            return Err(gone());
        }
        self.fetch(message.uid, items).await?.ok_or_else(gone)
    }

    /// Opens the folder of a message for changes, and checks that the message is there.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn select(&mut self, message: &MessageRef) -> Result<(), Failure> {
        let opened = self.session.select(message.folder.as_str()).await.map_err(failures::imap)?;
        let validity = opened.uid_validity.ok_or_else(without_numbers)?;
        if validity != message.validity || self.fetch(message.uid, "(UID)").await?.is_none() {
            return Err(gone());
        }
        Ok(())
    }

    /// Returns whether a message is still in its folder.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn has(&mut self, message: &MessageRef) -> Result<bool, Failure> {
        let (validity, _) = self.examine(&message.folder).await?;
        Ok(validity == message.validity && self.fetch(message.uid, "(UID)").await?.is_some())
    }

    /// Returns the numbers of at most so many messages that match, the newest first, from below a number on; `None` is
    /// the end of a folder whose end is not known. Also returns the number below which the search goes on, if there may
    /// be more.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn newest(
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
    pub(crate) async fn fetch(&mut self, uid: u32, items: &str) -> Result<Option<Arc<Fetch>>, Failure> {
        let fetched = self.fetch_all(&[uid], items).await?;
        Ok(fetched.into_iter().find(|fetched| fetched.uid == Some(uid)))
    }

    /// Fetches items of some messages, in any order.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn fetch_all(&mut self, uids: &[u32], items: &str) -> Result<Vec<Arc<Fetch>>, Failure> {
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

    /// Reads the first bytes of a message in pieces.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn content(&mut self, uid: u32, most: usize) -> Result<Vec<u8>, Failure> {
        let mut content = Vec::new();
        while content.len() < most {
            let asked = PIECE_BYTES.min(most - content.len());
            let fetch =
                self.fetch(uid, &format!("(UID BODY.PEEK[]<{}.{asked}>)", content.len())).await?.ok_or_else(gone)?;
            let piece = fetch.body().unwrap_or_default();
            content.extend_from_slice(piece.get(..asked).unwrap_or(piece));
            if piece.len() < asked {
                break;
            }
        }
        Ok(content)
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
    pub(crate) async fn can(&mut self, capability: &str) -> Result<bool, Failure> {
        let capabilities = self.session.capabilities().await.map_err(failures::imap)?;
        Ok(capabilities.has_str(capability))
    }

    /// Moves a message of the open folder in one step (RFC 6851).
    ///
    /// # Errors
    /// [`Failure`]; unless it is [`Failure::Refused`], the message may have been moved.
    pub(crate) async fn move_to(&mut self, uid: u32, folder: &str) -> Result<(), Failure> {
        self.session.uid_mv(uid.to_string(), folder).await.map_err(failures::imap)
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
pub(crate) fn gone() -> Failure {
    let message = "There is no such message in its folder any more. List the folder again.";
    Failure::Refused { message: message.into() }
}

/// Returns an ASCII text as a quoted string of IMAP.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
