//! `flow_list` and its kin: flows and accesses to them, which are the main group's here.

use super::{Entry, SeenBy};
use crate::render::words::ToolWords;
use shared::flow::operations::Operation;

pub(super) fn entry(operation: &Operation) -> Entry {
    Entry {
        name: operation.name,
        words: ToolWords { title: operation.title, description: operation.description },
        seen_by: SeenBy::Main,
        effect: operation.effect,
        open_world: false,
        schema: operation.schema,
    }
}
