//! The check of the connection: GitHub answers, and accepts the token.

use crate::Github;
use crate::app::Reach;
use crate::base::Target;
use provider::connection::Connects;
use provider::contract::{Execution, Failure};

impl Connects for Github {
    /// Reads the limits of requests. GitHub does not count this request.
    async fn connect(&self, execution: &Execution) -> Result<String, Failure> {
        self.session(Reach::Names, execution).await?.get(&Target::fixed("/rate_limit")).await?;
        Ok("GitHub accepts the credential.".to_owned())
    }
}
