//! The filter of system calls of every program that the broker confines.
//!
//! A namespace leaves a program in the session keyring. A user keyring is open to every process with the user's number, in
//! every namespace. So a sandboxed program could read the operators' keys. A program that shares a terminal with a shell
//! could put characters into the shell's input. So it would run commands outside the sandbox (CVE-2017-5226). The filter refuses
//! these calls for a thread and its descendants. It is irreversible. The filter of an agent also refuses files that run with
//! the rights of their owner: an agent writes into directories of the operator, and another user of the machine could start
//! such a file.
//!
//! The host confines the programs that it starts itself. In a container, whose engine starts them, the shim does.
//!
//! Source: keyrings(7), user-keyring(7), seccomp(2), TIOCSTI(2const), TIOCLINUX(2const).

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::io;

/// The system calls of the keyrings.
const KEYS: [i64; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];
/// The requests of ioctl(2) that put input into a terminal: one character, or the selection of a console.
const INPUTS: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];
/// The calls that set the mode of a file, with the place of the mode among their arguments.
#[cfg(target_arch = "x86_64")]
const MODES: [(i64, u8); 7] = [
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_creat, 1),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];
#[cfg(not(target_arch = "x86_64"))]
const MODES: [(i64, u8); 4] =
    [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_fchmodat2, 2), (libc::SYS_mknodat, 2)];
/// The calls that open a file, with the place of the mode. The flags before it say whether the kernel reads the mode.
#[cfg(target_arch = "x86_64")]
const OPENS: [(i64, u8); 2] = [(libc::SYS_open, 2), (libc::SYS_openat, 3)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: [(i64, u8); 1] = [(libc::SYS_openat, 3)];
/// The flags with which a file is created.
const CREATES: [i32; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
/// The bits of a mode with which a file runs with the rights of its owner or of its group.
const RIGHTS: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];
/// Calls whose arguments lie behind a pointer: files can be opened with a mode through them.
const HIDDEN: [i64; 2] = [libc::SYS_openat2, libc::SYS_io_uring_setup];
/// The x32 numbers of the same calls, which an `x86_64` kernel may accept.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: i64 = 0x4000_0000;

/// The filter of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// A program of a provider: no keyrings, no input of a terminal.
    Provider,
    /// An agent, which also writes into directories of the operator: in addition, no file with the rights of its owner.
    Agent,
}

/// Confines this thread, and all that it starts from now on.
///
/// # Errors
/// The filter cannot be installed. The thread may be confined in part.
pub fn confine(confinement: Confinement) -> io::Result<()> {
    let mut filters = vec![refusals(confinement).map_err(io::Error::other)?];
    if confinement == Confinement::Agent {
        filters.push(absences().map_err(io::Error::other)?);
    }
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter)).map_err(io::Error::other)
}

type Rules = Vec<(i64, Vec<SeccompRule>)>;

/// Returns a number with its x32 form.
fn both(number: i64) -> impl Iterator<Item = i64> {
    #[cfg(target_arch = "x86_64")]
    let numbers = [number, number | OTHER_NUMBERS];
    #[cfg(not(target_arch = "x86_64"))]
    let numbers = [number];
    numbers.into_iter()
}

/// The calls that end with EPERM.
fn refusals(confinement: Confinement) -> Result<BpfProgram, BackendError> {
    // SECURITY: the kernel reads 32 bits of the request, so the filter must not compare more of them (CVE-2019-10063).
    let request = |value| SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let inputs = INPUTS.map(|value| SeccompRule::new(vec![request(value)?]));
    let inputs = inputs.into_iter().collect::<Result<Vec<_>, BackendError>>()?;
    let mut rules: Rules = KEYS.into_iter().flat_map(both).map(|number| (number, Vec::new())).collect();
    rules.extend(both(libc::SYS_ioctl).map(|number| (number, inputs.clone())));
    if confinement == Confinement::Agent {
        rules.extend(files()?);
    }
    program(rules, libc::EPERM)
}

/// The calls that would make a file with the rights of its owner.
fn files() -> Result<Rules, BackendError> {
    let has = |argument: u8, bits: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits)
    };
    let mut rules = Rules::new();
    for (number, mode) in MODES {
        let with = RIGHTS.map(|bit| SeccompRule::new(vec![has(mode, bit.into())?]));
        let with = with.into_iter().collect::<Result<Vec<_>, BackendError>>()?;
        rules.extend(both(number).map(|number| (number, with.clone())));
    }
    for (number, mode) in OPENS {
        let mut with = Vec::new();
        for (flag, bit) in CREATES.into_iter().flat_map(|flag| RIGHTS.map(|bit| (flag, bit))) {
            let flag = u64::from(flag.unsigned_abs());
            with.push(SeccompRule::new(vec![has(mode.saturating_sub(1), flag)?, has(mode, bit.into())?])?);
        }
        rules.extend(both(number).map(|number| (number, with.clone())));
    }
    Ok(rules)
}

/// The calls that are as if the kernel did not have them: their arguments lie where a filter cannot look, and each can do
/// what another call is refused.
fn absences() -> Result<BpfProgram, BackendError> {
    program(HIDDEN.into_iter().flat_map(both).map(|number| (number, Vec::new())).collect(), libc::ENOSYS)
}

fn program(rules: Rules, error: i32) -> Result<BpfProgram, BackendError> {
    let refused = SeccompAction::Errno(error.unsigned_abs());
    let rules = rules.into_iter().collect();
    SeccompFilter::new(rules, SeccompAction::Allow, refused, std::env::consts::ARCH.try_into()?)?.try_into()
}
