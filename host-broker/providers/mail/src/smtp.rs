//! The way out (RFC 5321, RFC 6409).

use crate::Mail;
use crate::address::Address;
use crate::backend::{Backend, Servers};
use crate::failures::{Sending, explained, not_signed_in, smtp, unreachable};
use crate::limited::Limited;
use crate::settings::{Auth, Encryption, Server};
use crate::starttls::{greeted, starttls};
use crate::tls::Tls;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail as From, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use provider::contract::{Execution, Failure};
use std::net::Ipv4Addr;
use tokio::net::TcpStream;

impl Mail {
    /// Sends a message to all recipients, or to none.
    ///
    /// `sending` is under way from the first byte of the message to the server's answer. Only then can the message have
    /// left when something fails. Nothing follows the answer, so nothing can make a success a failure.
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
        let (server, tls) = match &*self.backend {
            Backend::Gmail(gmail) => return self.gmail(gmail, execution)?.send(message, sending).await,
            Backend::Imap(Servers { smtp: Some(server), tls, .. }) => (server, tls),
            Backend::Imap(Servers { smtp: None, .. }) => {
                let message = "The mail account has no server to send with (`smtp` in its table).";
                return Err(Failure::Refused { message: message.into() });
            }
        };
        let failed = |error| smtp(&error);
        let mut connection = connected(server, tls).await?;
        let from = self.address()?.inner().clone();
        self.sign_in_to_send(&mut connection, execution).await?;
        connection.command(From::new(Some(from), Vec::new())).await.map_err(failed)?;
        for recipient in recipients {
            let accepted = connection.command(Rcpt::new(recipient.inner().clone(), Vec::new())).await;
            let because = |message| format!("Nothing was sent to anybody, because of {recipient}. {message}");
            accepted.map_err(|error| explained(smtp(&error), because))?;
        }
        let answer = connection.command(Data).await.map_err(failed)?;
        if !answer.has_code(354) {
            let message = "The mail server's answer to DATA is not that of RFC 5321. Nothing was sent.";
            return Err(Failure::InvalidOutput { message: message.into() });
        }
        sending.begin();
        match connection.message(message.as_bytes()).await {
            Ok(_accepted) => sending.end(),
            Err(error) => {
                if error.status().is_some() {
                    sending.end();
                }
                return Err(smtp(&error));
            }
        }
        Ok(())
    }

    /// Signs in to the server that sends.
    ///
    /// # Errors
    /// [`Failure`]; nothing was sent.
    pub(crate) async fn sign_in_to_send(
        &self,
        connection: &mut AsyncSmtpConnection,
        execution: &Execution,
    ) -> Result<(), Failure> {
        let (user, secret) = self.account.sign_in(execution)?;
        let credentials = Credentials::new(user.to_owned(), secret.to_string());
        let mechanisms: &[Mechanism] = match self.settings.auth {
            Auth::Password => &[Mechanism::Plain, Mechanism::Login],
            Auth::Xoauth2 => &[Mechanism::Xoauth2],
        };
        let signed_in = connection.auth(mechanisms, &credentials).await;
        signed_in.map(drop).map_err(|error| {
            let failure = not_signed_in(smtp(&error));
            if error.is_permanent() { self.account.not_signed_in(failure) } else { failure }
        })
    }
}

/// Opens a connection, encrypted as the table says, without signing in.
///
/// # Errors
/// [`Failure`]; nothing was sent.
pub(crate) async fn connected(server: &Server, tls: &Tls) -> Result<AsyncSmtpConnection, Failure> {
    let stream = smtp_stream(server, tls).await.map_err(|error| unreachable(&error))?;
    // An address literal says nothing about the host's network.
    let hello = ClientId::Ipv4(Ipv4Addr::LOCALHOST);
    AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello).await.map_err(|error| smtp(&error))
}

async fn smtp_stream(server: &Server, tls: &Tls) -> std::io::Result<Limited> {
    let mut tcp = TcpStream::connect((server.host.as_str(), server.port)).await?;
    Ok(match server.tls {
        Encryption::None => Limited::smtp(tcp),
        Encryption::Implicit => Limited::smtp(tls.connect(&server.host, tcp).await?),
        Encryption::Starttls => {
            starttls(&mut tcp).await?;
            greeted(tls.connect(&server.host, tcp).await?)
        }
    })
}
