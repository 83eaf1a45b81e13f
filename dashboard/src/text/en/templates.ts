export const templates = {
  templates: {
    title: 'Templates', create: 'Write a template', name: 'Name', channel: 'Channel', version: 'Version', updated: 'Changed', ai: 'By AI', tags: 'Tags', tagsHint: 'With commas between; in quotes where one holds a comma',
    emptyTitle: 'No templates yet', emptyText: 'A template is what a message says. Automations and campaigns send them.', emptyFiltered: 'None for this channel.',
    newTitle: 'New template', subject: 'Subject', heading: 'Title', body: 'Body',
    bodyHint: { EMAIL: 'HTML, MJML or plain text. {{ name | default: "friend" }} and the like are filled in.', other: 'Text. {{ name | default: "friend" }} and the like are filled in.' },
    url: 'What a tap opens', urlHint: 'An address such as https://example.com/orders/{{ event.properties.id }}, of an app’s own scheme, or a path that begins with /. Empty for nothing.',
    remove: (name: string) => `The template “${name}” goes for good. The API refuses that while something uses it.`, removeTitle: 'Delete this template?', removed: 'The template is deleted.',
    preview: 'Preview', previewHint: 'The template as it was saved last, as this person would get it.', previewUnsaved: 'Save to see your changes here.', previewNew: 'Save the template to see it here.',
    as: 'As user', asHint: 'A user id; empty for nobody in particular', data: 'Data (JSON), such as the event’s properties', refresh: 'Show', warnings: 'Warnings', noWarnings: 'No warnings.',
    width: 'Width', desktop: 'Desktop', mobile: 'Mobile', scheme: 'Colours', light: 'Light', dark: 'Dark', frame: 'The message',
    draft: 'Have it written', context: 'What is it about?', tone: 'Tone', toneHint: 'Such as: warm, short', write: 'Write', written: 'A draft is in the editor. Read it before you save.',
  },
};
