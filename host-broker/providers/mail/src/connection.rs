//! The check of the connection: the servers answer, and let the account in.

use crate::Mail;
use crate::backend::{Backend, Servers};
use crate::gmail::Gmail;
use crate::settings::Server;
use crate::{imap, smtp};
use provider::accounts::Account;
use provider::connection::Connects;
use provider::contract::{Execution, Failure};

impl Connects for Mail {
    async fn connect(&self, execution: &Execution) -> Result<String, Failure> {
        match (&*self.backend, &self.account) {
            (Backend::Imap(servers), Account::Persons(_)) => reach(servers).await,
            (Backend::Imap(servers), Account::Shared { .. }) => {
                let mut said = self.read_in(servers, execution).await?;
                if let Some(smtp) = &servers.smtp {
                    let mut connection = smtp::connected(smtp, &servers.tls).await?;
                    self.sign_in_to_send(&mut connection, execution).await?;
                    connection.quit().await.ok();
                    said = format!("{said} SMTP at {} accepts it, too.", place(smtp));
                }
                Ok(said)
            }
            // One sign-in is enough for the password of a person.
            (Backend::Imap(servers), Account::Person(_)) => self.read_in(servers, execution).await,
            (Backend::Gmail(gmail), Account::Persons(_)) => self.reach_gmail(gmail, execution).await,
            (Backend::Gmail(_), Account::Shared { .. } | Account::Person(_)) => {
                self.mailbox(execution).await?.folders(1).await?;
                Ok("Gmail accepts the token.".to_owned())
            }
        }
    }
}

impl Mail {
    /// Signs in to the server that holds the mail.
    async fn read_in(&self, servers: &Servers, execution: &Execution) -> Result<String, Failure> {
        self.imap(servers, execution).await?.close().await;
        Ok(format!("IMAP at {} accepts the sign-in.", place(&servers.imap)))
    }

    async fn reach_gmail(&self, gmail: &Gmail, execution: &Execution) -> Result<String, Failure> {
        let status = gmail.status(execution.deadline()).await?;
        Ok(format!("Gmail answers ({status} without a sign-in)."))
    }
}

/// Opens connections without signing in: the provider itself has no credential.
async fn reach(servers: &Servers) -> Result<String, Failure> {
    drop(imap::connected(servers).await?);
    let mut said = format!("IMAP at {} answers.", place(&servers.imap));
    if let Some(server) = &servers.smtp {
        smtp::connected(server, &servers.tls).await?.quit().await.ok();
        said = format!("{said} SMTP at {} answers.", place(server));
    }
    Ok(format!("{said} No account was tried."))
}

fn place(server: &Server) -> String {
    format!("{}:{}", server.host, server.port)
}
