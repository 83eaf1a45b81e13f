//! Groups that wait until others are begun, and who makes way for them.

use std::future::Future;
use std::time::Duration;

use shared::ids::ProjectId;
use shared::send::Lane;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Queue, Unfinished};
use crate::App;

/// Between two looks whether what waits is in the way of others.
const LOOK: Duration = Duration::from_millis(50);

/// Messages that are not all begun in so long make way for others: direct ones where there is no room to wait beside them. Of what can
/// wait, a group is hundreds of rows or thousands, which take a while with any provider.
const fn slow(lane: Lane) -> Duration {
    match lane {
        // So a long queue becomes rows that come again, but only so fast.
        Lane::Direct => Duration::from_millis(100),
        Lane::Automation | Lane::Campaign => Duration::from_mins(2),
    }
}

/// Whether others wait until a group is begun.
#[derive(Clone, Default)]
pub struct Crowd(watch::Sender<usize>);

impl Crowd {
    /// Somebody waits for as long as this takes.
    pub async fn during(&self, waits: impl Future<Output = ()>) {
        self.0.send_modify(|waiting| *waiting += 1);
        let _left = Left(&self.0);
        waits.await;
    }

    /// Until somebody waits.
    async fn is_waiting(&self) {
        // The sender is here.
        let _ = self.0.subscribe().wait_for(|waiting| *waiting > 0).await;
    }
}

struct Left<'a>(&'a watch::Sender<usize>);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

/// Until messages that wait for their project's turn keep others from being begun. Direct ones do at once, where they can wait beside;
/// those of the other lanes when their provider has had its hands full of them for a while.
pub async fn in_the_way(app: &App, queue: Queue, project: ProjectId, crowd: Option<&Crowd>, began: Instant) {
    let Some(crowd) = crowd else { return std::future::pending().await };
    let makes_way = || {
        let is_slow = began.elapsed() >= slow(queue.lane);
        match queue.lane {
            Lane::Direct => is_slow || app.backlogs.has_room((project, queue.channel)),
            Lane::Automation | Lane::Campaign => is_slow && app.permits.has_begun(project),
        }
    };
    loop {
        crowd.is_waiting().await;
        if makes_way() {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Until messages whose project's backlog is full find room in it, or keep others from being begun.
///
/// # Errors
/// [`Unfinished::Stopping`] where neither is so before this stops.
pub async fn has_room(app: &App, queue: Queue, project: ProjectId, crowd: Option<&Crowd>) -> Result<(), Unfinished> {
    let room = async {
        while !app.backlogs.has_room((project, queue.channel)) {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        () = room => Ok(()),
        () = app.shutdown.cancelled() => Err(Unfinished::Stopping),
        () = in_the_way(app, queue, project, crowd, Instant::now()) => Ok(()),
    }
}
