//! The actions' requirements, refusals, requests and results.

use crate::merge_pr::{Facts, MergePr};
use crate::params::Repo;
use crate::read::Read;
use crate::scripted::{Caller, Fixed, NOW, Reply, Scripted, TIMEOUT, TOKEN};
use crate::write::Write;
use crate::{
    Github, Settings, SetupError, close_issue, comment_pr, create_branch, create_issue, get_issue, get_pr, get_repo,
    list_repos, operations,
};
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
    operations(&"github".parse().unwrap(), settings(), Some(Arc::new(Secret::new(TOKEN.into()))), Arc::new(Fixed))
        .unwrap()
}

fn shared() -> Github {
    Github::new(settings(), Some(Arc::new(Secret::new(TOKEN.into()))), Arc::new(Fixed)).unwrap()
}

/// Parameters that fit each action, for a repository.
pub(super) fn fitting(action: &str, owner: &str) -> Map<String, Value> {
    let mut params = match action {
        "list_repos" => return Map::new(),
        "get_issue" | "get_pr" | "get_pr_comments" | "close_issue" => json!({ "number": 1 }),
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
        ("create_issue", Level::Write),
        ("comment_issue", Level::Write),
        ("close_issue", Level::Write),
        ("create_branch", Level::Write),
        ("create_pr", Level::Write),
        ("comment_pr", Level::Write),
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
        let remote = ["close_issue", "create_branch", "comment_pr", "merge_pr"].contains(&name);
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
        operations(&"github".parse().unwrap(), settings, Some(Arc::new(Secret::new(TOKEN.into()))), Arc::new(Fixed))
            .err()
    };
    let base = fault(Settings { base_url: "http://api.github.com".into(), ..settings() });
    assert!(matches!(&base, Some(SetupError::BaseUrl(_))), "{base:?}");
    assert!(matches!(fault(Settings { repos: vec!["octocat".into()], ..settings() }), Some(SetupError::Guardrail(_))));
}
