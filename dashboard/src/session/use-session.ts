import { useSyncExternalStore } from 'react';
import { type SessionState, session } from './session';

export function useSession(): SessionState {
  return useSyncExternalStore(session.subscribe, session.get);
}
