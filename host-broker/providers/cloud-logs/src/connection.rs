//! The check of the connection: each server answers, and accepts its credential.

use crate::Logs;
use crate::backend::{BackendError, check_all};
use provider::connection::Connects;
use provider::contract::{Execution, Failure};

impl Connects for Logs {
    async fn connect(&self, execution: &Execution) -> Result<String, Failure> {
        let access = self.access(execution);
        let (mut said, mut faults) = (Vec::new(), Vec::new());
        for found in check_all(&self.backends, &access).await {
            match found {
                Ok(found) => said.extend(found),
                Err(BackendError::Deadline) => faults.push("a server is too slow".to_owned()),
                Err(BackendError::Unavailable { what, reason } | BackendError::Limited { what, reason, .. }) => {
                    faults.push(format!("{what} {reason}"));
                }
            }
        }
        if faults.is_empty() {
            return Ok(said.join(" "));
        }
        // A server that works is named, too: the others have the fault.
        let faults = faults.into_iter().map(|fault| format!("{fault}.")).chain(said);
        Err(Failure::Refused { message: faults.collect::<Vec<_>>().join(" ") })
    }
}
