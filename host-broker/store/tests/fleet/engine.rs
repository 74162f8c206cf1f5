//! A database of a fleet, for one test.

use super::world::Home;
use crate::fleet_database::{FleetDatabase, body_key};
use crate::tcp_proxy::Proxy;
use model::Clock;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{Store, StoreError};

/// A database with the host `a`.
pub(crate) struct Engine {
    database: Option<FleetDatabase>,
}

impl Engine {
    pub(crate) fn new() -> Self {
        Self { database: FleetDatabase::new() }
    }

    pub(crate) fn open(&self, home: &Path, clock: Arc<dyn Clock>, policy: String) -> Result<Store, StoreError> {
        match &self.database {
            Some(database) => {
                let settings = database.settings("a", database.server.port);
                Store::open_in_fleet(home, clock, policy, (&settings, &body_key(home)))
            }
            None => Store::open(home, clock, policy),
        }
    }
}

impl Home {
    /// Returns the database; `None` where there is no PostgreSQL.
    pub(crate) fn database(&self) -> Option<&FleetDatabase> {
        self.engine.database.as_ref()
    }

    /// Opens the writer as a host of the fleet.
    pub(crate) fn try_store_as(&self, host: &str) -> Result<Store, StoreError> {
        let database = self.database().unwrap();
        let settings = database.settings(host, database.server.port);
        Store::open_in_fleet(self.path(), self.clock(), "policy-1".to_owned(), (&settings, &body_key(self.path())))
    }

    /// Opens the writer through a proxy. It does not wait for the end of a fault.
    pub(crate) fn try_store_through(&self, proxy: &Proxy) -> Result<Store, StoreError> {
        let settings = self.database().unwrap().settings("a", proxy.port).with_settle_timeout(Duration::ZERO);
        Store::open_in_fleet(self.path(), self.clock(), "policy-1".to_owned(), (&settings, &body_key(self.path())))
    }

    /// Opens the writer of a home that belongs to no fleet.
    pub(crate) fn try_store_alone(&self) -> Result<Store, StoreError> {
        Store::open(self.path(), self.clock(), "policy-1".to_owned())
    }

    pub(crate) fn store_alone(&self) -> Store {
        self.try_store_alone().unwrap()
    }

    /// Opens the writer of a home that is made from a backup.
    pub(crate) fn restored(&self) -> Store {
        Store::open_restored(self.path(), self.clock(), "policy-1".to_owned()).unwrap()
    }
}
