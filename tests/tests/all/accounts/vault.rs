//! The vault: a key closes the credentials of accounts. The key changes, and may come from elsewhere.

use super::*;

/// Attack (Accounts): A lost master key is silently replaced, a key rotation breaks off, or a
/// daemon starts during it.
/// Defence: No key is made if records exist. Keys change only under the lock, and a daemon checks
/// again after taking it. Both keys exist until all records use the new one.
#[test]
fn a_new_master_key_opens_what_the_old_one_closed() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    link(&world, &developer, &ann, "work");
    let (flow, state) = begun(&developer, &ann, "home");
    let key = world.home().join("keys/vault.key");
    let before = std::fs::read(&key).unwrap();
    let refused = world.cli(&["vault", "renew"]);
    assert_eq!(refused.status.code(), Some(3), "the daemon runs: {}", said(&refused));
    world.stop();
    let renewed = world.cli(&["--json", "vault", "renew"]);
    let reply: Value = serde_json::from_slice(&renewed.stdout).unwrap_or_else(|_| panic!("{}", said(&renewed)));
    assert_eq!(reply["data"], json!({ "renewed": 2, "unreadable": 0, "forgotten": 0 }), "{reply}");
    assert_ne!(std::fs::read(&key).unwrap(), before);
    assert!(!world.home().join("keys/vault-before.key").exists());
    world.start_process();
    assert_eq!(code(&developer.ask(read(&ann))), "executed");
    assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "executed");
    let status: Value = serde_json::from_slice(&world.cli(&["--json", "vault", "status"]).stdout).unwrap();
    assert_eq!(
        (&status["credentials"], &status["waiting"], &status["unreadable"]),
        (&json!(1), &json!(1), &json!(false))
    );
    // The daemon does not silently replace a lost master key.
    world.stop();
    let good = std::fs::read(&key).unwrap();
    std::fs::write(&key, &before).unwrap();
    let served = world.cli(&["serve"]);
    assert_eq!(served.status.code(), Some(4), "{}", said(&served));
    assert!(said(&served).contains("master key that is not there"), "{}", said(&served));
    // A command that only looks does not replace it either.
    let held = world.home().join("keys/held");
    std::fs::rename(&key, &held).unwrap();
    let looked = world.cli(&["vault", "status"]);
    assert!(said(&looked).contains("is gone") && !key.exists(), "{}", said(&looked));
    std::fs::rename(&held, &key).unwrap();
    // A renewal that was broken off goes on: both keys are there, and the records are under the one before.
    std::fs::write(&key, &good).unwrap();
    let next = [7; 32];
    std::fs::rename(&key, world.home().join("keys/vault-before.key")).unwrap();
    std::fs::write(&key, next).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    world.start_process();
    assert_eq!(code(&developer.ask(read(&ann))), "executed");
    world.stop();
    assert!(world.cli(&["vault", "renew"]).status.success());
    assert_eq!(std::fs::read(&key).unwrap(), next);
    // `--forget` clears the records that no key opens, and unlinks their account.
    std::fs::write(&key, [8; 32]).unwrap();
    let left: Value = serde_json::from_slice(&world.cli(&["--json", "vault", "renew"]).stdout).unwrap();
    assert!(left["data"]["unreadable"].as_u64().unwrap() >= 2, "{left}");
    let cleared = world.cli(&["vault", "renew", "--forget"]);
    assert!(said(&cleared).contains("are forgotten"), "{}", said(&cleared));
    world.start_process();
    assert_eq!(code(&developer.ask(read(&ann))), "capability_auth_required");
}

#[test]
fn the_master_key_may_come_from_elsewhere() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    link(&world, &developer, &ann, "work");
    world.stop();
    let (key, config) = (world.home().join("keys/vault.key"), world.home().join("broker.toml"));
    let text = std::fs::read_to_string(&config).unwrap();
    let hex = world.outside().join("master");
    std::fs::write(&hex, base16ct::lower::encode_string(&std::fs::read(&key).unwrap())).unwrap();
    std::fs::set_permissions(&hex, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::remove_file(&key).unwrap();
    world.rewrite("broker.toml", &format!("{text}\n[vault]\nkey = {{ file = {hex:?} }}\n"));
    world.start_process();
    assert_eq!(code(&developer.ask(read(&ann))), "executed");
    world.stop();
    let newer = world.outside().join("newer");
    std::fs::write(&newer, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    std::fs::set_permissions(&newer, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    world.rewrite(
        "broker.toml",
        &format!("{text}\n[vault]\nkey = {{ file = {newer:?} }}\nprevious = [{{ file = {hex:?} }}]\n"),
    );
    assert!(world.cli(&["vault", "renew"]).status.success());
    let with_key = |world: &mut World, source: &str| {
        world.rewrite("broker.toml", &format!("{text}\n[vault]\nkey = {source}\n"));
        world.start_process();
        let ann = token(world, "ann", ChatType::Private);
        assert_eq!(code(&developer.ask(read(&ann))), "executed", "{source}");
        world.stop();
    };
    with_key(&mut world, &format!("{{ command = [\"/bin/cat\", {newer:?}] }}"));
    let name = format!("host-broker:vault:{}", std::process::id());
    let ring = KeyRing::from_special_id(KeyRingIdentifier::User, true);
    match ring.and_then(|ring| Ok((ring, ring.add_key(&name, &std::fs::read(&newer).unwrap())?))) {
        Ok((ring, key)) => {
            with_key(&mut world, &format!("{{ keyring = {name:?} }}"));
            ring.unlink_key(key).unwrap();
        }
        Err(fault) => skipped(&format!("the kernel's keyrings cannot be used here: {fault}")),
    }
    with_key(&mut world, &format!("{{ file = {newer:?} }}"));
    std::fs::write(&newer, "AAECAwQ=").unwrap();
    let served = world.cli(&["serve"]);
    assert_eq!(served.status.code(), Some(4), "{}", said(&served));
    assert!(
        said(&served).contains("does not hold 32 bytes") && !said(&served).contains("AAECAwQ"),
        "{}",
        said(&served)
    );
}
