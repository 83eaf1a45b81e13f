//! Reads from a database that months of use have filled.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result};
use tokio::net::TcpStream;

use crate::dice::Dice;
use crate::fill::{self, BIG, Shares};
use crate::load::{Answers, quantile, write};
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::system::GATEWAY;
use crate::tenants::{self, EVENT_NAMES, PROJECTS};

/// Concurrent clients, and requests per client.
const CLIENTS: u64 = 4;
const REQUESTS: u32 = 100;
/// Milliseconds within which 99 % must be answered.
const P99: f64 = 50.0;

/// A kind of request: its name, and how one is built.
struct ReadRequest {
    name: &'static str,
    path: fn(&mut Dice, project_users: u32) -> String,
    goal: bool,
}

/// Returns the external ID of a random identified user.
fn random_external_id(dice: &mut Dice, project_users: u32) -> String {
    loop {
        let user = dice.below(project_users);
        if !fill::users::is_anonymous(user) {
            return tenants::external_id(user);
        }
    }
}

const ALL: [ReadRequest; 9] = [
    ReadRequest { name: "GET /events", path: |d, _| format!("/events?page={}", 1 + d.below(20)), goal: true },
    ReadRequest {
        name: "GET /events by name",
        path: |d, _| format!("/events?event={}", tenants::event_name(d.below(EVENT_NAMES))),
        goal: true,
    },
    ReadRequest {
        name: "GET /events by user",
        path: |d, project_users| format!("/events?user={}", random_external_id(d, project_users)),
        goal: true,
    },
    ReadRequest { name: "GET /users", path: |d, _| format!("/users?page={}", 1 + d.below(20)), goal: true },
    ReadRequest {
        name: "GET /users by prefix",
        path: |d, _| format!("/users?search={}", d.of(&["a", "br", "ch", "ha", "li", "qu", "zo", "us"])),
        goal: true,
    },
    ReadRequest {
        name: "GET /users by substring",
        path: |d, _| format!("/users?search={}", d.of(&["dubois", "kowal", "12345", "no-such-user", "quentin.abe"])),
        goal: false,
    },
    ReadRequest {
        name: "GET /users/:id",
        path: |d, project_users| format!("/users/{}", random_external_id(d, project_users)),
        goal: true,
    },
    ReadRequest {
        name: "GET /reports",
        path: |d, _| format!("/reports?range={}", d.of(&["7d", "30d", "90d"])),
        goal: true,
    },
    ReadRequest { name: "GET /events, the last of 10,000", path: |_, _| "/events?page=500".to_owned(), goal: false },
];

pub async fn run(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let (events, users) = lab.settings.filled;
    section.about = format!(
        "{events} events and {users} users in {PROJECTS} projects; the queried project has more than half of them"
    );
    let progress = lab.progress.clone();
    let system = lab.filled(section).await?;
    system.run(&[GATEWAY]).await?;
    let project_users = Shares { projects: PROJECTS, total: users }.of(BIG) as u32;
    for request in &ALL {
        progress.step(request.name);
        send_all(system.gateway, request, project_users, 1).await?;
        let times = send_all(system.gateway, request, project_users, REQUESTS).await?;
        section.figures.push(Figure::one(format!("{}, p50", request.name), "ms", quantile(&times, 0.5)));
        let p99 = Figure::one(format!("{}, p99", request.name), "ms", quantile(&times, 0.99));
        section.figures.push(if request.goal { p99.goal(Goal::AtMost(P99)) } else { p99 });
    }
    // Stop the programs: they query the same database.
    system.run(&[]).await
}

/// Runs all clients and returns their times in microseconds, sorted.
async fn send_all(to: SocketAddr, request: &ReadRequest, project_users: u32, times: u32) -> Result<Vec<u32>> {
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let (path, name) = (request.path, request.name);
        clients.spawn(async move { send(to, path, project_users, times, client).await.context(name) });
    }
    let mut all = Vec::new();
    while let Some(ended) = clients.join_next().await {
        all.extend(ended??);
    }
    all.sort_unstable();
    Ok(all)
}

async fn send(
    to: SocketAddr,
    path: fn(&mut Dice, u32) -> String,
    project_users: u32,
    times: u32,
    client: u64,
) -> Result<Vec<u32>> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (mut dice, mut answers, mut latencies) = (Dice::new(client), Answers::default(), Vec::new());
    let key = tenants::secret_key(BIG);
    for _ in 0..times {
        let path = path(&mut dice, project_users);
        let request = format!("GET /api/v1{path} HTTP/1.1\r\nhost: {to}\r\nx-api-key: {key}\r\n\r\n");
        let started = Instant::now();
        write(&stream, request.as_bytes()).await?;
        answers.next(&mut stream, b"200").await.with_context(|| path.clone())?;
        latencies.push(u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    Ok(latencies)
}
