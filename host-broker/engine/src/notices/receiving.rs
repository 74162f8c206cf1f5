//! The channels from whose chats the broker fetches answers.

use crate::broker::Broker;
use config::channels::ChannelTable;
use kernel::{Message, NoticeDraft, PendingNotice};
use serde_json::json;
use store::Transaction;

impl Broker {
    /// Opens each channel that fetches answers. The row of the start names them, and it is durable before the secret of
    /// a channel is used. Nothing of these notices is sent.
    pub(crate) fn receiving<'tx>(&self, tx: &'tx Transaction<'_>) -> Vec<PendingNotice<'tx>> {
        let open = |table: &ChannelTable| {
            let message = Message {
                name: format!("receiving-{}", table.name),
                title: "RECEIVING ANSWERS".to_owned(),
                text: String::new(),
                link: None,
                shows_card: false,
                is_question: false,
                document: json!({ "channel": table.name, "event": "receiving" }),
            };
            kernel::announce(tx, NoticeDraft { id: 0, channel: table.name.clone(), message })
        };
        self.config.receiving_channels().map(open).collect()
    }
}
