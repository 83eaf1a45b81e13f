import type { Schemas } from '../../api/client';

/** This machine, by its names; and the mailbox's beside the programs in containers. */
const HERE = new Set(['127.0.0.1', '::1', 'localhost', 'mailbox']);

/** The mail server on this machine that a project's email goes to, as `host:port`; null where it goes anywhere else. */
export function localMailbox({ provider, smtpHost, smtpPort }: Schemas['Channels']['email']): string | null {
  if (provider !== 'SMTP' || !smtpHost || !HERE.has(smtpHost)) return null;
  return smtpPort ? `${smtpHost}:${smtpPort}` : smtpHost;
}
