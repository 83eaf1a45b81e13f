'use client';

import {
  type ReactNode,
  createContext,
  createElement,
  useCallback,
  useContext,
  useEffect,
  useRef,
  useState,
} from 'react';
import { type InboxItem, type NewsItem, type Rekindle, type WebOptions, rekindle as shared } from '@rekindle/web';

const Context = createContext<Rekindle>(shared);

/** Begins with the options it is first drawn with; drawn twice, as in strict mode, it begins once. */
export function RekindleProvider({
  options,
  client = shared,
  children,
}: {
  options: WebOptions;
  client?: Rekindle;
  children?: ReactNode;
}): ReactNode {
  useEffect(() => {
    if (!begun.has(client)) {
      begun.add(client);
      client.init(options);
    }
  }, [client]);
  return createElement(Context.Provider, { value: client }, children);
}

const begun = new WeakSet<Rekindle>();

/** The client. Its calls may be made before the provider has begun: they wait. */
export function useRekindle(): Rekindle {
  return useContext(Context);
}

export interface Loaded<T> {
  items: T[];
  loading: boolean;
  error: Error | null;
  refresh(): Promise<void>;
}

export interface Inbox extends Loaded<InboxItem> {
  /** How many were not read yet. */
  unread: number;
  markRead(id: string): Promise<void>;
}

/** The person's in-app messages, as they come and are read, here or elsewhere. */
export function useInbox(): Inbox {
  const client = useRekindle();
  const [unread, setUnread] = useState(0);
  const list = useLoaded(
    client,
    useCallback(() => client.inbox(), [client]),
  );
  const { refresh } = list;
  useEffect(
    () =>
      client.followInbox((change) => {
        if (change.type === 'unread') setUnread(change.unread);
        // What came between reading and following is among these, and another person has another inbox.
        void refresh();
      }),
    [client, refresh],
  );
  const markRead = useCallback(
    async (id: string) => {
      await client.markRead(id);
      await refresh();
    },
    [client, refresh],
  );
  return { ...list, unread, markRead };
}

/** The published news. */
export function useFeed(): Loaded<NewsItem> {
  const client = useRekindle();
  return useLoaded(
    client,
    useCallback(() => client.feed(), [client]),
  );
}

function useLoaded<T>(client: Rekindle, load: () => Promise<T[]>): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, 'refresh'>>({ items: [], loading: true, error: null });
  const calls = useRef(0);
  const person = useRef<string | null>(null);
  const refresh = useCallback(async () => {
    const call = ++calls.current;
    const now = client.getUserId();
    // Nobody sees what was another's, not even until theirs is there.
    if (person.current !== null && person.current !== now) setState((before) => ({ ...before, items: [] }));
    person.current = now;
    const next = await load().then(
      (items) => ({ items, error: null }),
      (error: Error) => ({ error }),
    );
    // An answer that another call has overtaken may be another person's.
    if (call !== calls.current) return;
    // Known only now, where this began before `init`.
    person.current = client.getUserId();
    setState((before) => ({ ...before, ...next, loading: false }));
  }, [client, load]);
  useEffect(() => {
    void refresh();
    const shown = () => void (document.visibilityState === 'visible' && refresh());
    document.addEventListener('visibilitychange', shown);
    return () => document.removeEventListener('visibilitychange', shown);
  }, [refresh]);
  return { ...state, refresh };
}
