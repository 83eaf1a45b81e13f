import type { Schemas } from '../../api/client';

/** What leads to a first message, in the order in which one thing needs the other. */
export const STEPS = ['channel', 'template', 'automation', 'person', 'event', 'message'] as const;
export type StepName = (typeof STEPS)[number];

/** What became of a message that went out; of another it is not said yet, or bad. */
export const WENT = ['sent', 'delivered', 'opened', 'clicked'] as const satisfies ReadonlyArray<
  Schemas['MessageStatus']
>;

/** What there is of it. */
export interface Found {
  channels: Schemas['Channels'];
  templates: number;
  /** The one that an event would start, or else another. */
  automation: Pick<Schemas['Automation'], 'id' | 'active' | 'triggerType' | 'triggerEvent'> | null;
  people: Array<Pick<Schemas['User'], 'externalId' | 'email'>>;
  /** Those that the automation starts by, or any where it starts by something else. */
  events: number;
  /** One that went out, or else the newest. */
  message: Pick<Schemas['Message'], 'id' | 'status'> | null;
}

/** The automation that the steps go on with: one that is active, and is started by an event if any is. */
export function leading<A extends NonNullable<Found['automation']>>(automations: readonly A[]): A | null {
  const active = automations.filter((each) => each.active);
  return active.find((each) => each.triggerType === 'EVENT') ?? active[0] ?? automations[0] ?? null;
}

/** The event that an automation starts by, where it is one. */
export function startOf(automation: Found['automation']): string | undefined {
  return automation?.triggerType === 'EVENT' ? (automation.triggerEvent ?? undefined) : undefined;
}

/** Who is offered to be tried with: somebody whom a mail reaches. */
export function candidate(people: Found['people']): string | undefined {
  const known = people.filter(({ externalId }) => externalId !== null);
  return (known.find(({ email }) => email !== null) ?? known[0])?.externalId ?? undefined;
}

/** Whether a message went out. */
export function hasGone({ status }: Pick<Schemas['Message'], 'status'>): boolean {
  return WENT.some((each) => each === status);
}

/** Which steps are done, as the project is. */
export function doneOf({
  channels: { email, push, sms },
  templates,
  automation,
  people,
  events,
  message,
}: Found): Record<StepName, boolean> {
  return {
    channel: email.configured || push.configured || sms.configured,
    template: templates > 0,
    automation: automation?.active === true,
    person: people.length > 0,
    event: events > 0,
    message: message !== null && hasGone(message),
  };
}

/** What stands out as the next act: channels are set up by ADMINs alone. */
export function nextOf(done: Record<StepName, boolean>, isAdmin: boolean): StepName | undefined {
  return STEPS.find((step) => !done[step] && (isAdmin || step !== 'channel'));
}
