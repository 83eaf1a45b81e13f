/** What the API says about one field. */
export interface Problem {
  field: string;
  message: string;
}

/** A request that came to nothing, in the API's own words. */
export class ApiFailure extends Error {
  constructor(
    /** 0 where there was no answer. */
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

/** Reads the one shape of errors; whatever stands between may answer otherwise. */
export function failureOf(status: number, body: unknown, retryAfter: string | null): ApiFailure {
  const seconds = retryAfter !== null && /^\d+$/.test(retryAfter) ? Number(retryAfter) : null;
  if (typeof body !== 'object' || body === null || typeof (body as { message?: unknown }).message !== 'string') {
    return new ApiFailure(status, `The server answered ${status} without saying why.`, [], null, seconds);
  }
  const { message, details, requestId } = body as { message: string; details?: unknown; requestId?: unknown };
  const problems = Array.isArray(details) ? details.filter(isProblem) : [];
  return new ApiFailure(status, message, problems, typeof requestId === 'string' ? requestId : null, seconds);
}

function isProblem(value: unknown): value is Problem {
  const { field, message } = (value ?? {}) as Partial<Problem>;
  return typeof field === 'string' && typeof message === 'string';
}

/** What is wrong with a field, of an error that names it: `steps[1].delay` belongs to `steps` where nobody is closer. */
export function problemOf(error: unknown, field: string): string | undefined {
  if (!(error instanceof ApiFailure)) return undefined;
  return error.details.find((problem) => problem.field === field)?.message;
}

/** The problems at a place and below it. */
export function problemsWithin(error: unknown, place: string): Problem[] {
  if (!(error instanceof ApiFailure)) return [];
  return error.details.filter(
    ({ field }) => field === place || field.startsWith(`${place}.`) || field.startsWith(`${place}[`),
  );
}
