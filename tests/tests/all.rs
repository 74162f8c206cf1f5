//! Everything that needs more than one module: requests are real files, people speak through the real socket, the
//! host is the real one, in this process or in its own.

// Always set here; it tells the lints that what the tests share is test code too.
#[cfg(test)]
mod all {
    mod access;
    mod agents;
    mod accounts;
    mod approvals;
    mod assistant;
    mod bridges;
    mod budgets;
    mod calendar;
    mod clock;
    mod commands;
    mod containers;
    mod conversations;
    mod cloud_logs;

    mod documents;
    mod exactly_once;
    mod faults;
    mod files;
    mod fleet_commands;
    mod fleet_leaving;
    mod fleet_policy;
    mod fleet_quotas;
    mod floods;
    mod flows;
    mod fuzz;
    mod github_app;
    mod go_no_go;
    mod governance;
    mod granting;
    mod hostile;
    mod inspection;
    mod interrupts;
    mod json;
    mod layers;
    mod late_replies;
    mod ledger;
    mod limits;
    mod mail;
    mod metrics;
    mod notices;
    mod own_secrets;
    mod packaging;
    mod passwords;
    mod persons;
    mod plans;
    mod provider_checks;
    mod repeats;
    mod sealed;
    mod servers;
    mod shim;
    mod signatures;
    mod sockets;
    mod standing;
    mod trifecta;
    mod snapshots;
    mod tutorial;
    mod web;
    mod wire;
}
