import { t } from '../text';

/** An error message of the API about one field. */
export interface Problem {
  field: string;
  message: string;
}

/** A failed request, with the API's error message. */
export class ApiFailure extends Error {
  constructor(
    /** HTTP status; 0 without a response. */
    readonly status: number,
    message: string,
    readonly details: Problem[] = [],
    readonly requestId: string | null = null,
    /** Seconds. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
    this.name = 'ApiFailure';
  }
}

/** Parses an error response. A proxy may return a body of another form. */
export function failureOf(status: number, body: unknown, retryAfter: string | null): ApiFailure {
  const seconds = retryAfter !== null && /^\d+$/.test(retryAfter) ? Number(retryAfter) : null;
  if (typeof body !== 'object' || body === null || typeof (body as { message?: unknown }).message !== 'string') {
    return new ApiFailure(status, t.failure.unexplained(status), [], null, seconds);
  }
  const { message, details, requestId } = body as { message: string; details?: unknown; requestId?: unknown };
  const problems = Array.isArray(details) ? details.filter(isProblem) : [];
  return new ApiFailure(status, message, problems, typeof requestId === 'string' ? requestId : null, seconds);
}

function isProblem(value: unknown): value is Problem {
  const { field, message } = (value ?? {}) as Partial<Problem>;
  return typeof field === 'string' && typeof message === 'string';
}

/** Returns the message about exactly this field, if the error has one. */
export function problemOf(error: unknown, field: string): string | undefined {
  if (!(error instanceof ApiFailure)) return undefined;
  return error.details.find((problem) => problem.field === field)?.message;
}

/** Returns the problems of the field at `path` and of the fields in it. */
export function problemsWithin(error: unknown, path: string): Problem[] {
  if (!(error instanceof ApiFailure)) return [];
  return error.details.filter(
    ({ field }) => field === path || field.startsWith(`${path}.`) || field.startsWith(`${path}[`),
  );
}
