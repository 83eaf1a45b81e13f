/** The API's enumerations, as the screens offer them. `tests/values.test.ts` compares them with openapi.yaml. */
export const CHANNELS = ['EMAIL', 'PUSH', 'IN_APP', 'SMS'] as const;
export const MESSAGE_STATUSES = [
  'queued',
  'sent',
  'delivered',
  'opened',
  'clicked',
  'failed',
  'bounced',
  'complained',
  'suppressed',
  'cancelled',
] as const;
export const RUN_STATUSES = ['waiting', 'frozen', 'completed', 'exited', 'failed'] as const;
export const CAMPAIGN_STATUSES = [
  'DRAFT',
  'SCHEDULED',
  'SENDING',
  'PAUSED',
  'COMPLETED',
  'CANCELLED',
  'FAILED',
] as const;
export const RANGES = ['7d', '30d', '90d'] as const;
export const SUPPRESSION_REASONS = ['manual', 'unsubscribed', 'bounced', 'complained'] as const;
export const WEBHOOK_EVENTS = [
  '*',
  'message.sent',
  'message.delivered',
  'message.opened',
  'message.clicked',
  'message.bounced',
  'message.complained',
  'message.failed',
  'message.suppressed',
  'automation.entered',
  'automation.completed',
  'automation.exited',
  'automation.converted',
] as const;
export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed'] as const;
export const DEAD_LETTER_KINDS = ['MESSAGE', 'ITEM'] as const;

export const PLATFORMS = ['IOS', 'ANDROID', 'WEB'] as const;

export type Channel = (typeof CHANNELS)[number];
/** Which kind of ID a request uses for users; without it, either kind is accepted. */
export const ID_TYPES = ['internal', 'external'] as const;
export const USER_TABS = ['events', 'messages', 'segments', 'automations', 'subscriptions'] as const;
export const CHANNEL_TABS = ['email', 'push', 'sms', 'in_app', 'devices', 'limits'] as const;
export const FLOW_VIEWS = ['list', 'canvas'] as const;
export type FlowView = (typeof FLOW_VIEWS)[number];
