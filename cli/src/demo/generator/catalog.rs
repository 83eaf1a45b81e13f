//! The shop's catalogue.

use serde_json::{Value, json};

use super::seeded_rng::SeededRng;

pub struct Product {
    pub id: &'static str,
    pub title: &'static str,
    pub path: [&'static str; 2],
    /// Price in whole cents until it is sent, so that sums are exact.
    pub cents: u64,
}

const fn product(id: &'static str, title: &'static str, path: [&'static str; 2], cents: u64) -> Product {
    Product { id, title, path, cents }
}

pub const PRODUCTS: &[Product] = &[
    product("p-001", "Sencha, erste Pflückung 🍵", ["Food", "Tea"], 1295),
    product("p-002", "Café moulu « Nuit blanche » ☕️", ["Food", "Coffee"], 899),
    product("p-003", "زيت زيتون بكر ٥٠٠ مل", ["Food", "Oil"], 1849),
    product("p-004", "טחינה גולמית", ["Food", "Spreads"], 549),
    product("p-005", "龙井茶 (罐装)", ["Food", "Tea"], 3499),
    product("p-006", "Trail boots \"Höhenweg\" 7½", ["Outdoor", "Shoes"], 14_995),
    product("p-007", "Rain jacket, men's & women's", ["Outdoor", "Clothes"], 8_949),
    product("p-008", "Headlamp 400 lm <IPX7>", ["Outdoor", "Light"], 3_795),
    product("p-009", "Bücherregal “Ångström” 80×200", ["Home", "Furniture"], 11_999),
    product("p-010", "風呂敷 70 cm", ["Home", "Textiles"], 2_199),
    product("p-011", "Plant: Monstera 🌿 in 12 cm pot", ["Home", "Plants"], 1_649),
    product("p-012", "Candle — fig/ambre", ["Home", "Light"], 1_399),
    product("p-013", "Lego-style bricks, 1 000 pcs", ["Toys", "Building"], 4_499),
    product("p-014", "Puzzle: 🗺️ The Old World", ["Toys", "Puzzles"], 1_999),
    product("p-015", "Gift card\tbirthday", ["Other", "Gifts"], 2_500),
];

pub const SEARCHES: &[&str] =
    &["tea", "شاي أخضر", "תה", "茶", "boots 42", "🌿", "o'neill", "100% cotton", "a\\b/c", "%_", "lamp\n", "Ångström"];

pub const SCREENS: &[&str] = &["Home", "Search results", "Product", "Cart", "Account / Orders", "Réglages", "設定"];

/// Returns an amount as it is sent: `12.95`.
pub fn amount(cents: u64) -> Value {
    json!(cents as f64 / 100.0)
}

/// Formats an amount as a template prints it: the shortest form of the number.
pub fn printed(cents: u64) -> String {
    amount(cents).to_string()
}

impl Product {
    pub fn to_json(&self, rng: &mut SeededRng) -> Value {
        json!({
            "id": self.id, "title": self.title,
            "price": { "amount": amount(self.cents), "currency": "EUR" },
            "category": { "path": self.path, "depth": self.path.len() },
            "stock": { "left": rng.between(0, 250), "warehouse": rng.pick(&["KRK-1", "LIS-2", "אש־3"]) },
        })
    }
}

/// A cart: products by catalogue index, with quantities.
#[derive(Clone, Debug, Default)]
pub struct Cart {
    pub lines: Vec<(usize, u64)>,
}

impl Cart {
    pub fn goods_cents(&self) -> u64 {
        self.lines.iter().map(|(product, quantity)| PRODUCTS[*product].cents * quantity).sum()
    }

    /// Returns a shipping cost that keeps the total from ending in a zero, which printing would drop.
    pub fn shipping_cents(&self) -> u64 {
        if (self.goods_cents() + 495).is_multiple_of(10) { 499 } else { 495 }
    }

    pub fn total_cents(&self) -> u64 {
        self.goods_cents() + self.shipping_cents()
    }

    pub fn to_json(&self, cart_id: &str) -> Value {
        let items: Vec<Value> = self
            .lines
            .iter()
            .map(|(product, quantity)| {
                let product = &PRODUCTS[*product];
                json!({ "productId": product.id, "title": product.title, "quantity": quantity,
                        "price": amount(product.cents) })
            })
            .collect();
        json!({
            "cartId": cart_id, "itemCount": self.lines.iter().map(|(_, n)| n).sum::<u64>(), "items": items,
            "shipping": amount(self.shipping_cents()), "total": amount(self.total_cents()), "currency": "EUR",
            "coupon": null,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_exact_and_print_with_both_decimals() {
        for product in 0..PRODUCTS.len() {
            for quantity in 1..=12 {
                let cart = Cart { lines: vec![(product, quantity)] };
                let cents = cart.total_cents();
                assert_eq!(printed(cents), format!("{}.{:02}", cents / 100, cents % 100));
            }
        }
    }
}
