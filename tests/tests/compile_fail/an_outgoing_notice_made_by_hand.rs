use kernel::{NoticeDraft, OutgoingNotice};

fn forge(draft: NoticeDraft) -> OutgoingNotice {
    OutgoingNotice(draft)
}

fn main() {}
