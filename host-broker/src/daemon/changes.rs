//! The changes that pages of people watch. The loop announces them; a page then asks for the content.

use tokio::sync::watch;

/// The changes in one daemon. All clones share them.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    approval_requests: watch::Sender<u64>,
    rows: watch::Sender<i64>,
}

impl Changes {
    /// Announces a change to the approval requests.
    pub fn announce_approval_requests(&self) {
        self.approval_requests.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Announces the last committed row, once for all rows of a turn. Nothing is sent if no page watches.
    pub fn announce_rows(&self, last: i64) {
        self.rows.send_if_modified(|known| {
            let is_new = *known != last;
            *known = last;
            is_new && !self.rows.is_closed()
        });
    }

    /// Returns a receiver of the later changes to the approval requests.
    pub fn approval_requests(&self) -> watch::Receiver<u64> {
        self.approval_requests.subscribe()
    }

    /// Returns a receiver of the later rows.
    pub fn rows(&self) -> watch::Receiver<i64> {
        self.rows.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_hears_of_the_rows_after_its_beginning_and_of_many_at_once() {
        let changes = Changes::default();
        changes.announce_rows(1);
        let mut rows = changes.clone().rows();
        assert!(!rows.has_changed().unwrap(), "the row was there before");
        changes.announce_rows(1);
        assert!(!rows.has_changed().unwrap(), "there is no new row");
        (2..=1_000).for_each(|row| changes.announce_rows(row));
        assert!(rows.has_changed().unwrap());
        assert_eq!(*rows.borrow_and_update(), 1_000);
        assert!(!rows.has_changed().unwrap(), "a thousand rows are one change");
        drop(rows);
        changes.announce_rows(1_001);
        assert!(!changes.rows().has_changed().unwrap());
    }
}
