//! Turns actions into HTTP requests, as the SDKs do.
//!
//! Covers queues flushed at 20 items or at the end of a visit, phones that were offline, single calls by other clients,
//! and the repeats and reordering that networks add.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::clocks;
use super::expected::{ExpectedUser, SentEvent};
use super::seeded_rng::SeededRng;
use super::sessions::{Action, ActionKind};
use super::users::ShopUser;

/// The endpoint of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Batch { gzip: bool },
    Event,
    Identify,
    Device,
}

/// A request without its `sentAt`, which is set when it is sent.
#[derive(Clone, Debug)]
pub struct Request {
    pub user: usize,
    pub route: Route,
    /// A batch's items separated by commas, or else the body.
    pub json: Arc<str>,
    pub idempotency_key: Option<String>,
    pub at_ms: i64,
    pub skew_ms: i64,
    pub items: u32,
    /// Number of items that are events.
    pub events: u32,
    /// Whether everything in it was sent before.
    pub repeat: bool,
    /// Carts whose checkouts it reports for the first time.
    pub carts: Vec<String>,
}

const BATCH_SIZE: usize = 20;
const OFFLINE_BATCH_SIZE: usize = 100;

struct QueuedItem {
    json: String,
    event: bool,
    /// Whether the item is a view. No other item depends on it, so it may be reordered within its batch.
    view: bool,
    cart: Option<String>,
}

pub(super) struct ClientSimulator<'a> {
    index: usize,
    user: &'a ShopUser,
    rng: SeededRng,
    ids: SeededRng,
    queue: Vec<QueuedItem>,
    offline: bool,
    requests: Vec<Request>,
    expected_user: ExpectedUser,
}

/// Returns a user's requests in sending order, and their expected results.
pub fn requests(
    seed: u64,
    run: &str,
    index: usize,
    user: &ShopUser,
    actions: &[Action],
) -> (Vec<Request>, ExpectedUser) {
    let mut rng = SeededRng::for_user(seed ^ 0x5e4d, index);
    let offline = rng.chance(8) || user.is_mostly_offline;
    let ids = SeededRng::for_run(seed ^ 0x1d5, run, index);
    let (queue, requests, expected_user) = (Vec::new(), Vec::new(), ExpectedUser::default());
    let mut client = ClientSimulator { index, user, rng, ids, queue, offline, requests, expected_user };
    for (n, action) in actions.iter().enumerate() {
        client.act(action);
        let full = client.queue.len() >= if client.offline { OFFLINE_BATCH_SIZE } else { BATCH_SIZE };
        let next_device = actions.get(n + 1).map(|next| next.device);
        let ends = next_device.is_none_or(|next| next != action.device) || (action.last_of_visit && !client.offline);
        if full || ends {
            client.flush(action.at_ms);
        }
    }
    (client.requests, client.expected_user)
}

impl ClientSimulator<'_> {
    fn act(&mut self, action: &Action) {
        match &action.kind {
            ActionKind::Track { name, properties } => {
                let single = self.user.skew_ms == 0 && !self.offline && self.rng.chance(4);
                if single { self.single(action, name, properties) } else { self.track(action, name, properties, None) }
            }
            ActionKind::Screen { name, properties } => {
                let mut item = self.item(action, "screen");
                item.insert("name".into(), json!(name));
                item.insert("properties".into(), properties.clone());
                self.push_event(action, item, "screen_viewed", None);
            }
            ActionKind::Identify { properties } => {
                self.expected_user.identify(action.known, properties);
                self.identify(action, properties);
            }
            ActionKind::Device => self.device(action),
            ActionKind::Alias => {
                let mut item = self.item(action, "alias");
                item.remove("anonymous_id");
                item.insert("previous_id".into(), json!(self.user.devices[action.device]));
                self.push(item, false, false, None);
            }
            ActionKind::Checkout { cart_id, cart } => {
                self.expected_user.checkouts.push((cart_id.clone(), cart.total_cents()));
                self.track(action, "checkout_started", &cart.to_json(cart_id), Some(cart_id.clone()));
            }
            ActionKind::Order { cart_id, cart } => self.order(action, cart_id, &cart.to_json(cart_id)),
        }
    }

    /// Returns the fields that all batch items share. A known device usually keeps sending its anonymous ID.
    fn item(&mut self, action: &Action, kind: &str) -> Map<String, Value> {
        let mut item = Map::new();
        item.insert("type".into(), json!(kind));
        if action.known {
            item.insert("user_id".into(), json!(self.user.external_id));
        }
        if !action.known || self.rng.chance(70) {
            item.insert("anonymous_id".into(), json!(self.user.devices[action.device]));
        }
        item.insert("timestamp".into(), json!(clocks::device_time(action.at_ms, self.user.skew_ms)));
        item
    }

    fn track(&mut self, action: &Action, name: &'static str, properties: &Value, cart: Option<String>) {
        let mut item = self.item(action, "track");
        item.insert("event".into(), json!(name));
        item.insert("properties".into(), properties.clone());
        self.push_event(action, item, name, cart);
    }

    fn push_event(&mut self, action: &Action, mut item: Map<String, Value>, name: &'static str, cart: Option<String>) {
        let id = clocks::event_id(action.at_ms, self.user.skew_ms, &mut self.ids).to_string();
        let key = if self.rng.chance(10) { "messageId" } else { "id" };
        item.insert(key.into(), json!(id));
        self.expected_user.events.push(SentEvent { name, id, at_ms: Some(action.at_ms), own_id: true });
        let view = matches!(name, "product_viewed" | "page_viewed" | "screen_viewed" | "search");
        self.push(item, true, view, cart);
    }

    fn push(&mut self, item: Map<String, Value>, event: bool, view: bool, cart: Option<String>) {
        self.queue.push(QueuedItem { json: Value::Object(item).to_string(), event, view, cart });
    }

    fn identify(&mut self, action: &Action, properties: &Map<String, Value>) {
        let mut item = self.item(action, "identify");
        // Only this item requests the merge.
        item.insert("anonymous_id".into(), json!(self.user.devices[action.device]));
        item.insert("properties".into(), Value::Object(properties.clone()));
        let id = clocks::event_id(action.at_ms, self.user.skew_ms, &mut self.ids).to_string();
        item.insert("id".into(), json!(id));
        if self.offline || self.rng.chance(80) {
            return self.push(item, false, false, None);
        }
        self.flush(action.at_ms);
        item.remove("type");
        item.remove("timestamp");
        self.request(action.at_ms, Route::Identify, &Value::Object(item), 0, None);
    }

    /// Adds `POST /push-tokens`, after all earlier actions.
    fn device(&mut self, action: &Action) {
        let Some(token) = self.user.push_token() else { return };
        self.flush(action.at_ms);
        let platform = if self.index.is_multiple_of(2) { "IOS" } else { "ANDROID" };
        let body = json!({ "user_id": self.user.external_id, "platform": platform, "token": token });
        self.expected_user.device = Some(token);
        self.request(action.at_ms, Route::Device, &body, 0, None);
    }

    /// Adds `POST /events`, by clients of either format.
    fn single(&mut self, action: &Action, name: &'static str, properties: &Value) {
        self.flush(action.at_ms);
        let id = clocks::event_id(action.at_ms, self.user.skew_ms, &mut self.ids).to_string();
        let legacy = self.rng.chance(40);
        let mut body = json!({ "properties": properties });
        body[if legacy { "eventName" } else { "event" }] = json!(name);
        if action.known {
            body[if legacy { "userId" } else { "user_id" }] = json!(self.user.external_id);
        } else {
            body["anonymous_id"] = json!(self.user.devices[action.device]);
        }
        let key = match self.rng.below(10) {
            0..3 => Some(id.clone()),
            3..5 => {
                body["messageId"] = json!(id);
                None
            }
            _ => {
                body["id"] = json!(id);
                None
            }
        };
        // The timestamp is not checked: according to the specification, only batch items carry one.
        self.expected_user.events.push(SentEvent { name, id, at_ms: None, own_id: true });
        self.request(action.at_ms, Route::Event, &body, 1, key);
        if self.rng.chance(12) {
            self.repeat_last();
        }
    }

    /// Reports an order from the shop's server under an ID of the shop's own format, and repeats it when the server is
    /// not sure.
    fn order(&mut self, action: &Action, cart_id: &str, properties: &Value) {
        self.flush(action.at_ms);
        let id = format!("order {cart_id}");
        let body = json!({ "eventName": "order_completed", "userId": self.user.external_id, "id": id,
                           "properties": properties });
        self.expected_user.events.push(SentEvent { name: "order_completed", id, at_ms: None, own_id: false });
        self.request(action.at_ms, Route::Event, &body, 1, None);
        if self.rng.chance(25) {
            self.repeat_last();
        }
    }

    fn request(&mut self, at_ms: i64, route: Route, body: &Value, events: u32, idempotency_key: Option<String>) {
        self.requests.push(Request {
            user: self.index,
            route,
            json: body.to_string().into(),
            idempotency_key,
            at_ms,
            skew_ms: self.user.skew_ms,
            items: 1,
            events,
            repeat: false,
            carts: Vec::new(),
        });
    }

    fn flush(&mut self, at_ms: i64) {
        if self.queue.is_empty() {
            return;
        }
        let mut queue = std::mem::take(&mut self.queue);
        if self.rng.chance(15) {
            shuffle_views(&mut queue, &mut self.rng);
        }
        let items: Vec<&str> = queue.iter().map(|queued| queued.json.as_str()).collect();
        self.requests.push(Request {
            user: self.index,
            route: Route::Batch { gzip: items.len() > 5 && self.rng.chance(30) },
            json: items.join(",").into(),
            idempotency_key: None,
            at_ms,
            skew_ms: self.user.skew_ms,
            items: queue.len() as u32,
            events: queue.iter().filter(|queued| queued.event).count() as u32,
            repeat: false,
            carts: queue.into_iter().filter_map(|queued| queued.cart).collect(),
        });
        if self.rng.chance(3) {
            self.repeat_last();
        }
    }

    /// Repeats the last request before anything else, as after a lost response.
    fn repeat_last(&mut self) {
        if let Some(last) = self.requests.last() {
            self.expected_user.repeats += u64::from(last.events);
            let again = Request { repeat: true, carts: Vec::new(), ..last.clone() };
            self.requests.push(again);
        }
    }
}

/// Reorders views, so that timestamps sometimes run backwards.
fn shuffle_views(queue: &mut [QueuedItem], rng: &mut SeededRng) {
    let views: Vec<usize> = (0..queue.len()).filter(|n| queue[*n].view).collect();
    for n in (1..views.len()).rev() {
        queue.swap(views[n], views[rng.below(n as u64 + 1) as usize]);
    }
}
