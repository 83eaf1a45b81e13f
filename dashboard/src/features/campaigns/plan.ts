import type { Schemas } from '../../api/client';
import { changesOf } from '../../app/draft';
import type { Channel } from '../../app/values';
import { OWN_ZONE, momentOf, onClock } from './clock';

type Campaign = Schemas['Campaign'];
export type Variant = Schemas['CampaignVariant'];

/** A campaign as it is planned on the screen. */
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
  /** As the clock of {@link zoneOf} shows it, such as 2026-01-31T09:00; empty where it is sent by hand. */
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

/** Whose clock the planned time is of: the viewer's; or the project's, where everybody is sent to at that time of their own. */
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
    scheduledAt: campaign.scheduledAt === null ? '' : onClock(campaign.scheduledAt, zoneOf(campaign, projectZone)),
    throttlePerMinute: campaign.throttlePerMinute === null ? '' : String(campaign.throttlePerMinute),
  };
}

/** What the API is told of a plan. */
export function inputOf(plan: Plan, projectZone: string): Schemas['CampaignInput'] {
  const { name, channel, segmentId, excludeSegmentIds, winner, goal, sendInUserTimezone, recurrence } = plan;
  const tried = plan.variants.length > 0;
  return {
    name,
    channel,
    segmentId,
    excludeSegmentIds,
    goal,
    sendInUserTimezone,
    recurrence,
    variants: plan.variants,
    winner: tried ? winner : null,
    templateId: tried || plan.templateId === '' ? null : plan.templateId,
    subscriptionGroupId: plan.subscriptionGroupId || null,
    scheduledAt: plan.scheduledAt === '' ? null : momentOf(plan.scheduledAt, zoneOf(plan, projectZone)),
    throttlePerMinute: plan.throttlePerMinute.trim() === '' ? null : Number(plan.throttlePerMinute),
  };
}

/** What the API is told of a stored plan: only what was changed. A time that has passed is refused as a new one. */
export function changeOf(plan: Plan, stored: Plan, projectZone: string): Schemas['CampaignInput'] {
  return changesOf(inputOf(stored, projectZone), inputOf(plan, projectZone));
}

/** Whether it is sent by itself once it is saved. */
export function isTimed(plan: Plan): boolean {
  return plan.scheduledAt !== '' || plan.recurrence !== null;
}

/** Weights that add up to 100, as even as whole numbers can be. */
export function evenly(variants: Variant[]): Variant[] {
  const share = Math.floor(100 / variants.length);
  const rest = 100 - share * variants.length;
  return variants.map((variant, index) => ({ ...variant, weight: share + (index < rest ? 1 : 0) }));
}

const SETTLED = [
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

/** How many of a campaign's messages are done with, by their states. */
export function settledOf(byStatus: Record<string, number>): number {
  return SETTLED.reduce((sum, status) => sum + (byStatus[status] ?? 0), 0);
}
