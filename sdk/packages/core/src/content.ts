import type { Client } from './client';

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

/** What the project has for the person of this device to read. Reading fails with an `Error` in the server's words. */
export class Content {
  constructor(private readonly client: Client) {}

  /** In-app messages of the identified person; none where nobody is. Needs a `userHash`. */
  async inbox(): Promise<InboxItem[]> {
    const who = this.who();
    return who ? ((await this.get(`/inbox?${who}`)).items as InboxItem[]) : [];
  }

  async markRead(id: string): Promise<void> {
    const who = this.who();
    if (who) await this.get(`/inbox/${encodeURIComponent(id)}/read?${who}`, 'POST');
  }

  /** The published news. */
  async feed(): Promise<NewsItem[]> {
    return (await this.get('/feed')).items as NewsItem[];
  }

  private who(): string | undefined {
    const { userId, userHash } = this.client.identity.get();
    if (userId === undefined) return undefined;
    return `user_id=${encodeURIComponent(userId)}${userHash ? `&user_hash=${encodeURIComponent(userHash)}` : ''}`;
  }

  private async get(path: string, method = 'GET'): Promise<{ items?: unknown }> {
    const { settings, platform } = this.client;
    const answer = await platform.fetch(settings.apiUrl + path, { method, headers: { 'x-api-key': settings.apiKey } });
    const body = JSON.parse(await answer.text()) as { items?: unknown; message?: string };
    if (answer.status >= 300) throw new Error(body.message ?? `the server answered ${answer.status}`);
    return body;
  }
}
