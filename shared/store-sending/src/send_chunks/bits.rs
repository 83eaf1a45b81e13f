//! Which members of a chunk are done.

/// One bit per member, as stored in the column `done`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits(Vec<bool>);

impl Bits {
    /// Creates bits for `count` members, none of them done.
    pub fn none(count: usize) -> Self {
        Self(vec![false; count])
    }

    /// Parses the text of a bit string.
    pub fn parse(text: &str) -> Self {
        Self(text.bytes().map(|bit| bit == b'1').collect())
    }

    /// Formats the bits as the text of a bit string.
    pub fn text(&self) -> String {
        self.0.iter().map(|done| if *done { '1' } else { '0' }).collect()
    }

    /// Marks a member as done. Ignores positions beyond the end.
    pub fn set(&mut self, member: usize) {
        if let Some(bit) = self.0.get_mut(member) {
            *bit = true;
        }
    }

    pub fn is_set(&self, member: usize) -> bool {
        self.0.get(member).copied().unwrap_or(true)
    }

    /// Returns the positions of the members that are not done, in order.
    pub fn unset(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().filter(|(_, done)| !**done).map(|(at, _)| at)
    }

    pub fn all_set(&self) -> bool {
        self.0.iter().all(|done| *done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_round_trip_and_list_pending_members() {
        let mut bits = Bits::none(4);
        bits.set(1);
        bits.set(9);
        assert_eq!((bits.text().as_str(), Bits::parse("0100")), ("0100", bits.clone()));
        assert_eq!(bits.unset().collect::<Vec<_>>(), [0, 2, 3]);
        assert!(bits.is_set(1) && !bits.is_set(0) && bits.is_set(9) && !bits.all_set());
        [0, 2, 3].into_iter().for_each(|member| bits.set(member));
        assert!(bits.all_set());
    }
}
