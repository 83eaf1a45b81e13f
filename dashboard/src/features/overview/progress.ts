import type { Schemas } from '../../api/client';

/** The steps to a first message, in the order in which they depend on each other. */
export const STEPS = ['channel', 'template', 'automation', 'user', 'event', 'message'] as const;
export type StepName = (typeof STEPS)[number];

/** Statuses of a message that was sent; others are pending or failed. */
export const SENT_STATUSES = ['sent', 'delivered', 'opened', 'clicked'] as const satisfies ReadonlyArray<
  Schemas['MessageStatus']
>;

/** State of the project from which the completed steps are derived. */
export interface Progress {
  channels: Schemas['Channels'];
  templates: number;
  /** See {@link selectAutomation}. */
  automation: Pick<Schemas['Automation'], 'id' | 'active' | 'triggerType' | 'triggerEvent'> | null;
  users: Array<Pick<Schemas['User'], 'externalId' | 'email'>>;
  /** Number of events of the automation's trigger; of all events if it has another type of trigger. */
  events: number;
  /** A sent message, or the newest one if none was sent. */
  message: Pick<Schemas['Message'], 'id' | 'status'> | null;
}

/** Selects the automation for the checklist: preferably an active one with an event trigger. */
export function selectAutomation<A extends NonNullable<Progress['automation']>>(automations: readonly A[]): A | null {
  const active = automations.filter((each) => each.active);
  return active.find((each) => each.triggerType === 'EVENT') ?? active[0] ?? automations[0] ?? null;
}

/** Returns the trigger event of an automation; undefined for other types of trigger. */
export function triggerEventOf(automation: Progress['automation']): string | undefined {
  return automation?.triggerType === 'EVENT' ? (automation.triggerEvent ?? undefined) : undefined;
}

/** Returns the ID of a user for the test event, preferably one with an email address. */
export function sampleUserId(users: Progress['users']): string | undefined {
  const identified = users.filter(({ externalId }) => externalId !== null);
  return (identified.find(({ email }) => email !== null) ?? identified[0])?.externalId ?? undefined;
}

/** Whether a message was sent. */
export function wasSent({ status }: Pick<Schemas['Message'], 'status'>): boolean {
  return SENT_STATUSES.some((each) => each === status);
}

/** Returns which steps are done. */
export function completedSteps({
  channels: { email, push, sms },
  templates,
  automation,
  users,
  events,
  message,
}: Progress): Record<StepName, boolean> {
  return {
    channel: email.configured || push.configured || sms.configured,
    template: templates > 0,
    automation: automation?.active === true,
    user: users.length > 0,
    event: events > 0,
    message: message !== null && wasSent(message),
  };
}

/** Returns the next step, which is highlighted. Only admins can set up channels. */
export function nextStepOf(done: Record<StepName, boolean>, isAdmin: boolean): StepName | undefined {
  return STEPS.find((step) => !done[step] && (isAdmin || step !== 'channel'));
}
