//! The page on which users choose what they receive.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use database::StoreError;
use domain::link::{self, LinkClaims};
use domain::subscription::{GROUPS_MAX, Source};
use domain::suppression::{ADDRESS_CHANNELS, Address, Reason};
use http::StatusCode;
use store_profiles::subscriptions::{self, Subscription};
use store_profiles::users::recipient;
use store_projects::projects;
use store_sending::suppressions;
use uuid::Uuid;

use super::page::{Escaped, invalid_link_page, page, too_many_requests_page, try_again_page};
use super::subscription_change::{self, ChangeError, SubscriptionChange};
use super::{read_permit, unsubscribe};
use crate::app::App;
use crate::http::query::Query;
use crate::http::respond::Reply;

/// Timeout of the page's database reads.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum groups that are read from a form.
const MAX_FORM_GROUPS: usize = 2 * GROUPS_MAX;

/// The data of the page.
#[derive(Debug)]
struct PageData {
    project: String,
    /// Public groups only.
    groups: Vec<Subscription>,
    /// Whether the user has unsubscribed from everything.
    from_everything: bool,
}

/// The request of a form.
#[derive(Debug, PartialEq, Eq)]
enum FormAction {
    /// Unsubscribe from everything.
    UnsubscribeAll,
    /// The displayed groups and whether each was ticked; `resubscribe` revokes an unsubscription from everything.
    Groups { choices: Vec<(Uuid, bool)>, resubscribe: bool },
}

/// Shows the page or, with a form, applies the request first.
pub async fn handle(app: &App, form: Option<&Query>, token: &str) -> Reply {
    let Some(about) = link::read_preferences(&app.master_keys, token) else { return invalid_link_page() };
    if form.is_none() && app.links.limit.take(&about.message).is_err() {
        return too_many_requests_page();
    }
    let action = form.map(parse_form);
    if let Some(action) = &action
        && let Err(refused) = apply(app, about, action).await
    {
        return unsubscribe::error_page(about, &refused);
    }
    let data = async {
        let Some(_permit) = read_permit(app, about).await else {
            return Err(StoreError::Unavailable("too many pages are being loaded".to_owned()));
        };
        tokio::time::timeout(LOOKUP_TIMEOUT, load(app, about))
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("the query timed out".to_owned())))
    };
    match (data.await, action) {
        (Ok(Some(mut data)), Some(action)) => {
            data.reflect(&action);
            page(StatusCode::OK, "Your messages", &render(&data, true))
        }
        (Ok(Some(data)), None) => page(StatusCode::OK, "Your messages", &render(&data, false)),
        // The choice was accepted, even if the page cannot be rendered.
        (_, Some(_)) => page(StatusCode::OK, "Your messages", SAVED_NOTICE),
        (Ok(None), None) => invalid_link_page(),
        (Err(error), None) => {
            tracing::warn!(project = %about.project, %error, "cannot load the data of a preference page");
            try_again_page()
        }
    }
}

const SAVED_NOTICE: &str = "<p class=\"done\" role=\"status\">Your choice is saved.</p>";

fn parse_form(form: &Query) -> FormAction {
    if form.get("do") == Some("nothing") {
        return FormAction::UnsubscribeAll;
    }
    let ids = |name| {
        form.all(name).filter_map(|id| Uuid::try_parse(id).ok()).take(MAX_FORM_GROUPS).collect::<BTreeSet<Uuid>>()
    };
    let (shown, ticked) = (ids("shown"), ids("group"));
    let choices = shown.into_iter().map(|id| (id, ticked.contains(&id))).collect();
    FormAction::Groups { choices, resubscribe: form.get("again") == Some("yes") }
}

async fn apply(app: &App, about: LinkClaims, action: &FormAction) -> Result<(), ChangeError> {
    match action {
        FormAction::UnsubscribeAll => unsubscribe::from_everything(app, about).await,
        FormAction::Groups { choices, resubscribe: false } if choices.is_empty() => Ok(()),
        FormAction::Groups { choices, resubscribe } => {
            let change =
                SubscriptionChange { choices: choices.clone(), source: Source::Page, resubscribe: *resubscribe };
            subscription_change::publish(app, about, change).await
        }
    }
}

/// Loads the page's data. Returns `None` if the user or project no longer exists.
async fn load(app: &App, about: LinkClaims) -> Result<Option<PageData>, StoreError> {
    let db = app.store.connection().await?;
    let Some(project) = projects::get(&db, about.project).await? else { return Ok(None) };
    let users = recipient::load(&db, about.project, &[about.user]).await?;
    let Some(user) = users.get(&about.user) else { return Ok(None) };
    let mut groups = subscriptions::of_user(&db, about.project, user.id).await?;
    groups.retain(|subscription| subscription.group.public);
    let sent_to = suppressions::recipients(&db, about.project, &[about.message]).await?.remove(&about.message);
    let channel = sent_to.as_ref().map(|sent_to| sent_to.channel).or(about.channel);
    let channels = channel.map_or(ADDRESS_CHANNELS.to_vec(), |channel| vec![channel]);
    let mut addresses: Vec<Address> = channels.into_iter().map(|channel| Address::for_user(channel, user.id)).collect();
    // Other addresses in the profile are not known to belong to the user.
    match sent_to {
        Some(to) => addresses.extend(to.address.map(|text| Address { channel: to.channel, text })),
        None => addresses.extend(suppressions::unsubscribed_by(&db, about.project, about.message, user).await?),
    }
    let listed = suppressions::reasons(&db, about.project, &addresses).await?;
    let from_everything = listed.values().flatten().any(|reason| *reason == Reason::Unsubscribed);
    Ok(Some(PageData { project: project.name, groups, from_everything }))
}

impl PageData {
    /// Applies the request to the displayed data, because the worker may not have applied it yet.
    fn reflect(&mut self, action: &FormAction) {
        match action {
            FormAction::UnsubscribeAll => self.from_everything = true,
            FormAction::Groups { choices, resubscribe } => {
                self.from_everything &= !resubscribe;
                for subscription in &mut self.groups {
                    let action = choices.iter().find(|(id, _)| *id == subscription.group.id);
                    if let Some((_, subscribed)) = action {
                        subscription.chosen = Some((*subscribed, Source::Page, subscription.group.created_at));
                    }
                }
            }
        }
    }
}

fn render(data: &PageData, done: bool) -> String {
    let mut html = format!("<p class=\"quiet\">From {}</p>", Escaped(&data.project));
    if done {
        html.push_str(SAVED_NOTICE);
    }
    if data.from_everything {
        html.push_str("<p><strong>You have unsubscribed from everything</strong> and no longer receive any of these messages.</p>");
    }
    if !data.groups.is_empty() || data.from_everything {
        html.push_str("<form method=\"post\"><fieldset><legend>What would you like to receive?</legend>");
        if data.from_everything {
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
        for (n, subscription) in data.groups.iter().enumerate() {
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
    if !data.from_everything {
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
    fn form_is_parsed_into_displayed_and_ticked_groups() {
        let read = |form: &str| parse_form(&Query::parse(form).unwrap());
        let [a, b] = [1, 2].map(Uuid::from_u128);
        let form = format!("shown={a}&group={a}&shown={b}&do=save");
        assert_eq!(read(&form), FormAction::Groups { choices: vec![(a, true), (b, false)], resubscribe: false });
        // A group that was not shown is ignored, and so is an invalid ID.
        let form = format!("group={a}&shown=x&again=yes");
        assert_eq!(read(&form), FormAction::Groups { choices: vec![], resubscribe: true });
        assert_eq!(read(&format!("shown={a}&do=nothing")), FormAction::UnsubscribeAll);
        let many = (0..1_000).map(|n| format!("shown={}&", Uuid::from_u128(n))).collect::<Vec<_>>().concat();
        let FormAction::Groups { choices, .. } = read(&many) else { panic!("{many}") };
        assert_eq!(choices.len(), MAX_FORM_GROUPS);
    }
}
