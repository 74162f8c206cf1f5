//! From configuration to the catalogue.
//!
//! A provider that cannot be set up is listed with the reason and takes no calls; it does not keep the others
//! from working.

use crate::config::Config;
use crate::config::home::Home;
use crate::config::provider::ProviderTable;
use crate::host::Effects;
use crate::providers::contract::Operation;
use crate::providers::mock;
use crate::providers::registry::{Catalogue, Listed};
use shared::{Action, Provider};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Sets every configured provider up.
pub fn catalogue(config: &Config, home: &Home, effects: &Effects) -> Catalogue {
    let mut catalogue = Catalogue::default();
    for (name, table) in &config.providers {
        catalogue.insert(name.clone(), listed(name, table, home, effects));
    }
    catalogue
}

fn listed(name: &Provider, table: &ProviderTable, home: &Home, _effects: &Effects) -> Listed {
    let (kind, made) = match table {
        ProviderTable::Mock(mock) => {
            ("mock", mock::operations(name, &home.path().join(&mock.script)).map_err(|error| error.to_string()))
        }
    };
    let (state, operations) = match made {
        Ok(operations) if table.enabled() => (Ok(()), operations),
        Ok(operations) => (Err("switched off by the configuration".to_owned()), operations),
        Err(fault) => (Err(fault), Vec::new()),
    };
    if let Err(reason) = &state {
        tracing::warn!(provider = %name, %reason, "the provider takes no calls");
    }
    Listed { state, patience: table.timeout_ms().map(Duration::from_millis), operations: by_name(operations), kind }
}

fn by_name(operations: Vec<Arc<dyn Operation>>) -> BTreeMap<Action, Arc<dyn Operation>> {
    operations.into_iter().map(|operation| (operation.declaration().action.clone(), operation)).collect()
}
