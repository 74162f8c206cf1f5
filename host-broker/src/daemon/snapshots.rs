//! The snapshots of the groups, which list their permissions.

use super::Loop;
use engine::snapshot;
use model::errors::chain;
use shared::Group;
use std::collections::BTreeSet;
use std::sync::Arc;
use store::state::grants;

impl Loop {
    pub(super) fn write_all_snapshots(&mut self) {
        let groups = self.daemon.broker.config().groups.keys().cloned().collect();
        self.write_snapshots(&groups);
    }

    pub(super) fn write_snapshots(&mut self, stale: &BTreeSet<Group>) {
        if stale.is_empty() {
            return;
        }
        let now = self.daemon.clock.now();
        let reader = self.daemon.ledger.view();
        for group in stale {
            self.daemon.broker.forget_capabilities(group);
            let broker = &self.daemon.broker;
            let (config, catalogue, policy) = (broker.config(), broker.catalogue(), broker.policy());
            match snapshot::snapshot(reader, now, group, config, catalogue, policy, None) {
                Ok(snapshot) => {
                    let bytes = serde_json::to_vec_pretty(&snapshot).unwrap_or_default();
                    self.daemon.outbox.snapshot(group, &bytes);
                    self.daemon.intake.set_snapshot(group, &Arc::new(snapshot));
                }
                Err(error) => {
                    tracing::error!(%group, error = chain(&error), "the snapshot cannot be made");
                }
            }
        }
        self.expiry = grants::next_expiry(reader, now).unwrap_or(None);
    }
}
