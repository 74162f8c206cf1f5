//! The testing plan of the file broker's specification, line by line, in its words: the unit tests first, then the
//! integration tests, then end to end.

use super::{answer, apply, approval_request, call, document, error, hash, propose, read, workspace, world, write};
use model::WorkspacePath;
use provider_files::change::{ChangeSet, FileState};
use provider_files::diff::Diff;
use provider_files::rules::{CREATABLE, DENIED, PathRules};
use serde_json::json;
use std::time::Duration;
use tests::group::code;

fn path(text: &str) -> WorkspacePath {
    WorkspacePath::new(text).unwrap()
}

#[test]
fn is_denied_path_with_various_patterns() {
    let rules = PathRules::new(&DENIED, &CREATABLE).unwrap();
    let denied = [
        ".env",
        "src/.env",
        ".env.local",
        "a/B/.ENV",
        "key.pem",
        "deep/er/KEY.PEM",
        "id_rsa",
        "keys/my_id_rsa.pub",
        "secrets/x",
        "a/secrets/b/c",
        ".git/config",
        ".ssh/known_hosts",
        "tls.key",
        "id_ed25519",
    ];
    for text in denied {
        assert!(rules.check(&path(text)).is_err(), "{text}");
    }
    for text in ["env", "src/environment.rs", "pem", "a.pem.txt", "secret/x", "git/config", "keys.md", "src/main.py"] {
        assert!(rules.check(&path(text)).is_ok(), "{text}");
    }
}

#[test]
fn is_create_allowed_with_various_paths() {
    let rules = PathRules::new(&DENIED, &CREATABLE).unwrap();
    for text in ["src/a", "lib/b/c", "tests/t.py", "docs/d.md", "scripts/e.sh", "notes.md"] {
        assert!(rules.check_creation(&path(text)).is_ok(), "{text}");
    }
    for text in ["other/a", "srcs/a", "a/src/b", ".hidden", "Makefile", "package.json", "src/.env"] {
        assert!(rules.check_creation(&path(text)).is_err(), "{text}");
    }
}

#[test]
fn sha256_text_consistency() {
    // FIPS 180-4: the empty text, and `abc`.
    assert_eq!(hash(""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(hash("abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let state = FileState::created(b"abc".to_vec(), false);
    assert_eq!(state.hash().to_string(), hash("abc"), "a file's hash is the hash of its bytes");
}

#[test]
fn generate_unified_diff_output_format() {
    let before = FileState::created(b"one\ntwo\nthree\n".to_vec(), false);
    let set = ChangeSet::write(path("src/a.txt"), Some(before), b"one\n2\nthree".to_vec()).unwrap();
    let expected = "diff --git a/src/a.txt b/src/a.txt\n--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n-three\n\
        +2\n+three\n\\ No newline at end of file\n";
    assert_eq!(Diff::of(&set).unwrap().text(), expected);
    let set = ChangeSet::write(path("src/new.txt"), None, b"x\n".to_vec()).unwrap();
    let created = Diff::of(&set).unwrap();
    assert!(created.text().contains("--- /dev/null\n+++ b/src/new.txt\n@@ -0,0 +1 @@\n+x\n"), "{}", created.text());
}

#[test]
fn hitl_record_expiration() {
    let world = world();
    let developer = world.group("developer");
    propose(&developer, "src/main.py", "x\n");
    let state = || {
        let listed = call(&developer, "list_proposals", json!({}));
        listed["data"]["data"]["proposals"][0]["state"].as_str().unwrap().to_owned()
    };
    world.clock.advance(Duration::from_secs(299));
    assert_eq!(state(), "waiting");
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(state(), "expired");
    tests::until("the record is gone", || {
        (world.query("SELECT changes FROM proposals") == [json!({ "changes": null })]).then_some(())
    });
}

/// Attack (Files provider): `write_file` or `apply_patch` writes.
/// Defence: They only propose. The intent of `apply_proposal` consumes the approval.
#[test]
fn write_file_returns_hitl_required() {
    let world = world();
    let developer = world.group("developer");
    write(&world, "src/main.py", "print(1)\n");
    let reply = call(&developer, "write_file", json!({ "path": "src/main.py", "content": "print(2)\n" }));
    let data = &reply["data"];
    assert_eq!(data["status"], "hitl_required", "{reply}");
    assert_eq!(data["op"], json!({ "method": "fs.propose_patch", "path": "src/main.py" }));
    assert_eq!((&data["hitl"]["ttl_seconds"], &data["hitl"]["summary"]), (&json!(300), &json!("MODIFY src/main.py")));
    let diff = data["hitl"]["diff_preview"].as_str().unwrap();
    assert!(diff.contains("-print(1)\n+print(2)\n"), "{diff}");
    assert_eq!(data["data"]["base_hash"], hash("print(1)\n"));
    assert_eq!(data["data"]["patch_hash"], hash(diff));
    assert_eq!((&data["data"]["created"], &data["data"]["patch_format"]), (&json!(false), &json!("unified_diff")));
    assert_eq!(read(&world, "src/main.py"), "print(1)\n", "it only proposes");
}

#[test]
fn apply_proposal_with_a_valid_hitl_id() {
    let world = world();
    let developer = world.group("developer");
    write(&world, "src/main.py", "print(1)\n");
    let id = propose(&developer, "src/main.py", "print(2)\n");
    answer(&world, &id, true);
    let reply = apply(&developer, "src/main.py", &id);
    let data = &reply["data"];
    assert_eq!((&data["status"], &data["op"]["method"]), (&json!("allowed"), &json!("fs.apply_patch")), "{reply}");
    assert_eq!(data["data"]["before_hash"], hash("print(1)\n"));
    assert_eq!(data["data"]["after_hash"], hash("print(2)\n"));
    assert_eq!((&data["data"]["hitl_id"], &data["data"]["created"]), (&json!(id), &json!(false)));
    assert_eq!(read(&world, "src/main.py"), "print(2)\n");
}

#[test]
fn apply_proposal_with_an_expired_hitl_id() {
    let world = world();
    let developer = world.group("developer");
    let id = propose(&developer, "src/main.py", "x\n");
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(code(&apply(&developer, "src/main.py", &id)), "proposal_expired");
    let late = world.command(json!({ "type": "answer", "code": approval_request(&world, &id), "yes": true }));
    assert_eq!(error(&late).split(':').next(), Some("It is too late"));
    assert_eq!(code(&apply(&developer, "src/main.py", &id)), "proposal_expired", "silence means no");
    assert!(!workspace(&world).join("src/main.py").exists());
}

/// Attack (Files provider): A file is edited or a directory is replaced between the approval and
/// the change.
/// Defence: The exchange is verified on both sides and reverted. Edits of others are left in place.
#[test]
fn apply_proposal_with_a_modified_file() {
    let world = world();
    let developer = world.group("developer");
    write(&world, "src/main.py", "print(1)\n");
    let id = propose(&developer, "src/main.py", "print(2)\n");
    answer(&world, &id, true);
    write(&world, "src/main.py", "print(3)\n");
    assert_eq!(code(&apply(&developer, "src/main.py", &id)), "base_changed");
    assert_eq!(read(&world, "src/main.py"), "print(3)\n");
    write(&world, "src/main.py", "print(1)\n");
    assert_eq!(code(&apply(&developer, "src/main.py", &id)), "proposal_unknown", "one-time use, whatever came of it");
}

/// Attack: see `proposals_of_another_group_cannot_be_applied`.
#[test]
fn apply_proposal_with_a_path_mismatch() {
    let world = world();
    let developer = world.group("developer");
    let id = propose(&developer, "src/main.py", "x\n");
    answer(&world, &id, true);
    assert_eq!(code(&apply(&developer, "src/other.py", &id)), "proposal_unknown");
    assert_eq!(code(&apply(&developer, "src/main.py", &id)), "executed", "nothing was spent by the mistake");
}

#[test]
fn full_workflow_write_file_approve_apply_proposal() {
    let world = world();
    let developer = world.group("developer");
    write(&world, "src/main.py", "a\n");
    let id = propose(&developer, "src/main.py", "b\n");
    let waiting = developer.send(document("apply_proposal", json!({ "path": "src/main.py", "hitl_id": id })));
    assert_eq!(code(&answer(&world, &id, true)), "executed");
    assert_eq!(code(&developer.reply(&waiting)), "executed");
    assert_eq!(read(&world, "src/main.py"), "b\n");
    let kinds: Vec<String> = world.rows().into_iter().map(|row| row.kind).collect();
    let story = ["granted", "intended", "asked", "succeeded", "approved", "intended", "succeeded"];
    assert_eq!(kinds[kinds.len() - story.len()..], story);
}

#[test]
fn create_new_file_workflow() {
    let world = world();
    let developer = world.group("developer");
    let reply = call(&developer, "write_file", json!({ "path": "docs/new/a.md", "content": "new\n" }));
    let data = &reply["data"];
    assert_eq!(
        (&data["hitl"]["summary"], &data["data"]["created"]),
        (&json!("CREATE FILE docs/new/a.md"), &json!(true))
    );
    assert!(data["hitl"]["diff_preview"].as_str().unwrap().contains("--- /dev/null\n+++ b/docs/new/a.md\n"), "{data}");
    let id = data["hitl"]["hitl_id"].as_str().unwrap();
    answer(&world, id, true);
    let applied = apply(&developer, "docs/new/a.md", id);
    assert_eq!(
        (&applied["data"]["data"]["created"], &applied["data"]["data"]["before_hash"]),
        (&json!(true), &json!(null))
    );
    assert_eq!(read(&world, "docs/new/a.md"), "new\n");
    for path in ["other/a.md", ".bashrc", "Makefile", "build.rs"] {
        let reply = call(&developer, "write_file", json!({ "path": path, "content": "x" }));
        assert_eq!(code(&reply), "create_not_allowed", "{path}");
    }
    propose(&developer, "notes.md", "root-level files are allowed\n");
}

#[test]
fn modify_existing_file_workflow() {
    let world = world();
    let developer = world.group("developer");
    // Where no file may be created, one that is there may be changed.
    write(&world, "other/Makefile", "all:\n\techo 1\n");
    let id = propose(&developer, "other/Makefile", "all:\r\n\techo 2");
    answer(&world, &id, true);
    assert_eq!(code(&apply(&developer, "other/Makefile", &id)), "executed");
    assert_eq!(read(&world, "other/Makefile"), "all:\r\n\techo 2", "bytes are bytes");
}

#[test]
fn reject_proposal_workflow() {
    let world = world();
    let developer = world.group("developer");
    write(&world, "src/main.py", "a\n");
    let id = propose(&developer, "src/main.py", "b\n");
    assert_eq!(code(&answer(&world, &id, false)), "executed");
    let refused = apply(&developer, "src/main.py", &id);
    assert_eq!(code(&refused), "approval_denied");
    assert!(error(&refused).contains("Their reason: because."), "{refused}");
    assert_eq!(read(&world, "src/main.py"), "a\n");
}
