//! Conflicts: a change that a decision permits once states its condition again in its own statement.
//!
//! The decision read the row before. A second broker can have spent it since. Then the statement changes no row, which
//! is an error, and the intent is not written.

use super::world::{CALLER, Home, START, append, commit};
use model::approval::{Answered, ApprovalState, NewApproval, SubjectKind};
use model::card::Card;
use shared::digest::Digest;
use shared::{Level, RequestId, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;
use store::ledger::chain::RowKind;
use store::state::approvals;
use store::state::counters;
use store::state::counters::Counter;
use store::state::external_grants;
use store::state::external_grants::{Access, Issued};
use store::state::gates;
use store::state::idempotency;
use store::state::idempotency::ClaimKey;
use store::state::intents;
use store::state::intents::OpenIntent;
use store::state::proposals;
use store::state::proposals::NewProposal;
use store::state::shared_quotas;
use store::{Store, StoreError, Transaction, View};

fn id(name: &str) -> RequestId {
    name.parse().unwrap()
}

fn is_conflict<T: std::fmt::Debug>(result: &Result<T, StoreError>, what: &str) -> bool {
    matches!(result, Err(StoreError::Conflict { what: found }) if *found == what)
}

/// Stores an approval request in this state.
pub(super) fn ask(tx: &Transaction<'_>, name: &str, code: &str, state: ApprovalState) -> Result<i64, StoreError> {
    let asked = append(tx, RowKind::Asked)?;
    approvals::ask(
        tx,
        &NewApproval {
            code,
            kind: SubjectKind::Call,
            state,
            caller: CALLER,
            group: None,
            request_id: &id(name),
            reply_as: None,
            provider: &"mock".parse().unwrap(),
            action: &"write".parse().unwrap(),
            level: Level::Write,
            document: None,
            person: None,
            digest: Digest::of(b"approved"),
            quorum: 1,
            asked_seq: asked.seq,
            expires_at: Timestamp::from_millis(START + 60_000),
            reply_by: Timestamp::from_millis(START + 30_000),
            asks: &BTreeSet::new(),
            others: &BTreeSet::new(),
            standing: None,
            card: &Card::new(),
        },
    )
}

/// An external grant for so many calls.
pub(super) fn external_grant(home: &Home, most: u32) -> Access {
    Access {
        grant_id: external_grants::fresh_id(&home.ids).unwrap(),
        vault: "default".parse().unwrap(),
        scope: shared::flow::Scope::Org,
        flow_id: "flow_x".parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
        tools: Vec::new(),
        actor: Digest::of(b"agent"),
        issued_by: "person:ann".to_owned(),
        issued_at: Timestamp::from_millis(START),
        expires_at: Timestamp::from_millis(START + 600_000),
        revoked_at: None,
        max_invocations: most,
        invocations: 0,
    }
}

fn answer(by: &str) -> Answered {
    Answered {
        by: by.to_owned(),
        channel: "cli".to_owned(),
        yes: true,
        reason: None,
        at: Timestamp::from_millis(START),
    }
}

#[test]
fn an_approval_is_resolved_once_spent_once_and_told_once() {
    let home = Home::new();
    let mut store = home.store();
    let approval = commit(&mut store, |tx| ask(tx, "r-1", "aaaaaa", ApprovalState::Waiting)).unwrap();
    let early = commit(&mut store, |tx| approvals::spend(tx, approval));
    assert!(is_conflict(&early, "approval"), "nobody has approved it: {early:?}");
    commit(&mut store, |tx| approvals::resolve(tx, approval, ApprovalState::Approved)).unwrap();
    let twice = commit(&mut store, |tx| approvals::resolve(tx, approval, ApprovalState::Closed));
    assert!(is_conflict(&twice, "approval"), "{twice:?}");
    commit(&mut store, |tx| approvals::spend(tx, approval)).unwrap();
    let twice = commit(&mut store, |tx| approvals::spend(tx, approval));
    assert!(is_conflict(&twice, "approval"), "{twice:?}");
    commit(&mut store, |tx| approvals::tell(tx, approval)).unwrap();
    let twice = commit(&mut store, |tx| approvals::tell(tx, approval));
    assert!(is_conflict(&twice, "approval"), "{twice:?}");
}

#[test]
fn a_code_is_used_once_and_an_approver_answers_once() {
    let home = Home::new();
    let mut store = home.store();
    let approval = commit(&mut store, |tx| ask(tx, "r-1", "aaaaaa", ApprovalState::Waiting)).unwrap();
    let again = commit(&mut store, |tx| ask(tx, "r-2", "aaaaaa", ApprovalState::Waiting));
    assert!(again.is_err(), "{again:?}");
    let answered = |store: &mut Store, by: &str| commit(store, |tx| approvals::answer(tx, approval, &answer(by)));
    assert!(answered(&mut store, "person:ann").unwrap());
    assert!(!answered(&mut store, "person:ann").unwrap());
    assert!(answered(&mut store, "person:bob").unwrap());
    assert_eq!(approvals::answers(store.view(), approval).unwrap().len(), 2);
}

#[test]
fn a_gate_approval_permits_one_intent() {
    let home = Home::new();
    let mut store = home.store();
    let (task, gate) = ("gov-1".parse().unwrap(), "Security".parse().unwrap());
    let opened = commit(&mut store, |tx| {
        assert!(gates::create(tx, &super::world::task("gov-1"))?);
        gates::approve(tx, &task, &gate, "person:ann")
    });
    assert!(opened.unwrap());
    let unspent = gates::unspent(store.view(), &task, &gate, (CALLER, 1)).unwrap();
    assert_eq!(unspent.len(), 1);
    commit(&mut store, |tx| gates::spend(tx, &unspent, 1)).unwrap();
    let twice = commit(&mut store, |tx| gates::spend(tx, &unspent, 2));
    assert!(is_conflict(&twice, "gate approval"), "{twice:?}");
    assert!(gates::unspent(store.view(), &task, &gate, (CALLER, 1)).unwrap().is_empty());
}

#[test]
fn a_proposal_is_applied_by_one_request() {
    let home = Home::new();
    let mut store = home.store();
    let approval = commit(&mut store, |tx| {
        let approval = ask(tx, "hidden", "aaaaaa", ApprovalState::Approved)?;
        let proposal = NewProposal {
            id: &model::ProposalId::of([7; 16]),
            approval,
            caller: CALLER,
            proposed_by: &id("r-1"),
            path: "a.txt",
            summary: "change a.txt",
            patch_hash: Digest::of(b"diff"),
            until: Timestamp::from_millis(START + 60_000),
            changes: b"[]",
            diff: "",
            is_revert: false,
        };
        proposals::put(tx, &proposal)?;
        Ok(approval)
    })
    .unwrap();
    commit(&mut store, |tx| proposals::begin(tx, approval, &id("r-2"))).unwrap();
    let twice = commit(&mut store, |tx| proposals::begin(tx, approval, &id("r-3")));
    assert!(is_conflict(&twice, "proposal"), "{twice:?}");
}

#[test]
fn an_idempotency_key_has_one_holder_for_each_owner() {
    let home = Home::new();
    let mut store = home.store();
    let (provider, action) = ("mock".parse().unwrap(), "write".parse().unwrap());
    let key = |person| ClaimKey { caller: CALLER, person, account: "", provider: &provider, action: &action, key: "k" };
    let claim = |store: &mut Store, person, name: &str, seq| {
        commit(store, |tx| idempotency::claim(tx, &key(person), (&id(name), &Digest::of(b"params")), seq))
    };
    claim(&mut store, None, "r-1", 1).unwrap();
    assert!(claim(&mut store, None, "r-2", 2).is_err());
    claim(&mut store, Some("broker:ann"), "r-3", 3).unwrap();
    let holder = |store: &Store, person| idempotency::claimed(store.view(), &key(person)).unwrap().unwrap().request_id;
    assert_eq!(holder(&store, None), id("r-1"));
    assert_eq!(holder(&store, Some("broker:ann")), id("r-3"));
}

#[test]
fn an_intent_is_opened_once_and_closed_once() {
    let home = Home::new();
    let mut store = home.store();
    let request = id("r-1");
    let intent = |seq| OpenIntent {
        seq,
        caller: CALLER,
        request_id: &request,
        stage: "run",
        mutating: true,
        nonce: "n",
        handle: None,
    };
    commit(&mut store, |tx| intents::open(tx, &intent(1))).unwrap();
    assert!(commit(&mut store, |tx| intents::open(tx, &intent(1))).is_err());
    let closed = commit(&mut store, |tx| intents::close(tx, CALLER, 1)).unwrap();
    assert_eq!((closed.request_id, closed.mutating), (id("r-1"), true));
    assert!(commit(&mut store, |tx| intents::close(tx, CALLER, 1)).is_err());
}

#[test]
fn a_bucket_holds_a_minute_of_calls_and_empties_steadily() {
    let home = Home::new();
    let mut store = home.store();
    let counter = Counter { counted_as: CALLER, provider: "mock", scope: "read" };
    let mut fill = |times: usize| {
        (0..times).map(|_| commit(&mut store, |tx| counters::fill(tx, &counter, 6))).take_while(Result::is_ok).count()
    };
    assert_eq!(fill(10), 6);
    home.wait(Duration::from_secs(20));
    assert_eq!(fill(10), 2);
    home.wait(Duration::from_secs(3_600));
    assert_eq!(fill(10), 6);
    let refused = commit(&mut store, |tx| counters::fill(tx, &counter, 6));
    assert!(is_conflict(&refused, "rate"), "{refused:?}");
}

#[test]
fn a_quota_is_used_up_and_begins_again_with_the_day() {
    let home = Home::new();
    let mut store = home.store();
    let counter = Counter { counted_as: CALLER, provider: "mock", scope: "amount:write" };
    let mut use_up = |uses, most| commit(&mut store, |tx| counters::use_up(tx, &counter, uses, most));
    let first = use_up(11, Some(10));
    assert!(is_conflict(&first, "quota"), "more than the whole quota: {first:?}");
    assert_eq!(use_up(7, Some(10)).unwrap(), 7);
    let over = use_up(4, Some(10));
    assert!(is_conflict(&over, "quota"), "{over:?}");
    assert_eq!(use_up(3, Some(10)).unwrap(), 10);
    assert_eq!(use_up(5, None).unwrap(), 15, "a soft quota only counts");
    home.wait(Duration::from_secs(24 * 3_600));
    assert_eq!(use_up(10, Some(10)).unwrap(), 10);
}

#[test]
fn an_external_grant_permits_so_many_calls_until_it_is_revoked() {
    let home = Home::new();
    let mut store = home.store();
    for (most, permits) in [(2, 2), (0, 5)] {
        let grant = external_grant(&home, most);
        let bearer = Digest::of(grant.grant_id.as_str().as_bytes());
        let issued = commit(&mut store, |tx| external_grants::issue(tx, &grant, &bearer)).unwrap();
        assert_eq!(issued, Issued::Stored);
        let mut spend = || commit(&mut store, |tx| external_grants::spend(tx, &grant.grant_id));
        assert_eq!((0..5).map(|_| spend()).take_while(Result::is_ok).count(), permits);
        commit(&mut store, |tx| external_grants::revoke(tx, &grant.grant_id)).unwrap();
        let revoked = commit(&mut store, |tx| external_grants::spend(tx, &grant.grant_id));
        assert!(is_conflict(&revoked, "external grant"), "{revoked:?}");
    }
}

#[test]
fn a_shared_quota_is_charged_with_its_transaction_only() {
    let home = Home::new();
    let mut store = home.store();
    let quota = ("mock", "write");
    let used = |view: &View| shared_quotas::find(view, quota, home.clock().now()).unwrap().used;
    commit(&mut store, |tx| shared_quotas::use_up(tx, quota, 2, 4)).unwrap();
    let failed = commit(&mut store, |tx| {
        shared_quotas::use_up(tx, quota, 1, 4)?;
        assert_eq!(used(tx.view()), 3, "a later event of the batch sees it");
        Err::<(), _>(StoreError::Stored { what: "reason to roll back" })
    });
    assert!(failed.is_err());
    assert_eq!(used(store.view()), 2);
    let over = commit(&mut store, |tx| shared_quotas::use_up(tx, quota, 3, 4));
    assert!(is_conflict(&over, "quota"), "{over:?}");
    commit(&mut store, |tx| shared_quotas::use_up(tx, quota, 1, 4)).unwrap();
    commit(&mut store, |tx| shared_quotas::use_up(tx, quota, 1, 4)).unwrap();
    assert_eq!(used(store.view()), 4);
}
