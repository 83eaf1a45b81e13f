//! The recording's hop of the traces that a batch's items belong to.

use std::collections::HashMap;

use kernel::trace_context::TraceContext;
use trace::{self, Kind, Span};

use crate::ingest::item::Item;

/// One hop for each trace among the items: they share the transaction and nothing else.
#[derive(Default)]
pub struct Recording {
    hops: HashMap<TraceContext, Hop>,
}

struct Hop {
    span: Span,
    items: i64,
}

impl Recording {
    /// Begins the hops, and puts what the items lead to behind them. Costs a look at each item.
    pub fn begin(items: &mut [Item]) -> Self {
        let mut recording = Self::default();
        if !trace::is_on() {
            return recording;
        }
        for item in items {
            let Some(context) = item.trace else { continue };
            let begun = || {
                let mut span = Span::child(Some(context), "record", Kind::Consumer);
                span.set("messaging.system", "nats");
                span.set("rekindle.project_id", item.project);
                span.count("rekindle.partition", i64::from(item.partition));
                Hop { span, items: 0 }
            };
            let hop = recording.hops.entry(context).or_insert_with(begun);
            hop.items += 1;
            item.trace = hop.span.context();
        }
        recording
    }

    /// They are recorded, in a transaction of so many items.
    pub fn end(self, together: usize) {
        for Hop { mut span, items } in self.hops.into_values() {
            span.count("rekindle.items", items);
            span.count("rekindle.items_of_transaction", together as i64);
            span.end();
        }
    }
}
