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
const QUESTIONS: u32 = 100;
/// Milliseconds within which 99 % must be answered.
const P99: f64 = 50.0;

/// A kind of request: its name, and how one is built.
struct Question {
    name: &'static str,
    path: fn(&mut Dice, people: u32) -> String,
    goal: bool,
}

/// Returns the external ID of a random identified user.
fn somebody(dice: &mut Dice, people: u32) -> String {
    loop {
        let person = dice.below(people);
        if !fill::people::is_anonymous(person) {
            return tenants::external_id(person);
        }
    }
}

const ALL: [Question; 9] = [
    Question { name: "GET /events", path: |d, _| format!("/events?page={}", 1 + d.below(20)), goal: true },
    Question {
        name: "GET /events by name",
        path: |d, _| format!("/events?event={}", tenants::event_name(d.below(EVENT_NAMES))),
        goal: true,
    },
    Question {
        name: "GET /events by user",
        path: |d, people| format!("/events?user={}", somebody(d, people)),
        goal: true,
    },
    Question { name: "GET /users", path: |d, _| format!("/users?page={}", 1 + d.below(20)), goal: true },
    Question {
        name: "GET /users by prefix",
        path: |d, _| format!("/users?search={}", d.of(&["a", "br", "ch", "ha", "li", "qu", "zo", "us"])),
        goal: true,
    },
    Question {
        name: "GET /users by substring",
        path: |d, _| format!("/users?search={}", d.of(&["dubois", "kowal", "12345", "no-such-user", "quentin.abe"])),
        goal: false,
    },
    Question { name: "GET /users/:id", path: |d, people| format!("/users/{}", somebody(d, people)), goal: true },
    Question {
        name: "GET /reports",
        path: |d, _| format!("/reports?range={}", d.of(&["7d", "30d", "90d"])),
        goal: true,
    },
    Question { name: "GET /events, the last of 10,000", path: |_, _| "/events?page=500".to_owned(), goal: false },
];

pub async fn run(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let (events, users) = lab.settings.filled;
    section.about = format!(
        "{events} events and {users} users in {PROJECTS} projects; the queried project has more than half of them"
    );
    let progress = lab.progress.clone();
    let system = lab.filled(section).await?;
    system.run(&[GATEWAY]).await?;
    let people = Shares { projects: PROJECTS, total: users }.of(BIG) as u32;
    for question in &ALL {
        progress.step(question.name);
        ask_all(system.gateway, question, people, 1).await?;
        let times = ask_all(system.gateway, question, people, QUESTIONS).await?;
        section.figures.push(Figure::one(format!("{}, p50", question.name), "ms", quantile(&times, 0.5)));
        let p99 = Figure::one(format!("{}, p99", question.name), "ms", quantile(&times, 0.99));
        section.figures.push(if question.goal { p99.goal(Goal::AtMost(P99)) } else { p99 });
    }
    // Stop the programs: they query the same database.
    system.run(&[]).await
}

/// Runs all clients and returns their times in microseconds, sorted.
async fn ask_all(to: SocketAddr, question: &Question, people: u32, times: u32) -> Result<Vec<u32>> {
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let (path, name) = (question.path, question.name);
        clients.spawn(async move { ask(to, path, people, times, client).await.context(name) });
    }
    let mut all = Vec::new();
    while let Some(ended) = clients.join_next().await {
        all.extend(ended??);
    }
    all.sort_unstable();
    Ok(all)
}

async fn ask(
    to: SocketAddr,
    path: fn(&mut Dice, u32) -> String,
    people: u32,
    times: u32,
    client: u64,
) -> Result<Vec<u32>> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (mut dice, mut answers, mut taken) = (Dice::new(client), Answers::default(), Vec::new());
    let key = tenants::secret_key(BIG);
    for _ in 0..times {
        let path = path(&mut dice, people);
        let request = format!("GET /api/v1{path} HTTP/1.1\r\nhost: {to}\r\nx-api-key: {key}\r\n\r\n");
        let asked = Instant::now();
        write(&stream, request.as_bytes()).await?;
        answers.next(&mut stream, b"200").await.with_context(|| path.clone())?;
        taken.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    Ok(taken)
}
