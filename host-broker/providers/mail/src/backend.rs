//! The way to the mail of an account: servers of IMAP and SMTP, or Gmail's API.

use crate::Mail;
use crate::failures::{Sending, guardrail};
use crate::gmail::{self, Gmail};
use crate::imap;
use crate::list_messages::{Listed, Search};
use crate::reference::{Cursor, Folder, MessageRef};
use crate::settings::{Server, Settings};
use crate::tls::Tls;
use model::Nonce;
use provider::contract::{Execution, Failure, Guard, Probed};

/// The way to the mail.
pub(crate) enum Backend {
    /// Servers of IMAP and SMTP.
    Imap(Servers),
    /// Gmail's API.
    Gmail(Gmail),
}

/// The servers of an account.
pub(crate) struct Servers {
    /// The server that holds the mail.
    pub(crate) imap: Server,
    /// The server that sends mail, if there is one.
    pub(crate) smtp: Option<Server>,
    pub(crate) tls: Tls,
}

/// A folder with a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Archive,
    Trash,
    Drafts,
    Sent,
}

impl Purpose {
    /// Returns the key of the folder in the table of the account.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Trash => "trash",
            Self::Drafts => "drafts",
            Self::Sent => "sent",
        }
    }

    /// Returns the folder in an account of IMAP.
    fn of_table(self, settings: &Settings) -> &Folder {
        match self {
            Self::Archive => &settings.archive,
            Self::Trash => &settings.trash,
            Self::Drafts => &settings.drafts,
            Self::Sent => &settings.sent,
        }
    }
}

/// The folder to which a message is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Archive,
    Trash,
}

impl Target {
    /// Returns the purpose of the folder.
    pub(crate) fn purpose(self) -> Purpose {
        match self {
            Self::Archive => Purpose::Archive,
            Self::Trash => Purpose::Trash,
        }
    }
}

/// The mailbox of one execution. A connection to a server of IMAP is open until it is closed or dropped.
pub(crate) enum Mailbox {
    Imap(imap::Mailbox),
    Gmail(gmail::Mailbox),
}

/// A message whose content can be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened {
    /// The number of its bytes; `None` if the server does not tell it.
    pub(crate) size: Option<usize>,
    /// Whether it was read before.
    pub(crate) is_read: bool,
}

/// The content of a message.
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    /// Whether the message has more bytes.
    pub(crate) is_cut: bool,
}

impl Mail {
    /// Opens the mailbox, and signs in.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn mailbox(&self, execution: &Execution) -> Result<Mailbox, Failure> {
        match &*self.backend {
            Backend::Imap(servers) => Ok(Mailbox::Imap(self.imap(servers, execution).await?)),
            Backend::Gmail(gmail) => Ok(Mailbox::Gmail(self.gmail(gmail, execution)?)),
        }
    }

    /// Returns the folder of a purpose.
    pub(crate) fn folder(&self, purpose: Purpose) -> Folder {
        match &*self.backend {
            Backend::Imap(_) => purpose.of_table(&self.settings).clone(),
            Backend::Gmail(_) => gmail::folder(purpose),
        }
    }

    /// Returns whether the account can send mail.
    pub(crate) fn can_send(&self) -> bool {
        match &*self.backend {
            Backend::Imap(servers) => servers.smtp.is_some(),
            Backend::Gmail(_) => true,
        }
    }

    /// Returns whether the broker saves the mail that it sends. Gmail saves it itself.
    pub(crate) fn saves_sent(&self) -> bool {
        self.settings.save_sent && matches!(*self.backend, Backend::Imap(_))
    }

    /// Refuses the id of a message that is not one of this account.
    pub(crate) fn guard_id(&self, message: &MessageRef) -> Guard {
        match (&*self.backend, message) {
            (Backend::Imap(_), MessageRef::Imap(_)) | (Backend::Gmail(_), MessageRef::Gmail(_)) => Guard::Pass,
            (Backend::Imap(_), MessageRef::Gmail(_)) | (Backend::Gmail(_), MessageRef::Imap(_)) => {
                Guard::Refuse(guardrail("id: it is not an id that this account has given."))
            }
        }
    }

    /// Refuses a cursor that is not one of this account and folder.
    pub(crate) fn guard_cursor(&self, cursor: Option<&Cursor>, folder: &Folder) -> Guard {
        match (&*self.backend, cursor) {
            (_, None) | (Backend::Gmail(_), Some(Cursor::Page(_))) => Guard::Pass,
            (Backend::Imap(_), Some(Cursor::Below(place))) if place.folder == *folder => Guard::Pass,
            (Backend::Imap(_), Some(Cursor::Below(_))) => Guard::Refuse(guardrail("The cursor is of another folder.")),
            (Backend::Imap(_), Some(Cursor::Page(_))) | (Backend::Gmail(_), Some(Cursor::Below(_))) => {
                Guard::Refuse(guardrail("cursor: it is not a cursor that this account has given."))
            }
        }
    }

    /// Returns whether a search may have other characters than ASCII.
    pub(crate) fn takes_unicode(&self) -> bool {
        matches!(*self.backend, Backend::Gmail(_))
    }
}

impl Mailbox {
    /// Returns the names of at most so many folders, and whether there are more.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn folders(&mut self, most: usize) -> Result<(Vec<String>, bool), Failure> {
        match self {
            Self::Imap(mailbox) => mailbox.folders(most).await,
            Self::Gmail(mailbox) => mailbox.folders(most).await,
        }
    }

    /// Lists the messages that match, the newest first.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn list(&mut self, search: &Search) -> Result<Listed, Failure> {
        match self {
            Self::Imap(mailbox) => mailbox.list(search).await,
            Self::Gmail(mailbox) => mailbox.list(search).await,
        }
    }

    /// Finds a message.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn open(&mut self, message: &MessageRef) -> Result<Opened, Failure> {
        match self {
            Self::Imap(mailbox) => mailbox.open(message).await,
            Self::Gmail(mailbox) => mailbox.open(message).await,
        }
    }

    /// Reads the first bytes of a message that is open. Gmail gives a message whole or not at all.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn content(
        &mut self,
        message: &MessageRef,
        opened: Opened,
        most: usize,
    ) -> Result<Content, Failure> {
        match self {
            Self::Imap(mailbox) => mailbox.content(message, opened, most).await,
            Self::Gmail(mailbox) => mailbox.content(message, opened).await,
        }
    }

    /// Moves a message to another folder.
    ///
    /// # Errors
    /// [`Failure`]; while `sending` is under way, the message may have been moved.
    pub(crate) async fn move_to(
        &mut self,
        message: &MessageRef,
        target: Target,
        folder: &Folder,
        sending: &Sending,
    ) -> Result<(), Failure> {
        match self {
            Self::Imap(mailbox) => mailbox.move_to(message, (target.purpose().key(), folder), sending).await,
            Self::Gmail(mailbox) => mailbox.move_to(message, target, sending).await,
        }
    }

    /// Saves a message that was sent.
    ///
    /// # Errors
    /// [`Failure`]; the message may have been saved.
    pub(crate) async fn save_sent(&mut self, folder: &Folder, message: &str) -> Result<(), Failure> {
        match self {
            Self::Imap(mailbox) => mailbox.append(folder.as_str(), "(\\Seen)", message).await,
            // Gmail has saved it.
            Self::Gmail(_) => Ok(()),
        }
    }

    /// Looks where a message is whose move had no outcome. Somebody else can have moved it, too.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn probe_move(&mut self, message: &MessageRef, target: Target) -> Result<Probed, Failure> {
        match self {
            Self::Imap(mailbox) => mailbox.probe_move(message).await,
            Self::Gmail(mailbox) => mailbox.probe_move(message, target).await,
        }
    }

    /// Saves a draft.
    ///
    /// # Errors
    /// [`Failure`]; while `sending` is under way, the draft may have been saved.
    pub(crate) async fn save_draft(
        &mut self,
        folder: &Folder,
        message: &str,
        sending: &Sending,
    ) -> Result<(), Failure> {
        match self {
            Self::Imap(mailbox) => {
                sending.begin();
                mailbox.append(folder.as_str(), "(\\Draft)", message).await?;
                sending.end();
                Ok(())
            }
            Self::Gmail(mailbox) => mailbox.save_draft(message, sending).await,
        }
    }

    /// Looks for a message by its nonce in a folder. Returns whether it is there, and the place that was searched.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn look_for(
        &mut self,
        folder: &Folder,
        message_id: &str,
        nonce: &Nonce,
    ) -> Result<(bool, String), Failure> {
        match self {
            Self::Imap(mailbox) => Ok((mailbox.has_message_id(folder, message_id).await?, folder.as_str().to_owned())),
            Self::Gmail(mailbox) => mailbox.look_for(folder, message_id, nonce).await,
        }
    }

    /// Ends the connection in good order.
    pub(crate) async fn close(self) {
        match self {
            Self::Imap(mailbox) => mailbox.close().await,
            Self::Gmail(_) => {}
        }
    }
}
