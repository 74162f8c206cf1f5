//! Errors of the database of a fleet.

/// The reason why the database of a fleet does not take or give rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// It cannot be reached, or it answers too late. Nothing was written.
    #[error("the fleet's database cannot be reached: {0}")]
    Unreachable(String),
    /// It refused a statement. Nothing was written.
    #[error("the fleet's database refused the rows: {0}")]
    Refused(String),
    /// The connection ended during a commit, so it is unknown whether the rows are there. Nothing else is written before
    /// this is known.
    #[error("it is unknown whether the fleet's database has the last rows: {0}")]
    Unknown(String),
    /// It has written other rows than those of the batch.
    #[error("the fleet's database has changed other rows than it was sent; look for triggers and rules of its tables")]
    Changed,
    /// Other hosts have used more of a shared quota than this one knew. Nothing was written; the next attempt knows it.
    #[error("the hosts of the fleet have used {used} of the shared quota of {provider} ({scope}), so it is used up")]
    UsedUp {
        /// The provider, or its namespace.
        provider: String,
        /// The quota.
        scope: String,
        /// The use on all hosts, in calls or millionths.
        used: i64,
        /// The time until the quota begins again.
        left: std::time::Duration,
    },
    /// Another host holds a shared quota for too long: it has charged it, and its commit takes long. Nothing was written.
    #[error("another host holds the shared quota of {provider} ({scope})")]
    Held {
        /// The provider, or its namespace.
        provider: String,
        /// The quota.
        scope: String,
    },
    /// The publication of the policy with which this host has decided is not in force. Nothing was written; the next attempt
    /// knows it.
    #[error("{0} is not the policy that is in force")]
    Stale(model::Publication),
    /// Other hosts still use the former publication of this one. Nothing was written; the next attempt knows it.
    #[error("other hosts still use the former publication of the policy")]
    StillUsed,
    /// Another daemon serves this host now.
    #[error("another daemon has taken over the host `{0}`; stop one of the two")]
    Fenced(String),
    /// Another daemon serves this host, from another home.
    #[error("the host `{0}` is served by a daemon with another home; stop it, and start this one again")]
    Served(String),
    /// The database holds no such host, or the role may not see it.
    #[error(
        "the fleet's database has no host `{0}` for this role; add it: host-broker fleet schema --host {0} --role ROLE"
    )]
    NoHost(String),
    /// The tables are those of another version.
    #[error(
        "the fleet's database has schema version {found}, and this host-broker needs version {known}; {}",
        if found < known { "upgrade it: host-broker fleet schema | psql URL" } else { "run the newer host-broker" }
    )]
    Version {
        /// The version of the database.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// The database lacks rows that the home has: it was restored from a backup, or a failover lost them.
    #[error(
        "the fleet's database is older than this home: it ends with batch {database}, and the home with batch {home}. \
         Restore the newer database, or add another host and name it in [store]; the home's rows are written there"
    )]
    Older {
        /// The last batch of the database.
        database: i64,
        /// The last batch of the home.
        home: i64,
    },
    /// The home holds another history than the database.
    #[error(
        "the ledger of this home is no copy of the host `{0}` in the fleet's database. Move ledger.db away to begin with \
         the rows of the database, or add another host and name it in [store]"
    )]
    Other(String),
    /// The home is a copy of a host's rows, and no database is configured.
    #[error(
        "this home belongs to the host `{0}` of a fleet; broker.toml lacks the table [store] with its database. To keep \
         the records in the home only, put the table back and run: host-broker fleet leave"
    )]
    NotConfigured(String),
    /// The home of the host has left the database. Nothing was changed.
    #[error(
        "the host `{0}` has left the fleet's database, and the home that left has its later records. In broker.toml of \
         that home, remove [store]. For another home, name another host"
    )]
    Left(String),
    /// The home was leaving, and the database has the mark. Only the home can continue.
    #[error(
        "this home was leaving the fleet's database, which no longer serves its host `{0}`. To finish, run: host-broker \
         fleet leave"
    )]
    Leaving(String),
    /// The home is no copy of the host, so it cannot leave. Nothing was changed.
    #[error("this home is no copy of the host `{0}` of the fleet's database, so it has nothing to leave")]
    NotJoined(String),
    /// A daemon with another home served the host, and did not stop. The home has not left.
    #[error(
        "another home served the host `{0}`, and its effects may still be under way. First run the daemon of this home for \
         two minutes, so that it finds out their outcomes: host-broker serve"
    )]
    Ousted(String),
    /// A failover can lose rows that the server has acknowledged, and no operator accepts it.
    #[error(
        "the fleet's database can lose acknowledged rows: {0}. Add a standby, or accept it with durability = \
         \"one-machine\" in [store]"
    )]
    Durability(String),
    /// The server can lose rows that it has acknowledged whenever its machine stops.
    #[error("the fleet's database can lose acknowledged rows: {0}. Set these settings of the server to on")]
    Unsynced(String),
    /// The ledger in the database does not end where the last batch did.
    #[error("the fleet's database lacks rows of the ledger that it had; restore it from a backup")]
    Incomplete,
    /// The host has another key than this home. Nothing was changed.
    #[error(
        "keys/ledger.key of this home is not that of the host `{0}` in the fleet's database; copy it from the machine that \
         served the host, or from its backup"
    )]
    OtherKey(String),
    /// A body of the database cannot be decrypted.
    #[error("the fleet's database holds a row of `{0}` that was changed; restore the database from a backup")]
    Encrypted(String),
    /// The system's random source failed. Nothing was written.
    #[error("the system's random source failed")]
    Randomness,
    /// A row of the database cannot be read.
    #[error("the fleet's database holds a row of `{0}` that cannot be read")]
    Row(String),
}
