//! The actions' requirements, refusals, requests and results.

use crate::merge_pr::{Facts, MergePr};
use crate::params::Repo;
use crate::read::Read;
use crate::scripted::{Caller, Fixed, NOW, Reply, Scripted, TIMEOUT, TOKEN};
use crate::write::Write;
use crate::{
    Github, Identity, Settings, SetupError, add_labels, close_issue, comment_pr, create_branch, create_issue, get_file,
    get_issue, get_pr, get_pr_checks, get_repo, list_repos, operations, search_code, update_branch,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use provider::contract::{Failure, Guard, Invocation, Operation, Probed};
use secrets::Secret;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use shared::{Code, Level};
use std::sync::Arc;

pub(super) fn settings() -> Settings {
    Settings { base_url: "http://127.0.0.1:1".into(), repos: vec!["octocat/hello-world".into()], ..Settings::default() }
}

pub(super) fn catalogue() -> Vec<Arc<dyn Operation>> {
    operations(
        &"github".parse().unwrap(),
        settings(),
        Identity::Token(Some(Arc::new(Secret::new(TOKEN.into())))),
        Arc::new(Fixed),
    )
    .unwrap()
}

fn shared() -> Github {
    Github::new(settings(), Identity::Token(Some(Arc::new(Secret::new(TOKEN.into())))), Arc::new(Fixed)).unwrap()
}

/// Parameters that fit each action, for a repository.
pub(super) fn fitting(action: &str, owner: &str) -> Map<String, Value> {
    let mut params = match action {
        "list_repos" => return Map::new(),
        "get_issue" | "get_pr" | "get_pr_comments" | "get_issue_comments" | "get_pr_reviews" | "get_pr_checks"
        | "close_issue" | "update_branch" => json!({ "number": 1 }),
        "get_file" => json!({ "path": "Secret plan.txt" }),
        "search_code" => json!({ "text": "Secret plan" }),
        "add_labels" => json!({ "number": 1, "labels": ["Secret plan"] }),
        "request_review" => json!({ "number": 1, "reviewers": ["hubot"] }),
        "create_issue" => json!({ "title": "Secret plan" }),
        "comment_issue" => json!({ "number": 1, "body": "Secret plan" }),
        "create_branch" => json!({ "branch": "topic" }),
        "create_pr" => json!({ "title": "Secret plan", "head": "topic", "base": "main" }),
        "comment_pr" => json!({ "number": 1, "body": "Secret plan", "path": "a.rs", "line": 1 }),
        "merge_pr" => json!({ "number": 1, "method": "squash" }),
        _ => json!({}),
    };
    let fields = params.as_object_mut().unwrap();
    fields.extend([("owner".into(), owner.into()), ("repo".into(), "hello-world".into())]);
    fields.clone()
}

fn parsed(action: &str, extra: &Value) -> Result<Box<dyn Invocation>, Vec<(String, String)>> {
    let mut params = fitting(action, "octocat");
    params.extend(extra.as_object().unwrap().clone());
    let catalogue = catalogue();
    let operation = catalogue.iter().find(|o| o.declaration().action.as_str() == action).unwrap();
    operation.parse(&params).map_err(|faults| faults.into_iter().map(|f| (f.pointer, f.fault)).collect())
}

pub(super) fn action<A: DeserializeOwned>(extra: &Value) -> A {
    let mut params = json!({ "owner": "octocat", "repo": "hello-world" });
    params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(params).unwrap()
}

pub(super) fn sha(letter: char) -> String {
    letter.to_string().repeat(40)
}

#[tokio::test]
async fn the_catalogue_is_complete_and_every_action_documents_itself() {
    let levels: Vec<_> =
        catalogue().iter().map(|o| (o.declaration().action.to_string(), o.declaration().level)).collect();
    let expected = [
        ("list_repos", Level::Read),
        ("get_repo", Level::Read),
        ("list_issues", Level::Read),
        ("get_issue", Level::Read),
        ("list_prs", Level::Read),
        ("get_pr", Level::Read),
        ("get_pr_comments", Level::Read),
        ("list_branches", Level::Read),
        ("get_issue_comments", Level::Read),
        ("get_pr_reviews", Level::Read),
        ("get_pr_checks", Level::Read),
        ("get_file", Level::Read),
        ("search_code", Level::Read),
        ("create_issue", Level::Write),
        ("comment_issue", Level::Write),
        ("close_issue", Level::Write),
        ("create_branch", Level::Write),
        ("create_pr", Level::Write),
        ("comment_pr", Level::Write),
        ("add_labels", Level::Write),
        ("request_review", Level::Write),
        ("update_branch", Level::Write),
        ("merge_pr", Level::Production),
    ];
    assert_eq!(levels, expected.map(|(name, level)| (name.to_owned(), level)));
    for operation in catalogue() {
        let declared = operation.declaration();
        let name = declared.action.as_str();
        assert_eq!(declared.input_schema["additionalProperties"], false, "{name}");
        assert_eq!(declared.exposes.egress, declared.level > Level::Read, "{name}");
        for (field, schema) in declared.input_schema["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{name}.{field} is not documented");
        }
        let invocation = operation.parse(&fitting(name, "octocat")).unwrap();
        assert!(!invocation.summary().contains("Secret plan"), "{}", invocation.summary());
        assert_eq!(invocation.level(), declared.level);
    }
}

#[tokio::test]
async fn a_repository_off_the_allow_list_is_neither_read_nor_written() {
    for operation in catalogue() {
        let name = operation.declaration().action.as_str();
        match (name, operation.parse(&fitting(name, "mallory")).unwrap().guard(NOW)) {
            ("list_repos", verdict) => assert_eq!(verdict, Guard::Pass),
            (_, Guard::Refuse(refusal)) => {
                assert_eq!(refusal.code, Code::RepoNotAllowed);
                assert!(refusal.reason.contains("mallory/hello-world") && refusal.reason.ends_with('.'));
            }
            (_, verdict) => panic!("{name}: {verdict:?}"),
        }
        let allowed = operation.parse(&fitting(name, "OctoCat")).unwrap().guard(NOW);
        let remote = ["close_issue", "create_branch", "comment_pr", "update_branch", "merge_pr"].contains(&name);
        assert_eq!(allowed, if remote { Guard::NeedsRemote } else { Guard::Pass }, "{name}");
    }
}

#[tokio::test]
async fn parameters_that_do_not_fit_say_where() {
    for (name, extra, pointer) in [
        ("get_repo", json!({ "owner": "o/../../user" }), "/owner"),
        ("get_repo", json!({ "repo": ".." }), "/repo"),
        ("get_repo", json!({ "extra": 1 }), ""),
        ("get_issue", json!({ "number": 0 }), "/number"),
        ("get_issue", json!({ "number": "1" }), "/number"),
        ("list_issues", json!({ "limit": 101 }), "/limit"),
        ("list_issues", json!({ "state": "merged" }), "/state"),
        ("list_issues", json!({ "labels": ["a,b"] }), "/labels/0"),
        ("create_issue", json!({ "title": "" }), "/title"),
        ("create_issue", json!({ "body": "x".repeat(65_001) }), "/body"),
        ("create_branch", json!({ "branch": "a..b" }), "/branch"),
        ("create_branch", json!({ "branch": "refs/heads/main" }), ""),
        ("create_pr", json!({ "head": "a b" }), "/head"),
        ("comment_pr", json!({ "line": null }), ""),
        ("get_file", json!({ "path": "../../user" }), ""),
        ("get_file", json!({ "path": "/etc/passwd" }), "/path"),
        ("get_file", json!({ "ref": "a..b" }), "/ref"),
        ("search_code", json!({ "text": "" }), "/text"),
        ("search_code", json!({ "extension": "rs repo:mallory/x" }), "/extension"),
        ("search_code", json!({ "page": 1001 }), "/page"),
        ("add_labels", json!({ "labels": [] }), "/labels"),
        ("request_review", json!({ "reviewers": ["o/../x"] }), "/reviewers/0"),
        ("merge_pr", json!({ "method": "octopus" }), "/method"),
        ("merge_pr", json!({ "sha": "abc" }), "/sha"),
    ] {
        let faults = parsed(name, &extra).err().unwrap_or_else(|| panic!("{name} {extra}"));
        assert_eq!(faults.iter().map(|(p, _)| p.as_str()).collect::<Vec<_>>(), [pointer], "{name} {extra} {faults:?}");
    }
}

#[tokio::test]
async fn the_main_line_is_never_created() {
    for branch in ["main", "MASTER"] {
        assert!(
            matches!(parsed("create_branch", &json!({ "branch": branch })).ok().unwrap().guard(NOW), Guard::Refuse(r) if r.code == Code::Guardrail)
        );
    }
    let facts = create_branch::Facts { default_branch: "Trunk".into(), sha: sha('a') };
    let guard = |branch: &str| {
        action::<create_branch::CreateBranch>(&json!({ "branch": branch })).guard(&shared().guardrails, Some(&facts))
    };
    assert!(matches!(guard("trunk"), Guard::Refuse(r) if r.reason.contains("default branch")));
    assert_eq!(guard("trunk2"), Guard::Pass);
}

#[tokio::test]
async fn a_pull_request_onto_a_production_branch_is_production() {
    for (base, level) in [("main", Level::Write), ("release/1.0", Level::Production), ("PROD", Level::Production)] {
        assert_eq!(parsed("create_pr", &json!({ "base": base })).ok().unwrap().level(), level, "{base}");
    }
}

#[tokio::test]
async fn a_production_branch_is_created_at_the_level_of_production_only() {
    for (branch, level) in
        [("topic", Level::Write), ("release/1.0", Level::Production), ("Production", Level::Production)]
    {
        assert_eq!(parsed("create_branch", &json!({ "branch": branch })).ok().unwrap().level(), level, "{branch}");
    }
}

#[tokio::test]
async fn an_issue_is_closed_with_the_reason_that_was_given() {
    for (params, sent, summary) in [
        (json!({ "number": 1 }), json!({ "state": "closed" }), "close issue octocat/hello-world#1"),
        (
            json!({ "number": 1, "reason": "completed" }),
            json!({ "state": "closed", "state_reason": "completed" }),
            "close issue octocat/hello-world#1",
        ),
        (
            json!({ "number": 1, "reason": "not_planned" }),
            json!({ "state": "closed", "state_reason": "not_planned" }),
            "close issue octocat/hello-world#1 as not planned",
        ),
    ] {
        let server = Scripted::new([Reply::ok(&json!({ "number": 1, "state": "closed" }))]);
        let caller = Caller::to(&server.base());
        let close = action::<close_issue::CloseIssue>(&params);
        assert_eq!(close.summary(), summary);
        close.perform(&caller.session(TIMEOUT), None).await.unwrap();
        let body: Value = serde_json::from_str(server.requests()[0].split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(body, sent);
    }
    assert!(parsed("close_issue", &json!({ "reason": "duplicate" })).is_err());
}

#[tokio::test]
async fn where_nothing_can_be_planted_a_probe_says_what_it_sees_and_whose_it_may_be() {
    let handle =
        |sha: Option<String>| json!({ "owner": "octocat", "repo": "hello-world", "branch": "topic", "sha": sha });
    let branch = |sha: String| json!([{ "ref": "refs/heads/topic", "object": { "sha": sha } }]);
    for (found, wanted, said) in [
        (branch(sha('a')), Some(sha('a')), "as the call wanted. The call created it, or somebody else did."),
        (branch(sha('b')), Some(sha('a')), "Somebody else created it, or has moved it since."),
        (branch(sha('b')), None, "exists in octocat/hello-world and points to bbb"),
        (
            json!([]),
            Some(sha('a')),
            "There is no branch topic in octocat/hello-world now. The call did not create it, or",
        ),
    ] {
        let server = Scripted::new([Reply::ok(&found)]);
        let caller = Caller::to(&server.base());
        let probed = create_branch::CreateBranch::look(&caller.session(TIMEOUT), handle(wanted)).await.unwrap();
        assert!(
            matches!(&probed, Probed::State { message } if message.contains(said) && message.ends_with("is refused.")),
            "{probed:?}"
        );
    }
    let handle = json!({ "owner": "octocat", "repo": "hello-world", "number": 1, "nonce": "n" });
    for (state, said) in
        [("open", "is open now. The call did not close it"), ("closed", "This call closed it, or somebody else")]
    {
        let server = Scripted::new([Reply::ok(&json!({ "number": 1, "state": state }))]);
        let caller = Caller::to(&server.base());
        let probed = close_issue::CloseIssue::look(&caller.session(TIMEOUT), handle.clone()).await.unwrap();
        assert!(matches!(&probed, Probed::State { message } if message.contains(said)), "{probed:?}");
    }
}

#[tokio::test]
async fn every_check_of_a_commit_is_looked_at() {
    let pr = json!({ "state": "open", "title": "A change", "base": { "ref": "main" }, "head": { "sha": sha('c') }, "mergeable": true });
    let runs = |conclusion: &str, count: usize| {
        let run = json!({ "status": "completed", "conclusion": conclusion });
        json!({ "total_count": 150, "check_runs": vec![run; count] }).to_string()
    };
    let server = Scripted::late(|base| {
        let next = format!("Link: <{base}/x?page=2>; rel=\"next\"\r\n");
        vec![
            Reply::ok(&pr),
            Reply::ok(&json!({ "total_count": 0, "statuses": [] })),
            Reply::json(200, &next, &runs("success", 100)),
            Reply::json(200, "", &runs("failure", 50)),
        ]
    });
    let caller = Caller::to(&server.base());
    let (owner, name) = (&"octocat".parse().unwrap(), &"hello-world".parse().unwrap());
    let session = &caller.session(TIMEOUT);
    let facts = Facts::fetch(session, Repo { owner, name }, 1.try_into().unwrap(), true).await.unwrap();
    let verdict =
        action::<MergePr>(&json!({ "number": 1, "method": "squash" })).guard(&shared().guardrails, Some(&facts));
    assert!(
        matches!(&verdict, Guard::Refuse(r) if r.reason.contains("not all of its checks are successful")),
        "{verdict:?}"
    );
}

#[tokio::test]
async fn a_renamed_repository_is_refused_and_not_silently_followed() {
    let moved = json!({
        "number": 1, "state": "open", "full_name": "octocat/new-name", "default_branch": "trunk",
        "repository_url": "https://api.github.com/repos/octocat/new-name",
        "base": { "repo": { "full_name": "octocat/new-name" } }, "head": { "sha": sha('a') }, "mergeable": true,
    });
    let server = Scripted::new(vec![Reply::ok(&moved); 6]);
    let caller = Caller::to(&server.base());
    let session = &caller.session(TIMEOUT);
    let (owner, name) = (&"octocat".parse().unwrap(), &"hello-world".parse().unwrap());
    for failure in [
        action::<get_repo::GetRepo>(&json!({})).perform(session).await.err(),
        action::<get_issue::GetIssue>(&json!({ "number": 1 })).perform(session).await.err(),
        action::<get_pr::GetPr>(&json!({ "number": 1 })).perform(session).await.err(),
        action::<create_branch::CreateBranch>(&json!({ "branch": "x" }))
            .facts(session, &shared().guardrails)
            .await
            .err(),
        action::<close_issue::CloseIssue>(&json!({ "number": 1 })).facts(session, &shared().guardrails).await.err(),
        Facts::fetch(session, Repo { owner, name }, 1.try_into().unwrap(), false).await.err(),
    ] {
        assert!(matches!(&failure, Some(Failure::Refused { message }) if message.contains("renamed")), "{failure:?}");
    }
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_branch_starts_at_the_commit_that_was_looked_up() {
    let reference = json!({ "ref": "refs/heads/topic/x", "object": { "sha": sha('b') } });
    let server = Scripted::new([
        Reply::ok(&json!({ "full_name": "OctoCat/Hello-World", "default_branch": "trunk" })),
        Reply::ok(&reference),
        Reply::json(201, "", &reference.to_string()),
        Reply::json(201, "", &json!({ "ref": "refs/heads/other" }).to_string()),
    ]);
    let caller = Caller::to(&server.base());
    let session = &caller.session(TIMEOUT);
    let create = action::<create_branch::CreateBranch>(&json!({ "branch": "topic/x" }));
    let facts = create.facts(session, &shared().guardrails).await.unwrap();
    assert_eq!((&*facts.default_branch, &*facts.sha), ("trunk", &*sha('b')));
    assert_eq!(create.perform(session, Some(&facts)).await.unwrap().0.sha, Some(sha('b')));
    assert!(matches!(create.perform(session, Some(&facts)).await, Err(Failure::Unknown { .. })));
    assert_eq!(server.lines()[1], "GET /repos/octocat/hello-world/git/ref/heads/trunk");
    assert!(server.requests()[2].ends_with(&json!({ "ref": "refs/heads/topic/x", "sha": sha('b') }).to_string()));
}

#[tokio::test]
async fn the_commit_that_was_checked_rides_in_the_merge() {
    let pr = |mergeable: Value| json!({ "state": "open", "title": "A change", "base": { "ref": "main" }, "head": { "sha": sha('c') }, "mergeable": mergeable });
    let server = Scripted::new([
        Reply::ok(&pr(json!(null))),
        Reply::ok(&pr(json!(true))),
        Reply::ok(&json!({ "total_count": 1, "statuses": [{ "state": "success" }] })),
        Reply::ok(&json!({ "total_count": 2, "check_runs": [
            { "status": "completed", "conclusion": "skipped" }, { "status": "in_progress", "conclusion": null }] })),
        Reply::ok(&json!({ "merged": true, "sha": sha('d') })),
        Reply::json(409, "", r#"{"message":"Head branch was modified. Review and try the merge again."}"#),
        Reply::json(405, "", r#"{"message":"Base branch was modified"}"#),
        Reply::json(200, "", r#"{"merged":false}"#),
    ]);
    let caller = Caller::to(&server.base());
    let session = &caller.session(TIMEOUT);
    let (owner, name) = (&"octocat".parse().unwrap(), &"hello-world".parse().unwrap());
    let facts = Facts::fetch(session, Repo { owner, name }, 1.try_into().unwrap(), true).await.unwrap();
    let merge = action::<MergePr>(&json!({ "number": 1, "method": "squash" }));
    let verdict = merge.guard(&shared().guardrails, Some(&facts));
    assert!(matches!(verdict, Guard::Refuse(r) if r.code == Code::Guardrail && r.reason.contains("finished")));

    merge.perform(session, Some(&facts)).await.unwrap();
    let sent: Value = serde_json::from_str(server.requests()[4].split_once("\r\n\r\n").unwrap().1).unwrap();
    let message = format!("Ext-Broker: {}", caller.nonce.as_str());
    assert_eq!(sent, json!({ "merge_method": "squash", "sha": sha('c'), "commit_message": message }));

    let moved = merge.perform(session, Some(&facts)).await.unwrap_err();
    assert!(matches!(&moved, Failure::Guard(refusal) if refusal.code == Code::Guardrail), "{moved:?}");
    let refused = merge.perform(session, Some(&facts)).await.unwrap_err();
    assert!(matches!(&refused, Failure::Refused { message } if message.contains("Base branch")), "{refused:?}");
    let rebase = action::<MergePr>(&json!({ "number": 1, "method": "rebase" }));
    assert!(matches!(rebase.perform(session, Some(&facts)).await, Err(Failure::Unknown { .. })));
    assert!(!server.requests()[7].contains("commit_message"));
}

#[tokio::test]
async fn a_pull_request_is_not_closed_as_an_issue() {
    let issue = |extra: Value| Reply::ok(&json!({ "number": 1, "state": "open", "pull_request": extra }));
    let server = Scripted::new([issue(json!({ "url": "x" })), issue(json!(null))]);
    let caller = Caller::to(&server.base());
    let close = action::<close_issue::CloseIssue>(&json!({ "number": 1 }));
    for refused in [true, false] {
        let facts = close.facts(&caller.session(TIMEOUT), &shared().guardrails).await.unwrap();
        let verdict = close.guard(&shared().guardrails, Some(&facts));
        assert_eq!(matches!(verdict, Guard::Refuse(_)), refused, "{verdict:?}");
    }
}

#[tokio::test]
async fn a_review_comment_is_on_the_head_that_was_looked_up() {
    let server = Scripted::new([
        Reply::ok(&json!({ "number": 1, "head": { "sha": sha('e') } })),
        Reply::json(201, "", &json!({ "id": 9, "pull_request_url": "x", "html_url": "y" }).to_string()),
    ]);
    let caller = Caller::to(&server.base());
    let session = &caller.session(TIMEOUT);
    let comment = action::<comment_pr::CommentPr>(&json!({ "number": 1, "body": "b", "path": "src/a.rs", "line": 7 }));
    let facts = comment.facts(session, &shared().guardrails).await.unwrap();
    assert_eq!(comment.perform(session, Some(&facts)).await.unwrap().0.id, 9);
    let sent: Value = serde_json::from_str(server.requests()[1].split_once("\r\n\r\n").unwrap().1).unwrap();
    let body = format!("b\n\n<!-- ext-broker:{} -->", caller.nonce.as_str());
    assert_eq!(sent, json!({ "body": body, "commit_id": sha('e'), "path": "src/a.rs", "line": 7, "side": "RIGHT" }));
}

#[tokio::test]
async fn only_allowed_repositories_are_shown() {
    let repo = |name: &str| json!({ "full_name": name });
    let server =
        Scripted::new([Reply::ok(&json!([repo("mallory/x"), repo("Octocat/Hello-World"), repo("octocat/y")]))]);
    let list: list_repos::ListRepos = serde_json::from_value(json!({})).unwrap();
    let caller = Caller::to(&server.base());
    let (found, summary) = list.perform(&caller.session(TIMEOUT), &shared().guardrails).await.unwrap();
    let shown = serde_json::to_value(found).unwrap();
    assert_eq!(shown["repos"].as_array().unwrap().len(), 1);
    assert_eq!((&shown["repos"][0]["full_name"], &*summary), (&json!("Octocat/Hello-World"), "repositories: 1"));
}

#[tokio::test]
async fn a_pull_request_comes_with_a_summary_of_its_diff_and_without_patches() {
    let server = Scripted::new([
        Reply::ok(
            &json!({ "number": 1, "title": "T", "state": "open", "user": null, "changed_files": 2, "additions": 5, "body": null }),
        ),
        Reply::ok(
            &json!([{ "filename": "a.rs", "status": "added", "additions": 5, "deletions": 0, "patch": "@@ secret" }]),
        ),
    ]);
    let caller = Caller::to(&server.base());
    let (details, _) =
        action::<get_pr::GetPr>(&json!({ "number": 1 })).perform(&caller.session(TIMEOUT)).await.unwrap();
    assert_eq!(
        serde_json::to_value(details).unwrap(),
        json!({
            "pull_request": { "number": 1, "title": "T", "state": "open", "draft": false, "merged": false },
            "changed_files": 2, "additions": 5, "more_files": false,
            "files": [{ "path": "a.rs", "status": "added", "additions": 5, "deletions": 0 }],
        })
    );
}

#[tokio::test]
async fn every_changed_file_of_a_pull_request_is_reached_with_its_cursor() {
    let server = Scripted::by_path(|base, path| {
        if !path.contains("/files") {
            return Reply::ok(
                &json!({ "number": 1, "title": "T", "state": "open", "user": null, "changed_files": 120 }),
            );
        }
        let page = path.split_once("&page=").map_or(1, |(_, page)| page.parse().unwrap());
        let names = ((page - 1) * 50 + 1..=page * 50).filter(|n| *n <= 120);
        let files: Vec<Value> = names
            .map(|n| json!({ "filename": format!("{n}.rs"), "status": "added", "additions": 1, "deletions": 0 }))
            .collect();
        let next = format!("Link: <{base}/x?page={}>; rel=\"next\"\r\n", page + 1);
        Reply::json(200, if page < 3 { &next } else { "" }, &json!(files).to_string())
    });
    let caller = Caller::to(&server.base());
    let (mut found, mut params) = (Vec::new(), json!({ "number": 1 }));
    loop {
        let read = action::<get_pr::GetPr>(&params).perform(&caller.session(TIMEOUT)).await.unwrap().0;
        let read = serde_json::to_value(read).unwrap();
        found.extend(read["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()));
        assert_eq!(read["more_files"], read.get("cursor").is_some());
        let Some(cursor) = read.get("cursor") else { break };
        params["cursor"] = cursor.clone();
    }
    assert_eq!(found, (1..=120).map(|n| format!("{n}.rs")).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_accepted_write_with_an_odd_answer_is_an_unknown_outcome() {
    let odd = [json!([]), json!(null), json!({ "id": 1, "message": "hello" }), json!([{ "number": 1 }])];
    let server = Scripted::new(odd.iter().map(Reply::ok));
    let caller = Caller::to(&server.base());
    for _ in &odd {
        let outcome =
            action::<create_issue::CreateIssue>(&json!({ "title": "x" })).perform(&caller.session(TIMEOUT), None).await;
        assert!(matches!(outcome, Err(Failure::Unknown { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn settings_that_are_wrong_stop_the_provider_and_not_the_broker() {
    assert!(serde_json::from_value::<Settings>(json!({ "repo": [] })).is_err());
    assert_eq!(serde_json::from_value::<Settings>(json!({})).unwrap(), Settings::default());
    assert_eq!(Settings::default().repos, Vec::<String>::new());
    let fault = |settings| {
        operations(
            &"github".parse().unwrap(),
            settings,
            Identity::Token(Some(Arc::new(Secret::new(TOKEN.into())))),
            Arc::new(Fixed),
        )
        .err()
    };
    let base = fault(Settings { base_url: "http://api.github.com".into(), ..settings() });
    assert!(matches!(&base, Some(SetupError::BaseUrl(_))), "{base:?}");
    assert!(matches!(fault(Settings { repos: vec!["octocat".into()], ..settings() }), Some(SetupError::Guardrail(_))));
}

/// Attack (Providers and modules): A search for code names other repositories.
/// Defence: `provider_github::search_code`: the text is quoted, and each file must be of the
/// repository.
#[tokio::test]
async fn a_search_stays_in_its_repository() {
    for text in ["a\" repo:mallory/x \"", "a\\", "a\nb"] {
        let verdict = parsed("search_code", &json!({ "text": text })).ok().unwrap().guard(NOW);
        assert!(matches!(&verdict, Guard::Refuse(r) if r.code == Code::Guardrail), "{text}: {verdict:?}");
    }
    let found = |repo: &str| {
        Reply::ok(&json!({ "total_count": 45, "incomplete_results": false, "items": [
            { "path": "src/a.rs", "html_url": "u", "repository": { "full_name": repo } }] }))
    };
    let server = Scripted::new([found("Octocat/Hello-World"), found("mallory/x")]);
    let caller = Caller::to(&server.base());
    let search: search_code::SearchCode = action(&json!({ "text": "std::fs repo:mallory/x", "extension": "rs" }));
    let (found, _) = search.perform(&caller.session(TIMEOUT)).await.unwrap();
    let found = serde_json::to_value(found).unwrap();
    assert_eq!((&found["files"][0]["path"], &found["next_page"]), (&json!("src/a.rs"), &json!(2)));
    assert_eq!(
        server.lines()[0],
        "GET /search/code?q=%22std%3A%3Afs%20repo%3Amallory%2Fx%22%20repo%3Aoctocat%2Fhello-world%20extension%3Ars\
         &per_page=20&page=1"
    );
    let elsewhere = search.perform(&caller.session(TIMEOUT)).await.unwrap_err();
    assert!(matches!(elsewhere, Failure::Refused { .. }), "{elsewhere:?}");
}

#[tokio::test]
async fn a_file_comes_in_parts_that_end_between_characters() {
    // GitHub breaks its base64 into lines.
    let answer = |bytes: &[u8]| {
        let lines: Vec<String> = BASE64_STANDARD
            .encode(bytes)
            .as_bytes()
            .chunks(60)
            .map(|line| String::from_utf8_lossy(line).into())
            .collect();
        Reply::ok(
            &json!({ "type": "file", "encoding": "base64", "size": bytes.len(), "sha": sha('a'), "content": lines.join("\n") }),
        )
    };
    let text = format!("x{}", "ü".repeat(100_000));
    let binary = [0xff, 0xfe, 0x00];
    let server = Scripted::new([
        answer(text.as_bytes()),
        answer(text.as_bytes()),
        answer(&binary),
        Reply::ok(&json!({ "type": "file", "encoding": "none", "size": 2_000_000, "content": "" })),
        Reply::ok(&json!({ "type": "symlink", "target": "/etc/passwd" })),
        Reply::ok(&json!([{ "path": "src", "type": "dir", "size": 0 }, { "path": "a.rs", "type": "file", "size": 3 }])),
        answer(b"short"),
        answer(&b"a\0".repeat(64 * 1024)),
    ]);
    let caller = Caller::to(&server.base());
    let session = &caller.session(TIMEOUT);
    let read = async |params: Value| action::<get_file::GetFile>(&params).perform(session).await;
    let first = serde_json::to_value(read(json!({ "path": "a b/ü.txt", "ref": "v1.0" })).await.unwrap().0).unwrap();
    let offset = first["next_offset"].as_u64().unwrap();
    let rest = serde_json::to_value(read(json!({ "path": "a", "offset": offset })).await.unwrap().0).unwrap();
    assert_eq!(format!("{}{}", first["text"].as_str().unwrap(), rest["text"].as_str().unwrap()), text);
    assert_eq!(rest.get("next_offset"), None);
    assert_eq!(server.lines()[0], "GET /repos/octocat/hello-world/contents/a%20b/%C3%BC.txt?ref=v1.0");
    let bytes = serde_json::to_value(read(json!({ "path": "b" })).await.unwrap().0).unwrap();
    assert_eq!((bytes.get("text"), &bytes["base64"]), (None, &json!(BASE64_STANDARD.encode(binary))));
    for said in ["more than 1 MiB", "no content of its own"] {
        let refused = read(json!({ "path": "c" })).await.unwrap_err();
        assert!(matches!(&refused, Failure::Refused { message } if message.contains(said)), "{refused:?}");
    }
    let directory = serde_json::to_value(read(json!({})).await.unwrap().0).unwrap();
    assert_eq!(directory["entries"][0], json!({ "path": "src", "kind": "dir", "size": 0 }));
    let behind = read(json!({ "path": "d", "offset": 6 })).await.unwrap_err();
    assert!(matches!(&behind, Failure::Refused { message } if message.contains("past the end")), "{behind:?}");
    // In JSON, this text is more than three times as long.
    let escaped = serde_json::to_value(read(json!({ "path": "e" })).await.unwrap().0).unwrap();
    assert_eq!(
        escaped["next_offset"].as_u64().unwrap(),
        u64::try_from(escaped["text"].as_str().unwrap().len()).unwrap()
    );
    assert!(escaped.to_string().len() < 256 * 1024);
    for name in ["pull/7/head", "PULL/7/merge"] {
        let verdict = parsed("get_file", &json!({ "ref": name })).ok().unwrap().guard(NOW);
        assert!(matches!(&verdict, Guard::Refuse(_)), "{name}: {verdict:?}");
    }
}

#[tokio::test]
async fn the_checks_of_a_pull_request_are_those_of_its_head() {
    let server = Scripted::new([
        Reply::ok(&json!({ "head": { "sha": sha('c') }, "base": { "repo": { "full_name": "octocat/hello-world" } } })),
        Reply::ok(
            &json!({ "total_count": 1, "statuses": [{ "context": "ci/old", "state": "pending", "target_url": "u" }] }),
        ),
        Reply::ok(&json!({ "total_count": 150, "check_runs": [
            { "name": "build", "status": "completed", "conclusion": "failure", "output": { "title": "2 errors" } },
            { "name": "test", "status": "in_progress", "conclusion": null }] })),
    ]);
    let caller = Caller::to(&server.base());
    let read = action::<get_pr_checks::GetPrChecks>(&json!({ "number": 1 }));
    let checks = serde_json::to_value(read.perform(&caller.session(TIMEOUT)).await.unwrap().0).unwrap();
    let expected = json!([
        { "name": "ci/old", "state": "pending", "url": "u" },
        { "name": "build", "state": "failure", "description": "2 errors" },
        { "name": "test", "state": "in_progress" },
    ]);
    assert_eq!((&checks["checks"], &checks["more"], &checks["head_sha"]), (&expected, &json!(true), &json!(sha('c'))));
}

/// Attack (Providers and modules): A pull request from a fork or from `main` makes the broker push
/// there. A base that nobody reviewed is merged so.
/// Defence: `provider_github::update_branch`: only branches of the repository that are neither
/// default nor production, and only from the default or a production branch.
#[tokio::test]
async fn a_branch_is_updated_only_where_a_push_would_be_allowed() {
    let pull_request = |head: Value, state: &str| {
        let onto = if head["ref"] == "onto-topic" { "topic" } else { "trunk" };
        let base = json!({ "ref": onto, "repo": { "full_name": "octocat/hello-world", "default_branch": "trunk" } });
        Reply::ok(&json!({ "state": state, "head": head, "base": base }))
    };
    let head = |name: &str, repo: &str| json!({ "ref": name, "sha": sha('e'), "repo": { "full_name": repo } });
    let own = "octocat/hello-world";
    let heads = [
        (head("topic", own), "open", None),
        (head("topic", own), "closed", Some("it is not open")),
        (head("topic", "mallory/hello-world"), "open", Some("its head branch is in another repository")),
        (
            json!({ "ref": "topic", "sha": sha('e'), "repo": null }),
            "open",
            Some("its head branch is in another repository"),
        ),
        (head("trunk", own), "open", Some("its head branch is the default branch, main or master")),
        (head("Master", own), "open", Some("its head branch is the default branch, main or master")),
        (head("release/1", own), "open", Some("its head branch is a production branch")),
        (head("a..b", own), "open", Some("its head branch has an unusual name")),
        (
            head("onto-topic", own),
            "open",
            Some("its base branch is neither the default branch nor a production branch"),
        ),
    ];
    let server =
        Scripted::new(heads.iter().map(|(head, state, _)| pull_request(head.clone(), state)).chain([
            Reply::json(202, "", r#"{"message":"Updating pull request branch.","url":"https://api.github.com/repos/octocat/hello-world/pulls/1"}"#),
            Reply::json(202, "", r#"{"message":"hello"}"#),
        ]));
    let caller = Caller::to(&server.base());
    let session = &caller.session(TIMEOUT);
    let update = action::<update_branch::UpdateBranch>(&json!({ "number": 1 }));
    let mut first = None;
    for (_, _, expected) in &heads {
        let facts = update.facts(session, &shared().guardrails).await.unwrap();
        match (update.guard(&shared().guardrails, Some(&facts)), expected) {
            (Guard::Pass, None) => first = Some(facts),
            (Guard::Refuse(refusal), Some(reason)) => assert!(refusal.reason.contains(reason), "{}", refusal.reason),
            (verdict, expected) => panic!("{verdict:?} {expected:?}"),
        }
    }
    let first = first.unwrap();
    update.perform(session, Some(&first)).await.unwrap();
    let sent = server.requests()[heads.len()].clone();
    assert!(sent.starts_with("PUT /repos/octocat/hello-world/pulls/1/update-branch HTTP/1.1"), "{sent}");
    assert!(sent.ends_with(&json!({ "expected_head_sha": sha('e') }).to_string()), "{sent}");
    assert!(matches!(update.perform(session, Some(&first)).await, Err(Failure::Unknown { .. })));
}

#[tokio::test]
async fn labels_count_as_added_when_github_lists_them() {
    let labels =
        |names: &[&str]| Reply::ok(&json!(names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>()));
    let server = Scripted::new([labels(&["old", "Bug"]), labels(&["old"])]);
    let caller = Caller::to(&server.base());
    let add = action::<add_labels::AddLabels>(&json!({ "number": 1, "labels": ["bug"] }));
    let (added, _) = add.perform(&caller.session(TIMEOUT), None).await.unwrap();
    assert_eq!(serde_json::to_value(added).unwrap()["labels"], json!(["bug"]), "labels of others are their text");
    assert!(matches!(add.perform(&caller.session(TIMEOUT), None).await, Err(Failure::Unknown { .. })));
}

#[tokio::test]
async fn a_review_is_asked_of_somebody() {
    let verdict = parsed("request_review", &json!({ "reviewers": [] })).ok().unwrap().guard(NOW);
    assert!(matches!(&verdict, Guard::Refuse(r) if r.reason.contains("a person or a team")), "{verdict:?}");
}
