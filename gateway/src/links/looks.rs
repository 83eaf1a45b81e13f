//! Room for what the pages behind links read: whoever got one message may ask for them without end, and the database's
//! connections are everybody's.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Looks under way at a time in one gateway.
const AT_ONCE: usize = 4;
/// How long one waits for its turn.
const TURN: Duration = Duration::from_millis(500);

pub struct Looks(Semaphore);

impl Default for Looks {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl Looks {
    /// A look's turn, for as long as what is returned is kept; none where there is no room within half a second.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        tokio::time::timeout(TURN, self.0.acquire()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_is_room_for_a_few_and_it_comes_back() {
        let looks = Looks::default();
        let mut turns = Vec::new();
        for _ in 0..AT_ONCE {
            turns.push(looks.turn().await.unwrap());
        }
        assert!(looks.turn().await.is_none());
        turns.pop();
        assert!(looks.turn().await.is_some());
    }
}
