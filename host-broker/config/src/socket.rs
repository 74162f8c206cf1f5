//! The group of users that may connect to the control socket: `socket_group` of `[broker]`.

use platform::home::{Home, quoted};
use std::os::unix::fs::MetadataExt as _;

/// The file with the system's groups of users.
const GROUPS: &str = "/etc/group";

/// Returns the number of a group of users, which is named by its number or its name.
///
/// # Errors
/// There is no such group, with what to do.
pub fn group_number(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(GROUPS).map_err(|error| format!("{GROUPS} cannot be read: {error}"))?;
    find(&text, name)
        .ok_or_else(|| format!("{GROUPS} has no group `{name}`; create it with groupadd {name}, or use a group number"))
}

/// Returns the number of a group in lines of the form `name:password:number:members`.
fn find(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Returns why the members of this group cannot reach the socket, if the home keeps them out.
pub(super) fn unreachable(home: &Home, group: &str) -> Option<String> {
    let number = group_number(group).ok()?;
    let found = std::fs::metadata(home.path()).ok()?;
    let enters = if found.gid() == number { found.mode() & 0o010 != 0 } else { found.mode() & 0o001 != 0 };
    let place = quoted(home.path());
    (!enters).then(|| {
        format!(
            "broker.socket_group is `{group}`, but its members cannot enter the home to connect; chgrp {group} {place} && \
             chmod 710 {place}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_whole_name_or_is_a_number() {
        let text = "root:x:0:\nbrokers2:x:7:\nbrokers:x:42:ann,bob\nbroken:x\n";
        assert_eq!(find(text, "brokers"), Some(42));
        assert_eq!([find(text, "broker"), find(text, "broken"), find(text, "42")], [None; 3]);
        assert_eq!(group_number("1234"), Ok(1234));
        assert!(group_number("no-such-group-here").unwrap_err().contains("groupadd no-such-group-here"));
    }
}
