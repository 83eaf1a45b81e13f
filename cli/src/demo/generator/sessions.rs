//! One user's actions that day, in order.

use serde_json::{Map, Value, json};

use super::catalog::{Cart, PRODUCTS, SCREENS, SEARCHES};
use super::seeded_rng::SeededRng;
use super::users::{ShopUser, UserKind};

/// One action. `known` says whether the device has identified its user by then.
pub struct Action {
    pub at_ms: i64,
    pub device: usize,
    pub known: bool,
    pub kind: ActionKind,
    /// Whether the queue is flushed afterwards, because the visit ends.
    pub last_of_visit: bool,
}

pub enum ActionKind {
    Track {
        name: &'static str,
        properties: Value,
    },
    Screen {
        name: &'static str,
        properties: Value,
    },
    /// Anonymous or known, depending on the device. The properties are as sent, including email and name.
    Identify {
        properties: Map<String, Value>,
    },
    /// The app registers its phone's token and allows pushes from then on.
    Device,
    /// The other way to link a device to a user.
    Alias,
    /// `checkout_started`, with the values that the reminder contains.
    Checkout {
        cart_id: String,
        cart: Cart,
    },
    /// `order_completed`, reported by the shop's own server under an ID of the shop's.
    Order {
        cart_id: String,
        cart: Cart,
    },
}

const DAY_MS: i64 = 86_400_000;
/// The last visits end before the demo begins, so that no correct clock is ahead of it.
const CLOSING_MS: i64 = 10 * 60_000;

struct Session<'a> {
    run: &'a str,
    index: usize,
    user: &'a ShopUser,
    rng: SeededRng,
    at_ms: i64,
    device: usize,
    known: Vec<bool>,
    cart: Cart,
    carts: usize,
    actions: Vec<Action>,
}

/// Generates one user's day, which ends at `start_ms`.
pub fn day(seed: u64, run: &str, index: usize, user: &ShopUser, start_ms: i64) -> Vec<Action> {
    let mut rng = SeededRng::for_user(seed ^ 0x0da7, index);
    let (before, after) = match user.kind {
        UserKind::Member => (rng.between(1, 2), rng.between(0, 2)),
        UserKind::Guest | UserKind::Visitor => (rng.between(1, 3), 0),
    };
    let visits = before + after + i64::from(user.devices.len() > 1);
    // Visits do not overlap: each has its own slice of the day.
    let slice = (DAY_MS - CLOSING_MS) / visits;
    let mut session = Session {
        run,
        index,
        user,
        rng,
        at_ms: 0,
        device: 0,
        known: vec![false; user.devices.len()],
        cart: Cart::default(),
        carts: 0,
        actions: Vec::new(),
    };
    for visit in 0..visits {
        let begin = start_ms - DAY_MS + visit * slice;
        session.at_ms = begin + session.rng.between(0, slice / 3);
        let signs_up = user.kind == UserKind::Member && visit == before - 1;
        // The second device is used once, right after the sign-up on the first.
        session.device = usize::from(user.devices.len() > 1 && visit == before);
        session.visit(signs_up, visit == before - 1);
    }
    session.actions
}

impl Session<'_> {
    fn visit(&mut self, signs_up: bool, last_anonymous: bool) {
        if self.user.app {
            let properties = json!({ "version": "4.2.0", "build": 1187, "cold": self.rng.chance(50) });
            self.track("app_opened", properties);
        } else {
            self.track("page_viewed", json!({ "path": "/", "referrer": null, "title": "Shop — Laden — متجر" }));
        }
        if self.actions.len() == 1 {
            self.campaign();
        }
        self.browse(2, 6);
        let joins = self.device == 1 && !self.known[1];
        if signs_up {
            self.sign_up();
        } else if joins {
            self.join();
        } else if self.known[self.device] && self.rng.chance(40) {
            self.change_profile();
        } else if self.user.kind == UserKind::Guest && last_anonymous {
            self.leave_address();
        }
        self.browse(1, 3);
        self.shop(last_anonymous);
        if self.user.app {
            let properties = json!({ "seconds": self.rng.between(20, 900) });
            self.track("app_backgrounded", properties);
        }
        if let Some(last) = self.actions.last_mut() {
            last.last_of_visit = true;
        }
    }

    fn browse(&mut self, min: i64, max: i64) {
        let times = if self.user.is_mostly_offline { 6 } else { 1 };
        for _ in 0..times * self.rng.between(min, max) {
            match self.rng.below(10) {
                0 => {
                    let properties = json!({ "query": self.rng.pick(SEARCHES), "results": self.rng.between(0, 90) });
                    self.track("search", properties);
                }
                1 | 2 if self.user.app => {
                    let name = *self.rng.pick(SCREENS);
                    self.act(ActionKind::Screen { name, properties: json!({ "from": { "tab": 1, "deep": false } }) });
                }
                1..=3 => {
                    let path = format!("/c/{}", self.rng.pick(PRODUCTS).path[1].to_lowercase());
                    self.track("page_viewed", json!({ "path": path, "viewport": { "w": 1280, "h": 720 } }));
                }
                _ => {
                    let product = self.rng.below(PRODUCTS.len() as u64) as usize;
                    let mut properties = json!({ "position": self.rng.between(1, 40), "list": "🔥 hot" });
                    properties["product"] = PRODUCTS[product].to_json(&mut self.rng);
                    self.track("product_viewed", properties);
                }
            }
        }
    }

    fn shop(&mut self, last_anonymous: bool) {
        // A user whose address arrives later does not check out before it is known. Otherwise the reminder's wait would
        // race against the sign-up.
        let buys = match self.user.kind {
            UserKind::Member if self.known[self.device] => 62,
            UserKind::Guest if last_anonymous => 62,
            UserKind::Visitor => 10,
            UserKind::Member | UserKind::Guest => 0,
        };
        if self.rng.chance(30) || self.cart.lines.is_empty() {
            for _ in 0..self.rng.between(1, 3) {
                let line = (self.rng.below(PRODUCTS.len() as u64) as usize, self.rng.between(1, 3) as u64);
                self.cart.lines.push(line);
                let product = PRODUCTS[line.0].to_json(&mut self.rng);
                self.track("added_to_cart", json!({ "product": product, "quantity": line.1 }));
            }
        }
        if self.cart.lines.len() > 1 && self.rng.chance(30) {
            let line = self.cart.lines.remove(0);
            self.track("removed_from_cart", json!({ "productId": PRODUCTS[line.0].id, "quantity": line.1 }));
        }
        if !self.rng.chance(buys) {
            return;
        }
        self.carts += 1;
        let cart_id = format!("{}-{}-{}", self.run, self.index, self.carts);
        self.act(ActionKind::Checkout { cart_id: cart_id.clone(), cart: self.cart.clone() });
        if self.rng.chance(60) {
            let cart = std::mem::take(&mut self.cart);
            if self.rng.chance(30) && self.known[self.device] && self.user.skew_ms == 0 {
                self.act(ActionKind::Order { cart_id, cart });
            } else {
                let mut properties = cart.to_json(&cart_id);
                properties["orderId"] = json!(format!("o-{cart_id}"));
                self.track("order_completed", properties);
            }
        }
    }

    /// Adds campaign properties of an anonymous user. None of these keys is ever set under the known ID, because the
    /// order of the two is guaranteed only after the merge.
    fn campaign(&mut self) {
        if !self.rng.chance(30) {
            return;
        }
        let campaign = *self.rng.pick(&["herbst-26", "رمضان", "双十一"]);
        let properties = json!({ "utm": { "source": "newsletter", "campaign": campaign }, "theme": "dark" });
        self.identify(properties);
    }

    fn sign_up(&mut self) {
        self.known[self.device] = true;
        let region = self.user.region;
        let mut properties = json!({
            "plan": "free", "country": region.country, "timezone": region.timezone, "language": region.language,
            "address": { "city": region.city, "lines": ["1st floor", "№ 7"], "geo": { "lat": 50.94, "lon": 6.96 } },
            "points": 0, "trialEndsAt": "2030-01-31T00:00:00Z", "marketing": true,
        });
        self.add_contact(&mut properties);
        self.identify(properties);
        let method = json!({ "method": self.rng.pick(&["email", "passkey", "социальная сеть"]) });
        // Sometimes the button is pressed twice: two events, but only one welcome.
        let presses = if self.rng.chance(3) { 2 } else { 1 };
        for _ in 0..presses {
            self.track("signed_up", method.clone());
        }
        if self.user.app {
            self.act(ActionKind::Device);
            self.track("push_enabled", json!({ "version": "4.2.0" }));
        }
    }

    fn join(&mut self) {
        self.known[self.device] = true;
        if self.rng.chance(25) {
            return self.act(ActionKind::Alias);
        }
        let mut properties = json!({ "secondDevice": { "os": self.rng.pick(&["iOS 26", "Android 16", "Web"]) } });
        self.add_contact(&mut properties);
        self.identify(properties);
    }

    fn change_profile(&mut self) {
        let points = self.rng.between(1, 5_000);
        let properties = match self.rng.below(4) {
            0 => json!({ "plan": "pro", "trialEndsAt": null, "points": points }),
            1 => json!({ "plan": self.rng.pick(&["team", "free", "enterprise"]), "points": points }),
            2 => {
                json!({ "points": points, "favourites": ["🌿", PRODUCTS[(points % 15) as usize].title], "nickname": "★" })
            }
            _ => json!({ "marketing": false, "nickname": null, "points": points as f64 + 0.5 }),
        };
        self.identify(properties);
    }

    fn leave_address(&mut self) {
        let mut properties = json!({ "guest": true });
        self.add_contact(&mut properties);
        self.identify(properties);
    }

    fn add_contact(&self, properties: &mut Value) {
        if let Some(email) = &self.user.email {
            properties["email"] = json!(email);
        }
        if let Some(name) = &self.user.name {
            properties["name"] = json!(name);
        }
    }

    fn identify(&mut self, properties: Value) {
        if let Value::Object(properties) = properties {
            self.act(ActionKind::Identify { properties });
        }
    }

    fn track(&mut self, name: &'static str, properties: Value) {
        self.act(ActionKind::Track { name, properties });
    }

    fn act(&mut self, kind: ActionKind) {
        self.at_ms += self.rng.between(400, 45_000);
        let (device, known) = (self.device, self.known[self.device]);
        self.actions.push(Action { at_ms: self.at_ms, device, known, kind, last_of_visit: false });
    }
}
