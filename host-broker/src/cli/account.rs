//! `account`: at which of their own accounts persons are worked for.

use crate::cli::Context;
use crate::cli::ask::{answer, ask};
use crate::cli::home_reader::person;
use crate::cli::output::{CliError, Output, Progress, refusal};
use crate::control::ProcessRequest;
use clap::{Args, Subcommand};
use engine::request;
use model::card::visible;
use model::{Account as Linked, GIVEN_SECRET_MAX, GivenSecret, Person, Share};
use serde_json::{Value, json};
use shared::{Code, Group, Provider};
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

--json prints {accounts: [{person, capability, account_ref, label, linked_at, linked_by, shared_with: […], refused_at}]};
refused_at is the time at which the server last refused the credential, if it has not accepted it since.
The others print the reply: {status, summary, data, evidence: {…}}; link adds check: {tried, ok, said, code} to data.")]
pub struct Account {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Link an account of a person at a capability.
    ///
    /// With this command you confirm that the account belongs to the person. The broker tries a password once at the server,
    /// if the kind of the provider has a check. If the server does not accept it, the account is linked, and the command
    /// exits with 5.
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
        /// Do not try the password at the server.
        #[arg(long)]
        no_check: bool,
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
    /// With a shared account, the agent acts as the owner of the account. The broker must know the other person: by an
    /// account, a share or a call of that person.
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
    /// Share with a person of whom the broker knows nothing yet.
    #[arg(long, conflicts_with = "end")]
    new: bool,
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
            Command::Link { person, capability, account, label, password_file, no_check } => {
                let (person, account_ref) = (person.key(), account);
                let password = password_file.as_deref().map(|path| password(context, path)).transpose()?;
                let is_tried = password.is_some() && !no_check;
                let name = (person.clone(), capability.clone(), account_ref.clone());
                let link = request::Command::LinkAccount { person, capability, account_ref, label, password };
                if is_tried { link_and_try(context, link, name) } else { ask(context, link) }
            }
            Command::List { person, capability } => list(context, person.as_ref(), capability.as_ref()),
            Command::Unlink { person, capability, account } => {
                let (person, capability, account_ref) = (person.key(), Some(capability), Some(account));
                ask(context, request::Command::UnlinkAccounts { person, capability, account_ref })
            }
            Command::Share(sharing) => {
                let Sharing { person, capability, account, with, new, end } = *sharing;
                let (person, with) = (person.key(), with.key());
                ask(
                    context,
                    request::Command::ShareAccount {
                        share: Share { person, capability, account_ref: account, with },
                        on: !end,
                        new,
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

/// Links an account, and tries its password at the server.
fn link_and_try(
    context: &Context,
    link: request::Command,
    (person, capability, account_ref): (String, Provider, String),
) -> Result<(), CliError> {
    let mut reply = answer(context, link)?;
    refusal(&reply).map_or(Ok(()), Err)?;
    // An account that is linked already keeps its spelling.
    let as_linked = reply.pointer("/data/linked/account_ref").and_then(Value::as_str).map(str::to_owned);
    let account_ref = as_linked.unwrap_or(account_ref);
    let check = ProcessRequest::CheckAccount { person, capability: capability.clone(), account_ref };
    // The account is linked, also if the check cannot be made.
    let checked = Progress::during(context.output, "waiting for the server of the account", || answer(context, check));
    let checked = checked.and_then(|checked| refusal(&checked).map_or(Ok(checked), Err));
    let check = match checked {
        Ok(checked) => checked.pointer("/data").and_then(|data| data.get(capability.as_str())).cloned(),
        Err(error) => Some(json!({ "tried": false, "ok": false, "said": error.text })),
    };
    let check = check.unwrap_or_else(|| json!({ "tried": false, "ok": false, "said": "the check has no finding" }));
    let text = |document: &Value, name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |name: &str| check.get(name).and_then(Value::as_bool).unwrap_or(false);
    let (said, code) = (text(&check, "said"), text(&check, "code"));
    let finding = match (is("tried"), is("ok")) {
        (true, true) => "linked, and the server accepts it".to_owned(),
        (true, false) if code == Code::CapabilityAuthRequired.word() => {
            format!("linked, but the password was not accepted: {said}")
        }
        (true, false) => format!("linked, but the password could not be tried: {said}"),
        (false, _) => format!("linked, but not tried: {said}"),
    };
    let summary = format!("{}\n{finding}", context.at_home(&text(&reply, "summary")));
    if is("tried") && !is("ok") {
        return Err(CliError::provider(summary).with("linked", true).with("check", check).with("reply", reply));
    }
    if let Some(members) = reply.as_object_mut() {
        members.insert("summary".to_owned(), json!(summary));
    }
    if let Some(data) = reply.get_mut("data").and_then(Value::as_object_mut) {
        data.insert("check".to_owned(), check);
    }
    context.output.reply(&reply)
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
    let (mut linked, shares, refusals) = match context.ledger_if_any()? {
        Some(ledger) => (accounts::list(&ledger)?, accounts::shares(&ledger)?, accounts::refusals(&ledger)?),
        None => Default::default(),
    };
    let refused_at = |Linked { person, capability, account_ref, .. }: &Linked| {
        refusals.get(&(person.clone(), capability.to_string(), account_ref.clone()))
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
            members.insert("refused_at".to_owned(), json!(refused_at(account)));
        }
        document
    };
    let documents: Vec<_> = linked.iter().map(document).collect();
    context.output.show(&json!({ "accounts": documents }), || {
        let row = |account: &Linked| {
            let label = visible(account.label.as_deref().unwrap_or_default());
            let (person, capability) = (visible(&account.person), account.capability.to_string());
            let others = visible(&with(account).join(" "));
            let refused = refused_at(account).map(ToString::to_string).unwrap_or_default();
            vec![person, capability, account.account_ref.clone(), label, account.linked_at.to_string(), others, refused]
        };
        let rows: Vec<_> = linked.iter().map(row).collect();
        let heads = ["PERSON", "CAPABILITY", "ACCOUNT", "LABEL", "SINCE", "SHARED WITH", "REFUSED AT"];
        Output::table_or("No account is linked.", &heads, &rows)
    });
    Ok(())
}
