import { ask } from './ask';
import type { Client } from './client';
import { parsed } from './json';

export interface InboxItem {
  id: string;
  title: string;
  body: string;
  createdAt: string;
  readAt: string | null;
  [other: string]: unknown;
}

export interface NewsItem {
  id: string;
  title: string;
  body: string;
  [other: string]: unknown;
}

/** Whose inbox it is, as the API asks for it; none where nobody is identified. */
export function inboxOf(client: Client): string | undefined {
  const { userId } = client.identity.get();
  return userId === undefined ? undefined : `user_id=${encodeURIComponent(userId)}`;
}

/** What the project has for the person of this device to read. Reading fails with an `Error` in the server's words. */
export class Content {
  constructor(private readonly client: Client) {}

  /** In-app messages of the identified person; none where nobody is. Needs a `userToken` or a `userHash`. */
  async inbox(): Promise<InboxItem[]> {
    const who = inboxOf(this.client);
    return who ? ((await this.get(`/inbox?${who}`)).items as InboxItem[]) : [];
  }

  async markRead(id: string): Promise<void> {
    const who = inboxOf(this.client);
    if (who) await this.get(`/inbox/${encodeURIComponent(id)}/read?${who}`, 'POST');
  }

  /** The published news. */
  async feed(): Promise<NewsItem[]> {
    return (await this.get('/feed')).items as NewsItem[];
  }

  private async get(path: string, method = 'GET'): Promise<{ items?: unknown; message?: string }> {
    const answer = await ask(this.client, path, method);
    const body = parsed<{ items: unknown; message: string }>(await answer.text());
    if (answer.status >= 300 || !body)
      throw new Error(body?.message ?? `the server answered ${answer.status}, and not as Rekindle does`);
    return body;
  }
}
