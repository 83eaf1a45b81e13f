//! Validates simulation requests.

use serde_json::{Map, Value};

use crate::http::error::ApiError;
use crate::http::fields::{Element, Fields, Text};
use crate::ingest::properties;

const EVENT_NAME: Text = Text::line(200);
const EVENTS_MAX: usize = 100;
/// In seconds: 396 days, about a year and a month.
const AFTER_MAX: f64 = 34_214_400.0;

/// A simulated event.
pub struct SimulatedEvent {
    pub name: String,
    pub properties: Map<String, Value>,
    /// Seconds after the trigger.
    pub after: f64,
}

pub struct Simulation {
    /// External or internal ID; `None` simulates a user with only the given properties.
    pub user_id: Option<String>,
    /// Merged into the user's stored properties.
    pub properties: Map<String, Value>,
    pub trigger: SimulatedEvent,
    /// Sorted by time.
    pub events: Vec<SimulatedEvent>,
    /// Webhook responses by step name.
    pub answers: Map<String, Value>,
}

/// Reads `{ userId?, properties?, event?: { event?, properties? }, events?: [{ event, properties?, after? }], answers?
/// }`.
pub fn simulation(body: &Map<String, Value>) -> Result<Simulation, ApiError> {
    let mut fields = Fields::of(body);
    let user_id = fields.text("userId", &EVENT_NAME).map(str::to_owned);
    let (own, answers) = (object(&mut fields, "properties"), object(&mut fields, "answers"));
    let trigger = fields.object("event").map(|mut event| {
        let name = event.text("event", &EVENT_NAME).unwrap_or_default().to_owned();
        let properties = object(&mut event, "properties");
        event.done();
        SimulatedEvent { name, properties, after: 0.0 }
    });
    let trigger = trigger.unwrap_or(SimulatedEvent { name: String::new(), properties: Map::new(), after: 0.0 });
    let elements = fields.array("events", 0..=EVENTS_MAX).unwrap_or_default();
    let mut events: Vec<SimulatedEvent> = elements.iter().filter_map(simulated_event).collect();
    events.sort_by(|a, b| a.after.total_cmp(&b.after));
    fields.finish()?;
    Ok(Simulation { user_id, properties: own, trigger, events, answers })
}

fn simulated_event(element: &Element<'_>) -> Option<SimulatedEvent> {
    let mut fields = element.object()?;
    let name = fields.required_text("event", &EVENT_NAME).to_owned();
    let properties = object(&mut fields, "properties");
    let after = fields.element("after").filter(|after| !after.value().is_null()).map_or(Some(0.0), |after| {
        let seconds = after.value().as_f64().filter(|seconds| (0.0..=AFTER_MAX).contains(seconds));
        if seconds.is_none() {
            after.problem(format!("must be a number of seconds from 0 to {AFTER_MAX}"));
        }
        seconds
    });
    fields.done();
    Some(SimulatedEvent { name, properties, after: after? })
}

/// Reads an object within the limits on properties; returns an empty one if the field is absent or null.
fn object(fields: &mut Fields<'_>, name: &'static str) -> Map<String, Value> {
    let Some(element) = fields.element(name).filter(|element| !element.value().is_null()) else { return Map::new() };
    if let Some(why) = properties::find_violation(&element.value().to_string()) {
        element.problem(why);
        return Map::new();
    }
    element.value().as_object().cloned().unwrap_or_default()
}
