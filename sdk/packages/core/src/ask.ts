import type { Client } from './client';
import type { Answer, RequestOptions } from './platform';

/** Asks the server in the name of the current user; once more where it refuses the user and the app has a fresh token. */
export async function ask(
  { settings, platform, proofs, identity }: Client,
  path: string,
  method: string,
  body?: unknown,
): Promise<Answer> {
  const send = () => {
    const headers = proofs.headers();
    const init: RequestOptions = { method, headers };
    if (body) {
      headers['content-type'] = 'application/json';
      init.body = JSON.stringify(body);
      init.keepalive = true;
    }
    return platform.fetch(settings.apiUrl + path, init);
  };
  const { userToken } = identity.get();
  const answer = await send();
  return answer.status === 403 && (await proofs.renew(userToken)) ? send() : answer;
}
