//! A replay of the messages between Ash and its bridge for Google: the bridge gives its recorded answers, and
//! only to requests that have the very members of the recorded ones.

use super::{answer, approval_request, auth, poll};
use model::ChatType;
use platform::commands::installed;
use serde_json::{Value, json};
use std::path::Path;
use tests::bridges::{accept, call, directory, grant, home, token};
use tests::group::{code, error};
use tests::skipped;

const TRANSCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/ash-bridge-transcripts.jsonl");

#[test]
fn the_exchanges_of_the_source_are_had_again() {
    if !installed(Path::new("/usr/bin/python3")) {
        return skipped("there is no python3 to run the bridge with");
    }
    let program = directory().join("replaying.py");
    let command = ["/usr/bin/python3", program.to_str().unwrap(), TRANSCRIPTS];
    let settings = "auth_hosts = [\"127.0.0.1\"]\nexposes = { \"gog.email.list_messages\" = [] }\n";
    let mut world = home("gog", &command, Path::new(env!("CARGO_MANIFEST_DIR")), settings);
    accept(&world, "gog");
    world.start_process();
    grant(&world, "gog.email");
    let ann = token(&mut world, "ann", ChatType::Private);
    let developer = world.group("developer");
    let recorded: Vec<Value> =
        std::fs::read_to_string(TRANSCRIPTS).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let result = |number: usize| recorded[number]["response"]["result"].clone();
    // Its definitions, as it has said them.
    let listed =
        developer.ask(json!({ "type": "ext_capabilities", "context_token": ann, "include_unavailable": true }));
    let email = listed["data"]["capabilities"].as_array().unwrap().iter().find(|one| one["provider"] == "gog.email");
    let actions = email.unwrap_or_else(|| panic!("{listed}"))["actions"].as_object().unwrap();
    for operation in result(0)["definitions"][0]["operations"].as_array().unwrap() {
        assert!(actions.contains_key(operation["name"].as_str().unwrap()), "{operation}: {listed}");
    }
    let begin = || {
        let wanted = json!({ "capability": "gog.email", "account_hint": "work" });
        let begun = developer.ask(auth("begin", &ann, &wanted));
        assert_eq!(begun["data"]["auth_url"], result(1)["auth_url"], "{begun}");
        begun["data"]["flow_id"].as_str().unwrap().to_owned()
    };
    let state = result(1)["expected_callback_state"].as_str().unwrap().to_owned();
    let complete = |flow: &str| {
        let back = json!({ "flow_id": flow, "callback_url": format!("http://localhost/?state={state}&code=x") });
        developer.ask(auth("complete", &ann, &back))
    };
    // To another person's flow the bridge says no; then the account is linked; then the flow is over.
    let flow = begin();
    let no = complete(&flow);
    assert_eq!(code(&no), "capability_auth_flow_invalid", "{no}");
    let flow = begin();
    assert_eq!(code(&complete(&flow)), "executed");
    let (_, card) = approval_request(&world);
    assert!(card.to_string().contains("worker@example.com"), "{card}");
    assert_eq!(code(&answer(&world, true)), "executed");
    assert_eq!(poll(&developer, &ann, &flow)["data"]["account_ref"], "work");
    let flow = begin();
    assert_eq!(code(&complete(&flow)), "capability_auth_flow_invalid");
    // Its answer, and its answer for a person whose account is not linked.
    let given = developer.ask(call("gog.email", "list_messages", &json!({ "limit": 1 }), &ann));
    assert_eq!((code(&given), &given["data"]), ("executed", &result(5)["output"]), "{given}");
    let none = developer.ask(call("gog.email", "list_messages", &json!({}), &ann));
    assert_eq!(code(&none), "capability_auth_required", "{none}");
    assert!(!error(&none).is_empty());
    world.keep_secret("cred_f20872e6e39b1a69");
}
