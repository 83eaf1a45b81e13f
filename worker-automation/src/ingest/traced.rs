//! Trace spans for recording the items of a batch.

use std::collections::HashMap;

use kernel::trace_context::TraceContext;
use trace::{self, Kind, Span};

use crate::ingest::item::Item;

/// One span for each trace among the items, which have only the transaction in common.
#[derive(Default)]
pub struct BatchTrace {
    spans: HashMap<TraceContext, BatchSpan>,
}

struct BatchSpan {
    span: Span,
    items: i64,
}

impl BatchTrace {
    /// Begins the spans, and makes them the parents of the items' effects. Costs one check per item.
    pub fn begin(items: &mut [Item]) -> Self {
        let mut trace = Self::default();
        if !trace::is_on() {
            return trace;
        }
        for item in items {
            let Some(context) = item.trace else { continue };
            let begun = || {
                let mut span = Span::child(Some(context), "record", Kind::Consumer);
                span.set("messaging.system", "nats");
                span.set("rekindle.project_id", item.project);
                span.count("rekindle.partition", i64::from(item.partition));
                BatchSpan { span, items: 0 }
            };
            let entry = trace.spans.entry(context).or_insert_with(begun);
            entry.items += 1;
            item.trace = entry.span.context();
        }
        trace
    }

    /// Ends the spans; `transaction_items` is the number of items in the transaction.
    pub fn end(self, transaction_items: usize) {
        for BatchSpan { mut span, items } in self.spans.into_values() {
            span.count("rekindle.items", items);
            span.count("rekindle.items_of_transaction", transaction_items as i64);
            span.end();
        }
    }
}
