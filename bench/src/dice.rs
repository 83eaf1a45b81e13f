//! Pseudorandom numbers that are identical in every run.

/// A SplitMix64 generator: a few nanoseconds per number, and any seed works.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x2545_f491_4f6c_dd1d))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `0..end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: u32) -> u32 {
        ((u64::from(end) * (self.number() >> 32)) >> 32) as u32
    }

    /// Returns ten bytes for the random part of a UUIDv7.
    pub fn ten_bytes(&mut self) -> [u8; 10] {
        let (first, second) = (self.number().to_be_bytes(), self.number().to_be_bytes());
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&first);
        bytes[8..].copy_from_slice(&second[..2]);
        bytes
    }

    pub fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u32) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distributed_and_depend_on_the_seed() {
        let mut counts = [0; 10];
        let mut dice = Dice::new(1);
        (0..10_000).for_each(|_| counts[dice.below(10) as usize] += 1);
        assert!(counts.iter().all(|c| (900..1_100).contains(c)), "{counts:?}");
        assert_eq!(Dice::new(7).number(), Dice::new(7).number());
        assert_ne!(Dice::new(7).number(), Dice::new(8).number());
    }
}
