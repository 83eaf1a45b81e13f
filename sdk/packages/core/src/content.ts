import { sendRequest } from './request';
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

/** Returns the query parameter that selects the user's inbox, or `undefined` without an identified user. */
export function inboxQuery(client: Client): string | undefined {
  const { userId } = client.identity.get();
  return userId === undefined ? undefined : `user_id=${encodeURIComponent(userId)}`;
}

/** Reads the user's inbox and the project's news. Failed reads reject with an `Error` that has the server's message. */
export class Content {
  constructor(private readonly client: Client) {}

  /** Returns the in-app messages of the identified user; none without one. Requires a `userToken` or a `userHash`. */
  async inbox(): Promise<InboxItem[]> {
    const query = inboxQuery(this.client);
    return query ? ((await this.get(`/inbox?${query}`)).items as InboxItem[]) : [];
  }

  async markRead(id: string): Promise<void> {
    const query = inboxQuery(this.client);
    if (query) await this.get(`/inbox/${encodeURIComponent(id)}/read?${query}`, 'POST');
  }

  /** Returns the published news. */
  async feed(): Promise<NewsItem[]> {
    return (await this.get('/feed')).items as NewsItem[];
  }

  private async get(path: string, method = 'GET'): Promise<{ items?: unknown; message?: string }> {
    const answer = await sendRequest(this.client, path, method);
    const body = parsed<{ items: unknown; message: string }>(await answer.text());
    if (answer.status >= 300 || !body)
      throw new Error(body?.message ?? `unexpected response with status ${answer.status}: check apiUrl`);
    return body;
  }
}
