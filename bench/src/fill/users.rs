//! Fills users.

use std::pin::pin;

use anyhow::Result;
use kernel::clock::from_ms;
use kernel::ids::{ProjectId, UserKey};
use tokio_postgres::NoTls;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{CONNECTIONS, DAY_MS, DAYS, Shares};
use crate::copy::{self, JsonText};
use crate::dice::Dice;
use crate::{provision, tenants};
use progress::{Bar, Steps};

const COLUMNS: &str = "project_id uuid, id uuid, external_id text, anonymous_id text, email text, name text, \
                       properties jsonb, merged_into uuid, merged_at timestamptz, created_at timestamptz, \
                       last_seen_at timestamptz, updated_at timestamptz";
/// Percentage of users who were anonymous at first.
const MERGED: u32 = 1;

const FIRST: [&str; 24] = [
    "Ada", "Bruno", "Chiara", "Dmitri", "Elif", "Fatima", "Goran", "Hanna", "Ivo", "Jana", "Kofi", "Lena", "Mateo",
    "Noor", "Olga", "Pablo", "Quentin", "Rosa", "Sami", "Tomás", "Uma", "Vera", "Wanjiru", "Zoë",
];
const LAST: [&str; 24] = [
    "Abe",
    "Bauer",
    "Costa",
    "Dubois",
    "Eriksen",
    "Fischer",
    "García",
    "Haddad",
    "Ito",
    "Jansen",
    "Kowalski",
    "Lindqvist",
    "Moreau",
    "Novák",
    "Okafor",
    "Petrov",
    "Quispe",
    "Rossi",
    "Schmidt",
    "Tanaka",
    "Ueda",
    "Varga",
    "Wójcik",
    "Zhang",
];
const COUNTRIES: [&str; 8] = ["DE", "FR", "GB", "IT", "JP", "NG", "PL", "US"];
const PLANS: [&str; 4] = ["free", "free", "pro", "team"];

/// Returns whether a user is known only anonymously, as every twentieth is.
pub fn is_anonymous(user: u32) -> bool {
    user % 20 == 7
}

/// Returns the internal ID of a project's user number `user`.
pub fn id(project: ProjectId, user: u32) -> Uuid {
    if is_anonymous(user) {
        UserKey::Anonymous(&anonymous_id(user)).internal_id(project)
    } else {
        tenants::user_id(project, user)
    }
}

fn anonymous_id(user: u32) -> String {
    format!("anon-{user:07}")
}

/// Fills `users` and their counts.
pub async fn fill(url: &str, users: Shares, now_ms: i64, progress: &Steps) -> Result<()> {
    progress.step(&format!("filling {} users", users.total));
    let bar = Bar::new("users", users.total);
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..CONNECTIONS {
        let (url, bar) = (url.to_owned(), bar.clone());
        tasks.spawn(async move {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            tokio::spawn(connection);
            for project in (lane..users.projects).step_by(CONNECTIONS as usize) {
                of_project(&client, project, users.of(project), now_ms, &bar).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    bar.done();
    Ok(())
}

async fn of_project(client: &tokio_postgres::Client, number: u32, count: u64, now_ms: i64, bar: &Bar) -> Result<()> {
    let project = tenants::project(number);
    let mut dice = Dice::new(u64::from(number));
    let mut writer = pin!(copy::writer(client, "users", COLUMNS).await?);
    for user in 0..count as u32 {
        // Creation dates span a year and get sparser with age. All were last seen within the past month.
        let age = u64::from(dice.below(1_000)) * u64::from(dice.below(1_000)) * 365 / 1_000_000;
        let created_ms = now_ms - age as i64 * DAY_MS - i64::from(dice.below(DAY_MS as u32));
        let seen = from_ms(created_ms.max(now_ms - i64::from(dice.below(DAYS as u32)) * DAY_MS));
        let created = from_ms(created_ms);
        let (first, last) = (*dice.of(&FIRST), *dice.of(&LAST));
        let anonymous = is_anonymous(user);
        let name = (!anonymous).then(|| format!("{first} {last}"));
        let email = (!anonymous).then(|| format!("{}.{}.{user}@example.com", ascii(first), ascii(last)));
        let external = (!anonymous).then(|| tenants::external_id(user));
        let anonymous_id = anonymous.then(|| anonymous_id(user));
        let key = id(project, user);
        let properties = JsonText(format!(
            r#"{{"plan":"{}","country":"{}","age":{},"orders":{},"newsletter":{}}}"#,
            dice.of(&PLANS),
            dice.of(&COUNTRIES),
            18 + dice.below(60),
            dice.below(40),
            dice.below(2) == 1
        ));
        let none: Option<Uuid> = None;
        let never: Option<jiff::Timestamp> = None;
        let row: [&(dyn ToSql + Sync); 12] = [
            &project,
            &key,
            &external,
            &anonymous_id,
            &email,
            &name,
            &properties,
            &none,
            &never,
            &created,
            &seen,
            &seen,
        ];
        writer.as_mut().write(&row).await?;
        if !anonymous && dice.below(100) < MERGED {
            let device = format!("device-{number}-{user}");
            let pointer = UserKey::Anonymous(&device).internal_id(project);
            let empty = JsonText("{}".to_owned());
            let (no_text, into): (Option<&str>, _) = (None, Some(key));
            let row: [&(dyn ToSql + Sync); 12] = [
                &project, &pointer, &no_text, &device, &no_text, &no_text, &empty, &into, &created, &created, &seen,
                &seen,
            ];
            writer.as_mut().write(&row).await?;
        }
        if user % 1_000 == 999 {
            bar.add(1_000);
        }
    }
    writer.finish().await?;
    bar.add(count % 1_000);
    let sql = "INSERT INTO user_count (project_id, lane, count) VALUES ($1, 0, $2)";
    client.execute(sql, &[&project, &(count as i64)]).await?;
    provision::seen(client, &[project.0]).await?;
    Ok(())
}

fn ascii(name: &str) -> String {
    name.chars().filter(char::is_ascii).collect::<String>().to_lowercase()
}
