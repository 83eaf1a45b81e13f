//! Trace spans for recording the items of a batch.

use std::collections::HashMap;

use kernel::trace_context::TraceContext;
use trace::{self, Kind, Span};

use crate::ingest::item::Item;

/// One span for each trace among the items, which have only the transaction in common.
#[derive(Default)]
pub struct Recording {
    hops: HashMap<TraceContext, Hop>,
}

struct Hop {
    span: Span,
    items: i64,
}

impl Recording {
    /// Begins the spans, and makes them the parents of the items' effects. Costs one check per item.
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

    /// Ends the spans; `together` is the number of items in the transaction.
    pub fn end(self, together: usize) {
        for Hop { mut span, items } in self.hops.into_values() {
            span.count("rekindle.items", items);
            span.count("rekindle.items_of_transaction", together as i64);
            span.end();
        }
    }
}
