//! A database of a fleet, for one test.

use crate::postgres_server::{PASSWORD, PostgresServer};
use model::LedgerKey;
use rusqlite::Connection;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use store::fleet::{BodyKey, Settings, host_script, schema_script};

/// The database, with the host `a`.
#[derive(Debug)]
pub struct FleetDatabase {
    /// Its server.
    pub server: Arc<PostgresServer>,
    /// Its name.
    pub name: String,
}

impl FleetDatabase {
    /// Makes it on the server of all tests; `None`, with the reason printed, where there is no PostgreSQL.
    pub fn new() -> Option<Self> {
        static TEMPLATE: OnceLock<()> = OnceLock::new();
        let server = PostgresServer::shared()?;
        TEMPLATE.get_or_init(|| make_template(&server));
        Some(Self::like_template(server))
    }

    /// Makes it on a server of its own.
    pub fn alone() -> Option<Self> {
        Self::alone_with(&[])
    }

    /// Makes it on a server of its own with these settings.
    pub fn alone_with(settings: &[&str]) -> Option<Self> {
        let server = Arc::new(PostgresServer::start_with(settings)?);
        make_template(&server);
        Some(Self::like_template(server))
    }

    /// Leads to the server that has taken over.
    pub fn move_to(&mut self, server: PostgresServer) {
        self.server = Arc::new(server);
    }

    fn like_template(server: Arc<PostgresServer>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("fleet_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        server.run(&format!("CREATE DATABASE {name} TEMPLATE fleet"));
        let database = Self { server, name };
        database.add("a");
        database
    }

    /// Adds a host with its role.
    pub fn add(&self, host: &str) {
        let role = self.role(host);
        let script = host_script(&host.parse().unwrap(), &role);
        self.run(&format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'; {script}"));
    }

    fn role(&self, host: &str) -> String {
        format!("{}_{host}", self.name)
    }

    /// Runs statements as the superuser.
    pub fn run(&self, statements: &str) -> String {
        self.server.run_in(&self.name, statements)
    }

    /// Does the same, and returns the error of the server.
    ///
    /// # Errors
    /// The text of `psql`.
    pub fn try_run(&self, statements: &str) -> Result<String, String> {
        self.server.try_run_as("owner", &self.name, statements)
    }

    /// Runs statements as the role of a host.
    ///
    /// # Errors
    /// The text of `psql`.
    pub fn run_as(&self, host: &str, statements: &str) -> Result<String, String> {
        self.server.try_run_as(&self.role(host), &self.name, statements)
    }

    /// The URL of a host that connects through a port of this machine.
    pub fn url(&self, host: &str, port: u16) -> String {
        self.url_of(host, &[port])
    }

    /// The URL of a host that connects through the first of these ports whose server accepts writes.
    pub fn url_of(&self, host: &str, ports: &[u16]) -> String {
        let servers: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("postgresql://{}:{PASSWORD}@{}/{}", self.role(host), servers.join(","), self.name)
    }

    /// The settings of a host that connects through a port of this machine.
    pub fn settings(&self, host: &str, port: u16) -> Settings {
        Settings::new(host.parse().unwrap(), &self.url(host, port), None).unwrap().with_one_machine()
    }
}

/// The key of bodies, from the ledger key of a home; without one, a key of the tests.
pub fn body_key(home: &Path) -> BodyKey {
    let key = std::fs::read(home.join("keys/ledger.key")).unwrap_or_else(|_none| vec![7; 32]);
    BodyKey::new(&LedgerKey::new(key))
}

fn make_template(server: &PostgresServer) {
    server.run("CREATE DATABASE fleet");
    server.run_in("fleet", &schema_script().unwrap());
}

/// The tables that differ between the databases of two homes.
pub fn differences(one: &Path, other: &Path) -> Vec<String> {
    let connection = Connection::open(one.join("ledger.db")).unwrap();
    let path = other.join("ledger.db");
    connection.execute("ATTACH ?1 AS other", [path.to_str().unwrap()]).unwrap();
    let mut statement =
        connection.prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let differs = |table: &String| {
        let rows = |from: &str, without: &str| {
            let rows = format!("SELECT * FROM {from}.{table} EXCEPT SELECT * FROM {without}.{table}");
            connection.prepare(&rows).unwrap().exists([]).unwrap()
        };
        rows("main", "other") || rows("other", "main")
    };
    // The files of the home are its own, and so is the cache of the tree.
    let own = ["segments", "burnt_ids", "checkpoint", "fleet", "sqlite_stat1"];
    tables.filter(|table| !own.contains(&table.as_str())).filter(differs).collect()
}
