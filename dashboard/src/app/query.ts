import { QueryClient } from '@tanstack/react-query';
import { ApiFailure } from '../api/failure';

/** Whether a retry may succeed: there was no response, or the server is unavailable. */
function isTransient(failure: unknown): boolean {
  return failure instanceof ApiFailure && (failure.status === 0 || failure.status === 503 || failure.status === 502);
}

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (count, failure) => count < 2 && isTransient(failure),
      retryDelay: (count) => 500 * 2 ** count,
      refetchOnWindowFocus: false,
    },
    mutations: { retry: false },
  },
});
