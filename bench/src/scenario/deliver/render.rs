//! Rendering alone.

use std::time::Duration;

use anyhow::{Result, bail};
use kernel::clock::Clock;
use serde_json::{Value, json};
use template::{Escape, Limits, Scope, Template};

use crate::alone;
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;

const BYTES: usize = 8 * 1024;
/// Renderings between two checks of the clock.
const TURN: u64 = 100;

/// Measures an 8 KB template on one thread.
pub async fn render(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about =
        format!("a template of {} KB with variables, a condition and a list of three, on one thread", BYTES / 1024);
    let mut rounds = Vec::new();
    for round in 1..=lab.settings.rounds {
        lab.progress.step(&format!("render, round {round} of {}", lab.settings.rounds));
        rounds.push(rate(lab.settings.round / 2).await?);
    }
    section.figures.push(Figure::new("rendered", "templates/s per core", rounds).goal(Goal::AtLeast(850_000.0)));
    Ok(())
}

async fn rate(time: Duration) -> Result<f64> {
    let (template, data, now) = (Template::parse(&source())?, data(), Clock::system().now());
    let iteration = move || {
        for _ in 0..TURN {
            let scope = Scope::new(now).with("user", &data).with_fallback(&data);
            let text = template.render(&scope, Escape::Html, &Limits::default())?;
            if text.len() < BYTES / 2 {
                bail!("only {} bytes were rendered", text.len());
            }
        }
        Ok(TURN)
    };
    alone::repeated(time, iteration).await
}

fn data() -> Value {
    let items = [("sku-0001", 12.5), ("sku-0002", 7.0), ("sku-0003", 3.2)];
    let items: Vec<Value> = items.iter().map(|(name, price)| json!({ "name": name, "price": price })).collect();
    json!({ "name": "Ann Example", "email": "ann@example.com",
            "properties": { "plan": "pro", "city": "Utrecht", "orders": 12, "items": items } })
}

/// Returns a typical shop mail: mostly text, with a few variables.
fn source() -> String {
    let head = "<html><body><h1>Dear {{ name }}</h1>\n{% if plan == \"pro\" %}<p>Thank you for {{ orders }} orders.</p>{% endif %}\n\
                <ul>{% for item in items %}<li>{{ item.name }}: {{ item.price }}</li>{% endfor %}</ul>\n";
    let text = "<p style=\"margin:0 0 16px\">Every order leaves our store within a day, and you can return what you do not like \
                within one month, free of charge for you, and without having to give any reasons.</p>\n";
    let named = "<p>To {{ user.email }} in {{ city }}, on the plan {{ plan | upcase }}.</p>\n";
    let foot = "</body></html>\n";
    let mut body = head.to_owned();
    for part in 0.. {
        let next = if part % 14 == 7 { named } else { text };
        if body.len() + next.len() + foot.len() > BYTES {
            break;
        }
        body.push_str(next);
    }
    body + foot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_has_the_specified_size_and_renders() {
        let source = source();
        assert!((BYTES - 300..=BYTES).contains(&source.len()), "{}", source.len());
        let (template, data) = (Template::parse(&source).unwrap(), data());
        let scope = Scope::new(Clock::system().now()).with("user", &data).with_fallback(&data);
        let text = template.render(&scope, Escape::Html, &Limits::default()).unwrap();
        assert!(text.contains("Dear Ann Example") && text.contains("sku-0003") && text.contains("PRO"), "{text}");
    }
}
