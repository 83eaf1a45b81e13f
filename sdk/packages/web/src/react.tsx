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

/** Starts the SDK with the options of the first render; only once, even if rendered twice as in strict mode. */
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
    if (!initialized.has(client)) {
      initialized.add(client);
      client.init(options);
    }
  }, [client]);
  return createElement(Context.Provider, { value: client }, children);
}

const initialized = new WeakSet<Rekindle>();

/** Returns the client. Calls made before the provider has started it are kept until then. */
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
  /** Number of unread messages. */
  unread: number;
  markRead(id: string): Promise<void>;
}

/** The user's in-app messages, updated as they arrive and are read, here or elsewhere. */
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
        // Includes messages that arrived between reading and following, and the inbox of a new user.
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
  const user = useRef<string | null>(null);
  const refresh = useCallback(async () => {
    const call = ++calls.current;
    const now = client.getUserId();
    // A user must not see another user's items, not even while their own are loading.
    if (user.current !== null && user.current !== now) setState((before) => ({ ...before, items: [] }));
    user.current = now;
    const next = await load().then(
      (items) => ({ items, error: null }),
      (error: Error) => ({ error }),
    );
    // A later call has started; this response may be another user's.
    if (call !== calls.current) return;
    // Only known now if this started before `init`.
    user.current = client.getUserId();
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
