use kernel::Answer;
use shared::Reply;
use shared::reply::Evidence;
use store::{StoreError, Transaction};

fn forge(tx: &Transaction<'_>, reply: Reply, evidence: Evidence) -> Result<Answer, StoreError> {
    kernel::answer(tx, "group:developer", reply, evidence)
}

fn main() {}
