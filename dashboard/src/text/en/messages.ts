const channelNames = { EMAIL: 'Email', PUSH: 'Push', IN_APP: 'In-app', SMS: 'SMS' };

export const messages = {
  channelName: (channel: keyof typeof channelNames): string => channelNames[channel] ?? channel,
  messages: {
    title: 'Messages', channel: 'Channel', status: 'Status', user: 'User', userId: 'User id', subject: 'Subject', created: 'Created', reason: 'Reason', attempts: 'Attempts',
    noSubject: 'Message',
    emptyTitle: 'No messages', emptyFiltered: 'No message matches these filters.', emptyText: 'Every message that an automation, a campaign or the API sends is listed here, with what became of it.',
    timeline: 'What became of it', provider: 'Provider', providerId: 'Provider’s id', words: 'Reason, in the provider’s words', ambiguous: 'Calls without an answer',
    template: 'Template', automation: 'Automation', run: 'Run', content: 'Sent as', devices: 'Devices', platform: 'Platform', outcome: 'Outcome', open: 'Open',
    mailbox: 'It is in the local mailbox', mailboxText: (server: string) => `Mail of this project goes to a mail server on this machine (${server}), and to nobody outside. After “make up” that is the local mailbox: each mail is a file in .run/mail, the newest one last. To send to real people, set up the email channel under Channels.`,
    local: 'It went to a mail server on this machine', localText: (server: string) => `Mail of this project goes to a mail server on this machine (${server}). What that does with it, its own log tells.`,
    states: { createdAt: 'Created', sentAt: 'Sent', deliveredAt: 'Delivered', openedAt: 'Opened', clickedAt: 'Clicked', bouncedAt: 'Bounced', complainedAt: 'Complained', failedAt: 'Failed' } as Record<string, string>,
    resend: 'Give it another try', resent: 'It is queued again, under the same id.', resendHint: 'It failed for a reason that can be mended, and can be tried again from here or from the dead letters.',
  },
  dead: {
    title: 'Dead letters', text: 'What could not be sent or recorded for a reason that can be mended. Mend it, then replay.', kind: 'Kind',
    kinds: { MESSAGE: 'Message', ITEM: 'Item' } as Record<string, string>,
    reason: 'Reason', code: 'Reason begins with', failed: 'Failed', what: 'What', replay: 'Replay', all: (total: string) => `Replay all ${total} that are listed`, replayTitle: 'Replay all of these?',
    replayText: 'Each is tried again, under its own id.', replayed: (count: number, more: boolean) => `${count} ${count === 1 ? 'is' : 'are'} tried again.${more ? ' There are more: replay once more.' : ''}`,
    emptyTitle: 'No dead letters', emptyText: 'Nothing has failed in a way that needs you.', emptyFiltered: 'None matches these filters.',
  },
  news: {
    title: 'News feed', text: 'Short pieces that apps show to everybody, by GET /feed.', create: 'Write a piece', edit: 'Edit', published: 'Published', draft: 'Draft', publish: 'Publish', unpublish: 'Take it back',
    heading: 'Title', body: 'Text', when: 'Published', emptyTitle: 'No news yet', emptyText: 'What you publish here is shown by every app that asks for the feed.',
    remove: (title: string) => `“${title}” is taken out of every app’s feed, and goes for good.`, removeTitle: 'Delete this piece?', preview: 'As it is shown', state: 'State', isPublished: 'Shown in the feed',
  },
};
