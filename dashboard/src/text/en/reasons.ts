/** A reason in words, and what to do about it. */
export interface ReasonText {
  title: string;
  advice: string;
}

/** Texts for the codes that the API returns as reasons. `docs/guide/messages.md` describes those of messages. */
export const reasons = {
  /** Reasons of messages that will not be sent again by themselves, and of dead letters. */
  reasons: {
    user_not_found: {
      title: 'User not found',
      advice: 'No user has this ID. Add the user first, then send a new message.',
    },
    channel_not_configured: {
      title: 'Channel not configured',
      advice: 'Set up the channel under Channels, then retry the message.',
    },
    channel_not_supported: {
      title: 'Channel not supported',
      advice: 'The message was sent on a channel that was not available. Retry the message.',
    },
    template_not_found: {
      title: 'Template not found',
      advice: 'Create or correct the template, then retry the message.',
    },
    render_failed: {
      title: 'Template could not be rendered',
      advice: 'Correct the template, then retry the message.',
    },
    invalid_address: {
      title: 'Invalid address',
      advice: 'Correct the email address, or write the property phone as +15551234567.',
    },
    payload_too_large: {
      title: 'Message too large',
      advice: 'Shorten the content, then send a new message.',
    },
    empty: {
      title: 'Message without text',
      advice: 'Give the SMS a text, then send a new message.',
    },
    rejected: {
      title: 'Rejected by the provider',
      advice: 'Check the recipient and the content. The provider refuses this message.',
    },
    gone: {
      title: 'Recipient no longer exists',
      advice: 'Update the user’s address or device.',
    },
    gave_up: {
      title: 'All attempts failed',
      advice: 'Correct the cause, then retry the message.',
    },
    outcome_unknown: {
      title: 'Outcome unknown',
      advice: 'The provider’s response never arrived. If the message was sent, a retry sends it twice.',
    },
    internal_error: {
      title: 'Internal error',
      advice: 'This is a bug in Rekindle. See the log of worker-delivery.',
    },
    not_recorded: {
      title: 'Could not be recorded',
      advice: 'Correct the cause, then retry.',
    },
    not_accepted: {
      title: 'Could not be read',
      advice: 'The delivery workers could not read it. Correct the cause, then retry.',
    },
    no_address: {
      title: 'No address',
      advice: 'Add an email address or phone number to the user.',
    },
    no_token: {
      title: 'No device',
      advice: 'The user must allow notifications, so that the app registers a device.',
    },
    unsubscribed: {
      title: 'Unsubscribed',
      advice: 'Nothing to do: the user unsubscribed from all messages.',
    },
    unsubscribed_from_group: {
      title: 'Unsubscribed from the group',
      advice: 'Nothing to do: the user unsubscribed from the message’s subscription group.',
    },
    subscription_group_deleted: {
      title: 'Subscription group deleted',
      advice: 'The user’s choice is unknown without the group. Select another group.',
    },
    bounced_before: {
      title: 'Address bounced before',
      advice: 'If the address works again, remove it under Suppressions.',
    },
    complained_before: {
      title: 'Marked as spam before',
      advice: 'If the recipient wants messages again, remove the address under Suppressions.',
    },
    suppressed: {
      title: 'Address suppressed',
      advice: 'To send to this address again, remove it under Suppressions.',
    },
    frequency_cap: {
      title: 'Frequency cap reached',
      advice: 'To allow more messages per user, change the sending limits under Channels.',
    },
    anonymous_user: {
      title: 'Anonymous user',
      advice: 'Identify the user, or change the sending limits under Channels.',
    },
    merged: {
      title: 'User merged',
      advice: 'Nothing to do: the message went to the user that this one was merged into.',
    },
    campaign_cancelled: {
      title: 'Campaign cancelled',
      advice: 'Nothing to do: the campaign was cancelled before this message was sent.',
    },
    // Test messages are not retried: their reason is the provider's outcome.
    throttled: {
      title: 'Slowed down by the provider',
      advice: 'Wait a few minutes, then send the test again.',
    },
    unavailable: {
      title: 'Provider unavailable',
      advice: 'Check the channel’s settings and the provider’s status, then send the test again.',
    },
    misconfigured: {
      title: 'Channel settings rejected',
      advice: 'Correct the channel’s settings, then send the test again.',
    },
    ambiguous: {
      title: 'No response from the provider',
      advice: 'The test may have been sent. Ask the recipient before you send it again.',
    },
    held: {
      title: 'Paused after provider errors',
      advice: 'The provider failed several times. Wait a few minutes, then send the test again.',
    },
    limited: {
      title: 'Provider’s rate limit reached',
      advice: 'Wait a moment, then send the test again.',
    },
    no_outcome: {
      title: 'No outcome yet',
      advice: 'Open the message to see its status.',
    },
  } as Record<string, ReasonText>,
  /** Reasons of queued messages. */
  queuedReasons: {
    retrying: {
      title: 'Waiting for a retry',
      advice: 'Nothing to do: the message is retried.',
    },
    outcome_unknown: {
      title: 'No response from the provider',
      advice: 'Nothing to do: the message is retried.',
    },
    waiting: {
      title: 'Provider unavailable',
      advice: 'Nothing to do: the message is sent when the provider responds again.',
    },
    rate_limited: {
      title: 'Provider’s rate limit reached',
      advice: 'Nothing to do: the message is sent when the limit allows it.',
    },
    quiet_hours: {
      title: 'Quiet hours',
      advice: 'Nothing to do: the message is sent when quiet hours end.',
    },
    lease_ended: {
      title: 'Interrupted before sending',
      advice: 'Nothing to do: the message is sent at once.',
    },
    user_not_found: {
      title: 'User not found yet',
      advice: 'Nothing to do yet: the message waits a few seconds for the user.',
    },
    no_address: {
      title: 'No address yet',
      advice: 'Nothing to do yet: the message waits a few seconds for the user’s address.',
    },
    no_token: {
      title: 'No device yet',
      advice: 'Nothing to do yet: the message waits a few seconds for the user’s device.',
    },
    channel_misconfigured: {
      title: 'Channel settings rejected',
      advice: 'Correct the channel’s settings. The message is then sent.',
    },
  } as Record<string, ReasonText>,
  /** Why a run ended. */
  runReasons: {
    exit_rules: {
      title: 'Exit conditions matched',
      advice: 'Nothing to do: the user matched the automation’s exit conditions.',
    },
    exit_step: {
      title: 'Reached an Exit step',
      advice: 'Nothing to do: the automation ends here.',
    },
    loop: {
      title: 'Stopped as a loop',
      advice: 'Automations start each other. Change a trigger, or the step that starts the next automation.',
    },
    automation_deleted: {
      title: 'Automation deleted',
      advice: 'Nothing to do: the automation was deleted during the run.',
    },
    rendering_limit: {
      title: 'Rendering limit exceeded',
      advice: 'Simplify the templates in the automation’s steps.',
    },
    user_not_found: {
      title: 'User not found',
      advice: 'Nothing to do: the user no longer exists.',
    },
    version_unknown: {
      title: 'Automation version not readable',
      advice: 'See the log of worker-automation.',
    },
    position_unknown: {
      title: 'Step not found',
      advice: 'See the log of worker-automation.',
    },
  } as Record<string, ReasonText>,
  /** Details of what happened at a step of a run. */
  stepReasons: {
    exit_rules: 'Exit conditions matched',
    exit_step: 'Exit step',
    loop: 'Stopped as a loop: automations start each other',
    rendering_limit: 'Rendering limit exceeded: simplify the templates in this step',
    too_late: 'Too late: more than 24 hours after the wait ended',
    rules: 'Conditions matched',
    'no rules held': 'No conditions matched',
    chance: 'Chosen by weight',
    timeout: 'The event did not occur in time',
    property_not_a_date: 'The user’s property is not a date',
    in_the_past: 'The time had already passed',
    profile_too_large: 'The user’s profile would be too large',
    user_not_found: 'User not found',
    properties_too_large: 'The event’s properties are too large',
    no_answer: 'No response in time',
    body_too_large: 'The payload is too large',
    answer_too_large: 'The response is too large',
    answer_not_usable: 'The response cannot be stored',
    answer_not_json: 'The response is not valid JSON',
  } as Record<string, string>,
  stepGoal: (event: string) => `Event “${event}”`,
  stepEvent: (id: string) => `Event ID: ${id}`,
  /** Outcome of a push message for a device. */
  deviceOutcomes: {
    accepted: 'Accepted by the provider',
    throttled: 'Slowed down by the provider',
    unavailable: 'Provider unavailable',
    rejected: 'Rejected by the provider',
    misconfigured: 'Channel settings rejected',
    ambiguous: 'No response from the provider',
    gone: 'App removed from the device',
    held: 'Paused after provider errors',
    limited: 'Provider’s rate limit reached',
  } as Record<string, string>,
};
