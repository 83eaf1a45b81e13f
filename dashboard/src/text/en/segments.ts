export const segments = {
  rules: {
    and: 'and', or: 'or', add: 'Add a rule', remove: 'Remove', removeNumber: (number: number) => `Remove rule ${number}`, rule: (number: number) => `Rule ${number}`,
    about: 'About', field: 'Field', operator: 'Comparison', value: 'Value', list: 'Values, with commas; in quotes where one holds a comma', type: 'As', from: 'From', to: 'To',
    duration: 'Such as 30d, 12h, 15m', moment: 'Time, such as 2026-01-31', event: 'Event', count: 'How often', times: 'Times', once: 'at least once', within: 'Within the last', ever: 'ever, or 30d',
    where: 'Only events whose properties…', did: 'did', didNot: 'did not', messageDid: 'came as far as', messageDidNot: 'did not come as far as', sent: 'sent',
    total: 'Total', totalOf: 'Of property', totals: { sum: 'sum', avg: 'average', min: 'lowest', max: 'highest' }, inAny: 'in any of', inNone: 'in none of',
    asJson: 'Value (JSON)', asJsonHint: 'This rule says more than there are fields for.',
    types: { text: 'text', number: 'number', boolean: 'yes or no' },
    kinds: { property: 'Profile', event: 'What they did', message: 'Messages to them', segment: 'Segments', any: 'Any of…', all: 'All of…', not: 'Not…' },
    operators: {
      eq: 'is', neq: 'is not', gt: 'more than', gte: 'at least', lt: 'less than', lte: 'at most', between: 'between', in: 'is one of', not_in: 'is none of', contains: 'contains',
      not_contains: 'does not contain', starts_with: 'begins with', ends_with: 'ends with', exists: 'is known', not_exists: 'is not known', array_contains: 'list has', array_contains_any: 'list has any of',
      did: 'did', did_not: 'did not', before: 'before', after: 'after', within_last: 'within the last', not_within_last: 'not within the last',
    } as Record<string, string>,
  },
  segments: {
    title: 'Segments', create: 'Make a segment', name: 'Name', type: 'Made by', types: { RULES: 'Rules', MANUAL: 'Hand' } as Record<string, string>, people: 'People', updated: 'Changed',
    emptyTitle: 'No segments yet', emptyText: 'A segment is everybody for whom its rules hold. Campaigns go to segments, and automations can start by them.',
    newTitle: 'New segment', description: 'Description', rules: 'Who is in it', allOf: 'All of these must hold.', manual: 'Made by hand: a list that you put people on',
    estimate: 'People for whom this holds now', counting: 'Counting…', unfinished: 'Counted as soon as every rule is filled in.', sample: 'Some of them', noRules: 'Without rules everybody is in it.',
    explain: 'Test a person', explainHint: 'User id', test: 'Test', in: 'In the segment', out: 'Not in the segment', found: 'Found', nothing: 'nothing', holds: 'holds', fails: 'does not hold',
    remove: (name: string) => `The segment “${name}” goes for good. Its people stay.`, removeTitle: 'Delete this segment?', removed: 'The segment is deleted.',
    members: 'People in it', addMembers: 'Put on the list', removeMembers: 'Take off the list', ids: 'User ids', idsHint: 'One a line', changed: (added: number, removed: number) => `${added} put on, ${removed} taken off.`, notFound: (ids: string) => `Not found: ${ids}`,
    filling: (percent: number) => `Its members are being found: ${percent} %`, kept: 'Its members are kept, for automations start by it.', failed: 'Its members could not be found:',
    report: 'Came and went', entered: 'Came in', exited: 'Left', notCounted: 'not counted',
  },
};
