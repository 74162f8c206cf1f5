//! The sealed request is the sent request: for every write, byte for byte.

use crate::action_tests::{action, catalogue, fitting, settings, sha};
use crate::client::Session;
use crate::merge_pr::{Facts, MergePr};
use crate::nonce::Mark;
use crate::params::Repo;
use crate::scripted::{Caller, Fixed, Reply, Scripted, TIMEOUT, TOKEN};
use crate::write::Write;
use crate::{
    Github, Identity, Settings, add_labels, close_issue, comment_issue, comment_pr, create_branch, create_issue,
    create_pr, operations, request_review,
};
use model::card::Card;
use model::{Nonce, SealedRequest};
use platform::random::SystemRandom;
use provider::contract::Failure;
use secrets::Secret;
use serde_json::{Value, json};
use shared::{Code, Level};
use std::sync::Arc;
use tokio::time::Instant;

/// A server, the provider that speaks to it, and a call's nonce.
struct Bench {
    server: Scripted,
    github: Github,
    nonce: Nonce,
}

impl Bench {
    fn new() -> Self {
        let server = Scripted::new([]);
        let settings = Settings { base_url: format!("{}/api/v3", server.base()), ..settings() };
        let token = Identity::Token(Some(Arc::new(Secret::new(TOKEN.into()))));
        let github = Github::new(settings, token, Arc::new(Fixed)).unwrap();
        Self { server, github, nonce: Nonce::fresh(&SystemRandom).unwrap() }
    }

    fn seal<A: Write>(&self, action: &A, facts: Option<&A::Facts>) -> SealedRequest {
        self.github.client.seal(&action.change(facts, Mark::of(&self.nonce)).unwrap(), &self.nonce)
    }

    fn session<'a>(&'a self, agreed: Option<&'a SealedRequest>) -> Session<'a> {
        let deadline = Instant::now() + TIMEOUT;
        Session::open(&self.github.client, TOKEN, deadline, &self.nonce).unwrap().bound_to(agreed)
    }

    /// Performs the write called `name`, for which a person was shown `agreed`.
    ///
    /// Returns the sealed request and the failure, which it has because the server refuses everything.
    async fn perform(&self, name: &str, agreed: Option<&SealedRequest>) -> (SealedRequest, Option<Failure>) {
        let session = &self.session(agreed);
        let on_line = json!({ "number": 1, "body": "Text", "path": "src/a.rs", "line": 7 });
        let merge = |how: &str| action::<MergePr>(&json!({ "number": 1, "method": how }));
        match name {
            "create_issue" => {
                let it: create_issue::CreateIssue =
                    action(&json!({ "title": "A \"title\"\n", "body": "Text", "labels": ["bug", "ü"] }));
                (self.seal(&it, None), it.perform(session, None).await.err())
            }
            "comment_issue" => {
                let it: comment_issue::CommentIssue = action(&json!({ "number": 1, "body": "Text" }));
                (self.seal(&it, None), it.perform(session, None).await.err())
            }
            "close_issue" => {
                let it: close_issue::CloseIssue = action(&json!({ "number": 1 }));
                (self.seal(&it, None), it.perform(session, None).await.err())
            }
            "create_branch" => {
                let it: create_branch::CreateBranch = action(&json!({ "branch": "topic/x" }));
                let facts = create_branch::Facts { default_branch: "main".into(), sha: sha('b') };
                (self.seal(&it, Some(&facts)), it.perform(session, Some(&facts)).await.err())
            }
            "create_pr" => {
                let it: create_pr::CreatePr =
                    action(&json!({ "title": "Title", "head": "fork:topic", "base": "main", "draft": true }));
                (self.seal(&it, None), it.perform(session, None).await.err())
            }
            "comment_pr" => {
                let it: comment_pr::CommentPr = action(&json!({ "number": 1, "body": "Text" }));
                (self.seal(&it, None), it.perform(session, None).await.err())
            }
            "comment_pr on a line" => {
                let it: comment_pr::CommentPr = action(&on_line);
                let facts = comment_pr::Facts { head_sha: sha('c') };
                (self.seal(&it, Some(&facts)), it.perform(session, Some(&facts)).await.err())
            }
            "add_labels" => {
                let it: add_labels::AddLabels = action(&json!({ "number": 1, "labels": ["bug", "ü"] }));
                (self.seal(&it, None), it.perform(session, None).await.err())
            }
            "request_review" => {
                let it: request_review::RequestReview =
                    action(&json!({ "number": 1, "reviewers": ["hubot"], "teams": ["core"] }));
                (self.seal(&it, None), it.perform(session, None).await.err())
            }
            "merge_pr, merge" | "merge_pr, squash" | "merge_pr, rebase" => {
                let it = merge(name.trim_start_matches("merge_pr, "));
                let facts = checked("A change", 'd').await;
                (self.seal(&it, Some(&facts)), it.perform(session, Some(&facts)).await.err())
            }
            other => panic!("{other}"),
        }
    }
}

/// A pull request as it is found.
async fn checked(title: &str, head: char) -> Facts {
    let base = json!({ "ref": "main", "repo": { "full_name": "octocat/hello-world" } });
    let found =
        json!({ "state": "open", "title": title, "base": base, "head": { "sha": sha(head) }, "mergeable": true });
    let server = Scripted::new([Reply::ok(&found)]);
    let caller = Caller::to(&server.base());
    let (owner, name) = (&"octocat".parse().unwrap(), &"hello-world".parse().unwrap());
    Facts::fetch(&caller.session(TIMEOUT), Repo { owner, name }, 1.try_into().unwrap(), false).await.unwrap()
}

const WRITES: [&str; 12] = [
    "add_labels",
    "request_review",
    "create_issue",
    "comment_issue",
    "close_issue",
    "create_branch",
    "create_pr",
    "comment_pr",
    "comment_pr on a line",
    "merge_pr, merge",
    "merge_pr, squash",
    "merge_pr, rebase",
];

/// Nothing of the effect can hold the mark.
const UNMARKED: [&str; 5] = ["close_issue", "create_branch", "merge_pr, rebase", "add_labels", "request_review"];

/// Attack: see `writes_leave_byte_for_byte_as_the_card_shows_them`.
#[tokio::test]
async fn every_write_sends_the_very_bytes_that_were_sealed() {
    for name in WRITES {
        let bench = Bench::new();
        let (sealed, _) = bench.perform(name, None).await;
        let (again, _) = bench.perform(name, Some(&sealed)).await;
        assert_eq!(again, sealed, "{name}: to seal is pure");
        let requests = bench.server.requests();
        assert_eq!(requests.len(), 2, "{name}");
        for request in requests {
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert_eq!(body, sealed.body, "{name}");
            let mut lines: Vec<&str> = head.lines().collect();
            let path = sealed.url.strip_prefix(&bench.server.base()).unwrap();
            assert!(path.starts_with("/api/v3/repos/octocat/hello-world/"), "{path}");
            assert_eq!(lines.remove(0), format!("{} {path} HTTP/1.1", sealed.method), "{name}");
            for (header, value) in &sealed.headers {
                let line = format!("{header}: {value}");
                let place = lines.iter().position(|found| *found == line).unwrap_or_else(|| panic!("{line} in {head}"));
                lines.remove(place);
            }
            // The rest is HTTP's, the client's name, and the credential.
            let mut left: Vec<&str> = lines.iter().filter_map(|line| line.split(':').next()).collect();
            left.sort_unstable();
            assert_eq!(left, ["authorization", "content-length", "host", "user-agent"], "{name}");
        }
        let stored = serde_json::to_string(&sealed).unwrap();
        assert!(!stored.contains(TOKEN) && !stored.to_lowercase().contains("authorization"), "{name}");
    }
}

/// Attack: see `writes_leave_byte_for_byte_as_the_card_shows_them`.
#[tokio::test]
async fn the_card_of_a_write_shows_every_field_that_is_sent_and_the_mark() {
    for name in WRITES {
        let bench = Bench::new();
        let (sealed, _) = bench.perform(name, None).await;
        let mut card = Card::new();
        assert!(card.sends(&sealed));
        let mut expected = vec![format!("request: \"{} {}\"", sealed.method, sealed.url)];
        expected.extend(sealed.headers.iter().map(|(header, value)| format!("header.{header}: \"{value}\"")));
        let body: Value = serde_json::from_str(&sealed.body).unwrap();
        let fields = body.as_object().unwrap();
        let mut names: Vec<&String> = fields.keys().collect();
        names.sort();
        for field in names {
            match fields[field].as_array() {
                Some(items) if !items.is_empty() => {
                    let each = items.iter().enumerate();
                    expected.extend(each.map(|(index, item)| format!("body.{field}[{index}]: {item}")));
                }
                Some(_) | None => expected.push(format!("body.{field}: {}", fields[field])),
            }
        }
        let shown: Vec<String> = card.sent.iter().map(|line| format!("{}: {}", line.field, line.value)).collect();
        assert_eq!(shown, expected, "{name}");
        let text = card.text().replace("\n    ¦ ", "");
        assert_eq!(text.contains(bench.nonce.as_str()), !UNMARKED.contains(&name), "{name}: {text}");
        assert!(text.starts_with("Request to be sent:\n  > request: "), "{text}");
    }
}

/// Attack: see `a_sealed_request_that_is_changed_after_the_yes_is_not_sent`.
#[tokio::test]
async fn a_write_that_is_not_the_one_that_was_shown_does_not_leave() {
    for name in WRITES {
        let bench = Bench::new();
        let (sealed, _) = bench.perform(name, None).await;
        let sent = bench.server.requests().len();
        let mut headers = sealed.headers.clone();
        headers.reverse();
        for agreed in [
            SealedRequest { nonce: Nonce::fresh(&SystemRandom).unwrap(), ..sealed.clone() },
            SealedRequest { method: "DELETE".into(), ..sealed.clone() },
            SealedRequest { url: sealed.url.replace("hello-world", "other"), ..sealed.clone() },
            SealedRequest { url: sealed.url.replace("127.0.0.1", "localhost"), ..sealed.clone() },
            SealedRequest { headers, ..sealed.clone() },
            SealedRequest { body: sealed.body.replace(':', ": "), ..sealed.clone() },
        ] {
            let (_, failure) = bench.perform(name, Some(&agreed)).await;
            assert!(matches!(&failure, Some(Failure::Guard(no)) if no.code == Code::ApprovalRequired), "{failure:?}");
        }
        assert_eq!(bench.server.requests().len(), sent, "{name}");
    }
}

/// Attack: see `a_head_that_moved_after_the_question_is_not_what_was_agreed_to`.
#[tokio::test]
async fn other_facts_and_another_nonce_seal_another_request() {
    let bench = Bench::new();
    let merge = action::<MergePr>(&json!({ "number": 1, "method": "merge" }));
    let seal = |facts: Facts| bench.seal(&merge, Some(&facts));
    let sealed = seal(checked("A change", 'a').await);
    assert_eq!(sealed, seal(checked("A change", 'a').await));
    assert_ne!(sealed.body, seal(checked("A change", 'b').await).body);
    assert_ne!(sealed.body, seal(checked("Another change", 'a').await).body);
    assert!(merge.change(None, Mark::of(&bench.nonce)).is_none(), "nothing is sealed before the head is known");
    let other = Bench::new();
    assert_ne!(other.seal(&merge, Some(&checked("A change", 'a').await)).body, sealed.body);
}

#[tokio::test]
async fn every_write_of_the_catalogue_seals_and_no_read_does() {
    let nonce = Nonce::fresh(&SystemRandom).unwrap();
    for operation in catalogue() {
        let declared = operation.declaration();
        let name = declared.action.as_str();
        let sealed = operation.parse(&fitting(name, "octocat")).unwrap().seal(&nonce);
        // The commit belongs into these, and is not known yet.
        let waits = ["create_branch", "comment_pr", "update_branch", "merge_pr"].contains(&name);
        assert_eq!(sealed.is_some(), declared.level > Level::Read && !waits, "{name}");
    }
}

#[tokio::test]
async fn where_marks_are_switched_off_nothing_of_the_broker_is_sent() {
    let settings = Settings { unmarked: vec!["Octocat/Hello-World".into()], ..settings() };
    let token = Identity::Token(Some(Arc::new(Secret::new(TOKEN.into()))));
    let all = operations(&"github".parse().unwrap(), settings, token, Arc::new(Fixed)).unwrap();
    let nonce = Nonce::fresh(&SystemRandom).unwrap();
    for name in ["create_issue", "comment_issue", "create_pr"] {
        let operation = all.iter().find(|operation| operation.declaration().action.as_str() == name).unwrap();
        let sealed = operation.parse(&fitting(name, "octocat")).unwrap().seal(&nonce).unwrap();
        assert!(
            !sealed.body.contains(nonce.as_str()) && !sealed.body.contains("ext-broker"),
            "{name}: {}",
            sealed.body
        );
    }
    let merge: MergePr = action(&json!({ "number": 1, "method": "squash" }));
    let change = merge.change(Some(&checked("A change", 'd').await), Mark::none()).unwrap();
    assert_eq!(change.body, json!({ "merge_method": "squash", "sha": sha('d') }), "the message is GitHub's own");
}
