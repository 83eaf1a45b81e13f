import type { Schemas } from '../../api/client';
import { changesOf } from '../../app/draft';
import type { Channel } from '../../app/values';
import { OWN_ZONE, fromLocalTime, toLocalTime } from './clock';

type Campaign = Schemas['Campaign'];
export type Variant = Schemas['CampaignVariant'];

/** A campaign in the editor. */
export interface Plan {
  name: string;
  channel: Channel;
  segmentId: string;
  excludeSegmentIds: string[];
  subscriptionGroupId: string;
  templateId: string;
  variants: Variant[];
  winner: Schemas['CampaignWinner'];
  goal: Schemas['CampaignGoal'];
  /** Local time in the zone of {@link zoneOf}, such as 2026-01-31T09:00; empty for a manual send. */
  scheduledAt: string;
  sendInUserTimezone: boolean;
  throttlePerMinute: string;
  recurrence: Schemas['CampaignRecurrence'];
}

export const EMPTY: Plan = {
  name: '',
  channel: 'EMAIL',
  segmentId: '',
  excludeSegmentIds: [],
  subscriptionGroupId: '',
  templateId: '',
  variants: [],
  winner: null,
  goal: null,
  scheduledAt: '',
  sendInUserTimezone: false,
  throttlePerMinute: '',
  recurrence: null,
};

/** The time zone of the scheduled time: the viewer's, or the project's if each recipient gets the message in their own zone. */
export function zoneOf(plan: { sendInUserTimezone: boolean }, projectZone: string): string {
  return plan.sendInUserTimezone ? projectZone : OWN_ZONE;
}

export function planOf(campaign: Campaign, projectZone: string): Plan {
  const { name, channel, segmentId, excludeSegmentIds, variants, winner, goal, sendInUserTimezone, recurrence } =
    campaign;
  return {
    name,
    channel,
    segmentId,
    excludeSegmentIds,
    variants,
    winner,
    goal,
    sendInUserTimezone,
    recurrence,
    subscriptionGroupId: campaign.subscriptionGroupId ?? '',
    templateId: campaign.templateId ?? '',
    scheduledAt: campaign.scheduledAt === null ? '' : toLocalTime(campaign.scheduledAt, zoneOf(campaign, projectZone)),
    throttlePerMinute: campaign.throttlePerMinute === null ? '' : String(campaign.throttlePerMinute),
  };
}

/** Returns the request body for a plan. */
export function inputOf(plan: Plan, projectZone: string): Schemas['CampaignInput'] {
  const { name, channel, segmentId, excludeSegmentIds, winner, goal, sendInUserTimezone, recurrence } = plan;
  const hasVariants = plan.variants.length > 0;
  return {
    name,
    channel,
    segmentId,
    excludeSegmentIds,
    goal,
    sendInUserTimezone,
    recurrence,
    variants: plan.variants,
    winner: hasVariants ? winner : null,
    templateId: hasVariants || plan.templateId === '' ? null : plan.templateId,
    subscriptionGroupId: plan.subscriptionGroupId || null,
    scheduledAt: plan.scheduledAt === '' ? null : fromLocalTime(plan.scheduledAt, zoneOf(plan, projectZone)),
    throttlePerMinute: plan.throttlePerMinute.trim() === '' ? null : Number(plan.throttlePerMinute),
  };
}

/** Returns the changed fields only: the API refuses a scheduled time in the past, even an unchanged one. */
export function changeOf(plan: Plan, stored: Plan, projectZone: string): Schemas['CampaignInput'] {
  return changesOf(inputOf(stored, projectZone), inputOf(plan, projectZone));
}

/** Whether the campaign is sent automatically after it is saved. */
export function isScheduled(plan: Plan): boolean {
  return plan.scheduledAt !== '' || plan.recurrence !== null;
}

/** Sets the weights to integers that add up to 100 and differ by at most 1. */
export function splitEvenly(variants: Variant[]): Variant[] {
  const share = Math.floor(100 / variants.length);
  const rest = 100 - share * variants.length;
  return variants.map((variant, index) => ({ ...variant, weight: share + (index < rest ? 1 : 0) }));
}

const PROCESSED_STATUSES = [
  'sent',
  'delivered',
  'opened',
  'clicked',
  'failed',
  'bounced',
  'complained',
  'suppressed',
  'cancelled',
];

/** Counts a campaign's messages that are no longer queued. */
export function processedCount(byStatus: Record<string, number>): number {
  return PROCESSED_STATUSES.reduce((sum, status) => sum + (byStatus[status] ?? 0), 0);
}
