/** Receives a streamed response. */
export interface StreamReader {
  text(part: string): void;
  /** The response has ended; status 0 if the connection was lost. */
  end(status: number, retryAfter: string | null): void;
}

/**
 * Streams a response; returns a function that aborts it. Uses XMLHttpRequest, which browsers and React Native both have: the
 * `fetch` of React Native returns only complete responses.
 */
export function follow(url: string, headers: Record<string, string>, reader: StreamReader): () => void {
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
