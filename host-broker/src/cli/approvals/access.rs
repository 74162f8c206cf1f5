//! `approvals approve` of a request for access: the access that a person gives, if it is not the requested one.

use crate::cli::grant::level;
use clap::Args;
use model::access::AccessScope;
use shared::{Action, Gate, Level};

/// The access that a person gives, beside the answer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requests for access")]
pub(super) struct Access {
    /// Give this level instead of the requested one.
    #[arg(long, value_parser = level, conflicts_with = "apply")]
    level: Option<Level>,
    /// Give only these actions (comma-separated).
    #[arg(long, value_name = "ACTION", value_delimiter = ',', conflicts_with = "apply")]
    actions: Option<Vec<Action>>,
    /// The gate that production actions require.
    #[arg(long, conflicts_with = "apply")]
    gate: Option<Gate>,
}

impl Access {
    /// Returns the access; `None` if it is the requested access. Its time is in `--for`.
    pub(super) fn scope(self) -> Option<AccessScope> {
        let Self { level, actions, gate } = self;
        let actions = actions.map(|actions| actions.into_iter().collect());
        let scope = AccessScope { access_level: level, actions, duration_s: None, gate };
        (!scope.is_empty()).then_some(scope)
    }
}
