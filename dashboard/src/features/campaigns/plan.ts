import type { Schemas } from '../../api/client';
import type { Channel } from '../../app/values';

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
  /** Of the viewer's clock, such as 2026-01-31T09:00; empty where it is sent by hand. */
  scheduledAt: string;
  sendInUserTimezone: boolean;
  throttlePerMinute: string;
  recurrence: Schemas['CampaignRecurrence'];
}

export const EMPTY: Plan = {
  name: '', channel: 'EMAIL', segmentId: '', excludeSegmentIds: [], subscriptionGroupId: '', templateId: '', variants: [],
  winner: null, goal: null, scheduledAt: '', sendInUserTimezone: false, throttlePerMinute: '', recurrence: null,
};

/** A moment as the viewer's clock shows it, to the minute. */
export function onClock(at: string): string {
  const date = new Date(at);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function planOf(campaign: Campaign): Plan {
  const { name, channel, segmentId, excludeSegmentIds, variants, winner, goal, sendInUserTimezone, recurrence } = campaign;
  return {
    name, channel, segmentId, excludeSegmentIds, variants, winner, goal, sendInUserTimezone, recurrence,
    subscriptionGroupId: campaign.subscriptionGroupId ?? '',
    templateId: campaign.templateId ?? '',
    scheduledAt: campaign.scheduledAt === null ? '' : onClock(campaign.scheduledAt),
    throttlePerMinute: campaign.throttlePerMinute === null ? '' : String(campaign.throttlePerMinute),
  };
}

/** What the API is told of a plan. */
export function inputOf(plan: Plan): Schemas['CampaignInput'] {
  const { name, channel, segmentId, excludeSegmentIds, winner, goal, sendInUserTimezone, recurrence } = plan;
  const tried = plan.variants.length > 0;
  return {
    name, channel, segmentId, excludeSegmentIds, goal, sendInUserTimezone, recurrence,
    variants: plan.variants,
    winner: tried ? winner : null,
    templateId: tried || plan.templateId === '' ? null : plan.templateId,
    subscriptionGroupId: plan.subscriptionGroupId || null,
    scheduledAt: plan.scheduledAt === '' ? null : new Date(plan.scheduledAt).toISOString(),
    throttlePerMinute: plan.throttlePerMinute.trim() === '' ? null : Number(plan.throttlePerMinute),
  };
}

/** Weights that add up to 100, as even as whole numbers can be. */
export function evenly(variants: Variant[]): Variant[] {
  const share = Math.floor(100 / variants.length);
  const rest = 100 - share * variants.length;
  return variants.map((variant, index) => ({ ...variant, weight: share + (index < rest ? 1 : 0) }));
}

const SETTLED = ['sent', 'delivered', 'opened', 'clicked', 'failed', 'bounced', 'complained', 'suppressed', 'cancelled'];

/** How many of a campaign's messages are done with, by their states. */
export function settledOf(byStatus: Record<string, number>): number {
  return SETTLED.reduce((sum, status) => sum + (byStatus[status] ?? 0), 0);
}
