//! Mail: an account, read and changed over IMAP (RFC 9051), sent from over SMTP (RFC 5321), or both over Gmail's API.
//!
//! Each action is one file: its fields are the parameters. The shared modules are `settings` (the table in the
//! configuration), `address` (addresses and the allowed recipients), `reference` (the ids of messages), `backend` (the
//! way to the mail), `imap`, `smtp` and `gmail` (the servers), `compose` (the message that is sent), `parsing` (messages that came), `read` (the
//! common part of reads) and `failures`.
//!
//! Every call over IMAP opens a connection of its own. The broker reads a bounded number of its bytes (`limited`).

mod address;
mod backend;
mod compose;
mod connection;
mod failures;
mod gmail;
mod imap;
mod limited;
mod outgoing;
mod parsing;
mod read;
mod reference;
mod settings;
mod smtp;
mod starttls;
mod tls;

mod create_draft;
mod list_folders;
mod list_messages;
mod move_message;
mod read_attachment;
mod read_email;
mod send_email;

pub use address::{Address, BadAddress, RecipientPattern};
pub use reference::{BadReference, Folder};
pub use settings::{Api, Auth, Encryption, KIND, Server, Settings};

use backend::Backend;
use model::{Clock, Exposure};
use move_message::MoveMessage;
use provider::accounts::{Account, CallAccount};
use provider::contract::{Failure, Operation};
use provider::native::{BadDeclaration, SharedState, operation};
use read::ReadAction;
use shared::{Provider, Timestamp};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The exposure of every read: text of other authors, some of it private.
const READS: Exposure = Exposure { untrusted: true, sensitive: true, egress: false };
/// The exposure of a change within the account: nothing leaves, and nothing of other authors comes back.
const KEEPS: Exposure = Exposure { untrusted: false, sensitive: false, egress: false };
/// The exposure of a mail: its parameters leave.
const SENDS: Exposure = Exposure { untrusted: false, sensitive: false, egress: true };

/// The state that the actions share.
#[derive(Clone)]
struct Mail {
    settings: Arc<Settings>,
    account: Account,
    /// The address of the account; `None` if no account is chosen.
    address: Option<Address>,
    backend: Arc<Backend>,
    clock: Arc<dyn Clock>,
    parsers: Arc<Semaphore>,
}

impl Mail {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn address(&self) -> Result<&Address, Failure> {
        // The decision refuses a call without an account, so this refuses only calls that should not have come here.
        self.address.as_ref().ok_or_else(|| Failure::Unavailable { message: "The call has no mail account.".into() })
    }
}

impl SharedState for Mail {
    fn account(&self) -> Option<CallAccount> {
        self.account.undecided()
    }

    fn with_account(&self, account: &CallAccount) -> Option<Self> {
        let address = Some(account.name()?.parse().ok()?);
        Some(Self { account: Account::Person(account.clone()), address, ..self.clone() })
    }

    fn account_fault(&self, name: &str) -> Option<&'static str> {
        name.parse::<Address>()
            .is_err()
            .then_some("The name of the account is its mail address, such as ann@example.com.")
    }

    /// A server can tell letter cases before the `@` apart (RFC 5321, section 2.4), and hardly any does. Two accounts of one
    /// person never differ by that alone.
    fn is_same_account(&self, one: &str, other: &str) -> bool {
        one.eq_ignore_ascii_case(other)
    }
}

/// Returns the actions; without a password they are declared and refuse to run. It contacts no server.
fn operations(name: &Provider, shared: &Arc<Mail>) -> Result<Vec<Arc<dyn Operation>>, BadDeclaration> {
    let all = [
        operation::<ReadAction<list_folders::ListFolders>>(name, shared),
        operation::<ReadAction<list_messages::ListMessages>>(name, shared),
        operation::<ReadAction<list_messages::Search>>(name, shared),
        operation::<ReadAction<read_email::ReadEmail>>(name, shared),
        operation::<ReadAction<read_attachment::ReadAttachment>>(name, shared),
        operation::<MoveMessage<move_message::Archive>>(name, shared),
        operation::<MoveMessage<move_message::Trash>>(name, shared),
        operation::<create_draft::CreateDraft>(name, shared),
        operation::<send_email::SendEmail>(name, shared),
    ];
    all.into_iter().collect()
}
