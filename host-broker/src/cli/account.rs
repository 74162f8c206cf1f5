//! `account`: at which of their own accounts persons are worked for.

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::home_reader::person;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use engine::request;
use model::card::visible;
use model::{Account as Linked, GIVEN_SECRET_MAX, GivenSecret, Person, Share};
use serde_json::json;
use shared::{Group, Provider};
use std::fs::File;
use std::io::{Error, IsTerminal as _, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use store::state::accounts;
use zeroize::Zeroizing;

/// The longest password, with an end of line and one byte that shows that there is more.
const READ_MAX: usize = GIVEN_SECRET_MAX + 3;
/// The rights of users other than the owner.
const OTHERS: u32 = 0o077;

/// Manage the external accounts that are linked to each person.
///
/// A capability acts for a person only with accounts that are linked to that person or shared with that person. If a
/// capability supports it, an agent can start to link an account; the vault then stores the credential. If you
/// link the account here, the provider has the credential, or the vault stores the password from the file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker account link ash:user-1 gog.email work --label 'Work mail'
  host-broker account link broker:ann person.mail ann@example.com --password-file - < password
  host-broker account list
  host-broker account unlink ash:user-1 gog.email work
  host-broker account share ash:user-1 gog.email work --with ash:user-2
  host-broker account purge ash:user-1
  host-broker account purge --group family

To name a shared account, put its owner first: ash:user-1/work.

--json prints {accounts: [{person, capability, account_ref, label, linked_at, linked_by, shared_with: […]}]};
the others print the reply: {status, summary, data, evidence: {…}}")]
pub struct Account {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Link an account of a person at a capability.
    ///
    /// With this command you confirm that the account belongs to the person.
    Link {
        /// The owner of the account, as the ledger names persons.
        #[arg(value_name = "ISSUER:PERSON", value_parser = person)]
        person: Person,
        /// The capability, such as gog.email.
        capability: Provider,
        /// The name of the account at the provider.
        account: String,
        /// A label for people.
        #[arg(long)]
        label: Option<String>,
        /// The file with the password of the account; `-` is standard input.
        ///
        /// Capabilities such as mail sign in with a password. The vault stores it encrypted. To change it, link the account
        /// again.
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// List the linked accounts.
    List {
        /// Show only the accounts of this person.
        #[arg(long, value_name = "ISSUER:PERSON", value_parser = person)]
        person: Option<Person>,
        /// Show only accounts at this capability.
        #[arg(long)]
        capability: Option<Provider>,
    },
    /// Unlink one account.
    Unlink {
        /// The owner of the account, as the ledger names persons.
        #[arg(value_name = "ISSUER:PERSON", value_parser = person)]
        person: Person,
        /// The capability.
        capability: Provider,
        /// The name of the account at the provider.
        account: String,
    },
    /// Share an account with another person, or end the share.
    ///
    /// With a shared account, the agent acts as the owner of the account.
    Share(Box<Sharing>),
    /// Unlink all accounts of a person and delete the stored credentials.
    ///
    /// The command also ends the shares of the person. The ledger keeps the record of all calls.
    Purge {
        /// The person, as the ledger names persons.
        #[arg(value_name = "ISSUER:PERSON", value_parser = person, required_unless_present = "group")]
        person: Option<Person>,
        /// Discard the link sessions of this group, and its accounts that wait for an approval, instead.
        #[arg(long, conflicts_with = "person")]
        group: Option<Group>,
    },
}

#[derive(Debug, Args)]
struct Sharing {
    /// The owner of the account, as the ledger names persons.
    #[arg(value_name = "ISSUER:PERSON", value_parser = person)]
    person: Person,
    /// The capability.
    capability: Provider,
    /// The name of the account at the provider.
    account: String,
    /// The person who can also use the account.
    #[arg(long, value_name = "ISSUER:PERSON", value_parser = person)]
    with: Person,
    /// End the share.
    #[arg(long)]
    end: bool,
}

impl Account {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing was changed.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Link { person, capability, account, label, password_file } => {
                let (person, account_ref) = (person.key(), account);
                let password = password_file.as_deref().map(|path| password(context, path)).transpose()?;
                ask(context, request::Command::LinkAccount { person, capability, account_ref, label, password })
            }
            Command::List { person, capability } => list(context, person.as_ref(), capability.as_ref()),
            Command::Unlink { person, capability, account } => {
                let (person, capability, account_ref) = (person.key(), Some(capability), Some(account));
                ask(context, request::Command::UnlinkAccounts { person, capability, account_ref })
            }
            Command::Share(sharing) => {
                let Sharing { person, capability, account, with, end } = *sharing;
                let (person, with) = (person.key(), with.key());
                ask(
                    context,
                    request::Command::ShareAccount {
                        share: Share { person, capability, account_ref: account, with },
                        on: !end,
                    },
                )
            }
            Command::Purge { group: Some(group), person: _ } => ask(context, request::Command::PurgeGroup { group }),
            Command::Purge { group: None, person } => {
                let person = person.as_ref().map(Person::key).unwrap_or_default();
                ask(context, request::Command::UnlinkAccounts { person, capability: None, account_ref: None })
            }
        }
    }
}

/// Reads a password from a file, or from standard input.
fn password(context: &Context, path: &Path) -> Result<GivenSecret, CliError> {
    let unreadable = |error: Error| CliError::usage(format!("cannot read {}: {error}", path.display()));
    let input: Box<dyn Read> = match path.to_str() {
        Some("-") if std::io::stdin().is_terminal() => {
            return Err(CliError::usage("write the password into a file that only you can read, and name the file"));
        }
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(File::open(path).map_err(unreadable)?),
    };
    if path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & OTHERS != 0) {
        context
            .output
            .say(&format!("host-broker: other users can read {0}; delete it, or: chmod 600 {0}", path.display()));
    }
    let mut text = Zeroizing::new(String::with_capacity(READ_MAX));
    let most = u64::try_from(READ_MAX).unwrap_or(u64::MAX);
    input.take(most).read_to_string(&mut text).map_err(unreadable)?;
    GivenSecret::new(&text).map_err(|fault| CliError::usage(format!("the password in {}: {fault}", path.display())))
}

fn list(context: &Context, person: Option<&Person>, capability: Option<&Provider>) -> Result<(), CliError> {
    let (mut linked, shares) = match context.ledger_if_any()? {
        Some(ledger) => (accounts::list(&ledger)?, accounts::shares(&ledger)?),
        None => (Vec::new(), Vec::new()),
    };
    linked.retain(|account: &Linked| {
        person.is_none_or(|person| account.person == person.key())
            && capability.is_none_or(|capability| account.capability == *capability)
    });
    let with = |account: &Linked| -> Vec<&str> {
        let of = |share: &&Share| {
            share.person == account.person
                && share.capability == account.capability
                && share.account_ref == account.account_ref
        };
        shares.iter().filter(of).map(|share| share.with.as_str()).collect()
    };
    let document = |account: &Linked| {
        let mut document = json!(account);
        if let Some(members) = document.as_object_mut() {
            members.insert("shared_with".to_owned(), json!(with(account)));
        }
        document
    };
    let documents: Vec<_> = linked.iter().map(document).collect();
    context.output.show(&json!({ "accounts": documents }), || {
        let row = |account: &Linked| {
            let label = visible(account.label.as_deref().unwrap_or_default());
            let (person, capability) = (visible(&account.person), account.capability.to_string());
            let others = visible(&with(account).join(" "));
            vec![person, capability, account.account_ref.clone(), label, account.linked_at.to_string(), others]
        };
        let rows: Vec<_> = linked.iter().map(row).collect();
        let heads = ["PERSON", "CAPABILITY", "ACCOUNT", "LABEL", "SINCE", "SHARED WITH"];
        Output::table_or("No account is linked.", &heads, &rows)
    });
    Ok(())
}
