//! The check of the connection: the server answers, and lets the account in.

use crate::Calendar;
use crate::failures::unanswered;
use crate::settings::Api;
use provider::accounts::Account;
use provider::connection::Connects;
use provider::contract::{Execution, Failure};
use provider::remote;

impl Connects for Calendar {
    async fn connect(&self, execution: &Execution) -> Result<String, Failure> {
        let address = self.settings.address().map_err(|message| Failure::Refused { message })?;
        let host = address.host_str().unwrap_or_default().to_owned();
        if let Account::Persons(_) = self.account {
            let status = remote::status_of(self.http.as_ref(), &address, execution.deadline()).await;
            let status = status.map_err(|error| unanswered(&error))?;
            if status >= 500 {
                return Err(Failure::Unavailable { message: format!("The calendar server answers {status}.") });
            }
            return Ok(format!("{host} answers ({status} without a sign-in). No account was tried."));
        }
        let session = self.session(execution)?;
        match self.settings.api {
            // The remembered place of the calendars would need no request.
            Api::Caldav => drop(session.discovered().await?),
            Api::Google => drop(session.place().await?.calendars(&session).await?),
        }
        Ok(format!("{host} accepts the sign-in."))
    }
}
