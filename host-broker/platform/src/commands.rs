//! Child processes: a program, an argument vector and enforced limits.
//!
//! No shell parses arguments. A child has its own process group and an environment of four constants and the given
//! variables. The whole group is killed at the deadline, at a byte limit, when the leader ends, or when the future is
//! dropped. A child that creates its own session leaves the group; only a namespace or a control group contains it.
//! [Resource limits](resources) hold before the program of a child runs.

use crate::cgroup::{self, Cgroup, Cgroups};
use crate::confined::{self, Confinement};
use crate::egress::{EgressProxy, Host, Input};
use crate::resources::{self, PRLIMIT, ResourceLimits};
use rustix::fs::{Access, access};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The directories in which a plain program name is looked up.
const DIRECTORIES: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// The constant part of every child's environment.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("TZ", "UTC"),
];

/// Runs children.
pub trait Commands: Send + Sync {
    /// Runs one child to its end. Dropping the future kills it, and every process of its group.
    ///
    /// # Errors
    /// [`CommandError`]. Only [`CommandError::NotFound`], [`CommandError::BadName`] and [`CommandError::Start`] mean
    /// that nothing was executed.
    fn run(&self, command: Command) -> Pin<Box<dyn Future<Output = Result<Finished, CommandError>> + Send + '_>>;

    /// Starts a long-running child with open pipes. It ignores the command's input, byte limits and deadline. The caller
    /// must be inside a Tokio runtime.
    ///
    /// # Errors
    /// [`CommandError`]; nothing was executed.
    fn open(&self, command: Command) -> Result<Opened, CommandError>;

    /// Returns the limits that children have on this machine, as a clause for the operator.
    fn limits_in_force(&self) -> String;
}

/// A long-running child.
pub struct Opened {
    /// Its standard input.
    pub input: Input,
    /// Its standard output.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard error. The caller must read it, or the child blocks when the pipe is full.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// The process.
    pub process: ChildGroup,
}

/// A running child. Dropping it kills every process of its group.
pub struct ChildGroup(Started);

impl ChildGroup {
    /// Waits until the leader has ended. Other processes of the group live until the value is dropped.
    pub async fn ended(&mut self) {
        // An error means that the process cannot be watched; it counts as ended.
        self.0.ended.readable().await.map(|mut guard| guard.retain_ready()).ok();
    }
}

impl fmt::Debug for ChildGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChildGroup").field(&self.0.child.id()).finish()
    }
}

/// A program to run, with its limits.
#[derive(Clone)]
pub struct Command {
    /// An absolute path, or a plain name that is looked up in a fixed list of directories.
    pub program: PathBuf,
    /// The arguments, each passed as it is.
    pub args: Vec<OsString>,
    /// Variables beyond the four constants; a pair given here wins over a constant.
    pub env: Vec<(OsString, OsString)>,
    /// The standard input; `None` for an empty one.
    pub stdin: Option<Vec<u8>>,
    /// The child is stopped after this many bytes of output.
    pub stdout_max: usize,
    /// The child is stopped after this many bytes of standard error.
    pub stderr_max: usize,
    /// The time at which the child is stopped.
    pub deadline: Instant,
    /// Whether the program creates a [sandbox](crate::sandbox). It then starts without access to the kernel's keyrings.
    pub is_sandbox: bool,
    /// The hosts that it may reach through [`sandbox-init`](crate::egress::init); empty for other programs.
    pub hosts: Vec<Host>,
    /// Its resource limits.
    pub limits: ResourceLimits,
}

impl Command {
    /// A command without input and extra variables, with up to 4 MiB of output, 64 KiB of standard error and the
    /// default limits of one run.
    pub fn new(program: impl Into<PathBuf>, deadline: Instant) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            stdout_max: shared::limits::RESULT_BYTES_MAX,
            stderr_max: 64 * 1024,
            deadline,
            is_sandbox: false,
            hosts: Vec::new(),
            limits: ResourceLimits::default().of_one_run(),
        }
    }

    /// With one more argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }
}

impl fmt::Debug for Command {
    /// Omits arguments, input and values of variables: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .finish_non_exhaustive()
    }
}

/// The result of a child.
#[derive(Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Its output, up to the limit.
    pub stdout: Vec<u8>,
    /// Its standard error, up to the limit.
    pub stderr: Vec<u8>,
    /// The resource limit that ended it, if the kernel reports one.
    pub exceeded: Option<&'static str>,
}

impl Finished {
    /// Returns whether the program never ran because its launcher failed, as far as the output shows.
    pub fn never_ran(&self) -> bool {
        let launcher_failed = resources::is_launcher_error(&self.stderr) || cgroup::is_launcher_error(&self.stderr);
        matches!(self.ending, Ending::Exited(status) if status != 0) && self.stdout.is_empty() && launcher_failed
    }
}

impl fmt::Debug for Finished {
    /// Omits the output: it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finished").field("ending", &self.ending).finish_non_exhaustive()
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// A signal that the broker did not send.
    Signalled(i32),
    /// It was stopped at a byte limit; the output up to the limit is kept.
    Overflowed(Stream),
}

/// One of a child's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A child that could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program is named by a relative path.
    #[error("`{}` is neither an absolute path nor a plain name", .0.display())]
    BadName(PathBuf),
    /// The program does not exist.
    #[error("there is no program `{}`", .0.display())]
    NotFound(PathBuf),
    /// It could not be started.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its input could not be written.
    #[error("cannot write the input of the child")]
    Write(#[source] io::Error),
    /// Its output could not be read.
    #[error("cannot read the output of the child")]
    Read(#[source] io::Error),
    /// Its end could not be observed.
    #[error("cannot wait for the child")]
    Wait(#[source] io::Error),
    /// It was stopped at its deadline.
    #[error("the child exceeded its deadline")]
    Deadline,
}

/// Returns whether this machine has the program, by its path or by its name in the fixed list of directories.
pub fn installed(program: &Path) -> bool {
    located(program).is_some()
}

/// Returns the path of a program, if this machine has it.
pub fn located(program: &Path) -> Option<PathBuf> {
    SystemCommands::default().find(program).ok()
}

/// Runs children on this machine.
#[derive(Debug, Clone)]
pub struct SystemCommands {
    directories: Vec<PathBuf>,
    // Or the reason why there are none.
    cgroups: Result<Arc<Cgroups>, String>,
}

impl Default for SystemCommands {
    fn default() -> Self {
        Self::new(DIRECTORIES.map(PathBuf::from).into())
    }
}

impl SystemCommands {
    /// Runs programs; looks up plain names in these directories, in this order.
    pub fn new(directories: Vec<PathBuf>) -> Self {
        Self { directories, cgroups: Err("only `serve` uses one".to_owned()) }
    }

    /// Gives each child a control group of its own, where the system has delegated a subtree to this process. It moves
    /// this process to a leaf of that subtree.
    #[must_use]
    pub fn in_cgroups(self) -> Self {
        Self { cgroups: Cgroups::enter().map(Arc::new), ..self }
    }

    fn find(&self, program: &Path) -> Result<PathBuf, CommandError> {
        let absent = || CommandError::NotFound(program.to_owned());
        if program.is_absolute() {
            return if program.is_file() { Ok(program.to_owned()) } else { Err(absent()) };
        }
        if program.file_name() != Some(program.as_os_str()) {
            return Err(CommandError::BadName(program.to_owned()));
        }
        self.directories.iter().map(|d| d.join(program)).find(|p| p.is_file()).ok_or_else(absent)
    }

    fn start(&self, command: &Command) -> Result<Started, CommandError> {
        let program = self.find(&command.program)?;
        let failed = |source| CommandError::Start { program: program.clone(), source };
        // Otherwise the launcher would report it later, as an error of the child.
        access(&program, Access::EXEC_OK).map_err(|error| failed(error.into()))?;
        let (launched, arguments, cgroup) = self.limited(&program, command)?;
        let has_input = command.stdin.is_some();
        let (stdin, mut input, proxy) = if command.hosts.is_empty() {
            (if has_input { Stdio::piped() } else { Stdio::null() }, None, None)
        } else {
            let (proxy, theirs, input) = EgressProxy::new(has_input).map_err(failed)?;
            (theirs.into(), input, Some(proxy))
        };
        #[expect(clippy::disallowed_methods, reason = "the one place that starts child processes")]
        let mut builder = tokio::process::Command::new(&launched);
        builder
            .args(&arguments)
            .env_clear()
            .envs(ENVIRONMENT)
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let spawned =
            if command.is_sandbox { confined::spawn(builder, Confinement::Provider) } else { builder.spawn() };
        let mut child = spawned.map_err(failed)?;
        input = input.or_else(|| Some(Box::new(child.stdin.take()?)));
        let mut started = Started::new(child, input, cgroup).map_err(CommandError::Wait)?;
        if let Some(proxy) = proxy {
            started.egress.spawn(proxy.serve(command.hosts.clone()));
        }
        Ok(started)
    }

    /// Wraps a program with its launchers: returns the program to start, its arguments and the control group.
    fn limited(
        &self,
        program: &Path,
        command: &Command,
    ) -> Result<(PathBuf, Vec<OsString>, Option<Cgroup>), CommandError> {
        let (mut program, mut arguments) = (program.to_owned(), command.args.clone());
        if !command.is_sandbox {
            // A sandbox sets the limits inside.
            let launcher = self.find(Path::new(PRLIMIT))?;
            let before = command.limits.arguments(false).into_iter().chain([program.into()]);
            arguments = before.chain(arguments).collect();
            program = launcher;
        }
        let Ok(cgroups) = &self.cgroups else { return Ok((program, arguments, None)) };
        let cgroup = cgroups
            .create(&command.limits)
            .map_err(|source| CommandError::Start { program: command.program.clone(), source })?;
        (program, arguments) = cgroup.around(&program, arguments);
        Ok((program, arguments, Some(cgroup)))
    }
}

impl Commands for SystemCommands {
    fn run(&self, command: Command) -> Pin<Box<dyn Future<Output = Result<Finished, CommandError>> + Send + '_>> {
        Box::pin(async move {
            let started = self.start(&command)?;
            match tokio::time::timeout_at(command.deadline, started.finish(command)).await {
                Ok(finished) => finished,
                Err(_elapsed) => Err(CommandError::Deadline),
            }
        })
    }

    fn open(&self, mut command: Command) -> Result<Opened, CommandError> {
        command.stdin = Some(Vec::new());
        let mut started = self.start(&command)?;
        let Started { child: Child { stdout, stderr, .. }, input, .. } = &mut started;
        let (Some(input), Some(output), Some(stderr)) = (input.take(), stdout.take(), stderr.take()) else {
            return Err(CommandError::Wait(io::Error::other("the child has no pipes")));
        };
        Ok(Opened { input, output: Box::new(output), stderr: Box::new(stderr), process: ChildGroup(started) })
    }

    fn limits_in_force(&self) -> String {
        const EACH: &str = "memory, open files, file size and processor time of each process";
        match &self.cgroups {
            Ok(cgroups) => {
                let base = cgroups.base().display();
                format!("{EACH}; memory, processes and processors of each child as a whole, by a cgroup in {base}")
            }
            Err(why) if rustix::process::geteuid().is_root() => {
                format!("{EACH}; not the number of processes, because the broker runs as root ({why})")
            }
            Err(why) => format!("{EACH}; processes of each child in a namespace ({why})"),
        }
    }
}

/// The process group of a child that has not been waited for: as long as its leader is at least a zombie, the number
/// cannot belong to anybody else.
struct Group(Option<Pid>);

impl Group {
    fn kill(&mut self) {
        if let Some(leader) = self.0.take() {
            // It fails only when every process is gone already.
            kill_process_group(leader, Signal::KILL).ok();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

// ORDER: fields drop from top to bottom; the group must be killed before `child` gives its leader up for reaping.
struct Started {
    group: Group,
    ended: AsyncFd<OwnedFd>,
    child: Child,
    input: Option<Input>,
    // Its connections end with it.
    egress: JoinSet<()>,
    // Killed and removed with it.
    cgroup: Option<Cgroup>,
}

impl Started {
    fn new(child: Child, input: Option<Input>, cgroup: Option<Cgroup>) -> io::Result<Self> {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = Group(leader);
        let leader = leader.ok_or_else(|| io::Error::other("the child has no process id"))?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe for descriptors that may be closed; an `OwnedFd` is not"
        )]
        let ended = AsyncFd::with_interest(pidfd_open(leader, PidfdFlags::empty())?, Interest::READABLE)?;
        Ok(Self { group, ended, child, input, egress: JoinSet::new(), cgroup })
    }

    async fn finish(mut self, command: Command) -> Result<Finished, CommandError> {
        let (stdin, stdout, stderr) = (self.input.take(), self.child.stdout.take(), self.child.stderr.take());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let group = &mut self.group;
        let overflow = {
            let output = async {
                tokio::try_join!(
                    drain(stdout, command.stdout_max, Stream::Stdout, &mut out),
                    drain(stderr, command.stderr_max, Stream::Stderr, &mut err),
                    feed(stdin, command.stdin),
                )
            };
            // The command ends with its leader: orphans would keep the pipes open.
            let end = async {
                self.ended.readable().await.map_err(|e| Stop::Fault(CommandError::Wait(e)))?.retain_ready();
                group.kill();
                Ok(())
            };
            match tokio::try_join!(output, end) {
                Ok(_) => None,
                Err(Stop::Overflow(stream)) => Some(stream),
                Err(Stop::Fault(fault)) => return Err(fault),
            }
        };
        self.group.kill();
        let status = self.child.wait().await.map_err(CommandError::Wait)?;
        let ending = overflow.map_or_else(|| ending(status), Ending::Overflowed);
        let memory = || self.cgroup.as_ref().is_some_and(Cgroup::ran_out_of_memory);
        let exceeded = resources::exceeded(ending).or_else(|| memory().then_some(resources::MEMORY));
        Ok(Finished { ending, stdout: out, stderr: err, exceeded })
    }
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or(0)),
    }
}

/// Why the reading of a child stopped early.
enum Stop {
    Overflow(Stream),
    Fault(CommandError),
}

async fn drain<R>(pipe: Option<R>, max: usize, stream: Stream, into: &mut Vec<u8>) -> Result<(), Stop>
where
    R: AsyncRead + Unpin,
{
    let Some(pipe) = pipe else { return Ok(()) };
    // One byte more than allowed tells a full output from an overflowing one.
    let ceiling = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    pipe.take(ceiling).read_to_end(into).await.map_err(|e| Stop::Fault(CommandError::Read(e)))?;
    if into.len() > max {
        into.truncate(max);
        return Err(Stop::Overflow(stream));
    }
    Ok(())
}

async fn feed(pipe: Option<Input>, bytes: Option<Vec<u8>>) -> Result<(), Stop> {
    let (Some(mut pipe), Some(bytes)) = (pipe, bytes) else { return Ok(()) };
    match pipe.write_all(&bytes).await {
        // A child may end without reading its whole input.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Stop::Fault(CommandError::Write(e))),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn shell(script: &str) -> Command {
        Command::new("/bin/sh", soon()).arg("-c").arg(script)
    }

    async fn run(command: Command) -> Result<Finished, CommandError> {
        SystemCommands::default().run(command).await
    }

    fn alive(pid: &str) -> bool {
        // A killed orphan may stay a zombie where no process reaps it; it runs no more.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    async fn dies(pid: &str) -> bool {
        for _ in 0..200 {
            if !alive(pid) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    #[tokio::test]
    async fn arguments_arrive_unchanged() {
        let hostile = "$(id); 'x' \"y\" `z` \n --flag";
        let done = run(Command::new("printf", soon()).arg("%s|").arg(hostile).arg("")).await.unwrap();
        assert_eq!((done.ending, done.stdout), (Ending::Exited(0), format!("{hostile}||").into_bytes()));
    }

    #[tokio::test]
    async fn the_environment_has_four_constants_and_the_given_variables() {
        let mut command = Command::new("env", soon());
        command.env.push(("TOKEN".into(), "x".into()));
        let text = String::from_utf8(run(command).await.unwrap().stdout).unwrap();
        let mut names: Vec<_> = text.lines().filter_map(|l| l.split_once('=')).map(|(name, _)| name).collect();
        names.sort_unstable();
        assert_eq!(names, ["LANG", "LC_ALL", "PATH", "TOKEN", "TZ"]);
    }

    #[tokio::test]
    async fn input_reaches_the_child_and_nothing_else_does() {
        let mut command = Command::new("cat", soon());
        command.stdin = Some(vec![b'x'; 300_000]);
        assert_eq!(run(command).await.unwrap().stdout.len(), 300_000);
        assert_eq!(run(Command::new("cat", soon())).await.unwrap().stdout, b"");
        let mut deaf = Command::new("true", soon());
        deaf.stdin = Some(vec![b'x'; 300_000]);
        assert_eq!(run(deaf).await.unwrap().ending, Ending::Exited(0));
    }

    #[tokio::test]
    async fn status_signal_and_standard_error_are_distinguished() {
        let done = run(shell("echo no >&2; exit 3")).await.unwrap();
        assert_eq!((done.ending, done.stderr), (Ending::Exited(3), b"no\n".to_vec()));
        assert_eq!(run(shell("kill -TERM $$")).await.unwrap().ending, Ending::Signalled(15));
    }

    #[tokio::test]
    async fn a_flood_is_stopped_at_the_limit() {
        let mut command = Command::new("yes", soon());
        command.stdout_max = 1000;
        let done = run(command).await.unwrap();
        assert_eq!((done.ending, done.stdout.len()), (Ending::Overflowed(Stream::Stdout), 1000));
        let mut exact = shell("printf 1234");
        exact.stdout_max = 4;
        assert_eq!(run(exact).await.unwrap().ending, Ending::Exited(0));
        let mut errors = shell("yes >&2");
        errors.stderr_max = 10;
        assert_eq!(run(errors).await.unwrap().ending, Ending::Overflowed(Stream::Stderr));
    }

    /// Attack (Providers and modules): A child process outlives its limits.
    /// Defence: `platform::commands` kills the whole process group.
    #[tokio::test]
    async fn the_deadline_kills_the_whole_group() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("pid");
        let mut command = shell(&format!("sleep 1000 & echo $! > {}; wait", file.display()));
        command.deadline = Instant::now() + Duration::from_millis(500);
        assert!(matches!(run(command).await, Err(CommandError::Deadline)));
        assert!(dies(&std::fs::read_to_string(file).unwrap()).await);
    }

    #[tokio::test]
    async fn a_dropped_command_is_killed_with_its_group() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("pid");
        let command = shell(&format!("sleep 1000 & echo $! > {}; wait", file.display()));
        let until = tokio::time::timeout(Duration::from_millis(500), run(command)).await;
        assert!(until.is_err());
        assert!(dies(&std::fs::read_to_string(file).unwrap()).await);
    }

    #[tokio::test]
    async fn orphans_of_a_leader_die_with_it() {
        // The orphan holds the pipe open; waiting for the end of the output would take 1,000 seconds.
        let done = run(shell("sleep 1000 & echo $!")).await.unwrap();
        assert_eq!(done.ending, Ending::Exited(0));
        assert!(dies(&String::from_utf8(done.stdout).unwrap()).await);
    }

    #[tokio::test]
    async fn a_long_running_child_dies_with_its_handle() {
        let Opened { mut input, output, stderr, mut process } =
            SystemCommands::default().open(shell("sleep 1000 & echo $!; echo no >&2; cat")).unwrap();
        input.write_all(b"hello\n").await.unwrap();
        drop(input);
        let mut said = Vec::new();
        let mut errors = String::new();
        let (mut output, mut stderr) = (output.take(64), stderr.take(3));
        stderr.read_to_string(&mut errors).await.unwrap();
        // The child ends with its input. Its orphan lives on and keeps the output open.
        process.ended().await;
        let mut part = [0; 64];
        while !said.ends_with(b"hello\n") {
            let read = output.read(&mut part).await.unwrap();
            said.extend_from_slice(&part[..read]);
        }
        let said = String::from_utf8(said).unwrap();
        let (pid, rest) = said.split_once('\n').unwrap();
        assert_eq!((rest, errors.as_str()), ("hello\n", "no\n"));
        assert!(alive(pid));
        drop(process);
        assert!(dies(pid).await);
    }

    #[tokio::test]
    async fn programs_are_found_by_path_or_in_the_fixed_list() {
        assert!(matches!(run(Command::new("no-such-program", soon())).await, Err(CommandError::NotFound(_))));
        assert!(matches!(run(Command::new("/no/such", soon())).await, Err(CommandError::NotFound(_))));
        for name in ["bin/sh", "./sh", "../bin/sh", "", ".."] {
            assert!(matches!(run(Command::new(name, soon())).await, Err(CommandError::BadName(_))), "{name}");
        }
        assert!(matches!(run(Command::new("/etc/passwd", soon())).await, Err(CommandError::Start { .. })));
    }
}
