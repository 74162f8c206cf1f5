//! The service of systemd: whether its unit permits the sandboxes of this home's providers.

use super::Finding;
use config::Config;
use platform::home::Home;
use platform::service_unit::{Namespaces, PERMIT, ServiceUnit, UNIT};
use provider::child::{Isolation, Settings};
use shared::Provider;
use std::path::{Path, PathBuf};

const CHECK: &str = "service";

/// The remedy for a program without a sandbox that compiles code.
const COMPILE: &str = "for such a program, add the lines [Service] and MemoryDenyWriteExecute=no: sudo systemctl edit \
                       host-broker && sudo systemctl restart host-broker";

/// Judges the unit if it is the one of this home, and the home has a provider that is a program.
pub(super) fn examine(home: &Home, config: &Config, unit: &ServiceUnit) -> Vec<Finding> {
    if !is_of(home, unit) {
        return Vec::new();
    }
    let (sandboxed, others) = (programs(config, Isolation::Bwrap), programs(config, Isolation::None));
    let of_sandboxes = unit.namespaces().filter(|_| !sandboxed.is_empty()).map(|namespaces| match namespaces {
        Namespaces::Permitted => Finding::ok(CHECK, format!("{UNIT} permits the sandboxes of providers")),
        Namespaces::Forbidden => Finding::warning(CHECK, fault(&sandboxed), PERMIT),
    });
    let is_fixed = unit.forbids_compilation() == Some(true) && !others.is_empty();
    let of_others = is_fixed.then(|| {
        let text = format!(
            "{UNIT} forbids memory that is writable and executable, so a program of Node or Java does not run: {}",
            listed(&others)
        );
        Finding::warning(CHECK, text, COMPILE)
    });
    of_sandboxes.into_iter().chain(of_others).collect()
}

/// Returns the warning about this provider if the service of this home cannot start its sandbox.
pub(in crate::cli) fn warning(home: &Home, config: &Config, unit: &ServiceUnit, name: &Provider) -> Option<String> {
    let is_sandboxed = programs(config, Isolation::Bwrap).contains(&name);
    let is_forbidden = is_sandboxed && is_of(home, unit) && unit.namespaces() == Some(Namespaces::Forbidden);
    is_forbidden.then(|| format!("{}; to permit it: {PERMIT}", fault(&[name])))
}

fn fault(providers: &[&Provider]) -> String {
    format!("{UNIT} forbids namespaces, so the service cannot start the sandbox of {}", listed(providers))
}

fn listed(providers: &[&Provider]) -> String {
    let names: Vec<&str> = providers.iter().map(|name| name.as_str()).collect();
    names.join(", ")
}

/// Returns the enabled providers whose program runs with this isolation.
fn programs(config: &Config, isolation: Isolation) -> Vec<&Provider> {
    let enabled = config.providers.iter().filter(|(_, table)| table.enabled);
    let is_meant = |child: &Settings| child.isolation == isolation;
    enabled.filter(|(_, table)| table.configured.child().is_some_and(is_meant)).map(|(name, _)| name).collect()
}

/// Returns whether the daemon of the unit has this home.
fn is_of(home: &Home, unit: &ServiceUnit) -> bool {
    let real = |path: &Path| -> PathBuf { path.canonicalize().unwrap_or_else(|_absent| path.to_owned()) };
    unit.home().is_some_and(|named| real(&named) == real(home.path()))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use platform::Environment;

    fn config(providers: &str) -> Config {
        Config::parse(providers, Path::new("/srv/broker/broker.toml"), &Environment::new(), crate::providers::KINDS)
            .unwrap()
    }

    #[test]
    fn a_unit_that_forbids_the_sandbox_of_a_provider_is_a_warning_with_the_command_that_permits_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("home"));
        let unit = ServiceUnit::in_directories(vec![folder.path().to_owned()]);
        let table = "[providers.notes]\nkind = \"mcp\"\ncommand = [\"notes\"]\n";
        let with_server = config(table);
        let notes: Provider = "notes".parse().unwrap();
        assert_eq!(examine(&home, &with_server, &unit), [], "no unit is installed");
        let write = |home: &Path, restricts: &str| {
            let text =
                format!("[Service]\nEnvironment=EXT_BROKER_HOME={}\nRestrictNamespaces={restricts}\n", home.display());
            std::fs::write(folder.path().join(UNIT), text).unwrap();
        };
        write(home.path(), "yes");
        let [found] = <[Finding; 1]>::try_from(examine(&home, &with_server, &unit)).unwrap();
        assert_eq!((found.state, found.remedy.as_deref()), (State::Warning, Some(PERMIT)));
        assert!(found.text.contains("cannot start the sandbox of notes"), "{found:?}");
        let said = warning(&home, &with_server, &unit, &notes).unwrap();
        assert!(said.contains("notes") && said.ends_with(PERMIT), "{said}");
        // A program without a sandbox, and a provider that is disabled, need no namespace.
        for more in ["isolation = \"none\"", "enabled = false"] {
            let other = config(&format!("{table}{more}\n"));
            assert_eq!(examine(&home, &other, &unit), [], "{more}");
            assert_eq!(warning(&home, &other, &unit, &notes), None, "{more}");
        }
        // The service of another home says nothing about this one.
        write(Path::new("/var/lib/another"), "yes");
        assert_eq!(examine(&home, &with_server, &unit), []);
        write(home.path(), "no");
        assert_eq!(examine(&home, &with_server, &unit)[0].state, State::Ok);
        assert_eq!(warning(&home, &with_server, &unit, &notes), None);
    }

    #[test]
    fn a_unit_that_forbids_compilation_is_a_warning_for_a_program_without_a_sandbox() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("home"));
        let unit = ServiceUnit::in_directories(vec![folder.path().to_owned()]);
        let table = "[providers.notes]\nkind = \"mcp\"\ncommand = [\"notes\"]\n";
        let (inside, outside) = (config(table), config(&format!("{table}isolation = \"none\"\n")));
        for (denies, count) in [("yes", 1), ("no", 0)] {
            let text = format!(
                "[Service]\nEnvironment=EXT_BROKER_HOME={}\nMemoryDenyWriteExecute={denies}\n",
                home.path().display()
            );
            std::fs::write(folder.path().join(UNIT), text).unwrap();
            let found = examine(&home, &outside, &unit);
            assert_eq!(found.len(), count, "{found:?}");
            let remedies = found.iter().map(|found| (found.state, found.remedy.as_deref()));
            assert!(remedies.eq(vec![(State::Warning, Some(COMPILE)); count]), "{found:?}");
            assert!(found.iter().all(|found| found.text.ends_with("does not run: notes")), "{found:?}");
            // The drop-in for sandboxes permits it to programs inside.
            assert_eq!(examine(&home, &inside, &unit)[0].state, State::Ok);
        }
    }
}
