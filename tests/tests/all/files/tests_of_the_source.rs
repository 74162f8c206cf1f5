//! The testing plan of the file broker's specification, line by line: its unit tests are those of the modules `rules`,
//! `diff` and `proposals`; these are the others.

use super::{answer, apply, call, document, error, hash, propose, question, read, workspace, world, write};
use serde_json::json;
use std::time::Duration;
use tests::group::code;

#[test]
fn write_file_returns_hitl_required() {
    let world = world();
    let developer = world.group("developer");
    write(&world, "src/main.py", "print(1)\n");
    let reply = call(&developer, "write_file", json!({ "path": "src/main.py", "content": "print(2)\n" }));
    let data = &reply["data"];
    assert_eq!(data["status"], "hitl_required", "{reply}");
    assert_eq!(data["op"], json!({ "method": "fs.propose_patch", "path": "src/main.py" }));
    assert_eq!((&data["hitl"]["ttl_seconds"], &data["hitl"]["summary"]), (&json!(120), &json!("MODIFY src/main.py")));
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
    world.clock.advance(Duration::from_secs(121));
    assert_eq!(code(&apply(&developer, "src/main.py", &id)), "proposal_expired");
    let late = world.command(json!({ "type": "answer", "code": question(&world, &id), "yes": true }));
    assert_eq!(error(&late).split(':').next(), Some("It is too late"));
    assert_eq!(code(&apply(&developer, "src/main.py", &id)), "proposal_expired", "silence means no");
    assert!(!workspace(&world).join("src/main.py").exists());
}

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

#[test]
fn apply_proposal_with_a_path_mismatch() {
    let world = world();
    let developer = world.group("developer");
    let id = propose(&developer, "src/main.py", "x\n");
    answer(&world, &id, true);
    assert_eq!(code(&apply(&developer, "src/other.py", &id)), "guardrail");
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
