//! The page on which users choose what they receive.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use database::StoreError;
use domain::link::{self, About};
use domain::subscription::{GROUPS_MAX, Source};
use domain::suppression::{Address, Reason, WITH_ADDRESSES};
use http::StatusCode;
use store_profiles::subscriptions::{self, Subscription};
use store_profiles::users::recipient;
use store_projects::projects;
use store_sending::suppressions;
use uuid::Uuid;

use super::choose::{self, Chosen, Refused};
use super::page::{Escaped, no_link, not_yet, page, too_many};
use super::{read_permit, unsubscribe};
use crate::app::App;
use crate::http::query::Query;
use crate::http::respond::Reply;

/// Timeout of the page's database reads.
const LOOK: Duration = Duration::from_secs(5);
/// Maximum groups that are read from a form.
const READ: usize = 2 * GROUPS_MAX;

/// The data of the page.
#[derive(Debug)]
struct Seen {
    project: String,
    /// Public groups only.
    groups: Vec<Subscription>,
    /// Whether the user has unsubscribed from everything.
    from_everything: bool,
}

/// The request of a form.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// Unsubscribe from everything.
    Nothing,
    /// The displayed groups and whether each was ticked; `again` revokes an unsubscription from everything.
    Groups { choices: Vec<(Uuid, bool)>, again: bool },
}

/// Shows the page or, with a form, applies the request first.
pub async fn answer(app: &App, form: Option<&Query>, token: &str) -> Reply {
    let Some(about) = link::read_preferences(&app.master_keys, token) else { return no_link() };
    if form.is_none() && app.links.limit.take(&about.message).is_err() {
        return too_many();
    }
    let asked = form.map(asked);
    if let Some(asked) = &asked
        && let Err(refused) = tell(app, about, asked).await
    {
        return unsubscribe::refuses(about, &refused);
    }
    let seen = async {
        let Some(_permit) = read_permit(app, about).await else {
            return Err(StoreError::Unavailable("too many pages are being loaded".to_owned()));
        };
        tokio::time::timeout(LOOK, look(app, about))
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("the query timed out".to_owned())))
    };
    match (seen.await, asked) {
        (Ok(Some(mut seen)), Some(asked)) => {
            seen.reflect(&asked);
            page(StatusCode::OK, "Your messages", &shown(&seen, true))
        }
        (Ok(Some(seen)), None) => page(StatusCode::OK, "Your messages", &shown(&seen, false)),
        // The choice was accepted, even if the page cannot be rendered.
        (_, Some(_)) => page(StatusCode::OK, "Your messages", DONE),
        (Ok(None), None) => no_link(),
        (Err(error), None) => {
            tracing::warn!(project = %about.project, %error, "cannot load the data of a preference page");
            not_yet()
        }
    }
}

const DONE: &str = "<p class=\"done\" role=\"status\">Your choice is saved.</p>";

fn asked(form: &Query) -> Asked {
    if form.get("do") == Some("nothing") {
        return Asked::Nothing;
    }
    let ids = |name| form.all(name).filter_map(|id| Uuid::try_parse(id).ok()).take(READ).collect::<BTreeSet<Uuid>>();
    let (shown, ticked) = (ids("shown"), ids("group"));
    let choices = shown.into_iter().map(|id| (id, ticked.contains(&id))).collect();
    Asked::Groups { choices, again: form.get("again") == Some("yes") }
}

async fn tell(app: &App, about: About, asked: &Asked) -> Result<(), Refused> {
    match asked {
        Asked::Nothing => unsubscribe::tell(app, about).await,
        Asked::Groups { choices, again: false } if choices.is_empty() => Ok(()),
        Asked::Groups { choices, again } => {
            let chosen = Chosen { choices: choices.clone(), source: Source::Page, resubscribe: *again };
            choose::tell(app, about, chosen).await
        }
    }
}

/// Loads the page's data. Returns `None` if the user or project no longer exists.
async fn look(app: &App, about: About) -> Result<Option<Seen>, StoreError> {
    let db = app.store.connection().await?;
    let Some(project) = projects::get(&db, about.project).await? else { return Ok(None) };
    let people = recipient::load(&db, about.project, &[about.user]).await?;
    let Some(person) = people.get(&about.user) else { return Ok(None) };
    let mut groups = subscriptions::of_person(&db, about.project, person.id).await?;
    groups.retain(|subscription| subscription.group.public);
    let went_to = suppressions::recipients(&db, about.project, &[about.message]).await?.remove(&about.message);
    let channel = went_to.as_ref().map(|went_to| went_to.channel).or(about.channel);
    let channels = channel.map_or(WITH_ADDRESSES.to_vec(), |channel| vec![channel]);
    let mut addresses: Vec<Address> = channels.into_iter().map(|channel| Address::person(channel, person.id)).collect();
    // Other addresses in the profile are not known to belong to the user.
    match went_to {
        Some(to) => addresses.extend(to.address.map(|text| Address { channel: to.channel, text })),
        None => addresses.extend(suppressions::unsubscribed_by(&db, about.project, about.message, person).await?),
    }
    let listed = suppressions::reasons(&db, about.project, &addresses).await?;
    let from_everything = listed.values().flatten().any(|reason| *reason == Reason::Unsubscribed);
    Ok(Some(Seen { project: project.name, groups, from_everything }))
}

impl Seen {
    /// Applies the request to the displayed data, because the worker may not have applied it yet.
    fn reflect(&mut self, asked: &Asked) {
        match asked {
            Asked::Nothing => self.from_everything = true,
            Asked::Groups { choices, again } => {
                self.from_everything &= !again;
                for subscription in &mut self.groups {
                    let asked = choices.iter().find(|(id, _)| *id == subscription.group.id);
                    if let Some((_, subscribed)) = asked {
                        subscription.chosen = Some((*subscribed, Source::Page, subscription.group.created_at));
                    }
                }
            }
        }
    }
}

fn shown(seen: &Seen, done: bool) -> String {
    let mut html = format!("<p class=\"quiet\">From {}</p>", Escaped(&seen.project));
    if done {
        html.push_str(DONE);
    }
    if seen.from_everything {
        html.push_str("<p><strong>You have unsubscribed from everything</strong> and no longer receive any of these messages.</p>");
    }
    if !seen.groups.is_empty() || seen.from_everything {
        html.push_str("<form method=\"post\"><fieldset><legend>What would you like to receive?</legend>");
        if seen.from_everything {
            html.push_str(
                &Choice {
                    id: "again",
                    name: "again",
                    value: "yes",
                    is_ticked: false,
                    text: "Send me messages again",
                    more: "",
                }
                .html(),
            );
        }
        for (n, subscription) in seen.groups.iter().enumerate() {
            let (group, id) = (&subscription.group, subscription.group.id.to_string());
            let _ = write!(html, "<input type=\"hidden\" name=\"shown\" value=\"{id}\">");
            let choice = Choice {
                id: &format!("g{n}"),
                name: "group",
                value: &id,
                is_ticked: subscription.is_subscribed(),
                text: &group.name,
                more: &group.description,
            };
            html.push_str(&choice.html());
        }
        html.push_str("</fieldset><button name=\"do\" value=\"save\">Save</button></form>");
    }
    if !seen.from_everything {
        html.push_str(
            "<form method=\"post\"><button class=\"other\" name=\"do\" value=\"nothing\">Unsubscribe from everything</button></form>",
        );
    }
    html
}

/// A checkbox and its label.
struct Choice<'a> {
    /// Unique within the page.
    id: &'a str,
    name: &'a str,
    value: &'a str,
    is_ticked: bool,
    text: &'a str,
    /// A description, or empty.
    more: &'a str,
}

impl Choice<'_> {
    fn html(&self) -> String {
        let Self { id, name, value, is_ticked, text, more } = *self;
        let checked = if is_ticked { " checked" } else { "" };
        let (described, more) = if more.is_empty() {
            (String::new(), String::new())
        } else {
            (format!(" aria-describedby=\"{id}-more\""), format!("<p id=\"{id}-more\">{}</p>", Escaped(more)))
        };
        format!(
            "<div class=\"choice\"><input type=\"checkbox\" id=\"{id}\" name=\"{name}\" value=\"{value}\"{checked}{described}>\
             <label for=\"{id}\">{}</label>{more}</div>",
            Escaped(text)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_says_what_was_shown_and_what_was_ticked() {
        let read = |form: &str| asked(&Query::parse(form).unwrap());
        let [a, b] = [1, 2].map(Uuid::from_u128);
        let form = format!("shown={a}&group={a}&shown={b}&do=save");
        assert_eq!(read(&form), Asked::Groups { choices: vec![(a, true), (b, false)], again: false });
        // A group that was not shown is ignored, and so is an invalid ID.
        let form = format!("group={a}&shown=x&again=yes");
        assert_eq!(read(&form), Asked::Groups { choices: vec![], again: true });
        assert_eq!(read(&format!("shown={a}&do=nothing")), Asked::Nothing);
        let many = (0..1_000).map(|n| format!("shown={}&", Uuid::from_u128(n))).collect::<Vec<_>>().concat();
        let Asked::Groups { choices, .. } = read(&many) else { panic!("{many}") };
        assert_eq!(choices.len(), READ);
    }
}
