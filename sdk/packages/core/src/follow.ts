/** Who reads an answer while it grows. */
export interface Reader {
  text(part: string): void;
  /** It is over; status 0 where the connection was lost. */
  end(status: number, retryAfter: string | null): void;
}

/**
 * Reads an answer while it grows; returns how to stop. By XMLHttpRequest, which browsers and React Native both have: the `fetch`
 * of React Native hands an answer over only as a whole.
 */
export function follow(url: string, headers: Record<string, string>, reader: Reader): () => void {
  const request = new XMLHttpRequest();
  let read = 0;
  request.open('GET', url);
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  request.onprogress = () => {
    const part = request.status === 200 ? request.responseText.slice(read) : '';
    read += part.length;
    if (part) reader.text(part);
  };
  request.onloadend = () =>
    reader.end(request.status, request.status ? request.getResponseHeader('retry-after') : null);
  request.send();
  return () => {
    request.onprogress = request.onloadend = null;
    request.abort();
  };
}
