//! One user's actions that day, in order.

use serde_json::{Map, Value, json};

use super::catalog::{Cart, PRODUCTS, SCREENS, SEARCHES};
use super::dice::Dice;
use super::people::{Kind, Person};

/// One action. `known` says whether the device has identified its user by then.
pub struct Action {
    pub at_ms: i64,
    pub device: usize,
    pub known: bool,
    pub what: What,
    /// Whether the queue is flushed afterwards, because the visit ends.
    pub last_of_visit: bool,
}

pub enum What {
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

struct Visitor<'a> {
    run: &'a str,
    index: usize,
    person: &'a Person,
    dice: Dice,
    at_ms: i64,
    device: usize,
    known: Vec<bool>,
    cart: Cart,
    carts: usize,
    actions: Vec<Action>,
}

/// Generates one user's day, which ends at `start_ms`.
pub fn day(seed: u64, run: &str, index: usize, person: &Person, start_ms: i64) -> Vec<Action> {
    let mut dice = Dice::of_person(seed ^ 0x0da7, index);
    let (before, after) = match person.kind {
        Kind::Member => (dice.between(1, 2), dice.between(0, 2)),
        Kind::Guest | Kind::Visitor => (dice.between(1, 3), 0),
    };
    let visits = before + after + i64::from(person.devices.len() > 1);
    // Visits do not overlap: each has its own slice of the day.
    let slice = (DAY_MS - CLOSING_MS) / visits;
    let mut visitor = Visitor {
        run,
        index,
        person,
        dice,
        at_ms: 0,
        device: 0,
        known: vec![false; person.devices.len()],
        cart: Cart::default(),
        carts: 0,
        actions: Vec::new(),
    };
    for visit in 0..visits {
        let begin = start_ms - DAY_MS + visit * slice;
        visitor.at_ms = begin + visitor.dice.between(0, slice / 3);
        let signs_up = person.kind == Kind::Member && visit == before - 1;
        // The second device is used once, right after the sign-up on the first.
        visitor.device = usize::from(person.devices.len() > 1 && visit == before);
        visitor.visit(signs_up, visit == before - 1);
    }
    visitor.actions
}

impl Visitor<'_> {
    fn visit(&mut self, signs_up: bool, last_anonymous: bool) {
        if self.person.app {
            let properties = json!({ "version": "4.2.0", "build": 1187, "cold": self.dice.chance(50) });
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
        } else if self.known[self.device] && self.dice.chance(40) {
            self.change_profile();
        } else if self.person.kind == Kind::Guest && last_anonymous {
            self.leave_address();
        }
        self.browse(1, 3);
        self.shop(last_anonymous);
        if self.person.app {
            let properties = json!({ "seconds": self.dice.between(20, 900) });
            self.track("app_backgrounded", properties);
        }
        if let Some(last) = self.actions.last_mut() {
            last.last_of_visit = true;
        }
    }

    fn browse(&mut self, least: i64, most: i64) {
        let times = if self.person.on_the_train { 6 } else { 1 };
        for _ in 0..times * self.dice.between(least, most) {
            match self.dice.below(10) {
                0 => {
                    let properties = json!({ "query": self.dice.pick(SEARCHES), "results": self.dice.between(0, 90) });
                    self.track("search", properties);
                }
                1 | 2 if self.person.app => {
                    let name = *self.dice.pick(SCREENS);
                    self.act(What::Screen { name, properties: json!({ "from": { "tab": 1, "deep": false } }) });
                }
                1..=3 => {
                    let path = format!("/c/{}", self.dice.pick(PRODUCTS).path[1].to_lowercase());
                    self.track("page_viewed", json!({ "path": path, "viewport": { "w": 1280, "h": 720 } }));
                }
                _ => {
                    let product = self.dice.below(PRODUCTS.len() as u64) as usize;
                    let mut properties = json!({ "position": self.dice.between(1, 40), "list": "🔥 hot" });
                    properties["product"] = PRODUCTS[product].to_json(&mut self.dice);
                    self.track("product_viewed", properties);
                }
            }
        }
    }

    fn shop(&mut self, last_anonymous: bool) {
        // A user whose address arrives later does not check out before it is known. Otherwise the reminder's wait would
        // race against the sign-up.
        let buys = match self.person.kind {
            Kind::Member if self.known[self.device] => 62,
            Kind::Guest if last_anonymous => 62,
            Kind::Visitor => 10,
            Kind::Member | Kind::Guest => 0,
        };
        if self.dice.chance(30) || self.cart.lines.is_empty() {
            for _ in 0..self.dice.between(1, 3) {
                let line = (self.dice.below(PRODUCTS.len() as u64) as usize, self.dice.between(1, 3) as u64);
                self.cart.lines.push(line);
                let product = PRODUCTS[line.0].to_json(&mut self.dice);
                self.track("added_to_cart", json!({ "product": product, "quantity": line.1 }));
            }
        }
        if self.cart.lines.len() > 1 && self.dice.chance(30) {
            let line = self.cart.lines.remove(0);
            self.track("removed_from_cart", json!({ "productId": PRODUCTS[line.0].id, "quantity": line.1 }));
        }
        if !self.dice.chance(buys) {
            return;
        }
        self.carts += 1;
        let cart_id = format!("{}-{}-{}", self.run, self.index, self.carts);
        self.act(What::Checkout { cart_id: cart_id.clone(), cart: self.cart.clone() });
        if self.dice.chance(60) {
            let cart = std::mem::take(&mut self.cart);
            if self.dice.chance(30) && self.known[self.device] && self.person.skew_ms == 0 {
                self.act(What::Order { cart_id, cart });
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
        if !self.dice.chance(30) {
            return;
        }
        let campaign = *self.dice.pick(&["herbst-26", "رمضان", "双十一"]);
        let properties = json!({ "utm": { "source": "newsletter", "campaign": campaign }, "theme": "dark" });
        self.identify(properties);
    }

    fn sign_up(&mut self) {
        self.known[self.device] = true;
        let region = self.person.region;
        let mut properties = json!({
            "plan": "free", "country": region.country, "timezone": region.timezone, "language": region.language,
            "address": { "city": region.city, "lines": ["1st floor", "№ 7"], "geo": { "lat": 50.94, "lon": 6.96 } },
            "points": 0, "trialEndsAt": "2030-01-31T00:00:00Z", "marketing": true,
        });
        self.add_contact(&mut properties);
        self.identify(properties);
        let method = json!({ "method": self.dice.pick(&["email", "passkey", "социальная сеть"]) });
        // Sometimes the button is pressed twice: two events, but only one welcome.
        let presses = if self.dice.chance(3) { 2 } else { 1 };
        for _ in 0..presses {
            self.track("signed_up", method.clone());
        }
        if self.person.app {
            self.act(What::Device);
            self.track("push_enabled", json!({ "version": "4.2.0" }));
        }
    }

    fn join(&mut self) {
        self.known[self.device] = true;
        if self.dice.chance(25) {
            return self.act(What::Alias);
        }
        let mut properties = json!({ "secondDevice": { "os": self.dice.pick(&["iOS 26", "Android 16", "Web"]) } });
        self.add_contact(&mut properties);
        self.identify(properties);
    }

    fn change_profile(&mut self) {
        let points = self.dice.between(1, 5_000);
        let properties = match self.dice.below(4) {
            0 => json!({ "plan": "pro", "trialEndsAt": null, "points": points }),
            1 => json!({ "plan": self.dice.pick(&["team", "free", "enterprise"]), "points": points }),
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
        if let Some(email) = &self.person.email {
            properties["email"] = json!(email);
        }
        if let Some(name) = &self.person.name {
            properties["name"] = json!(name);
        }
    }

    fn identify(&mut self, properties: Value) {
        if let Value::Object(properties) = properties {
            self.act(What::Identify { properties });
        }
    }

    fn track(&mut self, name: &'static str, properties: Value) {
        self.act(What::Track { name, properties });
    }

    fn act(&mut self, what: What) {
        self.at_ms += self.dice.between(400, 45_000);
        let (device, known) = (self.device, self.known[self.device]);
        self.actions.push(Action { at_ms: self.at_ms, device, known, what, last_of_visit: false });
    }
}
