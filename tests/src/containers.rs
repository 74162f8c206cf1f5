//! Podman with a storage of its own, and an image that is made here: no registry is asked.

use crate::programs::static_shim;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The image of the tests: busybox, if this machine has a static one, and nothing else.
pub const IMAGE: &str = "localhost/broker-test:1";

/// The commands of busybox that the tests use.
const COMMANDS: [&str; 13] =
    ["cat", "chmod", "env", "grep", "hostname", "id", "kill", "ls", "pwd", "sh", "sleep", "touch", "true"];

/// The settings of Podman. A machine that is a container itself can lack the right to raise limits.
const SETTINGS: &str = "[containers]\ncgroups = \"CGROUPS\"\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
                        [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n";

/// Leaves a mount namespace of its own without the second hierarchy of a machine with both kinds of control groups:
/// crun refuses such a machine.
const WITHOUT_HYBRID: &str = "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"";

/// Podman with the image of the tests.
pub struct Podman {
    folder: TempDir,
}

impl Podman {
    /// Makes the storage and the image; `None`, with a printed reason, if this machine cannot run a container. A machine
    /// that is a container itself can lack control groups, so the containers have none.
    pub fn with_image() -> Option<Self> {
        Self::made("disabled", &[])
    }

    /// The same with control groups; `None`, with a printed reason, if a container cannot have limits here.
    pub fn with_limits() -> Option<Self> {
        let options = ["--memory", "64m", "--memory-swap", "64m", "--pids-limit", "64", "--cpus", "1"];
        let made = Self::made("enabled", &options)?;
        let version = made.run(&["info", "--format", "{{.Host.CgroupsVersion}} {{.Host.Security.Rootless}}"]);
        if String::from_utf8_lossy(&version.stdout).trim() == "v1 true" {
            crate::skipped("without root, podman ignores limits in control groups of version 1");
            return None;
        }
        Some(made)
    }

    fn made(cgroups: &str, options: &[&str]) -> Option<Self> {
        let podman = Path::new("/usr/bin/podman");
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].map(Path::new).into_iter().find(|path| is_static(path));
        let (true, Some(busybox)) = (podman.exists(), busybox) else {
            crate::skipped("there is no podman, or no static busybox: apt-get install podman crun busybox-static");
            return None;
        };
        let made = Self { folder: tempfile::tempdir().unwrap() };
        made.write("containers.conf", &SETTINGS.replace("CGROUPS", cgroups));
        let at = |name: &str| made.folder.path().join(name).display().to_string();
        made.write(
            "storage.conf",
            &format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n", at("graph"), at("run")),
        );
        let bin = made.folder.path().join("root/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::copy(busybox, bin.join("busybox")).unwrap();
        for command in COMMANDS {
            std::os::unix::fs::symlink("busybox", bin.join(command)).unwrap();
        }
        let tar = Command::new("tar").args(["-C", &at("root"), "-cf", &at("root.tar"), "."]).status();
        assert!(tar.is_ok_and(|status| status.success()), "tar");
        let imported = made.run(&["import", "--change", "ENV PATH=/bin", &at("root.tar"), IMAGE]);
        let start = [&["run", "--rm", "--network", "none", "--log-driver", "none"][..], options, &[IMAGE, "/bin/true"]];
        let tried = made.run(&start.concat());
        if let Some(failed) = [imported, tried].into_iter().find(|output| !output.status.success()) {
            crate::skipped(&format!(
                "podman runs no container here: {}",
                String::from_utf8_lossy(&failed.stderr).trim()
            ));
            return None;
        }
        Some(made)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// A program that finds this storage, with no other environment. Its process id is that of the program.
    pub fn command(&self, program: &Path) -> Command {
        let is_root = rustix::process::geteuid().is_root();
        let mut command = if is_root {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", WITHOUT_HYBRID, "sh"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let file = |name: &str| self.folder.path().join(name);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", self.folder.path());
        command.env("CONTAINERS_CONF", file("containers.conf")).env("CONTAINERS_STORAGE_CONF", file("storage.conf"));
        command
    }

    /// Runs a command of Podman.
    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = self.command(Path::new("/usr/bin/podman"));
        command.args(words).stdin(Stdio::null()).output().unwrap()
    }

    /// The names of all containers, whether they run or not.
    pub fn containers(&self) -> String {
        let listed = self.run(&["ps", "--all", "--format", "{{.Names}}"]);
        assert!(listed.status.success(), "{listed:?}");
        String::from_utf8(listed.stdout).unwrap().trim().to_owned()
    }

    /// The shim that runs in any image.
    pub fn shim(&self) -> PathBuf {
        static_shim()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // Files of mapped users belong to numbers that only Podman can remove.
        if !rustix::process::geteuid().is_root() {
            let graph = self.folder.path().join("graph").display().to_string();
            self.run(&["unshare", "rm", "-rf", &graph]);
        }
    }
}

/// Whether a program needs no library: it does not name a dynamic linker.
fn is_static(path: &Path) -> bool {
    let said = Command::new("ldd").arg(path).output();
    path.is_file() && said.is_ok_and(|said| !String::from_utf8_lossy(&said.stdout).contains("=>"))
}
