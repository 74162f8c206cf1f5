//! The way out (RFC 5321, RFC 6409).

use crate::Mail;
use crate::address::Address;
use crate::failures::{Sending, explained, smtp};
use crate::settings::{Auth, Encryption};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail as From, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use provider::contract::{Execution, Failure};
use std::net::Ipv4Addr;
use tokio::time::Instant;

impl Mail {
    /// Sends a message to all recipients, or to none.
    ///
    /// `sending` is under way from the first byte of the message to the server's answer. Only then can the message have
    /// left when something fails.
    ///
    /// # Errors
    /// [`Failure`]; [`Failure::Refused`] is the server's answer, and nothing was sent.
    pub(crate) async fn send(
        &self,
        recipients: &[&Address],
        message: &str,
        sending: &Sending,
        execution: &Execution,
    ) -> Result<(), Failure> {
        let Some(server) = &self.settings.smtp else { return Err(unconfigured()) };
        let failed = |error| smtp(&error);
        let parameters = || self.tls.parameters(&server.host).map_err(failed);
        // An address literal says nothing about the host's network.
        let hello = ClientId::Ipv4(Ipv4Addr::LOCALHOST);
        let left = execution.deadline().saturating_duration_since(Instant::now());
        let implicit = if server.tls == Encryption::Implicit { Some(parameters()?) } else { None };
        let address = (server.host.as_str(), server.port);
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(address, Some(left), &hello, implicit, None).await.map_err(failed)?;
        if server.tls == Encryption::Starttls {
            connection.starttls(parameters()?, &hello).await.map_err(failed)?;
        }
        let credentials = Credentials::new(self.settings.username().to_owned(), self.password(execution)?.to_owned());
        let mechanisms: &[Mechanism] = match self.settings.auth {
            Auth::Password => &[Mechanism::Plain, Mechanism::Login],
            Auth::Xoauth2 => &[Mechanism::Xoauth2],
        };
        let signed_in = connection.auth(mechanisms, &credentials).await;
        signed_in.map_err(|error| explained(smtp(&error), |message| format!("Signing in failed. {message}")))?;
        let from = self.settings.address.inner().clone();
        connection.command(From::new(Some(from), Vec::new())).await.map_err(failed)?;
        for recipient in recipients {
            let accepted = connection.command(Rcpt::new(recipient.inner().clone(), Vec::new())).await;
            let because = |message| format!("Nothing was sent to anybody, because of {recipient}. {message}");
            accepted.map_err(|error| explained(smtp(&error), because))?;
        }
        connection.command(Data).await.map_err(failed)?;
        sending.begin();
        let answer = connection.message(message.as_bytes()).await;
        match answer {
            Ok(_accepted) => {}
            Err(error) => {
                if error.status().is_some() {
                    sending.end();
                }
                return Err(smtp(&error));
            }
        }
        sending.end();
        connection.abort().await;
        Ok(())
    }
}

/// The account cannot send.
pub(crate) fn unconfigured() -> Failure {
    Failure::Refused { message: "The mail account has no server to send with (`smtp` in its table).".into() }
}
