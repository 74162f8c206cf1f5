//! `account`: at which of their own accounts persons are worked for.

use crate::accounts::{self, Account as Linked};
use crate::approvals::card::visible;
use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::output::{Fault, Output};
use crate::cli::reading::person;
use crate::control::Control;
use crate::identity::Person;
use clap::{Args, Subcommand};
use serde_json::json;
use shared::Provider;

/// Accounts: at which of their own accounts persons are worked for.
///
/// A capability whose operations need an account works for a person with the accounts that are linked for that person, and
/// with nobody else's. What is linked is which account it is; the credentials for it are the provider's.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker account link ash:user-1 gog.email work --label 'Work mail'
  host-broker account list
  host-broker account unlink ash:user-1 gog.email work
  host-broker account purge ash:user-1

--json prints {accounts: [{person, capability, account_ref, label, linked_at, linked_by}]};
the others print the reply: {status, summary, data, evidence: {…}}")]
pub struct Account {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Link an account of a person's at a capability. You say with it that the account is that person's.
    Link {
        /// Whose, as the ledger names persons.
        #[arg(value_name = "ISSUER:PERSON", value_parser = person)]
        person: Person,
        /// The capability, such as gog.email.
        capability: Provider,
        /// What the provider calls the account.
        account: String,
        /// What people call it.
        #[arg(long)]
        label: Option<String>,
    },
    /// List the linked accounts.
    List {
        /// Only this person's.
        #[arg(long, value_name = "ISSUER:PERSON", value_parser = person)]
        person: Option<Person>,
        /// Only at this capability.
        #[arg(long)]
        capability: Option<Provider>,
    },
    /// Unlink one account.
    Unlink {
        /// Whose.
        #[arg(value_name = "ISSUER:PERSON", value_parser = person)]
        person: Person,
        /// The capability.
        capability: Provider,
        /// What the provider calls the account.
        account: String,
    },
    /// Unlink every account of a person. What was done with them stays in the evidence.
    Purge {
        /// Whose.
        #[arg(value_name = "ISSUER:PERSON", value_parser = person)]
        person: Person,
    },
}

impl Account {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`]; nothing was changed.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        match self.command {
            Command::Link { person, capability, account, label } => {
                let person = person.key();
                ask(context, &Control::LinkAccount { person, capability, account_ref: account, label })
            }
            Command::List { person, capability } => list(context, person.as_ref(), capability.as_ref()),
            Command::Unlink { person, capability, account } => {
                let (person, capability, account_ref) = (person.key(), Some(capability), Some(account));
                ask(context, &Control::UnlinkAccounts { person, capability, account_ref })
            }
            Command::Purge { person } => {
                let person = person.key();
                ask(context, &Control::UnlinkAccounts { person, capability: None, account_ref: None })
            }
        }
    }
}

fn list(context: &Context, person: Option<&Person>, capability: Option<&Provider>) -> Result<(), Fault> {
    let mut linked = match context.ledger_if_any()? {
        Some(ledger) => accounts::list(&ledger)?,
        None => Vec::new(),
    };
    linked.retain(|account: &Linked| {
        person.is_none_or(|person| account.person == person.key())
            && capability.is_none_or(|capability| account.capability == *capability)
    });
    context.output.show(&json!({ "accounts": linked }), || {
        let row = |account: &Linked| {
            let label = visible(account.label.as_deref().unwrap_or_default());
            let (person, capability) = (visible(&account.person), account.capability.to_string());
            vec![person, capability, account.account_ref.clone(), label, account.linked_at.to_string()]
        };
        let rows: Vec<_> = linked.iter().map(row).collect();
        Output::table_or("No account is linked.", &["PERSON", "CAPABILITY", "ACCOUNT", "LABEL", "SINCE"], &rows)
    });
    Ok(())
}
