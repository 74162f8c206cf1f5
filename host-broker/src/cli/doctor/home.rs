//! The home: permissions, configuration, policy, disk, clock and ledger.

use super::Finding;
use crate::cli::Context;
use crate::cli::home_reader::NO_CALL;
use config::Config;
use shared::Timestamp;
use store::CLOCK_BEHIND_MAX;
use store::ledger::export;
use store::ledger::figures::Space;

const MIB: u64 = 1024 * 1024;

/// Reads the configuration.
///
/// # Errors
/// The finding of why it cannot be used.
pub(super) fn configuration(context: &Context) -> Result<Config, Finding> {
    context.config_alone().map_err(|error| Finding::error("configuration", &error))
}

pub(super) fn examine(context: &Context, config: &Config) -> Vec<Finding> {
    let mut found = vec![Finding::ok("configuration", "broker.toml is valid, and no other user can change the home")];
    found.push(match context.policy(config, &context.catalogue(config)) {
        Ok(_) => Finding::ok("policy", "the profiles and rules are valid"),
        Err(error) => Finding::error("policy", &error),
    });
    match context.warnings(config) {
        Ok(warnings) => {
            // The findings about the daemon have this one with its remedy.
            let others = warnings.into_iter().filter(|text| !text.starts_with(NO_CALL));
            found.extend(others.map(|text| Finding {
                check: "home".to_owned(),
                state: super::State::Warning,
                text,
                remedy: None,
            }));
        }
        Err(error) => found.push(Finding::error("home", &error)),
    }
    found.push(disk(context, config));
    found.push(ledger(context));
    found
}

fn disk(context: &Context, config: &Config) -> Finding {
    let home = context.home.path();
    let Some(space) = Space::of(home) else {
        let text = format!("the free space of {} is unknown", home.display());
        return Finding::problem("disk", text, "mount the disk again");
    };
    free(space, config.broker.free_space_mib)
}

/// Judges the free space. The broker refuses calls below its watermark.
fn free(space: Space, free_space_mib: u64) -> Finding {
    const CHECK: &str = "disk";
    let (free, needed) = (space.free / MIB, space.watermark(free_space_mib.saturating_mul(MIB)) / MIB);
    let text = format!("{free} MiB are free; below {needed} MiB calls are refused");
    let remedy = "free space, or lower ledger_mib or free_space_mib in [broker]";
    if free < needed {
        return Finding::problem(CHECK, text, remedy);
    }
    if free < needed.saturating_mul(2) {
        return Finding::warning(CHECK, text, remedy);
    }
    Finding::ok(CHECK, format!("{free} MiB are free"))
}

fn ledger(context: &Context) -> Finding {
    const CHECK: &str = "ledger";
    let last = match context.ledger_if_any() {
        Ok(None) => return Finding::ok(CHECK, "there is none yet; the first start creates it"),
        Ok(Some(view)) => export::last(&view),
        Err(error) => return Finding::error(CHECK, &error),
    };
    match last {
        Ok(last) => last.map_or_else(
            || Finding::ok(CHECK, "it has no rows yet"),
            |row| clock(context.platform.clock.now(), row.time()),
        ),
        Err(error) => Finding::error(CHECK, &error.into()),
    }
}

fn clock(now: Timestamp, last: Timestamp) -> Finding {
    if now.plus(CLOCK_BEHIND_MAX) < last {
        return Finding::problem(
            "clock",
            format!("the clock says {now}, but the last row was written at {last}, so no call is admitted"),
            "correct the clock; if it was ahead before: host-broker evidence accept-clock",
        );
    }
    Finding::ok("clock", format!("the last row is of {last}"))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::super::State::{Ok, Problem, Warning};
    use super::*;

    #[test]
    fn the_disk_is_judged_by_the_watermark_of_the_broker() {
        let state = |free: u64, size: u64| super::free(Space { free: free * MIB, size: size * MIB }, 256).state;
        assert_eq!([255, 511, 512].map(|free| state(free, 100_000)), [Problem, Warning, Ok]);
        // A fiftieth of a small disk is less.
        assert_eq!([99, 199, 200].map(|free| state(free, 5_000)), [Problem, Warning, Ok]);
    }

    use std::time::Duration;

    #[test]
    fn a_clock_behind_the_last_row_is_a_problem_once_rows_cannot_be_written() {
        let last = Timestamp::from_millis(1_700_000_000_000);
        let before = |by: Duration| Timestamp::from_millis(last.millis() - i64::try_from(by.as_millis()).unwrap());
        assert_eq!(clock(last, last).state, State::Ok);
        assert_eq!(clock(before(CLOCK_BEHIND_MAX), last).state, State::Ok);
        let behind = clock(before(CLOCK_BEHIND_MAX + Duration::from_secs(1)), last);
        assert_eq!(behind.state, State::Problem);
        assert!(behind.text.contains(&last.to_string()), "{behind:?}");
        assert!(behind.remedy.unwrap().contains("host-broker evidence accept-clock"));
    }
}
