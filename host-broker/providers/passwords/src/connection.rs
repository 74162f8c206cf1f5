//! The check of the connection: the password manager opens.

use crate::Passwords;
use provider::accounts::Account;
use provider::connection::Connects;
use provider::contract::{Execution, Failure};

impl Connects for Passwords {
    async fn connect(&self, execution: &Execution) -> Result<String, Failure> {
        if let Account::Persons(_) = self.account {
            return Ok("The provider has no credential of its own. No account was tried.".to_owned());
        }
        self.store.entries(execution).await?;
        Ok("The password manager opens and lists its entries.".to_owned())
    }
}
