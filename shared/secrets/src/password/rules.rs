//! Rules for new passwords (OWASP ASVS 5, 6.2): no common password, none made of the product's name or the account's
//! email.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::LENGTH;

/// One password per line, in lower case. Lines that begin with `# ` or are `#` are the licence.
const COMMON: &str = include_str!("common.txt");
const PRODUCT: &str = "rekindle";
/// Shorter words occur in too many strong passwords.
const MIN_WORD: usize = 4;

static COMMON_PASSWORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| COMMON.lines().filter(|line| *line != "#" && !line.starts_with("# ")).collect());

/// Why a password of permitted length is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    Common,
    /// Little more than the product's name or parts of the email address.
    Context,
    /// One or two characters, repeated.
    Repetitive,
}

impl Weakness {
    pub fn message(self) -> &'static str {
        match self {
            Self::Common => "is one of the most common passwords; choose one that is hard to guess",
            Self::Context => "is made of your email address or this product's name; choose one that is hard to guess",
            Self::Repetitive => "repeats one or two characters; choose one that is hard to guess",
        }
    }
}

/// Returns the reason to refuse a new password for the account of `email`, if there is one.
pub fn weakness(password: &str, email: &str) -> Option<Weakness> {
    let lower = password.to_lowercase();
    // `Password2024!` is as weak as `password`.
    let stem = lower.trim_matches(|c: char| !c.is_alphabetic());
    if [lower.as_str(), stem].iter().any(|text| COMMON_PASSWORDS.contains(text)) {
        return Some(Weakness::Common);
    }
    if lower.chars().collect::<HashSet<_>>().len() <= 2 {
        return Some(Weakness::Repetitive);
    }
    let mut rest = lower.clone();
    for word in context_words(email) {
        rest = rest.replace(&word, "");
    }
    (rest != lower && rest.chars().count() < *LENGTH.start()).then_some(Weakness::Context)
}

/// Returns the words to remove, longest first, so that a whole address is removed before its parts.
fn context_words(email: &str) -> Vec<String> {
    let email = email.trim().to_lowercase();
    let mut words = vec![PRODUCT.to_owned(), email.clone()];
    words.extend(email.split(|c: char| !c.is_alphanumeric()).map(str::to_owned));
    words.extend(email.split('@').map(str::to_owned));
    words.retain(|word| word.chars().count() >= MIN_WORD);
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMAIL: &str = "grace.hopper@navy.example";

    #[test]
    fn common_passwords_are_refused() {
        for password in ["password", "Password", "12345678", "qwertyuiop", "iloveyou", "Password2024!", "!!password!!"]
        {
            assert_eq!(weakness(password, EMAIL), Some(Weakness::Common), "{password}");
        }
    }

    #[test]
    fn passwords_made_of_product_or_account_name_are_refused() {
        for password in ["rekindle", "Rekindle2026", "grace.hopper@navy.example", "GraceHopper1", "hopper-navy!1"] {
            assert_eq!(weakness(password, EMAIL), Some(Weakness::Context), "{password}");
        }
    }

    #[test]
    fn repeated_characters_are_refused() {
        assert_eq!(weakness("zzzzzzzzzzzz", EMAIL), Some(Weakness::Repetitive));
        assert_eq!(weakness("zqzqzqzqzqzq", EMAIL), Some(Weakness::Repetitive));
    }

    #[test]
    fn other_passwords_are_accepted() {
        for password in ["correct horse", "long enough", "rekindle a fire in winter", "grace likes walking far"] {
            assert_eq!(weakness(password, EMAIL), None, "{password}");
        }
    }

    #[test]
    fn the_list_holds_thousands_of_passwords_in_lower_case() {
        assert!(COMMON_PASSWORDS.len() > 4_000);
        assert!(COMMON_PASSWORDS.iter().all(|word| word.to_lowercase() == *word && word.chars().count() >= 8));
    }
}
