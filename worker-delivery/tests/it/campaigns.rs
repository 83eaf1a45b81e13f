//! Campaigns whose audience is stored, and whose messages the tests release.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use prost::Message as _;
use serde_json::json;
use shared::campaign::{CampaignStatus, Settings};
use shared::ids;
use shared::send::{Channel, Lane, MessageRef, SendChunk};
use shared::store::campaigns::audience::{find_slice, take_slice};
use shared::store::campaigns::{self, Campaign, sending};
use shared::store::segments::{self, Segment, SegmentType};
use uuid::Uuid;
use worker_delivery::provider::Outcome;
use worker_delivery::provider::stub::Stub;

use crate::place::Place;

/// Starts a campaign to all users; returns its ID and the parked messages by user.
pub async fn campaign(place: &Place) -> (Uuid, BTreeMap<Uuid, Uuid>) {
    let template = place.template("Sale", "<p>Sale</p>").await;
    let (segment, id) = (ids::fresh(place.clock.now_ms()), ids::fresh(place.clock.now_ms()));
    let now = place.clock.now();
    let rules = json!([{"field": "plan", "operator": "eq", "value": "pro"}]);
    let (name, description, segment_type) = ("pro".to_owned(), String::new(), SegmentType::Rules);
    let pro = Segment { id: segment, name, description, segment_type, rules, created_at: now, updated_at: now };
    let new = Campaign {
        id,
        name: "Sale".to_owned(),
        channel: Channel::Email,
        segment_id: segment,
        exclude_segment_ids: Vec::new(),
        template_id: Some(template),
        settings: Settings::default(),
        subscription_group_id: None,
        scheduled_at: Some(now),
        status: CampaignStatus::Scheduled,
        status_reason: None,
        started_at: None,
        recipients: 0,
        under_way: false,
        created_at: now,
        updated_at: now,
    };
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    segments::insert(&tx, place.project, &pro).await.unwrap();
    campaigns::insert(&tx, place.project, &new).await.unwrap();
    sending::begin(&tx, place.project, id, now, now).await.unwrap();
    let later = now + SignedDuration::from_secs(1);
    let (held, progress) = sending::hold(&tx, place.project, id, later).await.unwrap().unwrap();
    let slice = find_slice(&tx, place.project, &held, &progress, 10_000, later).await.unwrap();
    take_slice(&tx, place.project, &held, &progress, &slice).await.unwrap();
    tx.commit().await.unwrap();
    let rows = db.query("SELECT user_id, id FROM message WHERE campaign_id = $1", &[&id]).await.unwrap();
    (id, rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Releases messages and publishes each by itself, so that they are claimed at the same time.
pub async fn release(place: &Place, messages: &[Uuid]) {
    let sql = "UPDATE message SET due_at = now() + interval '1 minute', released_at = now() WHERE id = ANY($1)";
    place.store.connection().await.unwrap().execute(sql, &[&messages]).await.unwrap();
    for id in messages {
        let refs = vec![MessageRef::at(place.project, *id, 0)];
        place.publish(Lane::Campaign, SendChunk::of(refs).encode_to_vec().into()).await;
    }
}

/// Runs delivery with a provider that accepts everything.
pub async fn accepting(place: &mut Place) {
    place.run_with_stub(Stub::new(|_| Outcome::Accepted("1".to_owned()))).await;
}
