import type { Client } from './client';
import type { Answer, RequestOptions } from './platform';

/** Sends a request for the current user. If the server rejects the user with 403, retries once with a new token from the app. */
export async function sendRequest(
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
