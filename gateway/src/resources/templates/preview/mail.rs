//! Warnings that a preview returns for email.

use crate::resources::templates::mail_body::{has_components_left, images_without_alt};

/// Size of HTML in bytes above which Gmail clips a mail.
const GMAIL_CLIP_BYTES: usize = 102 * 1024;
/// Maximum number of characters of a subject that any mail client shows in its list.
const MAX_SUBJECT: usize = 150;

/// Returns warnings about a rendered mail. `not_inlined` is the reason why the CSS is not inlined, if it is not.
pub fn warnings(subject: &str, body: &str, unsubscribe_links: &[String], not_inlined: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    if subject.trim().chars().count() > MAX_SUBJECT {
        found.push(format!("subject: over {MAX_SUBJECT} characters; mail clients truncate it"));
    }
    if body.len() > GMAIL_CLIP_BYTES {
        found.push(format!("body: over {GMAIL_CLIP_BYTES} bytes; Gmail shows only the beginning"));
    }
    match images_without_alt(body) {
        0 => {}
        1 => {
            found
                .push("body: an image has no alt text, and many mail clients do not show images by default".to_owned());
        }
        images => {
            found.push(format!(
                "body: {images} images have no alt text, and many mail clients do not show images by default"
            ));
        }
    }
    if has_components_left(body) {
        found.push("body: MJML is compiled only if the whole body is one <mjml> element; mail clients do not render <mj-…> elements".to_owned());
    }
    if !unsubscribe_links.iter().any(|link| !link.is_empty() && body.contains(link)) {
        found.push(
            "body: there is no unsubscribe link ({{ unsubscribeUrl }} or {{ preferencesUrl }}); only transactional email may omit it"
                .to_owned(),
        );
    }
    if let Some(why) = not_inlined {
        found.push(format!("body: the CSS in <style> is not inlined, and some mail clients ignore it: {why}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_reported_once() {
        let fine = "<img alt=\"\" src=x><a href='#off'>off</a>";
        let unsubscribe_links = ["#off".to_owned(), String::new()];
        assert!(warnings("s", fine, &unsubscribe_links, None).is_empty());
        let starts = |subject: &str, body: &str, why| {
            let found = warnings(subject, body, &unsubscribe_links, why);
            assert_eq!(found.len(), 1, "{found:?}");
            found[0].clone()
        };
        assert!(starts(&"é".repeat(151), fine, None).starts_with("subject: over 150"));
        assert!(warnings(&"é".repeat(150), fine, &unsubscribe_links, None).is_empty());
        assert!(starts("s", &format!("{fine}{}", "x".repeat(GMAIL_CLIP_BYTES)), None).contains("Gmail"));
        assert!(starts("s", "<img src=a>#off", None).starts_with("body: an image"));
        assert!(starts("s", "<img src=a><IMG src=b><img alt=c>#off", None).starts_with("body: 2 images"));
        assert!(starts("s", &format!("<mj-body>{fine}</mj-body>"), None).contains("<mjml>"));
        assert!(warnings("s", &format!("<!-- <mj-body> -->{fine}"), &unsubscribe_links, None).is_empty());
        assert!(starts("s", "<!-- <img> -->x", None).contains("unsubscribeUrl"));
        assert!(starts("s", fine, Some("it is too much")).ends_with(": it is too much"));
    }
}
