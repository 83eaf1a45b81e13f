//! Limits on MJML input.
//!
//! The compiler has none of its own: it recurses as deeply as elements nest, and attributes set once in the head may
//! be copied to every element. The limits count the compiler's own tokens, since a browser reads comments and elements
//! with raw content differently.

use htmlparser::{ElementEnd, Token, Tokenizer};

/// Maximum number of elements, and maximum nesting depth.
const MAX_ELEMENTS: usize = 10_000;
const MAX_DEPTH: usize = 60;
/// Maximum of attribute bytes times elements, since each may be copied to each. Counts attributes up to the end of
/// `mj-attributes`, and those passed to children.
const MAX_REPEATED_BYTES: usize = 20_000_000;
/// Maximum number of carousel images: each is written once for every other one.
const MAX_CAROUSEL_IMAGES: usize = 50;

/// All supported components.
const COMPONENTS: [&str; 32] = [
    "mj-accordion",
    "mj-accordion-element",
    "mj-accordion-text",
    "mj-accordion-title",
    "mj-all",
    "mj-attributes",
    "mj-body",
    "mj-breakpoint",
    "mj-button",
    "mj-carousel",
    "mj-carousel-image",
    "mj-class",
    "mj-column",
    "mj-divider",
    "mj-font",
    "mj-group",
    "mj-head",
    "mj-hero",
    "mj-image",
    "mj-navbar",
    "mj-navbar-link",
    "mj-preview",
    "mj-raw",
    "mj-section",
    "mj-social",
    "mj-social-element",
    "mj-spacer",
    "mj-style",
    "mj-table",
    "mj-text",
    "mj-title",
    "mj-wrapper",
];
/// Components that pass their attributes to each of their children.
const PASS_TO_CHILDREN: [&str; 5] = ["mj-accordion", "mj-accordion-element", "mj-carousel", "mj-navbar", "mj-social"];
/// Elements for which the compiler expects no end tag.
const VOID: [&str; 14] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];

/// Checks that a text is within the limits. Otherwise returns the position and the reason.
pub fn check(text: &str) -> Result<(), (usize, String)> {
    let (mut elements, mut open, mut images) = (0_usize, 0_usize, 0_usize);
    // Bytes of all attributes so far, of those that may be repeated, and of those passed to children.
    let (mut attributes, mut repeated, mut inherited) = (0_usize, 0_usize, 0_usize);
    let (mut name, mut start) = ("", 0);
    for token in Tokenizer::from(text) {
        // The compiler also stops here, and reports the error.
        let Ok(token) = token else { return Ok(()) };
        match token {
            Token::ElementStart { local, span, .. } => {
                (name, start) = (local.as_str(), span.start());
                elements += 1;
                images += usize::from(name == "mj-carousel-image");
                if name == "mj-include" {
                    return Err((start, "mj-include is not allowed: a body must be self-contained".to_owned()));
                }
                if name.starts_with("mj-") && !COMPONENTS.contains(&name) {
                    return Err((start, format!("unknown component {name}")));
                }
            }
            Token::Attribute { span, .. } => {
                attributes += span.as_str().len();
                inherited += if PASS_TO_CHILDREN.contains(&name) { span.as_str().len() } else { 0 };
            }
            Token::ElementEnd { end: ElementEnd::Open, .. } if !VOID.contains(&name) => open += 1,
            Token::ElementEnd { end: ElementEnd::Close(_, local), .. } => {
                open = open.saturating_sub(1);
                if local.as_str() == "mj-attributes" {
                    repeated = attributes;
                }
            }
            _ => {}
        }
        if elements > MAX_ELEMENTS || open > MAX_DEPTH {
            let why = format!("MJML may have at most {MAX_ELEMENTS} elements, nested at most {MAX_DEPTH} deep");
            return Err((start, why));
        }
        if images > MAX_CAROUSEL_IMAGES {
            return Err((
                start,
                format!("the carousels of an email may have at most {MAX_CAROUSEL_IMAGES} images in total"),
            ));
        }
    }
    if (repeated + inherited) * elements > MAX_REPEATED_BYTES {
        let why = "the HTML compiled from this MJML would be too large: use fewer attributes in mj-attributes and on components that pass them to their children";
        return Err((0, why.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(inside: &str) -> String {
        format!("<mjml><mj-body><mj-raw>{inside}</mj-raw></mj-body></mjml>")
    }

    #[test]
    fn depth_is_counted_like_the_compiler() {
        for deep in [
            "<b>".repeat(5_000),
            format!("<xmp>{}", "<b>".repeat(5_000)),
            format!("<title>{}", "<b>".repeat(5_000)),
            "<!--[if mso]><b><![endif]-->".repeat(5_000),
            "<b><i></b>".repeat(5_000),
            "<_>".repeat(5_000),
        ] {
            let (_, why) = check(&raw(&deep)).unwrap_err();
            assert!(why.contains("nested at most"), "{why}: {}", &deep[..40]);
        }
        let table = "<!--[if mso]><table><tr><td><![endif]-->x<br><!--[if mso]></td></tr></table><![endif]-->";
        assert_eq!(check(&raw(&table.repeat(500))), Ok(()));
    }

    #[test]
    fn repeated_attributes_are_limited() {
        let head = |bytes: usize| format!("<mj-attributes><mj-all color=\"{}\"/></mj-attributes>", "x".repeat(bytes));
        let mail = |bytes, count| {
            format!(
                "<mjml><mj-head>{}</mj-head><mj-body>{}</mj-body></mjml>",
                head(bytes),
                "<mj-spacer/>".repeat(count)
            )
        };
        assert_eq!(check(&mail(1_000, 1_000)), Ok(()));
        assert!(check(&mail(100_000, 1_000)).unwrap_err().1.contains("too large"));
        assert!(check(&mail(1, 20_000)).unwrap_err().1.contains("at most"));
        let images = |count| raw(&"<mj-carousel-image/>".repeat(count));
        assert_eq!(check(&images(50)), Ok(()));
        assert!(check(&images(51)).is_err());
    }
}
