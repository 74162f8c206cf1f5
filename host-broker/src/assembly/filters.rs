//! Builds the filters of results.

use crate::host::StartError;
use engine::catalogue::Catalogue;
use engine::clean::{Filters, Schemas};
use engine::inspection::Inspector;
use filter::scrub::Scrubber;
use filter::values::Formats;
use model::LedgerKey;
use secrets::Secrets;
use secrets::search::mark::Stamp;
use std::sync::Arc;

/// Builds the scrubber, which finds the broker's own secrets and others.
///
/// # Errors
/// [`StartError`] if it cannot be built.
pub fn scrubber(secrets: &Secrets, key: &LedgerKey, formats: Formats) -> Result<Arc<Scrubber>, StartError> {
    // It derives from the ledger's key, so that a mark is the same after a restart. The description of an action may
    // hold a mark, and is part of the approval request.
    let fingerprints = *key.digest(b"fingerprints of marks").as_bytes();
    let scrubber = Scrubber::with(secrets, Stamp::new(fingerprints), formats);
    scrubber.map(Arc::new).map_err(|error| StartError::Filter(error.to_string()))
}

/// Builds the filters for every result.
///
/// # Errors
/// [`StartError`] if a schema that an action declares is none.
pub fn filters(
    catalogue: &Catalogue,
    scrubber: Arc<Scrubber>,
    key: &Arc<LedgerKey>,
    inspector: Inspector,
) -> Result<Filters, StartError> {
    let schemas = Arc::new(schemas(catalogue)?);
    Ok(Filters { scrubber, schemas, key: Arc::clone(key), inspector: Arc::new(inspector), vault: None })
}

/// Returns the result schemas of every action.
///
/// # Errors
/// [`StartError`] if one is none.
pub fn schemas(catalogue: &Catalogue) -> Result<Schemas, StartError> {
    let mut schemas = Schemas::new();
    for (provider, listed) in catalogue.providers() {
        for (action, operation) in &listed.operations {
            let Some(schema) = &operation.declaration().output_schema else { continue };
            let validator = jsonschema::options()
                .with_pattern_options(jsonschema::PatternOptions::regex())
                .build(schema)
                .map_err(|error| StartError::Filter(format!("{provider}.{action}: {error}")))?;
            schemas.insert((provider.clone(), action.clone()), Arc::new(validator));
        }
    }
    Ok(schemas)
}
