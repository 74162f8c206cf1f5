//! `fleet schema`: the scripts that an administrator of the database runs.

use crate::cli::Context;
use crate::cli::output::CliError;
use clap::Args;
use model::HostName;
use serde_json::json;
use store::fleet::{host_script, schema_script};

#[derive(Debug, Args)]
#[command(
    after_help = "Run the script of the tables first, as the owner of the database. Then run the script of each \
    host; its role must exist. Both scripts can run again. After an upgrade of host-broker, run the script of the \
    tables again.

Examples:
  host-broker fleet schema | psql -v ON_ERROR_STOP=1 -d broker
  host-broker fleet schema --host a --role broker_a | psql -v ON_ERROR_STOP=1 -d broker

--json prints {sql}"
)]
pub(super) struct Schema {
    /// Print the script that adds this host, instead of that of the tables.
    #[arg(long, value_name = "NAME", requires = "role")]
    host: Option<HostName>,
    /// The PostgreSQL role with which the broker of the host connects.
    #[arg(long, value_name = "ROLE", requires = "host", value_parser = role)]
    role: Option<String>,
}

/// The longest name in PostgreSQL, in bytes.
const ROLE_MAX: usize = 63;

/// Parses the name of a role. PostgreSQL would cut a longer one.
fn role(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > ROLE_MAX || text.chars().any(char::is_control) {
        return Err(format!("a role has 1 to {ROLE_MAX} bytes and no control characters"));
    }
    Ok(text.to_owned())
}

impl Schema {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let script = match self.host.zip(self.role) {
            Some((host, role)) => host_script(&host, &role),
            None => schema_script()?,
        };
        context.output.raw(&json!({ "sql": script }), || script);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_a_name_that_postgresql_keeps_whole() {
        for name in ["broker_a", "Broker A", "o'neill", &"r".repeat(63)] {
            assert_eq!(role(name), Ok(name.to_owned()));
        }
        for name in ["", "a\nb", "a\0", &"r".repeat(64)] {
            assert!(role(name).is_err(), "{name:?}");
        }
    }
}
