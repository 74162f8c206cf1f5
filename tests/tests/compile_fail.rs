//! Programs that try to go round the types of a call's life: none of them compiles.
//!
//! They hold: no effect without durable intent, no intent without authorization, no authorization older than its
//! transaction, no secret without intent, no reply without evidence.
//!
//! The compiler checks each program against the crates that the tests run with, so nothing is built for it. Its errors,
//! with their places, must be those of the file beside the program; `UPDATE_SNAPSHOTS=1` writes these files.

// Always set here; it tells the lints that all of this is test code.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the compiler is a child of the test")]
mod compile_fail {
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::Mutex;
    use std::thread;
    use tests::programs::{Library, libraries};

    const PROGRAMS: &str = "tests/compile_fail";

    #[test]
    fn nothing_goes_round_the_stages_of_a_call() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(PROGRAMS);
        let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
        let mut programs: Vec<PathBuf> =
            files.filter(|file| file.extension().is_some_and(|kind| kind == "rs")).collect();
        programs.sort();
        assert!(programs.len() >= 24, "{} programs", programs.len());
        let libraries = libraries();
        let faults = Mutex::new(Vec::new());
        let queue = Mutex::new(programs.iter());
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some(program) = { queue.lock().unwrap().next() } {
                        faults.lock().unwrap().extend(fault(program, &libraries));
                    }
                });
            }
        });
        let faults = faults.into_inner().unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// Checks a program; returns what is wrong with its errors.
    fn fault(program: &Path, libraries: &[Library]) -> Option<String> {
        let name = program.file_name().unwrap().to_string_lossy();
        let (compiles, errors) = check(program, libraries);
        if compiles {
            return Some(format!("{name} compiles"));
        }
        let beside = program.with_extension("stderr");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&beside, &errors).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        (errors != expected).then(|| format!("{name}: expected\n{expected}\nfound\n{errors}"))
    }

    /// Returns whether a program compiles, and its errors: one line for each, with its place.
    fn check(program: &Path, libraries: &[Library]) -> (bool, String) {
        let out = tempfile::tempdir().unwrap();
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.current_dir(program.parent().unwrap()).arg(program.file_name().unwrap());
        rustc.args([
            "--edition=2024",
            "--crate-type=bin",
            "--emit=metadata",
            "--error-format=short",
            "--cap-lints=allow",
        ]);
        rustc.arg("--out-dir").arg(out.path());
        for Library { name, file } in libraries {
            let mut named = std::ffi::OsString::from(format!("{name}="));
            named.push(file);
            rustc.arg("--extern").arg(named).arg("-L").arg(format!("dependency={}", file.parent().unwrap().display()));
        }
        let output = rustc.output().expect("rustc can be started");
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }

    #[test]
    fn a_program_within_the_rules_compiles() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("within.rs");
        let text =
            "fn run(intended: kernel::Intended) { let _run = kernel::execution::execute(intended); }\nfn main() {}\n";
        std::fs::write(&program, text).unwrap();
        let (compiles, errors) = check(&program, &libraries());
        assert!(compiles, "{errors}");
    }
}
