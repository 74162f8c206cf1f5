//! `[store]`: the database that gets the records of this host.
//!
//! ```toml
//! [store]
//! url = { file = "/etc/host-broker/store-url" }   # postgresql://broker_a:PASSWORD@db.example.com/broker
//! host = "a"
//!
//! [store.hosts.b]                 # people on b may send commands to this host
//! key = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
//! people = ["alice"]
//! ```

use crate::people::PersonTable;
use model::HostName;
use schemars::JsonSchema;
use secrets::identity::issuers::public_key;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The PostgreSQL database that gets the records of this host before they count. Absent means that the records are in
/// the home only. docs/operations/fleet.md describes how to make it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreTable {
    /// The secret with the URL of the database, such as `postgresql://user:password@host/database`. The connection uses
    /// TLS, except to this machine.
    pub url: SecretSource,
    /// The name of this host in the database: 1 to 63 lower-case letters, digits and `-`. The first is a letter.
    pub host: HostName,
    /// The file with the authorities that sign the server's certificate, in PEM; absent means those of the system.
    #[serde(default)]
    pub authorities: Option<PathBuf>,
    /// Absent means that the server must have a synchronous standby. With `one-machine`, it needs none, and a failover
    /// can lose the last records.
    #[serde(default)]
    pub durability: Option<AcceptedDurability>,
    /// The host whose published policy this host uses instead of its directory `policy/`. It needs a table in
    /// `store.hosts`, unless it is this host. Absent means the directory `policy/`.
    #[serde(default)]
    pub policy_from: Option<HostName>,
    /// The other hosts that send commands to this one, or get commands from it. Absent means none.
    #[serde(default)]
    pub hosts: BTreeMap<HostName, OtherHost>,
}

/// Another host of the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherHost {
    /// The public key of the host. `host-broker fleet key` prints it there.
    pub key: String,
    /// The people whose commands this host executes if they come from the other host. They have the rights of their
    /// tables `people` on this host. Absent means none.
    #[serde(default)]
    pub people: BTreeSet<String>,
    /// Whether the inbox of this host shows the approval requests of the other one, which must name this host and its
    /// people. Absent means no.
    #[serde(default)]
    pub inbox: bool,
}

impl OtherHost {
    /// Returns the bytes of the public key; `None` if it is not valid, which no checked configuration has.
    pub fn public_key(&self) -> Option<[u8; 32]> {
        public_key(&self.key)
    }
}

/// A lesser durability that the operator accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptedDurability {
    /// One machine has the acknowledged records.
    OneMachine,
}

impl StoreTable {
    /// Makes the path absolute.
    pub(crate) fn settle(&mut self, folder: &Path) {
        self.authorities = self.authorities.take().map(|file| folder.join(file));
    }

    /// Checks the tables of the other hosts.
    ///
    /// # Errors
    /// The fault, with its remedy.
    pub(crate) fn check(&self, people: &BTreeMap<String, PersonTable>) -> Result<(), String> {
        if let Some(from) = self.policy_from.as_ref().filter(|from| **from != self.host)
            && !self.hosts.contains_key(from)
        {
            return Err(format!(
                "store.policy_from: there is no table [store.hosts.{from}]; add it with `key`, which `fleet key` prints there"
            ));
        }
        for (name, other) in &self.hosts {
            let place = format!("store.hosts.{name}");
            if *name == self.host {
                return Err(format!("{place}: this is the host itself; remove the table, or change store.host"));
            }
            if other.public_key().is_none() {
                return Err(format!("{place}.key is not a public key; the command `fleet key` prints it on that host"));
            }
            if let Some(unknown) = other.people.iter().find(|person| !people.contains_key(*person)) {
                return Err(format!("{place}.people: there is no person `{unknown}`; add [people.{unknown}]"));
            }
        }
        Ok(())
    }

    /// Returns whether a server without a synchronous standby is accepted.
    pub fn accepts_one_machine(&self) -> bool {
        self.durability == Some(AcceptedDurability::OneMachine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use platform::Environment;

    const KEY: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    fn parsed(text: &str) -> Result<StoreTable, String> {
        let text = format!("[store]\n{text}");
        let parsed = Config::parse(&text, Path::new("/x/broker.toml"), &Environment::new(), crate::KINDS);
        parsed.map(|config| config.store.unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_home_without_the_table_has_its_records_alone() {
        let config = Config::parse("", Path::new("/x/broker.toml"), &Environment::new(), crate::KINDS).unwrap();
        assert_eq!(config.store, None);
    }

    #[test]
    fn a_store_is_what_its_lines_say_and_its_written_form_is_valid() {
        let least = "url = { env = \"URL\" }\nhost = \"a\"\n";
        let table = parsed(least).unwrap();
        assert_eq!((table.host.as_str(), &table.authorities, table.accepts_one_machine()), ("a", &None, false));
        assert_eq!(table.url, SecretSource::Env { env: "URL".to_owned() });
        let table = parsed(&format!("{least}authorities = \"ca.pem\"\ndurability = \"one-machine\"")).unwrap();
        assert_eq!((table.authorities.as_deref(), table.accepts_one_machine()), (Some(Path::new("/x/ca.pem")), true));
        assert_eq!(toml::from_str::<StoreTable>(&toml::to_string(&table).unwrap()).unwrap(), table);
        let table = parsed(&format!(
            "{least}[store.hosts.b]\nkey = \"{KEY}\"\n[store.hosts.c]\nkey = \"{KEY}\"\npeople = [\"ann\"]\n[people.ann]\n"
        ))
        .unwrap();
        assert!(table.hosts.values().all(|other| !other.inbox));
        let people = |name: &str| table.hosts[&name.parse().unwrap()].people.iter().cloned().collect::<Vec<_>>();
        assert_eq!((people("b"), people("c")), (vec![], vec!["ann".to_owned()]));
        assert_eq!(parsed(least).unwrap().policy_from, None);
        for from in ["a", "b"] {
            let hosts = if from == "a" { String::new() } else { format!("[store.hosts.b]\nkey = \"{KEY}\"") };
            let table = parsed(&format!("{least}policy_from = \"{from}\"\n{hosts}")).unwrap();
            assert_eq!(table.policy_from.unwrap().as_str(), from);
        }
        let table = parsed(&format!("{least}authorities = \"/etc/ca.pem\"")).unwrap();
        assert_eq!(table.authorities.as_deref(), Some(Path::new("/etc/ca.pem")));
    }

    #[test]
    fn store_errors_name_the_fault_and_its_remedy_without_a_secret() {
        let (url, host) = ("url = { env = \"URL\" }\n", "host = \"a\"\n");
        for (text, words) in [
            (host.to_owned(), "missing field `url`"),
            (url.to_owned(), "missing field `host`"),
            (
                "url = \"postgresql://broker:hunter22@db/broker\"\nhost = \"a\"".to_owned(),
                "a secret's source is one of",
            ),
            ("url = { env = 3 }\nhost = \"a\"".to_owned(), "a secret's source is one of"),
            (format!("{url}{host}[store.hosts.a]\nkey = \"{KEY}\""), "this is the host itself"),
            (format!("{url}{host}[store.hosts.b]\npeople = []"), "missing field `key`"),
            (format!("{url}{host}[store.hosts.b]\nkey = \"hunter22\""), "is not a public key"),
            (format!("{url}{host}[store.hosts.b]\nkey = \"{KEY}\"\npeople = [\"bob\"]"), "add [people.bob]"),
            (format!("{url}{host}[store.hosts.B]\nkey = \"{KEY}\""), "not a valid host"),
            (format!("{url}{host}policy_from = \"b\""), "there is no table [store.hosts.b]"),
            (format!("{url}{host}durability = \"one-machin\""), "did you mean `one-machine`?"),
            (format!("{url}{host}authority = \"ca.pem\""), "did you mean `authorities`?"),
            (format!("{url}hst = \"a\""), "did you mean `host`?"),
            (format!("{url}host = \"Eu\""), "not a valid host"),
        ] {
            let fault = parsed(&text).unwrap_err();
            assert!(fault.contains(words) && !fault.contains("hunter22"), "no `{words}` in {fault}");
        }
    }
}
