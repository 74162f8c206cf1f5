//! The providers: their settings and their secrets, as far as they can be seen without a call.

use super::{Finding, State};
use crate::cli::Context;
use config::Config;
use policy::facts::Outage;
use store::state::grants::Grant;

pub(super) fn examine(context: &Context, config: &Config, granted: &[Grant]) -> Vec<Finding> {
    let catalogue = match context.catalogue_as_seen(config) {
        Ok(catalogue) => catalogue,
        Err(error) => return vec![Finding::error("providers", &error)],
    };
    let finding = |(name, listed): (&shared::Provider, &engine::catalogue::Listed)| {
        let check = format!("provider {name}");
        let (reason, remedy) = match (&listed.state, listed.outage) {
            (Ok(()), _) => return Finding::ok(&check, "it takes calls"),
            (Err(reason), Outage::SwitchedOff) => return Finding::ok(&check, reason),
            (Err(reason), Outage::NoSecret) => (
                reason,
                format!("supply the secret, or set enabled = false in [providers.{name}]; then: host-broker reload"),
            ),
            (Err(reason), Outage::Unusable) => (
                reason,
                format!("correct [providers.{name}] in broker.toml; to see more: host-broker provider check {name}"),
            ),
        };
        // Nobody misses a provider to which no group has access.
        let state = if granted.iter().any(|grant| grant.provider == *name) { State::Problem } else { State::Warning };
        Finding::new(&check, state, reason, Some(remedy))
    };
    catalogue.providers().map(finding).collect()
}
